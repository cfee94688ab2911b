/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "runtime/app_internal.h"

/* Beyond shutdown.timeout.ms: what the supervisor itself takes to close what it can. */
#define DESTROY_MARGIN_MS 20000

/* ---- making ---- */

/* What a topology and a configuration have to agree on, before anything is connected. */
static cj_error *check_against_plan(const cj_plan *plan, const cj_settings *settings) {
  if (!settings->bootstrap_servers)
    return cj_error_new(CJ_ERR_CONFIG, "bootstrap.servers",
                        "it is required: the host:port of one broker or more");
  int anchor = cj_plan_find_topic(plan, settings->anchor);
  if (settings->anchor[0] && (anchor < 0 || (size_t)anchor >= plan->input_count))
    return cj_error_new(CJ_ERR_CONFIG, "anchor", "%s is not a topic that this topology reads",
                        settings->anchor);
  int dead = cj_plan_find_topic(plan, settings->dead_letter_topic);
  if (settings->dead_letter_topic[0] && dead >= 0 && (size_t)dead < plan->input_count)
    return cj_error_new(CJ_ERR_CONFIG, "errors.dead.letter.topic",
                        "%s is read by this topology: its bad records would go round in circles",
                        settings->dead_letter_topic);
  return NULL;
}

static cj_error *init_locks(cj_app *app) {
  pthread_mutexattr_t recursive;
  pthread_condattr_t monotonic;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&app->callbacks, &recursive);
  pthread_mutexattr_destroy(&recursive);
  pthread_mutex_init(&app->lock, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&app->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  pthread_rwlock_init(&app->run_lock, NULL);
  app->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (app->wake_fd < 0) return cj_error_errno(errno, NULL, "eventfd failed");
  return NULL;
}

static void free_app(cj_app *app) {
  if (app->wake_fd >= 0) close(app->wake_fd);
  pthread_rwlock_destroy(&app->run_lock);
  pthread_cond_destroy(&app->changed);
  pthread_mutex_destroy(&app->lock);
  pthread_mutex_destroy(&app->callbacks);
  cj_app_snapshot_free(&app->last);
  cj_error_destroy(app->error);
  cj_config_destroy(app->config);
  cj_plan_destroy(app->plan);
  cj_free(app);
}

/* Without the plan, which stays the caller's until all has gone well. NULL: *error is set. */
static cj_app *new_app(const cj_plan *plan, const cj_config *config, cj_error **error) {
  cj_app *app = cj_alloc(sizeof *app);
  if (!app) {
    *error = cj_error_no_memory();
    return NULL;
  }
  *error = init_locks(app);
  app->config = cj_config_copy(config);
  if (!*error && !app->config) *error = cj_error_no_memory();
  if (!*error) *error = cj_config_settings(app->config, &app->settings);
  if (!*error) *error = check_against_plan(plan, &app->settings);
  if (!*error) return app;
  free_app(app);
  return NULL;
}

cj_error *cj_app_new_sized(cj_plan *plan, const cj_config *config, const cj_app_options *options,
                           size_t size, cj_app **out) {
  if (!plan || !config || !out)
    return cj_error_new(CJ_ERR_ARGUMENT, NULL,
                        "cj_app_new takes a plan, a config and a place for the application");
  cj_error *error = NULL;
  cj_app *app = *out = new_app(plan, config, &error);
  if (!app) return error;
  app->plan = plan;
  if (options)
    memcpy(&app->options, options, size < sizeof app->options ? size : sizeof app->options);
  app->log = (cj_log){.user = app, .level = app->settings.log_level, .line = cj_app_log_line};
  return NULL;
}

/* ---- life ---- */

int64_t cj_monotonic_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void cj_app_wake(cj_app *app) {
  /* Full means that a wake-up is there already. errno is the interrupted code's. */
  int before = errno;
  ssize_t written = write(app->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
  (void)written;
  errno = before;
}

void cj_app_stop(cj_app *app) {
  if (!app) return;
  atomic_store(&app->stop_asked, true);
  cj_app_wake(app);
}

void cj_app_end(cj_app *app, cj_error *error) {
  pthread_mutex_lock(&app->lock);
  cj_error_destroy(app->error);
  app->error = error;
  app->ended = true;
  pthread_cond_broadcast(&app->changed);
  pthread_mutex_unlock(&app->lock);
}

cj_error *cj_app_check(cj_app *app, cj_report **report) {
  if (!app || !report)
    return cj_error_new(CJ_ERR_ARGUMENT, NULL,
                        "cj_app_check takes an application and a place for "
                        "the report");
  *report = NULL;
  cj_check_result result;
  cj_error *error = cj_app_run_check(app, &result, NULL);
  if (error) return error;
  *report = result.report;
  result.report = NULL;
  cj_check_result_free(&result);
  return NULL;
}

/* True if this call is the one that starts. */
static bool begin(cj_app *app) {
  pthread_mutex_lock(&app->lock);
  bool first = !app->started;
  if (first) {
    app->started = true;
    app->ended = false;
    cj_error_destroy(app->error);
    app->error = NULL;
  }
  pthread_mutex_unlock(&app->lock);
  return first;
}

cj_error *cj_app_start(cj_app *app) {
  if (!app) return cj_error_new(CJ_ERR_ARGUMENT, NULL, "cj_app_start takes an application");
  if (!begin(app))
    return cj_error_new(CJ_ERR_STATE, NULL, "the application was started before: it is %s",
                        cj_app_state_name(cj_app_get_state(app)));
  cj_error *error = cj_app_run(app);
  if (app->supervised) return NULL;
  /* No thread runs: it was stopped on the way, or failed, and may be started again then. */
  cj_app_set_state(app, error ? CJ_APP_FAILED : CJ_APP_STOPPED);
  cj_app_end(app, error ? cj_error_copy(error) : NULL);
  pthread_mutex_lock(&app->lock);
  app->started = error == NULL;
  pthread_mutex_unlock(&app->lock);
  return error;
}

/* False when the time was over first. Under the lock. */
static bool wait_for_end(cj_app *app, int64_t timeout_ms) {
  int64_t now = cj_monotonic_ms();
  int64_t until = timeout_ms < 0 || timeout_ms > INT64_MAX - now ? INT64_MAX : now + timeout_ms;
  const struct timespec at = {.tv_sec = (time_t)(until / 1000),
                              .tv_nsec = (long)(until % 1000) * 1000000};
  int result = 0;
  while (!app->ended && result != ETIMEDOUT)
    result = until == INT64_MAX ? pthread_cond_wait(&app->changed, &app->lock)
                                : pthread_cond_timedwait(&app->changed, &app->lock, &at);
  return app->ended;
}

cj_error *cj_app_wait(cj_app *app, int64_t timeout_ms) {
  if (!app) return cj_error_new(CJ_ERR_ARGUMENT, NULL, "cj_app_wait takes an application");
  cj_error *error = NULL;
  pthread_mutex_lock(&app->lock);
  if (!app->started && !app->ended)
    error = cj_error_new(CJ_ERR_STATE, NULL, "the application was not started: call cj_app_start");
  else if (wait_for_end(app, timeout_ms))
    error = cj_error_copy(app->error);
  else
    error = cj_error_new(CJ_ERR_TIMEOUT, NULL, "the application is still %s after %lld ms",
                         cj_app_state_name(cj_app_get_state(app)), (long long)timeout_ms);
  pthread_mutex_unlock(&app->lock);
  return error;
}

cj_app_state cj_app_get_state(const cj_app *app) {
  return atomic_load(&((cj_app *)(uintptr_t)app)->state);
}

/* A worker, or the supervisor, may be held up in a callback of the user's. Such a thread cannot be
 * ended from outside: the application is left to it, leaked, and its callbacks are cut off. */
void cj_app_destroy(cj_app *app) {
  if (!app) return;
  cj_app_stop(app);
  bool over = true;
  if (app->supervised) {
    pthread_mutex_lock(&app->lock);
    over = wait_for_end(app, app->settings.shutdown_timeout_ms + DESTROY_MARGIN_MS);
    pthread_mutex_unlock(&app->lock);
    if (over) pthread_join(app->supervisor, NULL);
  }
  if (over && !atomic_load(&app->given_up)) {
    free_app(app);
    return;
  }
  if (pthread_mutex_trylock(&app->callbacks) != 0) return;
  app->silent = true;
  pthread_mutex_unlock(&app->callbacks);
}
