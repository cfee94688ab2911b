/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the application share. app.c is its life as the caller sees it; app_start.c
 * goes from the checklist to running threads; app_supervisor.c watches them until the end;
 * app_callbacks.c talks to the user; app_at_end.c knows when every input was read; app_metrics.c
 * and app_read.c answer questions.
 *
 * Threads: the callers', the workers', and one supervisor, which alone ends things: a stop, a
 * failure and the end of the inputs are flags that wake it. So nothing that a signal handler or a
 * callback may call takes a lock or waits. */
#ifndef CJ_APP_INTERNAL_H
#define CJ_APP_INTERNAL_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include <cojoin/app.h>

#include "operators/plan.h"
#include "runtime/check.h"
#include "runtime/config.h"
#include "runtime/worker.h"
#include "state/state.h"

typedef struct {
  cj_app *app;
  int index;
  cj_io *io;
  cj_worker *worker;
  pthread_t thread;
  atomic_bool assigned; /* it has had an assignment */
  atomic_bool finished; /* the thread touches nothing any more but this */
} cj_app_worker;

/* Which inputs have not been read to the end that they had at the start. */
typedef struct {
  bool *reached;      /* of each of check.ends */
  atomic_size_t left; /* read for the metrics too */
  uint64_t request;   /* the question to the group under way, or 0 */
  uint64_t last_request;
  int64_t ask_at;
} cj_app_at_end;

/* The counters as they were when the workers ended. */
typedef struct {
  cj_metric *metrics; /* their strings are copies */
  size_t count, cap;
} cj_app_snapshot;

/* What a run stands on; all zero where there is none. */
typedef struct {
  cj_check_result check;
  cj_io *admin; /* the supervisor's, with stop.at.end; otherwise NULL */
  cj_state *stores;
  cj_app_worker *workers;
  size_t worker_count;
} cj_app_parts;

struct cj_app {
  cj_plan *plan;
  cj_config *config;
  cj_settings settings; /* strings are config's */
  cj_app_options options;
  cj_log log;

  int wake_fd; /* of the supervisor */
  atomic_bool stop_asked;
  _Atomic(cj_app_state) state;

  /* Recursive: a callback may call what logs. */
  pthread_mutex_t callbacks;
  bool silent; /* under callbacks: the user is not called any more */

  /* The end, for those who wait. */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool started; /* cj_app_start was called, and has not failed */
  bool ended;
  cj_error *error;

  /* Written by the starter and the supervisor, under the write lock wherever others read it. No
   * line is logged under that lock: a callback may ask for the metrics. */
  pthread_rwlock_t run_lock;
  cj_app_parts run;
  cj_app_snapshot last;

  cj_app_at_end at_end; /* the supervisor's */
  pthread_t supervisor;
  bool supervised;      /* the thread exists */
  atomic_bool given_up; /* a worker did not finish in time: it ends itself at the next step */
};

/* The library's threads are born with every signal blocked. */
static inline void cj_signals_block(sigset_t *before) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, before);
}
static inline void cj_signals_restore(const sigset_t *before) {
  pthread_sigmask(SIG_SETMASK, before, NULL);
}
int64_t cj_monotonic_ms(void);

/* ---- app.c ---- */
void cj_app_wake(cj_app *app); /* the supervisor; async-signal-safe */
/* Tells those who wait. The error (NULL: stopped as asked) is consumed. */
void cj_app_end(cj_app *app, cj_error *error);

/* ---- app_callbacks.c ---- */
void cj_app_set_state(cj_app *app, cj_app_state to);
void cj_app_log_line(void *app, cj_log_level level, const char *line);
void cj_app_tell_rebalance(void *worker, const cj_rebalance *event);
void cj_app_tell_restore(void *worker, const cj_restore *progress);
void cj_app_tell_assigned(void *worker, int index);
/* The points that do not hold and yet do not refuse the start. */
void cj_app_tell_report(cj_app *app, const cj_report *report);

/* ---- app_start.c ---- */
/* An io; its topics are the plan's, then the dead-letter topic. `transactional_id` may be NULL. */
CJ_MUST_CHECK cj_error *cj_app_new_io(cj_app *app, const char *client_id,
                                      const char *transactional_id, bool admin, cj_io **io);
/* The checklist through an io of its own, which *admin keeps unless it is NULL. */
CJ_MUST_CHECK cj_error *cj_app_run_check(cj_app *app, cj_check_result *result, cj_io **admin);
/* Everything from the checklist to running threads. A stop on the way is no error: no supervisor
 * runs then. */
CJ_MUST_CHECK cj_error *cj_app_run(cj_app *app);
/* Frees what a run stood on. All its threads are gone. */
void cj_app_parts_free(cj_app_parts *run);

/* ---- app_supervisor.c ---- */
void *cj_app_worker_main(void *worker);
void *cj_app_supervisor_main(void *app);

/* ---- app_at_end.c ---- */
CJ_MUST_CHECK cj_error *cj_app_at_end_init(cj_app *app, const cj_check_result *check);
/* True when every input was committed to its end. `now` is cj_monotonic_ms's. */
bool cj_app_at_end_reached(cj_app *app, int64_t now);
void cj_app_at_end_free(cj_app *app);

/* ---- app_metrics.c ---- */
/* The counters of workers that have ended. */
void cj_app_snapshot_take(cj_app_snapshot *snapshot, const cj_app_parts *run);
void cj_app_snapshot_free(cj_app_snapshot *snapshot);

#endif
