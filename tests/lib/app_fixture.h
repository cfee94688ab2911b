/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of the application whole, threads and all, on librdkafka's mock cluster: the join of
 * notif with price, and callbacks that look at how they are called. */
#ifndef CJ_TEST_APP_FIXTURE_H
#define CJ_TEST_APP_FIXTURE_H

#include "lib/unit.h"

#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "lib/mock_cluster.h"
#include "lib/topologies.h"

#include <cojoin/cojoin.h>

/* ---- what a test stands on ---- */

typedef struct {
  mock_cluster mock;
  cj_config *config;
  cj_plan *plan;
  cj_app *app;
  char dir[64];
  /* What the callbacks saw; they come one at a time. */
  atomic_int inside;
  atomic_bool overlapped;
  cj_app_state states[16];
  size_t state_count;
  atomic_int reports, rebalances, running;
  atomic_int wrong_signals;
} fixture;

static inline int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw) {
  (void)st;
  (void)type;
  (void)ftw;
  return remove(path);
}

static inline void enter(fixture *f) {
  if (atomic_fetch_add(&f->inside, 1) != 0) atomic_store(&f->overlapped, true);
}

static inline void leave(fixture *f) {
  atomic_fetch_sub(&f->inside, 1);
}

static inline void on_log(void *user, cj_log_level level, const char *line) {
  /* For a person who looks into a failure. */
  if (getenv("COJOIN_TEST_LOG")) fprintf(stderr, "%d %s\n", (int)level, line);
  enter(user);
  leave(user);
}

/* The library's threads take no signals: a handler would run on one of them. */
static inline void look_at_signals(fixture *f) {
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  if (!sigismember(&blocked, SIGTERM)) atomic_fetch_add(&f->wrong_signals, 1);
}

static inline void on_state(void *user, cj_app_state from, cj_app_state to) {
  fixture *f = user;
  enter(f);
  if (f->state_count && f->states[f->state_count - 1] != from) atomic_store(&f->overlapped, true);
  if (f->state_count < 16) f->states[f->state_count++] = to;
  if (to == CJ_APP_STOPPING) look_at_signals(f);
  leave(f);
}

static inline void on_rebalance(void *user, const cj_rebalance *event) {
  fixture *f = user;
  enter(f);
  atomic_fetch_add(&f->rebalances, 1);
  look_at_signals(f);
  if (event->event == CJ_TASK_RUNNING) atomic_fetch_add(&f->running, 1);
  leave(f);
}

static inline void on_report(void *user, const cj_report *report) {
  fixture *f = user;
  enter(f);
  if (cj_report_verdict(report) != CJ_HOLDS) atomic_fetch_add(&f->reports, 1);
  /* Metrics may be asked for in any callback. */
  if (f->app && cj_app_metric(f->app, "records_in", NULL) != 0) atomic_store(&f->overlapped, true);
  leave(f);
}

static inline void set(fixture *f, const char *name, const char *value) {
  assert_no_error(cj_config_set(f->config, name, value));
}

static inline int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  mock_cluster_init(&f->mock);
  snprintf(f->dir, sizeof f->dir, "/tmp/cojoin-test-app-XXXXXX");
  assert_non_null(mkdtemp(f->dir));
  f->config = cj_config_new();
  assert_non_null(f->config);
  set(f, "application.id", "test-app");
  set(f, "bootstrap.servers", f->mock.servers);
  set(f, "state.dir", f->dir);
  set(f, "check.timeout.ms", "10000");
  set(f, "request.timeout.ms", "2000");
  set(f, "commit.interval.ms", "100");
  set(f, "rd.session.timeout.ms", "4000"); /* the mock forgets who waits for longer */
  set(f, "rd.heartbeat.interval.ms", "200");
  set(f, "rd.fetch.wait.max.ms", "20");
  *state = f;
  return 0;
}

static inline int teardown(void **state) {
  fixture *f = *state;
  cj_app_destroy(f->app);
  cj_plan_destroy(f->plan);
  cj_config_destroy(f->config);
  mock_cluster_free(&f->mock);
  nftw(f->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
  free(f);
  return 0;
}

/* notif joined with price, to alerts. */
static inline cj_plan *plan_with(cj_join_fn *join, void *user) {
  cj_topology *topology = cj_topology_new();
  cj_stream *notif = cj_topology_stream(topology, "notif", NULL);
  cj_table *price = cj_topology_table(topology, "price", NULL);
  const cj_node node = {.name = "alert", .user = user};
  cj_stream_to(cj_stream_join(notif, price, join, &node), "alerts", NULL);
  cj_plan *plan = NULL;
  assert_no_error(cj_topology_build(topology, &plan));
  return plan;
}

static inline void make(fixture *f) {
  const cj_app_options options = {.user = f,
                                  .on_log = on_log,
                                  .on_state = on_state,
                                  .on_rebalance = on_rebalance,
                                  .on_report = on_report};
  if (!f->plan) f->plan = plan_with(value_and_row, NULL);
  assert_no_error(cj_app_new(f->plan, f->config, &options, &f->app));
  f->plan = NULL;
}

static inline void topics(fixture *f, int notif, int price) {
  mock_topic(&f->mock, "notif", notif);
  mock_topic(&f->mock, "price", price);
  mock_topic(&f->mock, "alerts", 2);
}

static inline void expect(cj_error *error, cj_code code, const char *says) {
  assert_non_null(error);
  if (cj_error_code(error) != code || !strstr(cj_error_text(error), says))
    fail_msg("%s, wanted %s with \"%s\"", cj_error_text(error), cj_code_name(code), says);
  cj_error_destroy(error);
}

/* Whether RUNNING was reached before the end of short inputs is left to the group. */
static inline void expect_states(const fixture *f, const cj_app_state *states, size_t count) {
  size_t n = 0;
  for (size_t i = 0; i < f->state_count; i++) {
    if (f->states[i] == CJ_APP_RUNNING) continue;
    assert_true(n < count);
    assert_string_equal(cj_app_state_name(f->states[i]), cj_app_state_name(states[n++]));
  }
  assert_int_equal(n, count);
  assert_false(atomic_load(&f->overlapped));
}

static inline int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline void expect_waiting(fixture *f, int64_t ms) {
  int64_t begun = now_ms();
  expect(cj_app_wait(f->app, ms), CJ_ERR_TIMEOUT, "still");
  assert_true(now_ms() - begun >= ms);
}

#define APP_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

#endif
