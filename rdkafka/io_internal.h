/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of the io over librdkafka: io_rdkafka.c (life, waiting), events.c, consumer.c
 * (assignment and records up), producer.c (records down), requests.c (what is asked for),
 * blocking.c (the helper thread's calls), codes.c (error codes), properties.c (configuration).
 *
 * Threads: the owner's, who makes all calls of the ops; the helper, for librdkafka's blocking
 * calls; and librdkafka's own, which run nothing of ours but cj_rd_signal and the queues' event
 * callbacks. What the helper shares is under `lock`; what librdkafka's threads touch is atomic. */
#ifndef CJ_RDKAFKA_IO_INTERNAL_H
#define CJ_RDKAFKA_IO_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include <librdkafka/rdkafka.h>

#include "runtime/io.h"

#define CJ_RD_VERSION(major, minor, patch)                                                         \
  (((major) << 24) | ((minor) << 16) | ((patch) << 8) | 0xff)

/* The most that one fetch takes. */
#define CJ_RD_BATCH 4096

typedef struct cj_rd_io cj_rd_io;

/* One of librdkafka's queues with a flag that says whether looking into it can be of use: a look
 * into an empty queue costs a system call, and there may be a thousand of them. */
typedef struct {
  cj_rd_io *io;
  rd_kafka_queue_t *queue; /* or NULL */
  atomic_bool ready;
} cj_rd_watch;

/* A partition that is, or was, assigned. */
typedef struct {
  cj_rd_watch watch;
  int64_t next; /* nothing below it is handed out */
  bool failed;  /* delivers nothing until assigned anew */
  bool listed;  /* in io->assigned */
} cj_rd_slot;

typedef struct {
  char *name;
  bool subscribed;
  rd_kafka_topic_t *handle; /* the producer's (of an admin io: the consumer's), or NULL */
  cj_rd_slot **slots;       /* by partition, NULL where it never was assigned */
  size_t slot_count;
  /* The helper's, for merging requests: where a partition stands in the merged list. */
  struct {
    uint64_t stamp;
    int index;
  } * merged;
  size_t merged_count;
} cj_rd_topic;

/* A producer's transaction. The owner begins it with an output; during a request about it the
 * helper has it. */
typedef struct {
  rd_kafka_t *producer;
  bool open;
} cj_rd_txn;

/* A request from submit to its DONE. Made by the owner; the helper owns it while RUNNING. */
typedef enum {
  CJ_RD_QUEUED,   /* for the helper */
  CJ_RD_RUNNING,  /* with the helper, or (COMMIT) with librdkafka */
  CJ_RD_ANSWERED, /* waits to be polled */
} cj_rd_request_state;

typedef struct cj_rd_request {
  struct cj_rd_request *next;        /* in io->pending, oldest first */
  struct cj_rd_request *queued_next; /* in io->queued */
  cj_rd_request_state state;
  bool abandoned; /* answered by its deadline already: whoever has it frees it */
  uint64_t id;
  uint64_t serial; /* of a COMMIT: what librdkafka brings back */
  cj_io_request_kind kind;
  int64_t deadline;   /* now() */
  cj_rd_txn *txn;     /* of TXN requests */
  cj_rd_txn *old_txn; /* of TXN_INIT: to be ended by the helper, with its producer */
  rd_kafka_t *old_producer;
  rd_kafka_consumer_group_metadata_t *group; /* of TXN_COMMIT: the generation that asked */
  cj_io_code code;
  cj_io_offset *offsets;
  size_t count;
  char text[512];
  struct cj_arena arena; /* of METADATA and GROUP */
  const char *cluster_id;
  cj_io_topic *topics;
  size_t topic_count;
  const char *group_state, *group_protocol;
  cj_io_member *members;
  size_t member_count;
} cj_rd_request;

typedef enum { CJ_RD_ANSWER_NONE, CJ_RD_ANSWER_ASSIGN, CJ_RD_ANSWER_REVOKE } cj_rd_answer;

typedef enum {
  CJ_RD_OPEN,
  CJ_RD_ABORTING, /* an open transaction, before the group is left */
  CJ_RD_CLOSING,
  CJ_RD_LEFT,   /* CLOSED is to be told */
  CJ_RD_CLOSED, /* and was */
} cj_rd_phase;

struct cj_rd_io {
  cj_io base; /* first */
  cj_log log;
  bool admin, read_committed;
  char *group_id;
  int64_t request_timeout_ms;
  cj_rd_topic *topics;
  size_t topic_count;

  rd_kafka_t *consumer, *producer; /* an admin io has no producer */
  bool transactional;
  cj_rd_txn *txn;              /* from the first TXN_INIT on */
  _Atomic(rd_kafka_t *) asker; /* the client that requests go through */
  cj_rd_request *last_abort;   /* while ABORTING */
  cj_rd_watch consumer_events, producer_events;

  /* waiting */
  int wake_fd;
  atomic_bool signalled; /* and written to wake_fd, since the last wait */
  bool more;             /* the last poll gave an event: there may be another */
  int64_t consumer_polled_ms;

  /* the event that was given out, and what it points at */
  rd_kafka_event_t *event;
  cj_rd_request *answer;
  cj_tp *tps;
  size_t tp_room;
  cj_io_delivery *deliveries;
  size_t delivery_room;

  /* assignment */
  cj_rd_answer owed; /* the answer to a rebalance that the group waits for */
  bool lost;         /* seen before the revoke was */
  cj_rd_slot **assigned;
  size_t assigned_count, assigned_room;
  rd_kafka_message_t **batch;

  /* closing */
  cj_rd_phase phase;
  int64_t close_deadline;

  /* requests: the owner's */
  cj_rd_request *pending, *pending_last;
  uint64_t serial;
  int64_t next_deadline; /* of `pending`; INT64_MAX: none */

  /* the helper */
  pthread_t helper;
  bool helper_runs;
  pthread_mutex_t lock;
  pthread_cond_t changed; /* to the helper: work, or the end */
  pthread_cond_t ended;   /* from the helper */
  cj_rd_request *queued, *queued_last;
  uint64_t merge_stamp;
  bool stop, stopped, leaked;
  atomic_bool answers; /* some are ANSWERED */

  /* The way out of a full queue below librdkafka 2.2, see consumer.c. */
  bool needs_kick;
  size_t kick_messages, kick_bytes;           /* a batch at least so large came from a full queue */
  atomic_llong kick_from_ms;                  /* when that was seen last */
  rd_kafka_topic_partition_list_t *kick_list; /* under lock */
};

static inline cj_rd_io *cj_rd_of(cj_io *io) {
  return (cj_rd_io *)io;
}

/* ---- io_rdkafka.c ---- */
int64_t cj_rd_now(void);
/* Something happened: a wait ends, or the next one does at once. Any thread, signal handlers. */
void cj_rd_signal(cj_rd_io *io);
cj_error *cj_rd_watch_open(cj_rd_watch *watch, cj_rd_io *io, rd_kafka_queue_t *queue);
void cj_rd_watch_close(cj_rd_watch *watch);
/* Grows an array; false without memory. */
bool cj_rd_grow(void **array, size_t *room, size_t need, size_t size);
/* Room for the topic's handle; NULL where librdkafka refuses. */
rd_kafka_topic_t *cj_rd_topic_handle(cj_rd_io *io, int32_t topic);
bool cj_rd_known(const cj_rd_io *io, cj_tp tp);
int32_t cj_rd_find_topic(const cj_rd_io *io, const char *name); /* -1: none of ours */
/* A list of librdkafka's; NULL without memory. `time` replaces each offset, unless 0. */
rd_kafka_topic_partition_list_t *cj_rd_list(const cj_rd_io *io, const cj_io_offset *list,
                                            size_t count, int64_t time);
rd_kafka_t *cj_rd_asker(cj_rd_io *io); /* the client that requests go through */
void cj_rd_free(cj_rd_io *io);         /* everything; may wait for librdkafka */

/* ---- events.c ---- */
bool cj_rd_poll(cj_io *base, cj_io_event *out);
void cj_rd_close(cj_io *base);

/* ---- codes.c ---- */
cj_io_code cj_rd_code(rd_kafka_resp_err_t err);
/* What a failed call of librdkafka is as an error. */
cj_error *cj_rd_error(rd_kafka_resp_err_t err, const char *subject, const char *what);

/* ---- consumer.c ---- */
bool cj_rd_on_rebalance(cj_rd_io *io, rd_kafka_event_t *event, cj_io_event *out);
void cj_rd_drop_assignment(cj_rd_io *io);
cj_error *cj_rd_assign(cj_io *base, const cj_io_offset *list, size_t count);
cj_error *cj_rd_assign_add(cj_io *base, const cj_io_offset *list, size_t count);
cj_error *cj_rd_assign_remove(cj_io *base, const cj_tp *list, size_t count);
size_t cj_rd_fetch(cj_io *base, cj_tp tp, cj_fetched *out, size_t max);
void cj_rd_release(cj_io *base, cj_fetched *entries, size_t count);
size_t cj_rd_headers(cj_io *base, const cj_fetched *record, cj_header *out, size_t max);

/* ---- producer.c ---- */
cj_io_code cj_rd_produce(cj_io *base, const cj_io_output *output);
bool cj_rd_on_delivered(cj_rd_io *io, rd_kafka_event_t *event, cj_io_event *out);

/* ---- requests.c ---- */
cj_error *cj_rd_submit(cj_io *base, const cj_io_request *request);
/* One DONE that is due, by answer or by deadline; false when there is none. */
bool cj_rd_done(cj_rd_io *io, cj_io_event *out);
void cj_rd_on_committed(cj_rd_io *io, rd_kafka_event_t *event);
void cj_rd_request_free(cj_rd_request *request);
/* The abort of what is open when the group is left; its answer is read by cj_rd_abort_ended. */
bool cj_rd_abort_begin(cj_rd_io *io);
bool cj_rd_abort_ended(cj_rd_io *io);
void *cj_rd_helper(void *io); /* the thread */

/* ---- blocking.c: on the helper ---- */
void cj_rd_run_committed(cj_rd_io *io, cj_rd_request *request);
/* Requests for ends, linked by queued_next, in one call. */
void cj_rd_run_ends(cj_rd_io *io, cj_rd_request *first);
void cj_rd_run_bounds(cj_rd_io *io, cj_rd_request *request);
void cj_rd_run_metadata(cj_rd_io *io, cj_rd_request *request);
void cj_rd_run_group(cj_rd_io *io, cj_rd_request *request);

/* ---- txn.c ---- */
cj_error *cj_rd_txn_prepare(cj_rd_io *io, cj_rd_request *request); /* for TXN_INIT */
/* For TXN_COMMIT. False: refused, its code says why. */
bool cj_rd_txn_join_group(cj_rd_io *io, cj_rd_request *request);
rd_kafka_resp_err_t cj_rd_txn_begin(cj_rd_io *io);
void cj_rd_run_txn_init(cj_rd_io *io, cj_rd_request *request);
void cj_rd_run_txn_commit(cj_rd_io *io, cj_rd_request *request);
void cj_rd_run_txn_abort(cj_rd_io *io, cj_rd_request *request);

/* ---- properties.c ---- */
typedef enum { CJ_RD_CONSUMER = 1, CJ_RD_PRODUCER = 2 } cj_rd_scope;
/* A configuration for one client; the caller's until rd_kafka_new takes it. */
cj_error *cj_rd_conf(const cj_io_setup *setup, cj_rd_scope scope, rd_kafka_conf_t **conf);
/* A log line of librdkafka that says nothing to the user: our own doing. */
bool cj_rd_log_line_is_ours(const char *text);

#endif
