/* SPDX-License-Identifier: BSD-2-Clause */
/* The seam between the runtime and the outside world. Above it stands every decision about
 * assignment, positions and commits; below it stands librdkafka (io_rdkafka.c) or a world in memory
 * (testing/io_memory.c), which differ in nothing that the runtime can see.
 *
 * One cj_io is one member of the group with its producer. No call blocks, except wait. Everything
 * that takes time is a submission that an event answers. All calls come from one thread, except
 * wake. */
#ifndef CJ_IO_H
#define CJ_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cojoin/record.h>

#include "base/base.h"
#include "runtime/config.h"

/* A topic is its index in cj_io_setup.topics. */
typedef struct {
  int32_t topic;
  int32_t partition;
} cj_tp;

#define CJ_OFFSET_NONE (-1) /* no offset: none committed, unknown */

/* What the runtime distinguishes among librdkafka's error codes. */
typedef enum {
  CJ_IO_OK,
  CJ_IO_TIMED_OUT,          /* unclear whether it was done */
  CJ_IO_RETRIABLE,          /* transport, leader or coordinator not there: try again */
  CJ_IO_REBALANCE,          /* REBALANCE_IN_PROGRESS: the group is rebalancing */
  CJ_IO_ILLEGAL_GENERATION, /* this member's generation is over */
  CJ_IO_UNKNOWN_MEMBER,     /* the group does not know this member any more */
  CJ_IO_FENCED,             /* a static member or transactional id was taken over: fatal. Or a
                               transaction timed out: after TXN_INIT it goes on */
  CJ_IO_MAX_POLL,           /* max.poll.interval.ms exceeded: the member was evicted */
  CJ_IO_INCONSISTENT_GROUP, /* the group's members use another protocol or assignor */
  CJ_IO_OUT_OF_RANGE,       /* the position is not in the log */
  CJ_IO_UNKNOWN_TOPIC,      /* the topic or partition does not exist */
  CJ_IO_AUTH,               /* authentication or authorization */
  CJ_IO_TOO_LARGE,          /* the record is larger than a limit */
  CJ_IO_QUEUE_FULL,         /* the producer's queue is full: serve events, try again */
  CJ_IO_UNSUPPORTED,        /* this library or broker cannot */
  CJ_IO_ABORTABLE,          /* the transaction must be aborted, then its work can be done again */
  CJ_IO_PURGED,             /* an output that was dropped with its transaction */
  CJ_IO_OTHER,
} cj_io_code;

const char *cj_io_code_name(cj_io_code code);

/* ---- records coming up ---- */
typedef enum {
  CJ_FETCHED_RECORD,
  CJ_FETCHED_EOF,   /* the log's end was reached: `offset` is the next one that will be written */
  CJ_FETCHED_ERROR, /* `code`; the partition delivers nothing more until assigned anew */
} cj_fetched_kind;

typedef struct {
  cj_bytes key, value; /* owned by the io, valid until released */
  int64_t offset;
  int64_t timestamp; /* negative where the record has none */
  void *handle;      /* the io's */
  cj_fetched_kind kind;
  cj_io_code code;
} cj_fetched;

/* ---- records going down ---- */
typedef struct {
  int32_t topic;
  int32_t partition; /* always explicit: the runtime partitions */
  cj_bytes key, value;
  int64_t timestamp;
  const cj_fetched *headers_from; /* its headers are passed on as they are; or NULL */
  const cj_header *headers;       /* then these are added */
  size_t header_count;
  uint64_t token; /* comes back in the delivery */
} cj_io_output;

/* ---- requests ---- */
typedef struct {
  cj_tp tp;
  int64_t offset;
  int64_t start;   /* of BOUNDS: the log's start; offset is its end */
  cj_io_code code; /* of this entry */
} cj_io_offset;

typedef enum {
  CJ_REQ_COMMITTED, /* the group's committed offsets of the list; CJ_OFFSET_NONE where there is none
                     */
  CJ_REQ_COMMIT,    /* commit the list, in the member's generation */
  CJ_REQ_BOUNDS,    /* start and end (read_committed: last stable offset) of the list */
  CJ_REQ_ENDS,      /* ends only: cheap, one request a leader */
  CJ_REQ_METADATA,  /* all topics of the cluster; never creates one */
  CJ_REQ_GROUP,     /* describe the group */
  /* With a transactional id only. Outputs are in a transaction from the first one on; at most one
   * of these is under way. */
  CJ_REQ_TXN_INIT,   /* a new producer of that id: those before it are fenced, and what they left
                        open is ended: aborted, or completed if the broker had begun to commit */
  CJ_REQ_TXN_COMMIT, /* the outputs since the last end of a transaction and the list's offsets,
                        whole or not at all, in the generation that the member is in when it is
                        submitted. ABORTABLE and the group's codes: the transaction must be
                        aborted. TIMED_OUT: unclear, nothing but TXN_INIT is allowed now */
  CJ_REQ_TXN_ABORT,  /* the outputs since the last end of a transaction never were; those not
                        delivered yet come back as PURGED */
} cj_io_request_kind;

typedef struct {
  uint64_t id; /* comes back in the event; unique while under way */
  cj_io_request_kind kind;
  const cj_io_offset *list; /* copied */
  size_t count;
  int64_t timeout_ms;
} cj_io_request;

typedef struct {
  const char *name;
  int32_t partitions;
  cj_io_code code;
} cj_io_topic;

typedef struct {
  const char *client_id;
  const char *member_id;
  const char *host;
  const char *instance_id;   /* or NULL */
  const char *const *topics; /* its subscription, as far as it can be seen */
  size_t topic_count;
} cj_io_member;

/* ---- events ---- */
typedef enum {
  CJ_EV_NONE,
  CJ_EV_ASSIGN,    /* the group dealt `list`. Answered by exactly one assign or assign_add (of an
                      empty list, maybe) before the next poll or later */
  CJ_EV_REVOKE,    /* the group takes `list`; `lost`: it is gone already. Answered by assign({}) or
                      assign_remove; until then the members of the group wait */
  CJ_EV_DELIVERED, /* outputs were acknowledged, or failed */
  CJ_EV_DONE,      /* request `id` ended: `code`, and its results */
  CJ_EV_ERROR,     /* of the client as a whole; `fatal`: this io will not work again. That a
                      transactional producer is fenced is told by answers, not by this */
  CJ_EV_CLOSED,    /* after close: the member has left its group */
} cj_io_event_kind;

typedef struct {
  uint64_t token;
  int32_t topic; /* of the output */
  cj_io_code code;
} cj_io_delivery;

/* Everything a event points at is the io's and valid until the next poll. */
typedef struct {
  cj_io_event_kind kind;
  /* ASSIGN, REVOKE */
  const cj_tp *list;
  size_t count;
  bool incremental; /* the protocol is cooperative: `list` is a difference */
  bool lost;
  /* DELIVERED */
  const cj_io_delivery *deliveries;
  size_t delivery_count;
  /* DONE, ERROR */
  uint64_t id;
  cj_io_request_kind request;
  cj_io_code code;
  bool fatal;
  const char *text; /* librdkafka's own words, or "" */
  const cj_io_offset *offsets;
  size_t offset_count;
  /* DONE of METADATA */
  const char *cluster_id;
  const cj_io_topic *topics;
  size_t topic_count;
  /* DONE of GROUP */
  const char *group_state;    /* "Stable", "Empty", "Dead", … */
  const char *group_protocol; /* the assignor in force, "" if none */
  const cj_io_member *members;
  size_t member_count;
} cj_io_event;

typedef struct cj_io cj_io;

typedef struct {
  /* Milliseconds: a monotonic clock for deadlines, and the wall clock for what is stored. */
  int64_t (*now)(cj_io *io);
  int64_t (*wall)(cj_io *io);
  /* Joins the group with all topics whose `subscribed` is set. */
  cj_error *(*subscribe)(cj_io *io);
  /* The next event; false when there is none. */
  bool (*poll)(cj_io *io, cj_io_event *event);
  /* Replaces what is fetched: `offset` is where each partition starts, always explicit. A partition
   * that is named again starts anew at its offset. Under a cooperative protocol assign_add and
   * assign_remove take differences. */
  cj_error *(*assign)(cj_io *io, const cj_io_offset *list, size_t count);
  cj_error *(*assign_add)(cj_io *io, const cj_io_offset *list, size_t count);
  cj_error *(*assign_remove)(cj_io *io, const cj_tp *list, size_t count);
  /* Up to `max` entries that have arrived for the partition, in offset order; 0 when there is
   * nothing now. Not taking them is the back-pressure. */
  size_t (*fetch)(cj_io *io, cj_tp tp, cj_fetched *out, size_t max);
  /* Gives entries back (those that hold bytes). Needed before the partition leaves the assignment.
   */
  void (*release)(cj_io *io, cj_fetched *entries, size_t count);
  /* The headers of a fetched record: writes at most `max`, returns how many it has. */
  size_t (*headers)(cj_io *io, const cj_fetched *record, cj_header *out, size_t max);
  /* Hands over one output; the bytes are copied. QUEUE_FULL changes nothing. Any other failure is
   * final for this output; there is no delivery for it then. ABORTABLE, FENCED: the transaction has
   * failed, and takes no output any more. */
  cj_io_code (*produce)(cj_io *io, const cj_io_output *output);
  /* Asks for something; exactly one DONE with its id follows, after close too. */
  cj_error *(*submit)(cj_io *io, const cj_io_request *request);
  /* Leaves the group: an open transaction is aborted first; a last REVOKE may come and has to be
   * answered, then CLOSED. */
  void (*close)(cj_io *io);
  /* Sleeps until there is something to poll or fetch, wake was called or `timeout_ms` passed. */
  void (*wait)(cj_io *io, int64_t timeout_ms);
  void (*wake)(cj_io *io); /* from any thread, also before wait */
  /* Frees; also without close, then the group learns it by the session's end. */
  void (*destroy)(cj_io *io);
} cj_io_ops;

struct cj_io {
  const cj_io_ops *ops;
};

typedef struct {
  const char *name;
  bool subscribed; /* an input */
} cj_io_setup_topic;

/* What an io is made from; everything is copied. */
typedef struct {
  const cj_settings *settings;
  const cj_io_setup_topic *topics;
  size_t topic_count;
  const char *client_id;
  bool admin; /* requests only: never joins, never produces */
  bool read_committed;
  const char *transactional_id; /* NULL: the producer is idempotent, without transactions */
  cj_log log;
} cj_io_setup;

/* io_rdkafka.c */
cj_error *cj_io_rdkafka_new(const cj_io_setup *setup, cj_io **io);
/* Refuses `rd.` names that librdkafka does not know or whose value it does not take, and those that
 * would break an invariant. Called by cj_config_set. `name` without the prefix. */
cj_error *cj_io_rdkafka_check_property(const char *name, const char *value);

#endif
