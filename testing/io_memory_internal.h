/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of the twin: io_memory.c (events, assignment), io_memory_data.c (records up
 * and down), io_memory_request.c, io_memory_group.c (the member's side of the protocol),
 * io_memory_txn.c. */
#ifndef CJ_IO_MEMORY_INTERNAL_H
#define CJ_IO_MEMORY_INTERNAL_H

#include "testing/io_memory.h"

/* An event that waits to be polled, with the memory that it points at. */
typedef struct {
  cj_io_event event;
  void **owned;
  size_t owned_count, owned_cap;
} cj_memory_event;

/* A partition of the assignment. */
typedef struct {
  cj_tp tp;
  int64_t position; /* the next offset to fetch */
  int64_t eof_at;   /* the position for which the end was told; or -1 */
  bool failed;      /* delivers nothing until assigned anew */
  size_t lent;      /* entries that were not released yet */
} cj_memory_slot;

typedef struct {
  int32_t topic, partition;
  cj_world_record record; /* owned */
  uint64_t token;
  int64_t expires; /* world->clock */
} cj_memory_output;

typedef struct {
  uint64_t id;
  cj_io_request_kind kind;
  cj_io_offset *list;
  size_t count;
  int64_t deadline; /* world->clock */
  bool faulty;
  cj_world_fault fault;
  int64_t ready_at; /* of one that hangs */
  char *member_id;  /* of commits: who asked, in which generation */
  int32_t generation;
  bool offsets_sent; /* of TXN_COMMIT */
} cj_memory_request;

/* Where the member is in the group's protocol. */
typedef enum {
  CJ_JOIN_OUT,     /* not in a rebalance: joins at the next occasion */
  CJ_JOIN_WAITING, /* its JoinGroup is at the coordinator */
  CJ_JOIN_SYNCING, /* knows its generation, waits for the assignment */
  CJ_JOIN_STEADY,  /* has what it was dealt */
  CJ_JOIN_LEFT,    /* closed */
} cj_join_state;

struct cj_memory_io {
  cj_io io; /* first */
  cj_world *world;
  cj_log log;
  bool admin, incremental, read_committed;
  bool crashed, stalled;
  /* what was copied from the setup */
  char **topics;
  bool *subscribed;
  size_t topic_count;
  char *client_id, *group_id;
  const char *protocol;
  int64_t session_timeout_ms, max_poll_ms, message_timeout_ms, heartbeat_ms;
  size_t message_max_bytes, queue_limit;
  /* events */
  cj_memory_event *events; /* a queue, oldest first */
  size_t event_count, event_cap;
  cj_memory_event current; /* what the last poll gave out */
  bool has_current;
  /* records */
  cj_memory_slot *slots;
  size_t slot_count, slot_cap;
  cj_memory_output *outputs; /* handed over, not acknowledged */
  size_t output_count, output_cap;
  /* requests */
  cj_memory_request *requests;
  size_t request_count, request_cap;
  /* transactions */
  cj_world_producer *producer; /* or NULL: without */
  int32_t epoch;               /* -1: not begun with TXN_INIT */
  bool txn_failed;             /* has to be aborted */
  bool txn_unclear;            /* its end is not known: nothing but TXN_INIT is allowed */
  bool fenced;                 /* and it knows */
  /* the group */
  cj_world_group *group; /* once subscribed */
  cj_join_state join;
  char *member_id; /* or NULL */
  int32_t generation;
  cj_tp *dealt; /* by the assignment in force */
  size_t dealt_count;
  bool assign_due, revoke_due; /* events queued or given out, and not answered */
  bool assign_out, revoke_out; /* those that were given out */
  bool lost, closing;
  int64_t next_heartbeat;               /* world->clock: before it nothing is noticed */
  bool max_poll_exceeded;               /* has left, and does not know it yet */
  int64_t polling_stopped_at, retry_at; /* world->clock; -1: it polls */
};

cj_memory_event *cj_memory_event_push(cj_memory_io *io, cj_io_event_kind kind);
void *cj_memory_event_alloc(cj_memory_event *event, size_t size);
cj_world_topic *cj_memory_topic(const cj_memory_io *io, int32_t topic); /* or NULL */
/* NULL where it does not exist. */
cj_world_partition *cj_memory_partition(const cj_memory_io *io, cj_tp tp);

/* Each returns whether anything happened. */
bool cj_memory_deliver(cj_memory_io *io);
bool cj_memory_answer(cj_memory_io *io);
bool cj_memory_group_tick(cj_memory_io *io);
/* The application answered an event. */
void cj_memory_group_assigned(cj_memory_io *io);
void cj_memory_group_revoked(cj_memory_io *io);

int64_t cj_memory_group_deadline(const cj_memory_io *io);
int64_t cj_memory_data_deadline(const cj_memory_io *io);
int64_t cj_memory_request_deadline(const cj_memory_io *io);
bool cj_memory_request_ready(const cj_memory_io *io); /* is there one to be answered now? */
void cj_memory_data_free(cj_memory_io *io);
void cj_memory_requests_free(cj_memory_io *io);

/* The output is appended, in a transaction or not. The code is the broker's. */
cj_io_code cj_memory_append(cj_memory_io *io, cj_world_partition *partition,
                            cj_world_record *record);
void cj_memory_output_free(cj_memory_output *output);
/* Those that are not delivered yet come back with the code; CJ_IO_OK: they are only dropped. */
void cj_memory_drop_outputs(cj_memory_io *io, cj_io_code code);
/* What a transaction's request comes to; false: not yet. */
bool cj_memory_txn_do(cj_memory_io *io, cj_memory_request *request, cj_io_code *code);
/* Its answer was TIMED_OUT: whether it is done nobody knows. */
void cj_memory_txn_unclear(cj_memory_io *io);
bool cj_memory_is_txn(cj_io_request_kind kind);
/* Of the faults LATE and DECIDED: the end is under way. False: it cannot be sent yet. */
bool cj_memory_txn_late(cj_memory_io *io, cj_memory_request *request);

/* Operations that live in the other files. */
size_t cj_memory_fetch(cj_io *base, cj_tp tp, cj_fetched *out, size_t max);
void cj_memory_release(cj_io *base, cj_fetched *entries, size_t count);
size_t cj_memory_headers(cj_io *base, const cj_fetched *record, cj_header *out, size_t max);
cj_io_code cj_memory_produce(cj_io *base, const cj_io_output *output);
cj_error *cj_memory_submit(cj_io *base, const cj_io_request *request);
cj_error *cj_memory_subscribe(cj_io *base);
void cj_memory_close(cj_io *base);

#endif
