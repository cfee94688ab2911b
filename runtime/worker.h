/* SPDX-License-Identifier: BSD-2-Clause */
/* A worker: one member of the group with its tasks, driven step by step. Its thread, in app.c, is a
 * loop of three lines; the test driver steps it by hand. Nothing in it blocks, sleeps or reads a
 * clock of its own.
 *
 * Threads: one, except cj_worker_stop, cj_worker_metrics and cj_worker_committed. */
#ifndef CJ_WORKER_H
#define CJ_WORKER_H

#include "operators/plan.h"
#include "operators/processor.h"
#include "runtime/config.h"
#include "runtime/io.h"
#include "state/state.h"

typedef struct cj_worker cj_worker;

typedef struct {
  int index;
  const cj_plan *plan;             /* borrowed */
  const cj_settings *settings;     /* borrowed */
  cj_io *io;                       /* borrowed; subscribed by the worker. Its topics are those of
                                      the plan in their order, then the dead-letter topic, if any */
  cj_state *state;                 /* borrowed */
  const char *cluster_id;          /* copied */
  const int32_t *partition_counts; /* copied: one for each topic of the plan, as the check found,
                                      then that of the dead-letter topic, if any */
  cj_log log;
  void *user;
  void (*on_rebalance)(void *user, const cj_rebalance *event);
  void (*on_restore)(void *user, const cj_restore *progress);
  void (*on_assigned)(void *user, int worker); /* each time an assignment was taken */
} cj_worker_setup;

CJ_MUST_CHECK cj_error *cj_worker_new(const cj_worker_setup *setup, cj_worker **worker);
void cj_worker_destroy(cj_worker *worker); /* without a commit, if it has not finished */

typedef enum {
  CJ_STEP_WORKED,   /* call again at once */
  CJ_STEP_IDLE,     /* nothing to do until an event, or until *deadline */
  CJ_STEP_FINISHED, /* stopped, or failed: see cj_worker_error */
} cj_step;

/* Does a bounded amount of work. *deadline (the io's clock; INT64_MAX: none) is set when idle. */
cj_step cj_worker_step(cj_worker *worker, int64_t *deadline);
/* Asks for the end: drain, commit, release, leave. Any thread; async-signal-safe. */
void cj_worker_stop(cj_worker *worker);
/* A commit as soon as possible, whatever the interval. */
void cj_worker_commit(cj_worker *worker);
/* The error that ended the worker, or NULL; the worker's. */
const cj_error *cj_worker_error(const cj_worker *worker);
/* Does it own the index, with its task running (not only assigned)? */
bool cj_worker_owns(const cj_worker *worker, int group, int32_t partition, bool *running);
/* Walks the counters and gauges of the worker and its tasks. Any thread. False: fn ended it. */
bool cj_worker_metrics(cj_worker *worker, cj_metric_fn *fn, void *user);
/* The position that the worker committed last for an input partition of its tasks (an index in
 * plan.topics). False: it has no task with it, or has committed nothing yet. Any thread. */
bool cj_worker_committed(cj_worker *worker, int topic, int32_t partition, int64_t *offset);

#endif
