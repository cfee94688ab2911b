/* SPDX-License-Identifier: BSD-2-Clause */
/* The test driver itself: that it is deterministic, that time is the test's, and that a mistake in
 * a test is told and not passed over. */
#include "lib/alerts.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void time_is_the_tests(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  assert_int_equal(1700000000000, cj_test_now(a.t));
  alerts_run(&a);
  assert_int_equal(1700000000000, cj_test_now(a.t));
  cj_test_advance(a.t, 12345);
  assert_int_equal(1700000012345, cj_test_now(a.t));
  assert_false(cj_test_step(a.t)); /* settled */
  alerts_close(&a);
}

static void missing_sinks_are_made(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 3,
                         WITH("errors.process", "dead_letter", "errors.dead.letter.topic", "dead"));
  alerts_run(&a);
  assert_int_equal(0, cj_test_count(a.t, "alerts", 2));
  assert_int_equal(0, cj_test_count(a.t, "dead", 2));
  alerts_close(&a);
}

static void one_plan_serves_several_tests(void **state) {
  (void)state;
  cj_plan *plan = alerts_plan(INNER, NULL, NULL);
  for (int i = 0; i < 2; i++) {
    cj_test *t = cj_test_new(plan, NULL);
    cj_test_topic(t, "notif", 1);
    cj_test_topic(t, "price", 1);
    cj_test_pipe(t, "price", cj_bytes_str("X"), cj_bytes_str("1"), 1);
    cj_test_pipe(t, "notif", cj_bytes_str("X"), cj_bytes_str("n"), 2);
    assert_null(cj_test_start_member(t, "a"));
    cj_test_settle(t);
    assert_int_equal(1, cj_test_count(t, "alerts", 0));
    cj_test_destroy(t);
  }
  cj_plan_destroy(plan);
}

/* Steps of a run with members that come, crash and come again, in which they are counted. */
static int steps_of_a_run(void) {
  alerts a = alerts_open(INNER, 4, NULL);
  int steps = 0;
  for (int i = 0; i < 100; i++) {
    char key[16];
    snprintf(key, sizeof key, "k%d", i % 10);
    alerts_price(&a, key, "1", i);
    alerts_notif(&a, key, "n", i);
    if (i == 10) alerts_start(&a, "a");
    if (i == 30) alerts_start(&a, "b");
    if (i == 60) cj_test_crash_member(a.t, "b");
    if (i == 80) cj_test_advance(a.t, 60000);
    for (int n = 0; n < i % 7; n++)
      steps += cj_test_step(a.t);
  }
  while (cj_test_step(a.t))
    steps++;
  steps += 1000 * (int)cj_test_logged(a.t, "");
  alerts_close(&a);
  return steps;
}

static void the_same_calls_give_the_same_run(void **state) {
  (void)state;
  int first = steps_of_a_run();
  assert_true(first > 100);
  assert_int_equal(first, steps_of_a_run());
}

/* ---- mistakes ---- */

/* Runs it in a child, which must abort with a message that holds `says`. */
static void must_abort(void (*mistake)(alerts *a), const char *says) {
  int err[2];
  assert_int_equal(0, pipe(err));
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    signal(SIGABRT, SIG_DFL);
    dup2(err[1], STDERR_FILENO);
    alerts a = alerts_open(INNER, 1, NULL);
    mistake(&a);
    _exit(0);
  }
  close(err[1]);
  char text[512];
  size_t len = 0;
  for (ssize_t n;
       len < sizeof text - 1 && (n = read(err[0], text + len, sizeof text - 1 - len)) > 0;)
    len += (size_t)n;
  text[len] = 0;
  close(err[0]);
  int status;
  assert_int_equal(child, waitpid(child, &status, 0));
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || !strstr(text, says))
    fail_msg("\"%s\" does not say \"%s\" (status %d)", text, says, status);
}

static void unknown_topic(alerts *a) {
  cj_test_pipe(a->t, "pirce", cj_bytes_str("k"), cj_bytes_str("v"), 1);
}

static void unknown_partition(alerts *a) {
  cj_test_hold(a->t, "price", 1, true);
}

static void unknown_member(alerts *a) {
  cj_test_crash_member(a->t, "nobody");
}

static void started_twice(alerts *a) {
  alerts_start(a, "a");
  alerts_start(a, "a");
}

static void stopped_twice(alerts *a) {
  alerts_start(a, "a");
  cj_test_stop_member(a->t, "a");
  cj_test_stop_member(a->t, "a");
}

static void wiped_while_it_runs(alerts *a) {
  alerts_start(a, "a");
  cj_test_wipe_member(a->t, "a");
}

static void stopped_while_it_stands_still(alerts *a) {
  alerts_start(a, "a");
  cj_test_freeze_member(a->t, "a", true);
  cj_test_stop_member(a->t, "a");
}

static void a_shrinking_topic(alerts *a) {
  cj_test_topic(a->t, "price", 3);
  cj_test_topic(a->t, "price", 2);
}

static void a_clock_that_goes_back(alerts *a) {
  cj_test_advance(a->t, -1);
}

static void a_stream_read_as_a_table(alerts *a) {
  cj_buf copy = CJ_BUF_INIT;
  cj_test_get(a->t, "notif", cj_bytes_str("k"), &copy);
}

static void mistakes_are_told(void **state) {
  (void)state;
  must_abort(unknown_topic, "there is no topic pirce");
  must_abort(unknown_partition, "price has no partition 1");
  must_abort(unknown_member, "no member nobody");
  must_abort(started_twice, "a runs already");
  must_abort(stopped_twice, "a is not running");
  must_abort(wiped_while_it_runs, "a runs");
  must_abort(stopped_while_it_stands_still, "a stands still");
  must_abort(a_shrinking_topic, "3 partitions cannot become 2");
  must_abort(a_clock_that_goes_back, "go back");
  must_abort(a_stream_read_as_a_table, "notif is no table");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(time_is_the_tests),
      cmocka_unit_test(missing_sinks_are_made),
      cmocka_unit_test(one_plan_serves_several_tests),
      cmocka_unit_test(the_same_calls_give_the_same_run),
      cmocka_unit_test(mistakes_are_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
