/* SPDX-License-Identifier: BSD-2-Clause */
/* The commit: outputs acknowledged, then the offsets of all inputs, then the store. */
#include "lib/alerts.h"

static void one_price_one_notif(alerts *a) {
  alerts_price(a, "X", "1", 1000);
  alerts_notif(a, "X", "n1", 1500);
}

static void all_inputs_are_committed_after_the_interval(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  one_price_one_notif(&a);
  alerts_run(&a);
  cj_test_advance(a.t, 900);
  assert_int_equal(-1, cj_test_committed(a.t, "notif", 0));
  assert_string_equal("NULL", alerts_row(&a, "X")); /* reads see what is committed */
  cj_test_advance(a.t, 200);
  assert_int_equal(1, cj_test_committed(a.t, "notif", 0));
  assert_int_equal(1, cj_test_committed(a.t, "price", 0));
  assert_string_equal("1", alerts_row(&a, "X"));
  alerts_close(&a);
}

static void positions_of_empty_partitions_are_committed_too(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 3, NULL);
  one_price_one_notif(&a);
  alerts_run(&a);
  cj_test_commit(a.t);
  for (int32_t p = 0; p < 3; p++) {
    assert_int_equal(cj_test_end(a.t, "notif", p), cj_test_committed(a.t, "notif", p));
    assert_int_equal(cj_test_end(a.t, "price", p), cj_test_committed(a.t, "price", p));
  }
  assert_int_equal(0, cj_test_metric(a.t, "lag", NULL));
  alerts_close(&a);
}

static void nothing_is_committed_before_its_output_is_acknowledged(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  alerts_run(&a);
  cj_test_hold(a.t, "alerts", 0, true);
  one_price_one_notif(&a);
  cj_test_settle(a.t);
  cj_test_commit(a.t);
  cj_test_advance(a.t, 5000);
  assert_true(cj_test_committed(a.t, "notif", 0) < 1);
  assert_true(cj_test_committed(a.t, "price", 0) < 1);
  assert_string_equal("NULL", alerts_row(&a, "X"));
  cj_test_hold(a.t, "alerts", 0, false);
  cj_test_advance(a.t, 2000);
  assert_int_equal(1, cj_test_committed(a.t, "notif", 0));
  assert_int_equal(1, cj_test_committed(a.t, "price", 0));
  assert_string_equal("1", alerts_row(&a, "X"));
  assert_alerts(&a, "n1+1");
  alerts_close(&a);
}

/* What comes behind the cut is processed meanwhile, and is not part of it. */
static void work_goes_on_behind_the_cut(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  one_price_one_notif(&a);
  alerts_run(&a);
  cj_test_fail_request(a.t, CJ_TEST_COMMIT, CJ_TEST_UNANSWERED, 1);
  cj_test_commit(a.t);
  alerts_price(&a, "X", "2", 2000);
  alerts_notif(&a, "X", "n2", 2500);
  cj_test_settle(a.t);
  assert_alerts(&a, "n1+1 n2+2");
  assert_int_equal(-1, cj_test_committed(a.t, "notif", 0));
  cj_test_advance(a.t, 15000);
  assert_int_equal(2, cj_test_committed(a.t, "notif", 0));
  assert_string_equal("2", alerts_row(&a, "X"));
  assert_alerts(&a, "n1+1 n2+2");
  alerts_close(&a);
}

static void a_commit_that_fails(cj_test_fault fault) {
  alerts a = alerts_open(INNER, 1, NULL);
  one_price_one_notif(&a);
  alerts_run(&a);
  cj_test_fail_request(a.t, CJ_TEST_COMMIT, fault, 3);
  cj_test_commit(a.t);
  cj_test_advance(a.t, 60000);
  alerts_well(&a, "a");
  assert_int_equal(1, cj_test_committed(a.t, "notif", 0));
  assert_string_equal("1", alerts_row(&a, "X"));
  alerts_notif(&a, "X", "n2", 2000);
  cj_test_settle(a.t);
  assert_alerts(&a, "n1+1 n2+1"); /* nothing is done twice because of it */
  alerts_close(&a);
}

static void a_commit_that_fails_is_made_again(void **state) {
  (void)state;
  a_commit_that_fails(CJ_TEST_REFUSED);
  a_commit_that_fails(CJ_TEST_UNANSWERED);
  a_commit_that_fails(CJ_TEST_DONE_UNTOLD);
}

static void an_empty_topology_commits_once_and_rests(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 2, NULL);
  alerts_run(&a);
  cj_test_advance(a.t, 5000);
  for (int32_t p = 0; p < 2; p++)
    assert_int_equal(0, cj_test_committed(a.t, "notif", p));
  alerts_close(&a);
}

/* Offsets of topics outside the subscription, or of a quiet partition on an old broker, expire
 * (KIP-211): they are committed again at least hourly. */
static void offsets_are_committed_again_within_the_hour(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 2, NULL);
  alerts_price(&a, "X", "1", 1000);
  alerts_run(&a);
  cj_test_commit(a.t);
  for (int32_t p = 0; p < 2; p++) {
    cj_test_set_committed(a.t, "notif", p, -1);
    cj_test_set_committed(a.t, "price", p, -1);
  }
  cj_test_advance(a.t, 61 * 60 * 1000);
  for (int32_t p = 0; p < 2; p++) {
    assert_int_equal(0, cj_test_committed(a.t, "notif", p));
    assert_int_equal(cj_test_end(a.t, "price", p), cj_test_committed(a.t, "price", p));
  }
  alerts_close(&a);
}

/* The overlay of uncommitted updates has a budget; a commit makes room, whatever the interval. */
static void a_full_overlay_forces_a_commit(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, WITH("overlay.bytes", "1m", "commit.interval.ms", "600000"));
  char value[1001];
  memset(value, 'x', sizeof value - 1);
  value[sizeof value - 1] = 0;
  for (int i = 0; i < 3000; i++) {
    char key[16];
    snprintf(key, sizeof key, "k%d", i);
    alerts_price(&a, key, value, i);
  }
  alerts_run(&a);
  assert_true(cj_test_committed(a.t, "price", 0) > 1000);
  assert_int_equal(3000, cj_test_metric(a.t, "table_updates", NULL));
  alerts_close(&a);
}

static void brokers_gone_for_a_while(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  one_price_one_notif(&a);
  alerts_run(&a);
  cj_test_broker_up(a.t, false);
  cj_test_advance(a.t, 40000);
  alerts_notif(&a, "X", "n2", 2000);
  cj_test_advance(a.t, 40000);
  assert_int_equal(-1, cj_test_committed(a.t, "notif", 0));
  cj_test_broker_up(a.t, true);
  cj_test_advance(a.t, 20000);
  assert_alerts(&a, "n1+1 n2+1");
  assert_int_equal(2, cj_test_committed(a.t, "notif", 0));
  alerts_well(&a, "a");
  alerts_close(&a);
}

/* Case 77: the producer's queue is full while brokers are gone: everything waits, nothing is lost,
 * the order is kept. */
static void case_77_the_producers_queue_is_full(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, WITH("rd.queue.buffering.max.messages", "10"));
  alerts_price(&a, "X", "1", 1);
  alerts_run(&a);
  cj_test_commit(a.t);
  for (int i = 0; i < 1000; i++) {
    char value[16];
    snprintf(value, sizeof value, "n%d", i);
    alerts_notif(&a, "X", value, 1000 + i);
  }
  cj_test_hold(a.t, "alerts", 0, true);
  cj_test_settle(a.t);
  cj_test_commit(a.t);
  assert_int_equal(0, cj_test_count(a.t, "alerts", 0));
  assert_int_equal(0, cj_test_committed(a.t, "notif", 0));
  cj_test_advance(a.t, 5000);
  cj_test_hold(a.t, "alerts", 0, false);
  cj_test_advance(a.t, 5000);
  assert_int_equal(1000, cj_test_count(a.t, "alerts", 0));
  for (int i = 0; i < 1000; i++) {
    char value[16];
    cj_record record;
    snprintf(value, sizeof value, "n%d+1", i);
    assert_true(cj_test_read(a.t, "alerts", 0, (size_t)i, &record));
    assert_true(cj_bytes_equal(cj_bytes_str(value), record.value));
  }
  assert_int_equal(1000, cj_test_committed(a.t, "notif", 0));
  alerts_close(&a);
}

static void stopping_commits_what_was_done(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  one_price_one_notif(&a);
  alerts_run(&a);
  cj_test_stop_member(a.t, "a");
  assert_null(cj_test_member_error(a.t, "a"));
  assert_int_equal(1, cj_test_committed(a.t, "notif", 0));
  alerts_run(&a);
  cj_test_advance(a.t, 2000);
  assert_alerts(&a, "n1+1");
  alerts_close(&a);
}

static void stopping_ends_though_brokers_are_gone(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, WITH("shutdown.timeout.ms", "5000"));
  one_price_one_notif(&a);
  alerts_run(&a);
  cj_test_broker_up(a.t, false);
  int64_t before = cj_test_now(a.t);
  cj_test_stop_member(a.t, "a");
  assert_true(cj_test_now(a.t) - before <= 16000); /* and what it takes to leave the group */
  cj_test_broker_up(a.t, true);
  alerts_start(&a, "a");
  cj_test_advance(a.t, 60000);
  assert_alerts(&a, "n1+1 n1+1");
  assert_int_equal(1, cj_test_committed(a.t, "notif", 0));
  alerts_close(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_inputs_are_committed_after_the_interval),
      cmocka_unit_test(positions_of_empty_partitions_are_committed_too),
      cmocka_unit_test(nothing_is_committed_before_its_output_is_acknowledged),
      cmocka_unit_test(work_goes_on_behind_the_cut),
      cmocka_unit_test(a_commit_that_fails_is_made_again),
      cmocka_unit_test(an_empty_topology_commits_once_and_rests),
      cmocka_unit_test(offsets_are_committed_again_within_the_hour),
      cmocka_unit_test(a_full_overlay_forces_a_commit),
      cmocka_unit_test(brokers_gone_for_a_while),
      cmocka_unit_test(case_77_the_producers_queue_is_full),
      cmocka_unit_test(stopping_commits_what_was_done),
      cmocka_unit_test(stopping_ends_though_brokers_are_gone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
