/* SPDX-License-Identifier: BSD-2-Clause */
/* The application: a plan and a configuration, run by worker threads that are members of one
 * consumer group.
 *
 * Life: cj_app_new, (cj_app_check), cj_app_start, cj_app_wait, cj_app_destroy; cj_app_stop at any
 * time after cj_app_new.
 *
 * Threads: unless it says otherwise, a function may be called from any thread. Callbacks of
 * cj_app_options are called from the library's threads, one at a time for one application; they may
 * call cj_app_stop and the metrics, and must not call cj_app_wait or cj_app_destroy.
 *
 * fork: only before cj_app_new or followed by exec; librdkafka's and RocksDB's threads do not
 * survive it. SIGPIPE: the library's sockets do not raise it. Signals: the library's threads block
 * all of them, so that handlers run on the application's own threads. */
#ifndef COJOIN_APP_H
#define COJOIN_APP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cojoin/config.h>
#include <cojoin/error.h>
#include <cojoin/export.h>
#include <cojoin/record.h>
#include <cojoin/report.h>
#include <cojoin/topology.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cj_app cj_app;

typedef enum { CJ_LOG_ERROR, CJ_LOG_WARN, CJ_LOG_INFO, CJ_LOG_DEBUG } cj_log_level;

typedef enum {
  CJ_APP_CREATED,
  CJ_APP_CHECKING, /* the checklist runs */
  CJ_APP_STARTING, /* the members join their group */
  CJ_APP_RUNNING,  /* every worker has an assignment; tasks may still be restoring */
  CJ_APP_STOPPING, /* draining, committing, closing */
  CJ_APP_STOPPED,
  CJ_APP_FAILED, /* stopped by an error; cj_app_wait returns it */
} cj_app_state;

CJ_API const char *cj_app_state_name(cj_app_state state);

/* What became of a partition index of a member. */
typedef enum {
  CJ_TASK_ASSIGNED,  /* owned: opening its store, restoring */
  CJ_TASK_RUNNING,   /* processing */
  CJ_TASK_SUSPENDED, /* revoked for a rebalance; its store is kept open */
  CJ_TASK_CLOSED,    /* no longer owned */
} cj_task_event;

typedef struct {
  cj_task_event event;
  int worker;
  int group;         /* index of the co-partitioned set */
  int32_t partition; /* the index: partition p of each topic of the set */
  bool lost;         /* with SUSPENDED and CLOSED: taken without a chance to commit */
} cj_rebalance;

typedef struct {
  const char *table; /* topic */
  int32_t partition;
  int64_t from, position, to; /* offsets; done when position == to */
  int64_t records;            /* applied since `from` */
} cj_restore;

/* Zero means: not called. */
typedef struct {
  void *user;
  /* One line, without a newline. Levels up to the property log.level. */
  void (*on_log)(void *user, cj_log_level level, const char *line);
  void (*on_state)(void *user, cj_app_state from, cj_app_state to);
  void (*on_rebalance)(void *user, const cj_rebalance *event);
  void (*on_restore)(void *user, const cj_restore *progress);
  /* An unverified or (policy `warn`) broken checklist at start; the report is the callback's to
   * read, not to keep. */
  void (*on_report)(void *user, const cj_report *report);
} cj_app_options;

/* Takes the plan (also on failure it stays the caller's: only success consumes it) and copies the
 * configuration. Connects to nothing and writes nothing yet. Errors: CJ_ERR_CONFIG,
 * CJ_ERR_UNSUPPORTED, CJ_ERR_SYSTEM. */
CJ_API CJ_MUST_CHECK cj_error *cj_app_new_sized(cj_plan *plan, const cj_config *config,
                                                const cj_app_options *options, size_t size,
                                                cj_app **app);
static inline CJ_MUST_CHECK cj_error *cj_app_new(cj_plan *plan, const cj_config *config,
                                                 const cj_app_options *options, cj_app **app) {
  return cj_app_new_sized(plan, config, options, sizeof *options, app);
}

/* Runs the checklist without joining the group, committing or reading a record for processing. The
 * caller owns the report, which is set also when a point is broken; the error is for a check that
 * could not be run (CJ_ERR_BROKER, CJ_ERR_AUTH, CJ_ERR_TIMEOUT). Blocks for check.timeout.ms at
 * most. */
CJ_API CJ_MUST_CHECK cj_error *cj_app_check(cj_app *app, cj_report **report);

/* Runs the checklist, then starts the workers and returns. A broken point, unless its policy is
 * `warn`, is CJ_ERR_NOT_COPARTITIONED, CJ_ERR_TOPIC_MISSING or CJ_ERR_ASSIGNMENT and carries the
 * report; no record has been read then. Nor has one with the errors of cj_app_check, and with
 * CJ_ERR_LIMIT, CJ_ERR_SYSTEM or CJ_ERR_STORE_LOCKED, which are about open files and the state
 * directory. After a failure it may be called again. A stop meanwhile is none: the result is NULL
 * and the state CJ_APP_STOPPED. */
CJ_API CJ_MUST_CHECK cj_error *cj_app_start(cj_app *app);

/* Asks the application to drain, commit, close and leave. Returns at once; safe in a signal
 * handler. */
CJ_API void cj_app_stop(cj_app *app);

/* Waits until the application has stopped, for `timeout_ms` at most (-1: without bound). NULL: it
 * stopped as asked. CJ_ERR_TIMEOUT: it still runs. Otherwise the error that stopped it, owned by
 * the caller; the same one on each call. */
CJ_API CJ_MUST_CHECK cj_error *cj_app_wait(cj_app *app, int64_t timeout_ms);

CJ_API cj_app_state cj_app_get_state(const cj_app *app);

/* Stops if need be, waits for a bounded time (see shutdown.timeout.ms), frees. Not from a callback.
 * A thread that is held up in a callback of yours cannot be ended from outside: the application is
 * leaked to it then, calls back no more, and what it borrowed has to stay. NULL is fine. */
CJ_API void cj_app_destroy(cj_app *app);

typedef enum {
  CJ_READ_FOUND,
  CJ_READ_ABSENT,
  CJ_READ_NOT_LOCAL, /* another member owns the key's partition */
  CJ_READ_RESTORING, /* owned here, not ready yet */
  CJ_READ_FAILED,
} cj_read;

/* The last committed value of a key in the table made from topic `table`. On CJ_READ_FOUND `copy`
 * holds the value, which is the caller's. Never sees what is not committed yet. A running read
 * delays the closing of its store. */
CJ_API cj_read cj_app_get(cj_app *app, const char *table, cj_bytes key, cj_buf *copy);

/* Counters. Each call gives one consistent-enough snapshot: every counter is read once, whole. */
typedef enum {
  CJ_METRIC_COUNTER, /* only grows */
  CJ_METRIC_GAUGE,
} cj_metric_kind;

typedef struct {
  const char *name; /* "records_in", "joined", "missed", "dropped", "misplaced", "lag", … */
  cj_metric_kind kind;
  const char *topic;  /* or NULL */
  const char *node;   /* or NULL */
  const char *reason; /* of "dropped", or NULL */
  int32_t partition;  /* or -1 */
  int64_t value;
} cj_metric;

/* Returns false to end the walk. */
typedef bool cj_metric_fn(void *user, const cj_metric *metric);
CJ_API void cj_app_metrics(cj_app *app, cj_metric_fn *fn, void *user);
/* The sum over all metrics of that name (and reason, unless NULL). */
CJ_API int64_t cj_app_metric(cj_app *app, const char *name, const char *reason);

/* Removes what the application has kept in the state directory (the property state.dir), so that it
 * begins with empty tables; the group's offsets are not touched. Each path that goes is handed to
 * fn (NULL: to nobody). With dry_run nothing is removed. What is not there is no error.
 * CJ_ERR_STORE_LOCKED: a process of the application runs. */
typedef void cj_path_fn(void *user, const char *path);
CJ_API CJ_MUST_CHECK cj_error *cj_app_reset_state(const char *state_dir, const char *application_id,
                                                  bool dry_run, cj_path_fn *fn, void *user);

/* "0.1.0", and librdkafka's and RocksDB's versions as loaded. Static. */
CJ_API const char *cj_version(void);
CJ_API const char *cj_rdkafka_version(void);
CJ_API const char *cj_rocksdb_version(void);

#ifdef __cplusplus
}
#endif
#endif
