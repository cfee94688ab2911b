/* SPDX-License-Identifier: BSD-2-Clause */
/* The application up to the point where it would join its group. */
#include "lib/app_fixture.h"
#include "lib/mock_cluster.h"

#include <sys/time.h>

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
  cj_error *error = cj_app_start(f->app);
  int64_t took = now_ms() - begun;
  setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
  sigaction(SIGALRM, &before, NULL);
  assert_no_error(error);
  assert_in_range(took, 250, 5000);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      APP_TEST(test_new_refuses),
      APP_TEST(test_new_without_memory),
      APP_TEST(test_older_options),
      APP_TEST(test_broker_down),
      APP_TEST(test_stop_during_the_checklist),
      APP_TEST(test_different_counts_refuse_the_start),
      APP_TEST(test_missing_topic_refuses_and_is_not_made),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
