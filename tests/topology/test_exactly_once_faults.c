/* SPDX-License-Identifier: BSD-2-Clause */
/* Exactly once where requests fail, are not answered or are answered late, and outputs are refused.
 */
#include "lib/exact.h"

/* ---- commits that fail, and those of which nobody knows ---- */

static void a_commit_that_has_to_be_aborted(void **state) {
  (void)state;
  exact e;
  exact_begin(&e, NULL);
  cj_test_advance(e.a.t, 100);
  cj_test_fail_request(e.a.t, CJ_TEST_TXN_COMMIT, CJ_TEST_REFUSED, 2);
  alerts_price(&e.a, "X", "2", 500);
  exact_leave_open(&e, "n1");
  cj_test_advance(e.a.t, 1000);
  assert_outputs(&e, "n1+2");
  assert_int_equal(2, cj_test_logged(e.a.t, "its transaction was aborted"));
  assert_int_equal(0, cj_test_logged(e.a.t, "rebuilt"));
  assert_string_equal("2", alerts_row(&e.a, "X"));
  alerts_well(&e.a, "a");
  exact_end(&e);
}

static void unclear(cj_test_fault fault, bool committed) {
  exact e;
  exact_begin(&e, NULL);
  cj_test_advance(e.a.t, 100);
  cj_test_fail_request(e.a.t, CJ_TEST_TXN_COMMIT, fault, 1);
  exact_leave_open(&e, "n1");
  cj_test_advance(e.a.t, 30000);
  assert_outputs(&e, "n1+1");
  assert_int_equal(committed, cj_test_logged(e.a.t, "unclear transaction was committed"));
  assert_int_equal(!committed, cj_test_logged(e.a.t, "unclear transaction was aborted"));
  /* What was committed is not done again. */
  assert_int_equal(!committed, cj_test_logged(e.a.t, "positioned anew"));
  exact_notif(&e, "n2");
  cj_test_advance(e.a.t, 1000);
  assert_outputs(&e, "n1+1 n2+1");
  exact_end(&e);
}

static void a_commit_of_which_nobody_knows(void **state) {
  (void)state;
  unclear(CJ_TEST_DONE_UNTOLD, true);
  unclear(CJ_TEST_UNANSWERED, false);
  unclear(CJ_TEST_DONE_LATE, false);
  unclear(CJ_TEST_DECIDED, true);
}

/* KIP-890: the end of one transaction reaches the broker when the next is open. */
static void a_late_end_hits_nothing_of_the_next(void **state) {
  (void)state;
  static const cj_test_request ends[] = {CJ_TEST_TXN_COMMIT, CJ_TEST_TXN_ABORT};
  for (size_t i = 0; i < 2; i++) {
    exact e;
    exact_begin(&e, WITH("commit.interval.ms", "2000"));
    cj_test_advance(e.a.t, 2000);
    cj_test_fail_request(e.a.t, ends[i], CJ_TEST_DONE_LATE, 1);
    if (ends[i] == CJ_TEST_TXN_ABORT)
      cj_test_fail_request(e.a.t, CJ_TEST_TXN_COMMIT, CJ_TEST_REFUSED, 1);
    exact_leave_open(&e, "n1");
    cj_test_commit(e.a.t);
    cj_test_advance(e.a.t, 200);
    exact_leave_open(&e, "n2"); /* with n1 done again */
    cj_test_advance(e.a.t, 500);
    assert_outputs(&e, ""); /* it has arrived, and found its epoch over */
    cj_test_advance(e.a.t, 5000);
    assert_outputs(&e, "n1+1 n2+1");
    exact_end(&e);
  }
}

static void a_producer_that_cannot_be_started_is_tried_again(void **state) {
  (void)state;
  exact e;
  exact_begin(&e, NULL);
  cj_test_fail_request(e.a.t, CJ_TEST_TXN_INIT, CJ_TEST_UNANSWERED, 2);
  cj_test_fail_request(e.a.t, CJ_TEST_TXN_INIT, CJ_TEST_REFUSED, 2);
  cj_test_fail_request(e.a.t, CJ_TEST_TXN_COMMIT, CJ_TEST_DONE_UNTOLD, 1);
  exact_leave_open(&e, "n1");
  cj_test_advance(e.a.t, 40000);
  assert_outputs(&e, "n1+1");
  exact_notif(&e, "n2");
  cj_test_advance(e.a.t, 1000);
  assert_outputs(&e, "n1+1 n2+1");
  exact_end(&e);
}

static void an_abort_of_which_nobody_knows(void **state) {
  (void)state;
  for (cj_test_fault fault = CJ_TEST_REFUSED; fault <= CJ_TEST_DONE_LATE; fault++) {
    exact e;
    exact_begin(&e, NULL);
    cj_test_advance(e.a.t, 100);
    cj_test_fail_request(e.a.t, CJ_TEST_TXN_COMMIT, CJ_TEST_REFUSED, 1);
    cj_test_fail_request(e.a.t, CJ_TEST_TXN_ABORT, fault, 1);
    exact_leave_open(&e, "n1");
    cj_test_advance(e.a.t, 30000);
    assert_outputs(&e, "n1+1");
    exact_end(&e);
  }
}

static void brokers_gone_for_a_while(void **state) {
  (void)state;
  for (int open = 0; open < 2; open++) {
    exact e;
    exact_begin(&e, NULL);
    cj_test_advance(e.a.t, 100);
    if (open) exact_leave_open(&e, "n1");
    cj_test_broker_up(e.a.t, false);
    if (!open) exact_notif(&e, "n1");
    cj_test_advance(e.a.t, 40000);
    cj_test_broker_up(e.a.t, true);
    cj_test_advance(e.a.t, 40000);
    alerts_well(&e.a, "a");
    assert_outputs(&e, "n1+1");
    exact_end(&e);
  }
}

/* ---- outputs that cannot be produced ---- */

static void a_failed_output_ends_the_member(void **state) {
  (void)state;
  exact e;
  exact_begin(&e, NULL);
  cj_test_advance(e.a.t, 100);
  cj_test_fail_delivery(e.a.t, "alerts", 1);
  exact_notif(&e, "n1");
  exact_notif(&e, "n2");
  cj_test_advance(e.a.t, 1000);
  assert_int_equal(CJ_ERR_PRODUCE, cj_error_code(cj_test_member_error(e.a.t, "a")));
  assert_outputs(&e, "");
  assert_int_equal(0, cj_test_committed(e.a.t, "notif", 0));
  exact_start(&e, "a");
  cj_test_advance(e.a.t, 60000);
  assert_outputs(&e, "n1+1 n2+1");
  exact_end(&e);
}

static void a_failed_output_is_skipped(void **state) {
  (void)state;
  exact e;
  exact_begin(&e, WITH("errors.produce", "skip"));
  e.dropping = true;
  cj_test_advance(e.a.t, 100);
  exact_notif(&e, "n1");
  cj_test_settle(e.a.t);
  cj_test_fail_delivery(e.a.t, "alerts", 1);
  exact_notif(&e, "n2");
  cj_test_settle(e.a.t);
  assert_int_equal(1, cj_test_logged(e.a.t, "its transaction was aborted")); /* at once */
  exact_notif(&e, "n3");
  cj_test_advance(e.a.t, 1000);
  assert_outputs(&e, "n1+1 n3+1");
  assert_int_equal(1, cj_test_metric(e.a.t, "dropped", "produce"));
  assert_int_equal(3, cj_test_committed(e.a.t, "notif", 0));
  exact_end(&e);
}

static void a_failed_output_goes_to_the_dead_letter_topic(void **state) {
  (void)state;
  exact e;
  exact_begin(&e, WITH("errors.produce", "dead_letter", "errors.dead.letter.topic", "dead"));
  e.dropping = true;
  cj_test_advance(e.a.t, 100);
  exact_notif(&e, "n1");
  cj_test_settle(e.a.t);
  cj_test_fail_delivery(e.a.t, "alerts", 1);
  exact_notif(&e, "n2");
  cj_test_settle(e.a.t);
  exact_notif(&e, "n3");
  cj_test_advance(e.a.t, 1000);
  assert_outputs(&e, "n1+1 n3+1");
  assert_int_equal(1, cj_test_count(e.a.t, "dead", 0));
  alerts_well(&e.a, "a");
  exact_end(&e);
}

/* There is no further topic for it. */
static void a_dead_letter_that_fails_ends_the_member(void **state) {
  (void)state;
  exact e;
  exact_begin(&e, WITH("errors.process", "dead_letter", "errors.dead.letter.topic", "dead",
                       "errors.produce", "dead_letter"));
  cj_test_advance(e.a.t, 100);
  cj_test_fail_delivery(e.a.t, "dead", 1);
  exact_notif(&e, "fail");
  cj_test_advance(e.a.t, 1000);
  assert_int_equal(CJ_ERR_PRODUCE, cj_error_code(cj_test_member_error(e.a.t, "a")));
  assert_int_equal(0, cj_test_committed(e.a.t, "notif", 0));
  exact_end(&e);
}

/* The transaction in which a record failed holds outputs of it, maybe: it is not committed. */
static void a_record_that_fails_takes_its_transaction_with_it(void **state) {
  (void)state;
  exact e;
  exact_begin(&e, NULL);
  cj_test_advance(e.a.t, 100);
  exact_leave_open(&e, "n1");
  exact_notif(&e, "fail");
  cj_test_advance(e.a.t, 1000);
  assert_int_equal(CJ_ERR_PROCESS, cj_error_code(cj_test_member_error(e.a.t, "a")));
  assert_outputs(&e, "");
  assert_int_equal(0, cj_test_committed(e.a.t, "notif", 0));
  exact_end(&e);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_commit_that_has_to_be_aborted),
      cmocka_unit_test(a_commit_of_which_nobody_knows),
      cmocka_unit_test(a_late_end_hits_nothing_of_the_next),
      cmocka_unit_test(a_producer_that_cannot_be_started_is_tried_again),
      cmocka_unit_test(an_abort_of_which_nobody_knows),
      cmocka_unit_test(brokers_gone_for_a_while),
      cmocka_unit_test(a_failed_output_ends_the_member),
      cmocka_unit_test(a_failed_output_is_skipped),
      cmocka_unit_test(a_failed_output_goes_to_the_dead_letter_topic),
      cmocka_unit_test(a_dead_letter_that_fails_ends_the_member),
      cmocka_unit_test(a_record_that_fails_takes_its_transaction_with_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
