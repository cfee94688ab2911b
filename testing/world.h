/* SPDX-License-Identifier: BSD-2-Clause */
/* The world outside a member, in memory: topics with their logs, a group coordinator, committed
 * offsets, a clock. It does what a broker and librdkafka's side of the group protocol do, and
 * nothing by chance: the same calls give the same world.
 *
 * The fault model, all of it asked for by the test:
 *   - a member crashes (what it had handed over and was not acknowledged is gone), stops polling,
 *     or stops altogether so that its heartbeats end;
 *   - brokers are unreachable: requests end at their deadline, outputs wait;
 *   - a request is refused, is done but answered with an error, or hangs;
 *   - an output is refused by the broker; a partition is held: nothing is read from it, and what is
 *     written to it is not acknowledged;
 *   - logs lose their beginning, their end, or have holes; topics grow or are made anew;
 *   - transactions are left open, time out, end late, or hit the one after them.
 *
 * Memory comes straight from malloc and its lack aborts: a sweep over cj_alloc's failures is to hit
 * the runtime, not the world it runs in. One thread. */
#ifndef CJ_WORLD_H
#define CJ_WORLD_H

#include "runtime/io.h"

/* ---- memory ---- */
void *cj_world_alloc(size_t size); /* zeroed, never NULL */
char *cj_world_strdup(const char *text);
cj_bytes cj_world_bytes_copy(cj_bytes bytes); /* null stays null; free with cj_world_free */
void cj_world_free(const void *p);
/* Room for `need` items of `size` bytes. */
void *cj_world_grow(void *items, size_t *cap, size_t need, size_t size);
/* What a test did wrong, or a contract that the runtime broke: says so and aborts. */
_Noreturn void cj_world_misuse(const char *format, ...) CJ_PRINTF(1, 2);

/* ---- transactions ---- */
typedef enum { CJ_TXN_OPEN, CJ_TXN_COMMITTED, CJ_TXN_ABORTED } cj_txn_state;
typedef struct cj_world_producer cj_world_producer;
typedef struct cj_world_partition cj_world_partition;

typedef struct {
  char *topic; /* by name: it outlives the topic's deletion only if put back by hand */
  int32_t partition;
  int64_t offset;
} cj_world_offset;

typedef struct {
  cj_txn_state state;
  int64_t began;                /* clock */
  bool decided;                 /* to be committed: nothing else can come of it */
  cj_world_partition **written; /* each gets a marker at the end */
  size_t written_count, written_cap;
  struct cj_world_group *group; /* whose offsets are committed with it, or NULL */
  cj_world_offset *offsets;
  size_t offset_count, offset_cap;
} cj_world_txn;

/* A transactional id, as the transaction coordinator knows it. */
struct cj_world_producer {
  char *id;
  int32_t epoch;
  int64_t timeout_ms;
  cj_world_txn *open; /* or NULL */
};

/* The end of a transaction that is under way to the broker. */
typedef struct {
  cj_world_producer *producer;
  int32_t epoch;
  bool commit;
  int64_t at; /* clock; -1: has arrived */
} cj_world_late_end;

/* ---- logs ---- */
typedef struct {
  cj_headers reader; /* first: a cj_headers pointer is one to the record */
  int64_t offset;
  int64_t timestamp;
  cj_bytes key, value;
  cj_header *headers;
  size_t header_count;
  const cj_world_txn *txn; /* or NULL */
} cj_world_record;

struct cj_world_partition {
  cj_world_record **all; /* everything that was ever appended, in that order; owned */
  size_t all_count, all_cap;
  cj_world_record **live; /* what the log holds now, by offset; borrowed from `all` */
  size_t live_count, live_cap;
  int64_t start, end;
  size_t open; /* transactions that have written here and are open */
  bool held;
  bool fail_fetch; /* the next fetch meets a temporary error */
};

typedef struct {
  char *name;
  cj_world_partition **partitions;
  int32_t partition_count;
  size_t max_message_bytes; /* the broker refuses what is larger; 0: no limit */
  size_t refuse_next;       /* this many outputs are refused with refuse_code */
  cj_io_code refuse_code;
  bool deleted;
} cj_world_topic;

/* ---- groups ---- */
typedef struct {
  cj_world_topic *topic;
  int32_t partition;
} cj_world_tp;

/* A member as the coordinator knows it. */
typedef struct {
  char *member_id, *client_id;
  char *instance_id; /* or NULL */
  char *protocol;    /* the assignor's name */
  char **topics;     /* its subscription, by name */
  size_t topic_count;
  int64_t session_timeout_ms, rebalance_timeout_ms;
  int64_t silent_since; /* when its heartbeats ended; -1 while they come */
  bool joined;          /* in the rebalance under way, or the last one */
  cj_world_tp *dealt;   /* by the last assignment */
  size_t dealt_count, dealt_cap;
} cj_world_member;

typedef enum {
  CJ_GROUP_EMPTY,
  CJ_GROUP_PREPARING,  /* waits until all members have joined anew */
  CJ_GROUP_COMPLETING, /* waits for the leader's assignment */
  CJ_GROUP_STABLE,
} cj_group_state;

typedef struct cj_world cj_world;
typedef struct cj_world_group cj_world_group;

/* Deals the topics' partitions to the members by filling `dealt`. The members come in the order in
 * which they joined. */
typedef void cj_world_assign_fn(cj_world *world, cj_world_member *const *members, size_t count);

struct cj_world_group {
  cj_world *world;
  char *id;
  cj_group_state state;
  int32_t generation;
  cj_world_member **members; /* in the order in which they came */
  size_t member_count, member_cap;
  cj_world_member *leader;    /* one of members, or NULL */
  int64_t rebalance_deadline; /* while PREPARING */
  cj_world_assign_fn *deal;   /* instead of the members' assignor, or NULL */
  cj_world_offset *offsets;
  size_t offset_count, offset_cap;
};

/* ---- faults of requests ---- */
typedef enum {
  CJ_FAULT_REFUSE,      /* not done, answered with `code` */
  CJ_FAULT_DONE_UNTOLD, /* done, answered with `code` */
  CJ_FAULT_HANG,        /* nothing for `delay_ms`; past its deadline: TIMED_OUT, not done */
  CJ_FAULT_LATE,        /* of a transaction's end: TIMED_OUT, and `delay_ms` later it reaches the
                           broker, and whatever is open then, if the epoch is still the same */
  CJ_FAULT_DECIDED,     /* of TXN_COMMIT: TIMED_OUT, and committed `delay_ms` later, or at once when
                           a new producer of the id begins: the broker has it in its log */
} cj_fault_effect;

typedef struct {
  cj_io_request_kind kind;
  cj_fault_effect effect;
  cj_io_code code;
  int64_t delay_ms;
  size_t times; /* the next so many requests of the kind */
} cj_world_fault;

struct cj_memory_io; /* a member's io: io_memory.h */

struct cj_world {
  int64_t clock; /* milliseconds since the world began */
  bool down;
  cj_world_topic **topics; /* in the order of their names; the deleted ones stay till the end */
  size_t topic_count, topic_cap;
  cj_world_group **groups;
  size_t group_count, group_cap;
  cj_world_fault *faults;
  size_t fault_count, fault_cap;
  cj_world_producer **producers;
  size_t producer_count, producer_cap;
  cj_world_txn **txns; /* all that ever were */
  size_t txn_count, txn_cap;
  cj_world_late_end *late;
  size_t late_count, late_cap;
  struct cj_memory_io **ios; /* those that live */
  size_t io_count, io_cap;
  uint32_t member_ids; /* how many were given out */
  uint64_t changes;    /* grows whenever something happens behind a member's back */
};

#define CJ_WORLD_CLUSTER_ID   "world-in-memory"
#define CJ_WORLD_WALL_START   1700000000000 /* the wall clock when the world begins */
#define CJ_WORLD_MONOTONIC_AT 5000          /* the other clock: apart, so that a mix-up shows */

cj_world *cj_world_new(void);
void cj_world_destroy(cj_world *world); /* after its ios */

int64_t cj_world_monotonic(const cj_world *world);
int64_t cj_world_wall(const cj_world *world);
/* Moves the clock on and lets happen what is due: sessions and rebalances that time out, members
 * that did not poll for too long. */
void cj_world_advance(cj_world *world, int64_t ms);
/* The next moment (monotonic) at which something happens by itself; INT64_MAX: none. */
int64_t cj_world_deadline(const cj_world *world);
/* Brokers gone, or back. Sessions begin anew when they are back. */
void cj_world_set_down(cj_world *world, bool down);

/* Makes the topic, or makes it grow. */
cj_world_topic *cj_world_topic_make(cj_world *world, const char *name, int32_t partitions);
/* Removes the topic and the offsets that groups have committed for it. */
void cj_world_topic_delete(cj_world *world, const char *name);
cj_world_topic *cj_world_topic_find(const cj_world *world, const char *name);          /* or NULL */
cj_world_partition *cj_world_partition_of(cj_world_topic *topic, int32_t p);           /* or NULL */
int64_t cj_world_append(cj_world_partition *partition, const cj_world_record *record); /* copied */
void cj_world_gap(cj_world_partition *partition, int64_t count);
void cj_world_delete_before(cj_world_partition *partition, int64_t before);
void cj_world_truncate(cj_world_partition *partition, int64_t end);
/* Removes single records and leaves holes, as compaction does. */
void cj_world_compact(cj_world_partition *partition);
/* The first live record at or after the offset, or NULL. */
const cj_world_record *cj_world_record_at(const cj_world_partition *partition, int64_t offset);
/* Up to where a reader may go: the end, or (read_committed) where the first open transaction
 * begins. */
int64_t cj_world_readable_end(const cj_world_partition *partition, bool read_committed);
/* Does a reader get to see it? */
bool cj_world_visible(const cj_world_record *record, bool read_committed);

/* ---- the transaction coordinator (world_txn.c) ---- */

cj_world_producer *cj_world_producer_of(cj_world *world, const char *id); /* made when missing */
/* A new producer of that id: the epoch is raised, what was left open is aborted, or committed if
 * that was decided. Returns the epoch. */
int32_t cj_txn_init(cj_world_producer *producer);
/* Appends within the producer's transaction, which begins with that. */
void cj_txn_append(cj_world *world, cj_world_producer *producer, cj_world_partition *partition,
                   cj_world_record *record);
/* Offsets that the group gets when the transaction is committed. */
void cj_txn_add_offset(cj_world *world, cj_world_producer *producer, cj_world_group *group,
                       const char *topic, int32_t partition, int64_t offset);
/* Is an offset of that partition part of an open transaction? */
bool cj_txn_offset_pending(const cj_world_group *group, const char *topic, int32_t partition);
/* A request to end it, of this epoch, arrives that late. */
void cj_txn_end_late(cj_world *world, cj_world_producer *producer, int32_t epoch, bool commit,
                     int64_t delay_ms);
/* Ends the open transaction, if there is one. */
void cj_txn_end(cj_world_producer *producer, bool commit);
/* The open transaction is going to be committed, and waits only for its markers. */
void cj_txn_decide(cj_world_producer *producer);
/* Aborts transactions that are open for too long, and fences their producers. */
void cj_txn_expire(cj_world *world);
int64_t cj_txn_deadline(const cj_world *world);
void cj_txn_free(cj_world *world);

void cj_world_fault_add(cj_world *world, const cj_world_fault *fault);
/* Takes the fault that the next request of the kind meets; false: none. */
bool cj_world_fault_take(cj_world *world, cj_io_request_kind kind, cj_world_fault *fault);

/* ---- the coordinator (world_group.c) ---- */
cj_world_group *cj_world_group_of(cj_world *world, const char *id); /* made when it is missing */
void cj_world_group_free(cj_world_group *group);
cj_world_member *cj_group_find(const cj_world_group *group, const char *member_id);

typedef struct {
  const char *member_id; /* NULL: a new member */
  const char *client_id;
  const char *instance_id;
  const char *protocol;
  const char *const *topics;
  size_t topic_count;
  int64_t session_timeout_ms, rebalance_timeout_ms;
} cj_group_join_request;
/* The answer comes when the group leaves PREPARING. *member is set at once (to NULL on an error):
 * CJ_IO_UNKNOWN_MEMBER, CJ_IO_INCONSISTENT_GROUP. */
cj_io_code cj_group_join(cj_world_group *group, const cj_group_join_request *request,
                         cj_world_member **member);
/* The leader hands in the assignment: the group is stable then. Of others it does nothing. */
void cj_group_sync(cj_world_group *group, cj_world_member *member);
void cj_group_leave(cj_world_group *group, const char *member_id);
/* A rebalance without a change of members. */
void cj_group_rebalance(cj_world_group *group);
void cj_group_silence(cj_world_group *group, const char *member_id);
void cj_group_expire(cj_world_group *group);
int64_t cj_group_deadline(const cj_world_group *group); /* on world->clock; INT64_MAX: none */
const char *cj_group_state_name(cj_group_state state);
/* May this member commit now? `member_id` NULL and `generation` -1: someone outside. */
cj_io_code cj_group_may_commit(const cj_world_group *group, const char *member_id,
                               int32_t generation);
int64_t cj_group_committed(const cj_world_group *group, const char *topic, int32_t partition);
/* CJ_OFFSET_NONE removes it. */
void cj_group_set_committed(cj_world_group *group, const char *topic, int32_t partition,
                            int64_t offset);

/* ---- assignors (world_assign.c) ---- */
/* "range" and "roundrobin" exactly as librdkafka deals; NULL for another name. */
cj_world_assign_fn *cj_world_assignor(const char *name);
void cj_world_deal(cj_world_member *member, cj_world_topic *topic, int32_t partition);

#endif
