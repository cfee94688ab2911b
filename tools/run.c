/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/run.h"

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PROGRESS_MS 1000

bool tool_need_brokers(const tool_common *common, const cj_config *config) {
  const char *brokers = cj_config_get(config, "bootstrap.servers");
  if (brokers && *brokers != '\0') return true;
  tool_usage(common, "no brokers: give -b HOST:PORT, or bootstrap.servers with -X or -F");
  return false;
}

/* ---- signals ---- */
static cj_app *_Atomic signalled_app;
static volatile sig_atomic_t signals;

static void on_signal(int number) {
  (void)number;
  if (signals++ > 0) _exit(TOOL_FAILED);
  cj_app *app = atomic_load(&signalled_app);
  if (app) cj_app_stop(app);
}

static void catch_signals(cj_app *app) {
  atomic_store(&signalled_app, app);
  struct sigaction action = {.sa_handler = on_signal};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

/* ---- what is said ---- */
static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

typedef struct {
  double at;
  int64_t in;
} sample;

static void show_progress(cj_app *app, sample *last) {
  sample now = {seconds(), cj_app_metric(app, "records_in", NULL)};
  double rate = now.at > last->at ? (double)(now.in - last->in) / (now.at - last->at) : 0;
  tool_progress("%s: %" PRId64 " in (%.0f/s), %" PRId64 " joined, %" PRId64 " missed, lag %" PRId64,
                cj_app_state_name(cj_app_get_state(app)), now.in, rate,
                cj_app_metric(app, "joined", NULL), cj_app_metric(app, "missed", NULL),
                cj_app_metric(app, "lag", NULL));
  *last = now;
}

/* Dropped records by reason, summed over topics and partitions. */
typedef struct {
  struct {
    const char *reason;
    int64_t value;
  } rows[32];
  size_t count;
  int64_t total;
} drops;

static bool add_drop(void *user, const cj_metric *metric) {
  drops *all = user;
  if (strcmp(metric->name, "dropped") != 0 || metric->value == 0) return true;
  all->total += metric->value;
  const char *reason = metric->reason ? metric->reason : "other";
  size_t i = 0;
  while (i < all->count && strcmp(all->rows[i].reason, reason) != 0)
    i++;
  if (i == sizeof all->rows / sizeof *all->rows) return true;
  if (i == all->count) {
    all->rows[i].reason = reason;
    all->rows[i].value = 0;
    all->count++;
  }
  all->rows[i].value += metric->value;
  return true;
}

static void show_summary(cj_app *app, double elapsed) {
  drops dropped = {0};
  cj_app_metrics(app, add_drop, &dropped);
  int64_t in = cj_app_metric(app, "records_in", NULL);
  tool_note("records in: %" PRId64 " (%.1f s, %.0f/s)", in, elapsed,
            elapsed > 0 ? (double)in / elapsed : 0);
  tool_note("joined: %" PRId64, cj_app_metric(app, "joined", NULL));
  tool_note("missed: %" PRId64, cj_app_metric(app, "missed", NULL));
  tool_note("dropped: %" PRId64, dropped.total);
  for (size_t i = 0; i < dropped.count; i++)
    tool_note("  %s: %" PRId64, dropped.rows[i].reason, dropped.rows[i].value);
}

/* ---- running ---- */
static bool is_over(const cj_app *app) {
  cj_app_state state = cj_app_get_state(app);
  return state == CJ_APP_STOPPED || state == CJ_APP_FAILED;
}

/* A time-out of the wait and one that ended the application have the same code: its state tells
 * them apart. */
static cj_error *wait_for_end(cj_app *app, bool progress) {
  sample last = {seconds(), 0};
  for (;;) {
    cj_error *error = cj_app_wait(app, PROGRESS_MS);
    if (!error || cj_error_code(error) != CJ_ERR_TIMEOUT || is_over(app)) {
      tool_progress("%s", "");
      return error;
    }
    cj_error_destroy(error);
    if (progress) show_progress(app, &last);
  }
}

static cj_error *run_app(cj_app *app, bool progress) {
  cj_error *error = cj_app_start(app);
  if (error) {
    /* Asked to stop while it still started: that is not a failure. */
    if (signals == 0) return error;
    cj_error_destroy(error);
    return NULL;
  }
  double start = seconds();
  error = wait_for_end(app, progress);
  show_summary(app, seconds() - start);
  return error;
}

tool_exit tool_run(cj_plan *plan, const cj_config *config, bool progress) {
  cj_app_options options = {.on_log = tool_on_log};
  cj_app *app = NULL;
  cj_error *error = cj_app_new(plan, config, &options, &app);
  if (error) {
    cj_plan_destroy(plan);
    tool_exit refused = tool_exit_of(error);
    tool_report_error(error);
    return refused;
  }
  catch_signals(app);
  error = run_app(app, progress && tool_get_verbosity() == TOOL_NORMAL);
  tool_exit code = tool_exit_of(error);
  if (error) tool_report_error(error);
  atomic_store(&signalled_app, NULL);
  cj_app_destroy(app);
  return code;
}
