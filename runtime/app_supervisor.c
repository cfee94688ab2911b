/* SPDX-License-Identifier: BSD-2-Clause */
/* The threads of a run. A worker's is a loop of three lines; the supervisor's sleeps until one of
 * them, a stop or the end of the inputs wakes it, and brings the whole to its end. */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "runtime/app_internal.h"

#define STEP_MS     1000  /* a worker that is given up notices it after this */
#define AT_END_MS   50    /* how often it is looked whether the inputs were read */
#define GRACE_MS    11000 /* a drained worker has ten seconds to leave its group */
#define LONGEST_NAP 60000

/* ---- workers ---- */

void *cj_app_worker_main(void *arg) {
  cj_app_worker *self = arg;
  cj_app *app = self->app;
  cj_io *io = self->io;
  while (!atomic_load(&app->given_up)) {
    int64_t deadline = INT64_MAX;
    cj_step step = cj_worker_step(self->worker, &deadline);
    if (step == CJ_STEP_FINISHED) break;
    int64_t left = step == CJ_STEP_IDLE ? deadline - io->ops->now(io) : 0;
    if (left > 0) io->ops->wait(io, left < STEP_MS ? left : STEP_MS);
  }
  atomic_store(&self->finished, true);
  cj_app_wake(app);
  return NULL;
}

/* ---- the supervisor ---- */

typedef struct {
  cj_app *app;
  bool stopping;
  int64_t give_up_at;
  cj_error *error; /* the first failure */
} watch;

static bool all_finished(const cj_app *app) {
  for (size_t i = 0; i < app->run.worker_count; i++)
    if (!atomic_load(&app->run.workers[i].finished)) return false;
  return true;
}

static bool all_assigned(const cj_app *app) {
  for (size_t i = 0; i < app->run.worker_count; i++)
    if (!atomic_load(&app->run.workers[i].assigned)) return false;
  return true;
}

static void begin_stop(watch *w) {
  if (w->stopping) return;
  w->stopping = true;
  w->give_up_at = cj_monotonic_ms() + w->app->settings.shutdown_timeout_ms + GRACE_MS;
  cj_app_set_state(w->app, CJ_APP_STOPPING);
  for (size_t i = 0; i < w->app->run.worker_count; i++)
    cj_worker_stop(w->app->run.workers[i].worker);
}

/* The same error, with the worker that it ended. */
static cj_error *name_worker(const cj_error *error, int index) {
  cj_error *named = cj_error_new(cj_error_code(error), cj_error_subject(error),
                                 "%s (worker %d; all others were "
                                 "stopped)",
                                 cj_error_message(error), index);
  named = cj_error_with_class(named, cj_error_class(error));
  if (cj_error_report(error))
    named = cj_error_with_report(named, cj_report_copy(cj_error_report(error)));
  return cj_error_under(named, cj_error_copy(cj_error_cause(error)));
}

/* A worker that has ended, without having been told to, takes the others with it: half an
 * application would leave partitions unread without a word. */
static void look_at_workers(watch *w) {
  for (size_t i = 0; i < w->app->run.worker_count && !w->error; i++) {
    cj_app_worker *worker = &w->app->run.workers[i];
    if (!atomic_load(&worker->finished)) continue;
    const cj_error *error = cj_worker_error(worker->worker);
    if (error)
      w->error = name_worker(error, worker->index);
    else if (!w->stopping)
      w->error =
          cj_error_new(CJ_ERR_INTERNAL, NULL, "worker %d ended without a reason", worker->index);
    if (w->error) begin_stop(w);
  }
}

static void give_up(watch *w) {
  atomic_store(&w->app->given_up, true);
  for (size_t i = 0; i < w->app->run.worker_count; i++) {
    cj_app_worker *worker = &w->app->run.workers[i];
    if (!atomic_load(&worker->finished))
      cj_logf(&w->app->log, CJ_LOG_ERROR,
              "worker %d has not finished within shutdown.timeout.ms and is given up; its thread, "
              "its connection and its stores are leaked",
              worker->index);
  }
  cj_error *late =
      cj_error_new(CJ_ERR_TIMEOUT, "shutdown.timeout.ms",
                   "the workers have not finished within %lld ms; a callback that does "
                   "not return holds its worker up",
                   (long long)w->app->settings.shutdown_timeout_ms);
  w->error = w->error ? cj_error_under(late, w->error) : late;
}

static void sleep_until_woken(const watch *w) {
  int64_t nap = w->app->settings.stop_at_end && !w->stopping ? AT_END_MS : LONGEST_NAP;
  int64_t left = w->stopping ? w->give_up_at - cj_monotonic_ms() : nap;
  struct pollfd fd = {.fd = w->app->wake_fd, .events = POLLIN};
  if (poll(&fd, 1, (int)(left < 0 ? 0 : left < nap ? left : nap)) <= 0) return;
  uint64_t count;
  ssize_t got = read(w->app->wake_fd, &count, sizeof count);
  (void)got;
}

static void watch_until_finished(watch *w) {
  cj_app *app = w->app;
  while (!all_finished(app)) {
    sleep_until_woken(w);
    look_at_workers(w);
    if (atomic_load(&app->stop_asked)) begin_stop(w);
    if (!w->stopping && cj_app_get_state(app) == CJ_APP_STARTING && all_assigned(app))
      cj_app_set_state(app, CJ_APP_RUNNING);
    if (!w->stopping && app->settings.stop_at_end &&
        cj_app_at_end_reached(app, cj_monotonic_ms())) {
      cj_logf(&app->log, CJ_LOG_INFO, "every input was read to its end: stopping");
      begin_stop(w);
    }
    if (w->stopping && cj_monotonic_ms() >= w->give_up_at) {
      give_up(w);
      return;
    }
  }
  look_at_workers(w);
}

/* What belongs to a worker that was given up stays, and with it the stores that it may hold. */
static void clear(cj_app *app) {
  bool whole = !atomic_load(&app->given_up);
  for (size_t i = 0; i < app->run.worker_count; i++) {
    cj_app_worker *worker = &app->run.workers[i];
    if (whole || atomic_load(&worker->finished)) pthread_join(worker->thread, NULL);
  }
  if (!whole) return;
  cj_app_snapshot snapshot = {0};
  cj_app_snapshot_take(&snapshot, &app->run);
  pthread_rwlock_wrlock(&app->run_lock);
  cj_app_parts run = app->run;
  app->run = (cj_app_parts){0};
  app->last = snapshot;
  pthread_rwlock_unlock(&app->run_lock);
  cj_app_parts_free(&run);
  cj_app_at_end_free(app);
}

void *cj_app_supervisor_main(void *arg) {
  cj_app *app = arg;
  watch w = {.app = app};
  watch_until_finished(&w);
  clear(app);
  if (w.error)
    cj_logf(&app->log, CJ_LOG_ERROR, "application %s failed: %s", app->settings.application_id,
            cj_error_text(w.error));
  cj_app_set_state(app, w.error ? CJ_APP_FAILED : CJ_APP_STOPPED);
  cj_app_end(app, w.error);
  return NULL;
}
