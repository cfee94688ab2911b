/* SPDX-License-Identifier: BSD-2-Clause */
/* The application whole, threads and all, on librdkafka's mock cluster. A group takes seconds to
 * form there, so few tests go as far as that. */
#include "lib/unit.h"

#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
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

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw) {
  (void)st;
  (void)type;
  (void)ftw;
  return remove(path);
}

static void enter(fixture *f) {
  if (atomic_fetch_add(&f->inside, 1) != 0) atomic_store(&f->overlapped, true);
}

static void leave(fixture *f) {
  atomic_fetch_sub(&f->inside, 1);
}

static void on_log(void *user, cj_log_level level, const char *line) {
  /* For a person who looks into a failure. */
  if (getenv("COJOIN_TEST_LOG")) fprintf(stderr, "%d %s\n", (int)level, line);
  enter(user);
  leave(user);
}

/* The library's threads take no signals: a handler would run on one of them. */
static void look_at_signals(fixture *f) {
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  if (!sigismember(&blocked, SIGTERM)) atomic_fetch_add(&f->wrong_signals, 1);
}

static void on_state(void *user, cj_app_state from, cj_app_state to) {
  fixture *f = user;
  enter(f);
  if (f->state_count && f->states[f->state_count - 1] != from) atomic_store(&f->overlapped, true);
  if (f->state_count < 16) f->states[f->state_count++] = to;
  if (to == CJ_APP_STOPPING) look_at_signals(f);
  leave(f);
}

static void on_rebalance(void *user, const cj_rebalance *event) {
  fixture *f = user;
  enter(f);
  atomic_fetch_add(&f->rebalances, 1);
  look_at_signals(f);
  if (event->event == CJ_TASK_RUNNING) atomic_fetch_add(&f->running, 1);
  leave(f);
}

static void on_report(void *user, const cj_report *report) {
  fixture *f = user;
  enter(f);
  if (cj_report_verdict(report) != CJ_HOLDS) atomic_fetch_add(&f->reports, 1);
  /* Metrics may be asked for in any callback. */
  if (f->app && cj_app_metric(f->app, "records_in", NULL) != 0) atomic_store(&f->overlapped, true);
  leave(f);
}

static void set(fixture *f, const char *name, const char *value) {
  assert_no_error(cj_config_set(f->config, name, value));
}

static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  mock_cluster_init(&f->mock);
  strcpy(f->dir, "/tmp/cojoin-test-app-XXXXXX");
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

static int teardown(void **state) {
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
static cj_plan *plan_with(cj_join_fn *join, void *user) {
  cj_topology *topology = cj_topology_new();
  cj_stream *notif = cj_topology_stream(topology, "notif", NULL);
  cj_table *price = cj_topology_table(topology, "price", NULL);
  const cj_node node = {.name = "alert", .user = user};
  cj_stream_to(cj_stream_join(notif, price, join, &node), "alerts", NULL);
  cj_plan *plan = NULL;
  assert_no_error(cj_topology_build(topology, &plan));
  return plan;
}

static void make(fixture *f) {
  const cj_app_options options = {.user = f,
                                  .on_log = on_log,
                                  .on_state = on_state,
                                  .on_rebalance = on_rebalance,
                                  .on_report = on_report};
  if (!f->plan) f->plan = plan_with(value_and_row, NULL);
  assert_no_error(cj_app_new(f->plan, f->config, &options, &f->app));
  f->plan = NULL;
}

static void topics(fixture *f, int notif, int price) {
  mock_topic(&f->mock, "notif", notif);
  mock_topic(&f->mock, "price", price);
  mock_topic(&f->mock, "alerts", 2);
}

static void expect(cj_error *error, cj_code code, const char *says) {
  assert_non_null(error);
  if (cj_error_code(error) != code || !strstr(cj_error_text(error), says))
    fail_msg("%s, wanted %s with \"%s\"", cj_error_text(error), cj_code_name(code), says);
  cj_error_destroy(error);
}

/* Whether RUNNING was reached before the end of short inputs is left to the group. */
static void expect_states(const fixture *f, const cj_app_state *states, size_t count) {
  size_t n = 0;
  for (size_t i = 0; i < f->state_count; i++) {
    if (f->states[i] == CJ_APP_RUNNING) continue;
    assert_true(n < count);
    assert_string_equal(cj_app_state_name(f->states[i]), cj_app_state_name(states[n++]));
  }
  assert_int_equal(n, count);
  assert_false(atomic_load(&f->overlapped));
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void expect_waiting(fixture *f, int64_t ms) {
  int64_t begun = now_ms();
  expect(cj_app_wait(f->app, ms), CJ_ERR_TIMEOUT, "still");
  assert_true(now_ms() - begun >= ms);
}

/* ---- without a broker ---- */

static void test_new_refuses(void **state) {
  fixture *f = *state;
  f->plan = plan_with(value_and_row, NULL);
  const cj_app_options options = {.user = f};
  cj_app *app = NULL;
  set(f, "anchor", "volume");
  expect(cj_app_new(f->plan, f->config, &options, &app), CJ_ERR_CONFIG, "anchor: volume");
  set(f, "anchor", "alerts"); /* a sink: nobody deals it */
  expect(cj_app_new(f->plan, f->config, &options, &app), CJ_ERR_CONFIG, "anchor: alerts");
  set(f, "anchor", "price");
  set(f, "errors.dead.letter.topic", "price");
  expect(cj_app_new(f->plan, f->config, &options, &app), CJ_ERR_CONFIG, "round in circles");
  set(f, "errors.dead.letter.topic", "");
  set(f, "assignment", "sticky");
  expect(cj_app_new(f->plan, f->config, &options, &app), CJ_ERR_UNSUPPORTED, "sticky");
  set(f, "assignment", "range");
  expect(cj_app_new(NULL, f->config, &options, &app), CJ_ERR_ARGUMENT, "plan");
  cj_config *bare = cj_config_new();
  assert_no_error(cj_config_set(bare, "application.id", "a"));
  expect(cj_app_new(f->plan, bare, &options, &app), CJ_ERR_CONFIG, "bootstrap.servers");
  cj_config_destroy(bare);
  assert_null(app);
  make(f); /* the plan stayed ours through all of it */
  assert_int_equal(cj_app_get_state(f->app), CJ_APP_CREATED);
  expect(cj_app_wait(f->app, 0), CJ_ERR_STATE, "not started");
}

/* Whatever allocation fails: an error, no leak, and the plan stays the caller's. */
static void test_new_without_memory(void **state) {
  fixture *f = *state;
  f->plan = plan_with(value_and_row, NULL);
  for (long n = 0; !f->app; n++) {
    cj_alloc_fail_after(n);
    cj_error *error = cj_app_new(f->plan, f->config, NULL, &f->app);
    cj_alloc_fail_after(-1);
    if (error) assert_int_equal(cj_error_code(error), CJ_ERR_NO_MEMORY);
    assert_true((error == NULL) == (f->app != NULL));
    cj_error_destroy(error);
    assert_true(n < 10000);
  }
  f->plan = NULL;
}

/* A program built against an older header has a smaller options struct. */
static void test_older_options(void **state) {
  fixture *f = *state;
  f->plan = plan_with(value_and_row, NULL);
  const cj_app_options options = {.user = f, .on_report = on_report};
  assert_no_error(
      cj_app_new_sized(f->plan, f->config, &options, offsetof(cj_app_options, on_report), &f->app));
  f->plan = NULL;
  topics(f, 2, 2);
  cj_report *report = NULL;
  assert_no_error(cj_app_check(f->app, &report));
  cj_report_destroy(report);
  assert_int_equal(atomic_load(&f->reports), 0);
}

static void test_broker_down(void **state) {
  fixture *f = *state;
  set(f, "bootstrap.servers", "127.0.0.1:1");
  set(f, "check.timeout.ms", "700");
  make(f);
  int64_t begun = now_ms();
  cj_error *error = cj_app_start(f->app);
  assert_in_range(now_ms() - begun, 600, 5000);
  expect(error, CJ_ERR_BROKER, "127.0.0.1:1");
  assert_int_equal(cj_app_get_state(f->app), CJ_APP_FAILED);
  for (int i = 0; i < 2; i++) /* the same error each time */
    expect(cj_app_wait(f->app, -1), CJ_ERR_BROKER, "127.0.0.1:1");
}

static cj_app *alarmed;

static void on_alarm(int number) {
  (void)number;
  cj_app_stop(alarmed);
}

/* From a signal handler, while the only thread is in cj_app_start. */
static void test_stop_during_the_checklist(void **state) {
  fixture *f = *state;
  set(f, "bootstrap.servers", "127.0.0.1:1");
  make(f);
  alarmed = f->app;
  struct sigaction action = {.sa_handler = on_alarm}, before;
  sigaction(SIGALRM, &action, &before);
  setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_usec = 300000}}, NULL);
  int64_t begun = now_ms();
  assert_no_error(cj_app_start(f->app));
  assert_in_range(now_ms() - begun, 250, 3000);
  sigaction(SIGALRM, &before, NULL);
  assert_int_equal(cj_app_get_state(f->app), CJ_APP_STOPPED);
  assert_no_error(cj_app_wait(f->app, -1));
  expect(cj_app_start(f->app), CJ_ERR_STATE, "stopped");
}

/* ---- the checklist ---- */

static void test_different_counts_refuse_the_start(void **state) {
  fixture *f = *state;
  topics(f, 6, 4);
  make(f);
  cj_report *report = NULL;
  assert_no_error(cj_app_check(f->app, &report));
  assert_int_equal(cj_report_point(report, CJ_POINT_PARTITION_COUNT), CJ_BROKEN);
  cj_report_destroy(report);
  cj_error *error = cj_app_start(f->app);
  assert_non_null(cj_error_report(error));
  expect(error, CJ_ERR_NOT_COPARTITIONED, "notif has 6 partitions, price has 4 partitions");
  expect(cj_app_start(f->app), CJ_ERR_NOT_COPARTITIONED, "6"); /* it may be tried again */
  const cj_app_state states[] = {CJ_APP_CHECKING, CJ_APP_FAILED, CJ_APP_CHECKING, CJ_APP_FAILED};
  expect_states(f, states, 4);
  assert_int_equal(atomic_load(&f->rebalances), 0);
  assert_int_equal(cj_app_metric(f->app, "records_in", NULL), 0);
  assert_int_equal(rmdir(f->dir), 0); /* and nothing was written to the disk */
}

static void test_missing_topic_refuses_and_is_not_made(void **state) {
  fixture *f = *state;
  mock_topic(&f->mock, "notif", 2);
  mock_topic(&f->mock, "prices", 2);
  mock_topic(&f->mock, "alerts", 2);
  make(f);
  expect(cj_app_start(f->app), CJ_ERR_TOPIC_MISSING,
         "price: the topic does not exist; the nearest names are: prices");
  assert_false(mock_has_topic(&f->mock, "price"));
}

/* ---- running ---- */

static void produce_pairs(fixture *f, int count) {
  mock_record *records = calloc((size_t)count * 2, sizeof *records);
  char(*keys)[16] = calloc((size_t)count, sizeof *keys);
  assert_true(records && keys);
  for (int i = 0; i < count; i++) {
    snprintf(keys[i], sizeof keys[i], "key-%d", i);
    records[i] = (mock_record){"price", keys[i], "row", 1000};
    records[count + i] = (mock_record){"notif", keys[i], keys[i], 2000};
  }
  mock_produce(&f->mock, records, (size_t)count * 2);
  free(records);
  free(keys);
}

static bool of_price_position(void *user, const cj_metric *metric) {
  if (strcmp(metric->name, "position") == 0 && strcmp(metric->topic, "price") == 0)
    *(int64_t *)user += metric->value;
  return true;
}

static void test_stop_at_end(void **state) {
  fixture *f = *state;
  topics(f, 3, 3);
  produce_pairs(f, 100);
  set(f, "threads", "2");
  set(f, "stop.at.end", "true");
  make(f);
  assert_no_error(cj_app_start(f->app));
  expect(cj_app_start(f->app), CJ_ERR_STATE, "started before");
  cj_error *error = cj_app_wait(f->app, 60000);
  assert_no_error(error);
  const cj_app_state states[] = {CJ_APP_CHECKING, CJ_APP_STARTING, CJ_APP_STOPPING, CJ_APP_STOPPED};
  expect_states(f, states, 4);
  assert_int_equal(atomic_load(&f->wrong_signals), 0);
  assert_int_equal(atomic_load(&f->reports), 1); /* points 2 and 3 are unverified */
  assert_true(atomic_load(&f->running) >= 3);
  char outputs[128][64];
  assert_int_equal(mock_read(&f->mock, "alerts", 2, outputs, 128), 100);
  for (int i = 0; i < 100; i++) { /* key=key+row */
    char *value = strchr(outputs[i], '=');
    assert_non_null(value);
    *value++ = '\0';
    size_t len = strlen(outputs[i]);
    assert_int_equal(strncmp(value, outputs[i], len), 0);
    assert_string_equal(value + len, "+row");
  }
  /* The counters outlive the workers. */
  assert_int_equal(cj_app_metric(f->app, "records_in", NULL), 200);
  assert_int_equal(cj_app_metric(f->app, "joined", NULL), 100);
  assert_int_equal(cj_app_metric(f->app, "missed", NULL), 0);
  assert_no_error(cj_app_wait(f->app, 0));
}

/* Two processes of one application: each reads a part, and knows from the group that the other has
 * read the rest. */
static void test_stop_at_the_end_of_what_others_own(void **state) {
  fixture *f = *state;
  topics(f, 4, 4);
  produce_pairs(f, 40);
  set(f, "stop.at.end", "true");
  set(f, "store", "memory");
  make(f);
  char other_dir[96];
  snprintf(other_dir, sizeof other_dir, "%s/other", f->dir);
  set(f, "state.dir", other_dir); /* or the process ids would be the same */
  cj_app *other = NULL;
  cj_plan *plan = plan_with(value_and_row, NULL);
  assert_no_error(cj_app_new(plan, f->config, NULL, &other));
  assert_no_error(cj_app_start(f->app));
  assert_no_error(cj_app_start(other));
  assert_no_error(cj_app_wait(f->app, 60000));
  assert_no_error(cj_app_wait(other, 60000));
  int64_t here = cj_app_metric(f->app, "joined", NULL),
          there = cj_app_metric(other, "joined", NULL);
  assert_true(here > 0 && there > 0);
  assert_int_equal(here + there, 40);
  cj_app_destroy(other);
}

static void wait_for(fixture *f, const char *metric, int64_t value) {
  int64_t until = now_ms() + 60000;
  while (cj_app_metric(f->app, metric, NULL) < value) {
    if (now_ms() > until || cj_app_get_state(f->app) == CJ_APP_FAILED)
      fail_msg("%s is %lld in state %s, not %lld", metric,
               (long long)cj_app_metric(f->app, metric, NULL),
               cj_app_state_name(cj_app_get_state(f->app)), (long long)value);
    expect(cj_app_wait(f->app, 20), CJ_ERR_TIMEOUT, "");
  }
}

static cj_read get(fixture *f, const char *key, cj_buf *copy) {
  return cj_app_get(f->app, "price", cj_bytes_str(key), copy);
}

static void test_read_and_stop(void **state) {
  fixture *f = *state;
  topics(f, 2, 2);
  produce_pairs(f, 10);
  make(f);
  cj_buf copy = CJ_BUF_INIT;
  assert_int_equal(get(f, "key-1", &copy), CJ_READ_NOT_LOCAL); /* not started */
  assert_no_error(cj_app_start(f->app));
  wait_for(f, "joined", 10);
  int64_t until = now_ms() + 30000; /* seen once committed */
  while (get(f, "key-1", &copy) != CJ_READ_FOUND)
    assert_true(now_ms() < until);
  assert_true(cj_bytes_equal(cj_buf_bytes(&copy), cj_bytes_str("row")));
  assert_int_equal(get(f, "key-99", &copy), CJ_READ_ABSENT);
  assert_int_equal(cj_app_get(f->app, "price", cj_bytes_null(), &copy), CJ_READ_ABSENT);
  assert_int_equal(cj_app_get(f->app, "notif", cj_bytes_str("key-1"), &copy), CJ_READ_FAILED);
  assert_int_equal(cj_app_get(f->app, "nothing", cj_bytes_str("key-1"), &copy), CJ_READ_FAILED);
  int64_t position = 0;
  cj_app_metrics(f->app, of_price_position, &position);
  assert_int_equal(position, 10);
  assert_int_equal(cj_app_metric(f->app, "workers", NULL), 1);
  expect_waiting(f, 50);
  cj_app_stop(f->app);
  cj_app_stop(f->app); /* again is fine */
  assert_no_error(cj_app_wait(f->app, 30000));
  assert_int_equal(get(f, "key-1", &copy), CJ_READ_NOT_LOCAL);
  cj_buf_free(&copy);
}

static cj_verdict fail_on_key_7(cj_ctx *ctx, const cj_record *record, const cj_row *row,
                                cj_buf *value) {
  if (cj_bytes_equal(record->key, cj_bytes_str("key-7"))) return cj_ctx_fail(ctx, "seven");
  return value_and_row(ctx, record, row, value);
}

/* One worker fails, the other is stopped with it, and the error says which it was. */
static void test_a_worker_that_fails(void **state) {
  fixture *f = *state;
  topics(f, 4, 4);
  produce_pairs(f, 10);
  f->plan = plan_with(fail_on_key_7, NULL);
  set(f, "threads", "2");
  make(f);
  assert_no_error(cj_app_start(f->app));
  cj_error *error = cj_app_wait(f->app, 60000);
  assert_non_null(error);
  ASSERT_MENTIONS(cj_error_text(error), "seven", "notif", "worker ");
  expect(error, CJ_ERR_PROCESS, "(worker ");
  expect(cj_app_wait(f->app, 0), CJ_ERR_PROCESS, "seven");
  assert_int_equal(cj_app_get_state(f->app), CJ_APP_FAILED);
  assert_int_equal(f->states[f->state_count - 2], CJ_APP_STOPPING);
}

static atomic_bool release, stuck;

static cj_verdict hang(cj_ctx *ctx, const cj_record *record, const cj_row *row, cj_buf *value) {
  atomic_store(&stuck, true);
  while (!atomic_load(&release))
    usleep(1000);
  return value_and_row(ctx, record, row, value);
}

static cj_app *leaked; /* reachable: the leak is the documented one */

/* A callback that does not return holds up neither the wait nor the destroy. */
static void test_a_callback_that_hangs(void **state) {
  fixture *f = *state;
  topics(f, 1, 1);
  produce_pairs(f, 1);
  f->plan = plan_with(hang, NULL);
  set(f, "shutdown.timeout.ms", "100");
  make(f);
  assert_no_error(cj_app_start(f->app));
  int64_t until = now_ms() + 30000;
  while (!atomic_load(&stuck)) {
    assert_true(now_ms() < until);
    expect(cj_app_wait(f->app, 20), CJ_ERR_TIMEOUT, "");
  }
  cj_app_stop(f->app);
  int64_t begun = now_ms();
  expect(cj_app_wait(f->app, 60000), CJ_ERR_TIMEOUT, "a callback that does not return");
  assert_true(now_ms() - begun < 20000);
  leaked = f->app;
  f->app = NULL;
  begun = now_ms();
  cj_app_destroy(leaked);
  assert_true(now_ms() - begun < 1000);
  size_t told = f->state_count;
  atomic_store(&release, true); /* the thread comes back to an application that is gone */
  usleep(200000);
  assert_int_equal(f->state_count, told);
}

#define APP_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      APP_TEST(test_new_refuses),
      APP_TEST(test_new_without_memory),
      APP_TEST(test_older_options),
      APP_TEST(test_broker_down),
      APP_TEST(test_stop_during_the_checklist),
      APP_TEST(test_different_counts_refuse_the_start),
      APP_TEST(test_missing_topic_refuses_and_is_not_made),
      APP_TEST(test_stop_at_end),
      APP_TEST(test_stop_at_the_end_of_what_others_own),
      APP_TEST(test_read_and_stop),
      APP_TEST(test_a_worker_that_fails),
      APP_TEST(test_a_callback_that_hangs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
