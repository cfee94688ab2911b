/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a task starts after a stop, a crash, a lost disk or a log that is not what it was. Case
 * numbers are those of the public trouble reports that the project collected. */
#include "lib/prices.h"

static void what_was_committed_is_there_after_a_restart(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  prices(&a, 0, 10);
  alerts_run(&a);
  commit_and_stop(&a);
  alerts_run(&a);
  rows_are(&a, 0, 10);
  assert_int_equal(0, cj_test_metric(a.t, "restored", NULL));
  assert_int_equal(0, cj_test_metric(a.t, "records_in", NULL)); /* and nothing is read twice */
  alerts_close(&a);
}

static void a_lost_disk_is_restored_up_to_the_committed_offset(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  prices(&a, 0, 10);
  alerts_run(&a);
  commit_and_stop(&a);
  cj_test_wipe_member(a.t, "a");
  prices(&a, 10, 15);
  alerts_run(&a);
  assert_int_equal(10, cj_test_metric(a.t, "restored", NULL));
  assert_int_equal(5, cj_test_metric(a.t, "records_in", NULL)); /* the rest is input */
  cj_test_commit(a.t);
  rows_are(&a, 0, 15);
  alerts_close(&a);
}

/* A backlog on both sides is read in timestamp order: nothing is joined with its future, because
 * the restore ends where the group had committed. */
static void a_backlog_does_not_join_its_future(void **state) {
  (void)state;
  for (int wipe = 0; wipe < 2; wipe++) {
    alerts a = alerts_open(INNER, 1, NULL);
    alerts_price(&a, "X", "1", 1000);
    alerts_run(&a);
    commit_and_stop(&a);
    if (wipe) cj_test_wipe_member(a.t, "a");
    alerts_notif(&a, "X", "n1", 1500);
    alerts_price(&a, "X", "2", 2000);
    alerts_notif(&a, "X", "n2", 2500);
    alerts_price(&a, "X", "3", 3000);
    alerts_run(&a);
    assert_alerts(&a, "n1+1 n2+2");
    alerts_close(&a);
  }
}

/* Outputs come again, with the values that they had: the store was not ahead of the group. */
static void a_crash_before_the_commit_repeats_the_same_outputs(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  alerts_price(&a, "X", "1", 1000);
  alerts_notif(&a, "X", "n1", 1500);
  alerts_price(&a, "X", "2", 2000);
  alerts_notif(&a, "X", "n2", 2500);
  alerts_run(&a);
  assert_alerts(&a, "n1+1 n2+2");
  assert_int_equal(-1, cj_test_committed(a.t, "notif", 0));
  cj_test_crash_member(a.t, "a");
  alerts_start(&a, "a");
  cj_test_advance(a.t, 50000); /* the session of the crashed one ends */
  assert_alerts(&a, "n1+1 n2+2 n1+1 n2+2");
  alerts_close(&a);
}

/* Case 67: killed at some moment after a commit: positions and rows fit each other. */
static void case_67_a_crash_after_a_commit(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  prices(&a, 0, 1000);
  alerts_run(&a);
  cj_test_commit(a.t);
  prices(&a, 1000, 1100);
  cj_test_settle(a.t);
  cj_test_crash_member(a.t, "a");
  alerts_start(&a, "a");
  cj_test_advance(a.t, 50000);
  assert_int_equal(0, cj_test_metric(a.t, "restored", NULL));
  assert_int_equal(100, cj_test_metric(a.t, "records_in", NULL));
  rows_are(&a, 0, 1100);
  alerts_close(&a);
}

/* The group has the offsets, the process dies before its store's batch: the store restores forward
 * from where it is, and is not wiped. */
static void a_store_behind_the_group_restores_forward(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  prices(&a, 0, 10);
  alerts_run(&a);
  cj_test_commit(a.t);
  prices(&a, 10, 14);
  cj_test_settle(a.t);
  cj_test_fail_request(a.t, CJ_TEST_COMMIT, CJ_TEST_DONE_UNTOLD, 1);
  cj_test_commit(a.t);
  assert_int_equal(14, cj_test_committed(a.t, "price", 0));
  cj_test_crash_member(a.t, "a");
  alerts_start(&a, "a");
  cj_test_advance(a.t, 50000);
  assert_int_equal(4, cj_test_metric(a.t, "restored", NULL));
  assert_int_equal(0, cj_test_logged(a.t, "rebuilt"));
  rows_are(&a, 0, 14);
  alerts_close(&a);
}

/* ---- ends ---- */

/* Cases 45 and 54: offsets that hold no record, at the end too. */
static void gaps(const int64_t *before, size_t records, int64_t after) {
  for (int wipe = 0; wipe < 2; wipe++) {
    alerts a = alerts_open(INNER, 1, NULL);
    for (size_t i = 0; i < records; i++) {
      cj_test_gap(a.t, "price", 0, before[i]);
      price_n(&a, (int)i, (int)i);
    }
    cj_test_gap(a.t, "price", 0, after);
    int64_t end = cj_test_end(a.t, "price", 0);
    alerts_run(&a);
    cj_test_commit(a.t);
    assert_int_equal(end, cj_test_committed(a.t, "price", 0));
    assert_int_equal(0, cj_test_metric(a.t, "lag", NULL));
    cj_test_stop_member(a.t, "a");
    if (wipe) cj_test_wipe_member(a.t, "a");
    alerts_notif(&a, "k0", "n1", 9000);
    alerts_run(&a);
    assert_int_equal(wipe ? records : 0, cj_test_metric(a.t, "restored", NULL));
    assert_alerts(&a, "n1+v0");
    rows_are(&a, 0, (int)records);
    alerts_close(&a);
  }
}

static void case_45_a_marker_is_the_last_offset(void **state) {
  (void)state;
  static const int64_t none[] = {0};
  gaps(none, 1, 1);
}

static void case_45_the_last_records_are_missing(void **state) {
  (void)state;
  static const int64_t up_to_90[] = {90};
  gaps(up_to_90, 1, 1);
}

static void case_54_offsets_3_7_19(void **state) {
  (void)state;
  static const int64_t before[] = {3, 3, 11};
  gaps(before, 3, 0);
}

/* Markers that arrive while it runs move the committed position too, without any record. */
static void a_marker_alone_moves_the_position(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  prices(&a, 0, 2);
  alerts_run(&a);
  cj_test_commit(a.t);
  cj_test_gap(a.t, "price", 0, 3);
  cj_test_gap(a.t, "notif", 0, 2);
  cj_test_settle(a.t);
  cj_test_commit(a.t);
  assert_int_equal(5, cj_test_committed(a.t, "price", 0));
  assert_int_equal(2, cj_test_committed(a.t, "notif", 0));
  alerts_close(&a);
}

/* The position that lies behind a hole does not go back to the last record when one more waits. */
static void a_waiting_record_does_not_move_the_position_back(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  prices(&a, 0, 2);
  cj_test_gap(a.t, "price", 0, 3);
  alerts_run(&a);
  cj_test_commit(a.t);
  assert_int_equal(5, cj_test_committed(a.t, "price", 0));
  cj_test_hold(a.t, "notif", 0, true);
  alerts_notif(&a, "k0", "n1", 2000);
  prices(&a, 2000, 2001); /* waits for what is held */
  alerts_price(&a, "k0", "later", 4000);
  cj_test_settle(a.t);
  cj_test_commit(a.t);
  assert_int_equal(5, cj_test_committed(a.t, "price", 0));
  cj_test_hold(a.t, "notif", 0, false);
  cj_test_settle(a.t);
  assert_alerts(&a, "n1+v0");
  alerts_close(&a);
}

static void case_46_empty_partitions_are_ready_at_once(void **state) {
  (void)state;
  for (int first_order = 0; first_order < 2; first_order++) {
    alerts a = alerts_open(LEFT, 3, WITH("order", first_order ? "table_first" : "timestamp"));
    cj_test_gap(a.t, "price", 0, 22512);
    cj_test_delete_records(a.t, "price", 0, 22512);
    cj_test_gap(a.t, "price", 2, 10);
    cj_test_delete_records(a.t, "price", 2, 10);
    cj_test_pipe_to(a.t, "price", 2, cj_bytes_str("X"), cj_bytes_str("1"), 10, NULL, 0);
    for (int32_t p = 0; p < 3; p++)
      cj_test_pipe_to(a.t, "notif", p, cj_bytes_str("X"), cj_bytes_str("n"), 20, NULL, 0);
    alerts_run(&a);
    assert_int_equal(2, cj_test_metric(a.t, "missed", NULL));
    assert_int_equal(1, cj_test_metric(a.t, "joined", NULL));
    cj_test_commit(a.t);
    assert_int_equal(22512, cj_test_committed(a.t, "price", 0));
    assert_int_equal(0, cj_test_committed(a.t, "price", 1));
    assert_int_equal(11, cj_test_committed(a.t, "price", 2));
    alerts_close(&a);
  }
}

/* ---- on the way ---- */

/* Case 49: stopped in the middle of a restore; what it had is not taken for all. */
static void step_into_the_restore(alerts *a) {
  for (int i = 0; i < 100000 && cj_test_metric(a->t, "restored", NULL) == 0; i++)
    cj_test_step(a->t);
  int64_t restored = cj_test_metric(a->t, "restored", NULL);
  assert_true(restored > 0 && restored < 5000);
  cj_buf copy = CJ_BUF_INIT;
  assert_int_equal(CJ_READ_RESTORING, cj_test_get(a->t, "price", cj_bytes_str("k1"), &copy));
  cj_buf_free(&copy);
}

static void case_49_interrupted_in_the_restore(void **state) {
  (void)state;
  enum { CRASH, REBALANCE, STOP, WAYS };
  for (int way = 0; way < WAYS; way++) {
    alerts a = alerts_open(INNER, 1, NULL);
    prices(&a, 0, 5000);
    alerts_run(&a);
    commit_and_stop(&a);
    cj_test_wipe_member(a.t, "a");
    alerts_start(&a, "a");
    step_into_the_restore(&a);
    if (way == CRASH) cj_test_crash_member(a.t, "a");
    if (way == STOP) cj_test_stop_member(a.t, "a");
    if (way == REBALANCE) cj_test_rebalance(a.t);
    if (way != REBALANCE) alerts_start(&a, "a");
    cj_test_advance(a.t, 50000);
    alerts_well(&a, "a");
    rows_are(&a, 0, 5000);
    assert_int_equal(5000, cj_test_committed(a.t, "price", 0));
    alerts_close(&a);
  }
}

/* Case 51: an answer that failed is not "nothing is committed" and not "the log is empty". */
static void case_51_an_error_is_not_empty(void **state) {
  (void)state;
  static const cj_test_request questions[] = {CJ_TEST_COMMITTED, CJ_TEST_BOUNDS};
  for (size_t i = 0; i < 2; i++) {
    alerts a = alerts_open(LEFT, 1, NULL);
    prices(&a, 0, 100);
    alerts_notif(&a, "k1", "n0", 5000);
    alerts_run(&a);
    commit_and_stop(&a);
    cj_test_wipe_member(a.t, "a");
    cj_test_fail_request(a.t, questions[i], CJ_TEST_REFUSED, 2);
    alerts_notif(&a, "k99", "n1", 5001);
    alerts_run(&a);
    assert_alerts(&a, "n0+v1"); /* not ready */
    cj_test_advance(a.t, 5000);
    assert_alerts(&a, "n0+v1 n1+v99");
    alerts_close(&a);
  }
}

/* The log is cut below the committed offset while it is being restored. */
static void the_log_is_cut_during_the_restore(void **state) {
  (void)state;
  alerts a = alerts_open(LEFT, 1, NULL);
  prices(&a, 0, 5000);
  alerts_run(&a);
  commit_and_stop(&a);
  cj_test_wipe_member(a.t, "a");
  alerts_start(&a, "a");
  step_into_the_restore(&a);
  cj_test_truncate(a.t, "price", 0, 4500);
  cj_test_advance(a.t, 5000);
  alerts_well(&a, "a");
  rows_are(&a, 0, 4500);
  assert_string_equal("NULL", alerts_row(&a, "k4700"));
  alerts_close(&a);
}

/* A gap of more than 100,000 offsets is loaded in bulk, without the store's log, and is there after
 * a crash all the same: it ends in a flush, before anything is processed. */
static alerts with_a_large_gap(void) {
  alerts a = alerts_open(LEFT, 1, NULL);
  prices(&a, 0, 5000);
  cj_test_gap(a.t, "price", 0, 100000);
  prices(&a, 5000, 12000);
  alerts_run(&a);
  commit_and_stop(&a);
  cj_test_wipe_member(a.t, "a");
  return a;
}

static void a_bulk_load_survives_a_crash(void **state) {
  (void)state;
  alerts a = with_a_large_gap();
  alerts_run(&a);
  assert_int_equal(12000, cj_test_metric(a.t, "restored", NULL));
  cj_test_crash_member(a.t, "a");
  alerts_start(&a, "a");
  cj_test_advance(a.t, 50000);
  assert_int_equal(0, cj_test_metric(a.t, "restored", NULL));
  rows_are(&a, 0, 12000);
  alerts_close(&a);
}

static void a_crash_in_a_bulk_load_begins_again(void **state) {
  (void)state;
  alerts a = with_a_large_gap();
  alerts_start(&a, "a");
  while (cj_test_metric(a.t, "restored", NULL) < 6000)
    assert_true(cj_test_step(a.t));
  cj_test_crash_member(a.t, "a");
  alerts_start(&a, "a");
  cj_test_advance(a.t, 50000);
  assert_int_equal(12000, cj_test_metric(a.t, "restored", NULL)); /* nothing was durable yet */
  rows_are(&a, 0, 12000);
  alerts_close(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_was_committed_is_there_after_a_restart),
      cmocka_unit_test(a_lost_disk_is_restored_up_to_the_committed_offset),
      cmocka_unit_test(a_backlog_does_not_join_its_future),
      cmocka_unit_test(a_crash_before_the_commit_repeats_the_same_outputs),
      cmocka_unit_test(case_67_a_crash_after_a_commit),
      cmocka_unit_test(a_store_behind_the_group_restores_forward),
      cmocka_unit_test(case_45_a_marker_is_the_last_offset),
      cmocka_unit_test(case_45_the_last_records_are_missing),
      cmocka_unit_test(case_54_offsets_3_7_19),
      cmocka_unit_test(a_marker_alone_moves_the_position),
      cmocka_unit_test(a_waiting_record_does_not_move_the_position_back),
      cmocka_unit_test(case_46_empty_partitions_are_ready_at_once),
      cmocka_unit_test(case_49_interrupted_in_the_restore),
      cmocka_unit_test(case_51_an_error_is_not_empty),
      cmocka_unit_test(the_log_is_cut_during_the_restore),
      cmocka_unit_test(a_bulk_load_survives_a_crash),
      cmocka_unit_test(a_crash_in_a_bulk_load_begins_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
