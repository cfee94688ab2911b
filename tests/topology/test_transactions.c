/* SPDX-License-Identifier: BSD-2-Clause */
/* processing.guarantee = exactly_once, one fault after the other: for a reader under read_committed
 * every output is there once, and no store is wiped. */
#include "lib/alerts.h"

static alerts exactly_once(int32_t partitions) {
  return alerts_open(INNER, partitions, WITH("processing.guarantee", "exactly_once"));
}

static void price_and_notif(alerts *a) {
  alerts_price(a, "X", "1", 1000);
  alerts_notif(a, "X", "n1", 1500);
}

static void outputs_are_seen_with_their_commit(void **state) {
  (void)state;
  alerts a = exactly_once(1);
  price_and_notif(&a);
  alerts_run(&a);
  assert_alerts(&a, "");
  assert_int_equal(-1, cj_test_committed(a.t, "notif", 0));
  assert_string_equal("NULL", alerts_row(&a, "X"));
  cj_test_advance(a.t, 200); /* commit.interval.ms is 100 */
  assert_alerts(&a, "n1+1");
  assert_int_equal(1, cj_test_committed(a.t, "notif", 0));
  assert_int_equal(1, cj_test_committed(a.t, "price", 0));
  assert_string_equal("1", alerts_row(&a, "X"));
  alerts_close(&a);
}

static void a_crash_leaves_nothing_behind(void **state) {
  (void)state;
  alerts a = exactly_once(1);
  price_and_notif(&a);
  alerts_run(&a);
  cj_test_advance(a.t, 200);
  alerts_price(&a, "X", "2", 2000);
  alerts_notif(&a, "X", "n2", 2500);
  cj_test_settle(a.t);
  cj_test_crash_member(a.t, "a");
  alerts_start(&a, "a");
  cj_test_advance(a.t, 60000);
  assert_alerts(&a, "n1+1 n2+2");
  assert_int_equal(0, cj_test_logged(a.t, "rebuilt")); /* no wipe after an unclean end */
  assert_int_equal(0, cj_test_metric(a.t, "restored", NULL));
  alerts_close(&a);
}

/* Refused, not answered, done but not told, done late: after each of them once. */
static void a_commit_that_goes_wrong(void **state) {
  (void)state;
  static const cj_test_fault faults[] = {CJ_TEST_REFUSED, CJ_TEST_UNANSWERED, CJ_TEST_DONE_UNTOLD,
                                         CJ_TEST_DONE_LATE};
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    alerts a = exactly_once(1);
    price_and_notif(&a);
    alerts_run(&a);
    cj_test_fail_request(a.t, CJ_TEST_TXN_COMMIT, faults[i], 1);
    cj_test_advance(a.t, 150);
    alerts_price(&a, "X", "2", 2000);
    alerts_notif(&a, "X", "n2", 2500);
    cj_test_advance(a.t, 60000);
    alerts_well(&a, "a");
    assert_alerts(&a, "n1+1 n2+2");
    assert_int_equal(2, cj_test_committed(a.t, "notif", 0));
    assert_string_equal("2", alerts_row(&a, "X"));
    alerts_close(&a);
  }
}

static void an_abort_or_a_start_that_goes_wrong(void **state) {
  (void)state;
  static const struct {
    cj_test_request request;
    cj_test_fault fault;
  } cases[] = {
      {CJ_TEST_TXN_ABORT, CJ_TEST_REFUSED},   {CJ_TEST_TXN_ABORT, CJ_TEST_UNANSWERED},
      {CJ_TEST_TXN_ABORT, CJ_TEST_DONE_LATE}, {CJ_TEST_TXN_INIT, CJ_TEST_REFUSED},
      {CJ_TEST_TXN_INIT, CJ_TEST_UNANSWERED},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    alerts a = exactly_once(1);
    cj_test_fail_request(a.t, cases[i].request, cases[i].fault, 1);
    price_and_notif(&a);
    alerts_run(&a);
    cj_test_fail_request(a.t, CJ_TEST_TXN_COMMIT, CJ_TEST_REFUSED, 1); /* so that it aborts */
    cj_test_advance(a.t, 60000);
    alerts_well(&a, "a");
    assert_alerts(&a, "n1+1");
    assert_int_equal(1, cj_test_committed(a.t, "notif", 0));
    alerts_close(&a);
  }
}

static void an_output_that_is_refused(void **state) {
  (void)state;
  alerts a = exactly_once(1);
  price_and_notif(&a);
  cj_test_topic(a.t, "alerts", 1);
  cj_test_fail_delivery(a.t, "alerts", 1);
  alerts_run(&a);
  cj_test_advance(a.t, 1000);
  assert_int_equal(CJ_ERR_PRODUCE, cj_error_code(cj_test_member_error(a.t, "a")));
  assert_alerts(&a, "");
  assert_true(cj_test_committed(a.t, "notif", 0) < 1);
  alerts_close(&a);
}

static void members_come_and_go(void **state) {
  (void)state;
  enum { KEYS = 20, PARTITIONS = 4 };
  static const struct {
    const char *member;
    bool comes;
  } moves[] = {{"a", true}, {"b", true}, {"c", true}, {"a", false}, {"b", false}, {"a", true}};
  enum { MOVES = sizeof moves / sizeof *moves };
  alerts a = exactly_once(PARTITIONS);
  for (int move = 0; move < MOVES; move++) {
    for (int k = 0; k < KEYS; k++) {
      char key[16], value[32];
      snprintf(key, sizeof key, "k%d", k);
      snprintf(value, sizeof value, "%d.%d", move, k);
      if (move == 0) alerts_price(&a, key, "p", 1);
      alerts_notif(&a, key, value, 1000 * move + 10);
    }
    if (move) cj_test_step(a.t);
    if (moves[move].comes)
      alerts_start(&a, moves[move].member);
    else
      cj_test_stop_member(a.t, moves[move].member);
    cj_test_advance(a.t, 20);
  }
  cj_test_advance(a.t, 1000);
  size_t count = 0;
  for (int32_t p = 0; p < PARTITIONS; p++)
    count += cj_test_count(a.t, "alerts", p);
  assert_int_equal(KEYS * MOVES, count);
  alerts_close(&a);
}

/* Outputs cannot be delivered in the time that a revoke has: the transaction is aborted, and the
 * next owner does the work again. */
static void a_revoke_over_its_budget_aborts(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1,
                         WITH("processing.guarantee", "exactly_once", "revoke.timeout.ms", "2000"));
  alerts_price(&a, "X", "1", 1000);
  alerts_run(&a);
  cj_test_advance(a.t, 200);
  cj_test_hold(a.t, "alerts", 0, true);
  alerts_notif(&a, "X", "n1", 1500);
  cj_test_settle(a.t);
  cj_test_rebalance(a.t);
  cj_test_advance(a.t, 3000);
  cj_test_hold(a.t, "alerts", 0, false);
  cj_test_advance(a.t, 30000);
  alerts_well(&a, "a");
  assert_alerts(&a, "n1+1");
  assert_int_equal(1, cj_test_committed(a.t, "notif", 0));
  alerts_close(&a);
}

/* A process stands still with a transaction open, someone else takes over: what it had done is not
 * seen, and when it goes on it ends as fenced, or loses its tasks, without doing harm. */
static void a_zombie_does_no_harm(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1,
                         WITH("processing.guarantee", "exactly_once", "rd.session.timeout.ms",
                              "12000", "rd.heartbeat.interval.ms", "3000"));
  price_and_notif(&a);
  alerts_run(&a);
  cj_test_stall_member(a.t, "a", true);
  alerts_start(&a, "b");
  cj_test_advance(a.t, 20000);
  assert_alerts(&a, "n1+1");
  cj_test_stall_member(a.t, "a", false);
  alerts_notif(&a, "X", "n2", 2000);
  cj_test_advance(a.t, 30000);
  assert_alerts(&a, "n1+1 n2+1");
  assert_int_equal(2, cj_test_committed(a.t, "notif", 0));
  const cj_error *error = cj_test_member_error(a.t, "a");
  if (error) assert_int_equal(CJ_ERR_FENCED, cj_error_code(error));
  alerts_well(&a, "b");
  alerts_close(&a);
}

/* What another application has aborted, or not committed yet, is no input. */
static void inputs_are_read_committed(void **state) {
  (void)state;
  alerts a = exactly_once(1);
  alerts_price(&a, "X", "1", 1000);
  cj_test_transaction(a.t);
  alerts_notif(&a, "X", "n1", 1500);
  alerts_run(&a);
  cj_test_advance(a.t, 1000);
  assert_true(cj_test_committed(a.t, "notif", 0) < 1);
  cj_test_transaction_end(a.t, false);
  cj_test_transaction(a.t);
  alerts_notif(&a, "X", "n2", 1600);
  cj_test_transaction_end(a.t, true);
  cj_test_advance(a.t, 1000);
  assert_alerts(&a, "n2+1");
  assert_int_equal(4, cj_test_committed(a.t, "notif", 0)); /* two records, two markers */
  assert_int_equal(0, cj_test_metric(a.t, "lag", NULL));
  alerts_close(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(outputs_are_seen_with_their_commit),
      cmocka_unit_test(a_crash_leaves_nothing_behind),
      cmocka_unit_test(a_commit_that_goes_wrong),
      cmocka_unit_test(an_abort_or_a_start_that_goes_wrong),
      cmocka_unit_test(an_output_that_is_refused),
      cmocka_unit_test(members_come_and_go),
      cmocka_unit_test(a_revoke_over_its_budget_aborts),
      cmocka_unit_test(a_zombie_does_no_harm),
      cmocka_unit_test(inputs_are_read_committed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
