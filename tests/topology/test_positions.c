/* SPDX-License-Identifier: BSD-2-Clause */
/* Positions that do not fit the log any more: truncated, expired, reset, re-created, transactions
 * in between. Case numbers are those of the public trouble reports that the project collected. */
#include "lib/prices.h"

/* ---- positions that are not in the log ---- */

static void case_47_the_log_was_truncated(void **state) {
  (void)state;
  alerts a = alerts_open(LEFT, 1, NULL);
  prices(&a, 0, 10);
  alerts_run(&a);
  commit_and_stop(&a);
  cj_test_truncate(a.t, "price", 0, 6);
  alerts_run(&a);
  assert_int_equal(1, cj_test_logged(a.t, "past the end of the log"));
  rows_are(&a, 0, 6);
  assert_string_equal("NULL", alerts_row(&a, "k7"));
  alerts_price(&a, "k7", "again", 5000);
  alerts_notif(&a, "k7", "n1", 5001);
  alerts_notif(&a, "k8", "n2", 5002);
  cj_test_settle(a.t);
  assert_alerts(&a, "n1+again n2+NULL");
  cj_test_commit(a.t);
  assert_int_equal(7, cj_test_committed(a.t, "price", 0));
  alerts_close(&a);
}

static void case_47_the_log_is_truncated_while_it_runs(void **state) {
  (void)state;
  alerts a = alerts_open(LEFT, 1, NULL);
  prices(&a, 0, 10);
  alerts_run(&a);
  cj_test_commit(a.t);
  cj_test_truncate(a.t, "price", 0, 6);
  cj_test_advance(a.t, 1000);
  alerts_notif(&a, "k2", "n1", 5001);
  alerts_notif(&a, "k8", "n2", 5002);
  cj_test_advance(a.t, 1000);
  assert_alerts(&a, "n1+v2 n2+NULL");
  alerts_well(&a, "a");
  alerts_close(&a);
}

static void case_48_the_position_is_before_the_start(void **state) {
  (void)state;
  alerts a = alerts_open(LEFT, 1, NULL);
  prices(&a, 0, 50);
  alerts_run(&a);
  commit_and_stop(&a);
  for (int i = 0; i < 50; i++)
    alerts_price(&a, i == 10 ? "k3" : "other", i == 10 ? NULL : "o", 3000);
  cj_test_delete_records(a.t, "price", 0, 80);
  alerts_run(&a);
  assert_int_equal(1, cj_test_logged(a.t, "before the start of the log"));
  cj_test_commit(a.t);
  assert_string_equal("NULL", alerts_row(&a, "k3")); /* the tombstone at 60 was never seen */
  assert_string_equal("o", alerts_row(&a, "other"));
  assert_int_equal(20, cj_test_metric(a.t, "records_in", NULL));
  assert_int_equal(100, cj_test_committed(a.t, "price", 0));
  alerts_close(&a);
}

/* ---- topics that are not what they were ---- */

static void case_37_a_recreated_topic(void **state) {
  (void)state;
  for (int offsets_kept = 0; offsets_kept < 2; offsets_kept++) {
    alerts a = alerts_open(LEFT, 1, NULL);
    prices(&a, 0, 100);
    alerts_run(&a);
    commit_and_stop(&a);
    cj_test_recreate_topic(a.t, "price");
    for (int i = 0; i < 150; i++)
      price_n(&a, 1000 + i, i);
    if (offsets_kept) cj_test_set_committed(a.t, "price", 0, 100);
    alerts_run(&a);
    cj_test_advance(a.t, 5000);
    assert_string_equal("NULL", alerts_row(&a, "k5")); /* of the old topic */
    assert_string_equal("v5", alerts_row(&a, "k1005"));
    assert_string_equal("v149", alerts_row(&a, "k1149"));
    assert_int_equal(150, cj_test_committed(a.t, "price", 0));
    assert_int_equal(1, cj_test_logged(a.t, "rebuilt"));
    alerts_close(&a);
  }
}

/* Case 55: cut to 2, grown to 14: the position 10 is in the log again, its record is another. */
static void case_55_truncated_and_grown_again(void **state) {
  (void)state;
  alerts a = alerts_open(LEFT, 1, NULL);
  prices(&a, 0, 10);
  alerts_run(&a);
  commit_and_stop(&a);
  cj_test_truncate(a.t, "price", 0, 2);
  for (int i = 0; i < 12; i++)
    price_n(&a, 100 + i, i);
  alerts_run(&a);
  cj_test_advance(a.t, 5000);
  assert_string_equal("v1", alerts_row(&a, "k1"));
  assert_string_equal("NULL", alerts_row(&a, "k5"));
  assert_string_equal("v0", alerts_row(&a, "k100"));
  assert_string_equal("v11", alerts_row(&a, "k111"));
  alerts_close(&a);
}

/* The stream's side of the same: there is no store to rebuild, but the log line says why records
 * are skipped or read again. */
static void a_streams_offset_is_not_in_its_log(void **state) {
  (void)state;
  alerts a = alerts_open(LEFT, 1, NULL);
  for (int i = 0; i < 10; i++)
    alerts_notif(&a, "X", "n", i);
  alerts_run(&a);
  commit_and_stop(&a);
  cj_test_truncate(a.t, "notif", 0, 4);
  alerts_run(&a);
  assert_int_equal(14, cj_test_count(a.t, "alerts", 0)); /* earliest: what is left, again */
  assert_int_equal(1, cj_test_logged(a.t, "past the end of the log"));
  commit_and_stop(&a);
  assert_int_equal(4, cj_test_committed(a.t, "notif", 0));
  for (int i = 0; i < 6; i++)
    alerts_notif(&a, "X", "n", 100 + i);
  cj_test_delete_records(a.t, "notif", 0, 8);
  alerts_run(&a);
  assert_int_equal(16, cj_test_count(a.t, "alerts", 0));
  assert_int_equal(1, cj_test_logged(a.t, "before the start of the log"));
  alerts_close(&a);
}

/* Case 52: an open transaction holds everything behind it back from a reader under read_committed;
 * what was aborted never enters the store, not by a restore either. */
static void case_52_open_and_aborted_transactions(void **state) {
  (void)state;
  alerts a = alerts_open(LEFT, 1, WITH("isolation.level", "read_committed"));
  alerts_price(&a, "BBCA", "0", 500);
  cj_test_transaction(a.t);
  alerts_price(&a, "A", "1", 1000);
  cj_test_pipe(a.t, "price", cj_bytes_str("BBCA"), cj_bytes_str("inside"), 1001);
  alerts_run(&a);
  cj_test_commit(a.t);
  assert_int_equal(1, cj_test_committed(a.t, "price", 0));
  cj_test_transaction_end(a.t, false);
  alerts_price(&a, "BBCA", "9100", 1002);
  alerts_notif(&a, "A", "n1", 2000);
  alerts_notif(&a, "BBCA", "n2", 2001);
  cj_test_settle(a.t);
  assert_alerts(&a, "n1+NULL n2+9100");
  commit_and_stop(&a);
  assert_int_equal(5, cj_test_committed(a.t, "price", 0)); /* the marker is behind it too */
  cj_test_wipe_member(a.t, "a");
  alerts_run(&a);
  assert_string_equal("NULL", alerts_row(&a, "A"));
  assert_string_equal("9100", alerts_row(&a, "BBCA"));
  alerts_close(&a);
}

static void case_52_read_uncommitted_sees_them(void **state) {
  (void)state;
  alerts a = alerts_open(LEFT, 1, NULL);
  cj_test_transaction(a.t);
  alerts_price(&a, "A", "1", 1000);
  alerts_notif(&a, "A", "n1", 2000);
  alerts_run(&a);
  assert_alerts(&a, "n1+1");
  cj_test_transaction_end(a.t, true);
  alerts_close(&a);
}

/* ---- offsets that are not what they were ---- */

static void case_71_the_groups_offsets_are_gone(const char *reset, const char *expected) {
  alerts a = alerts_open(INNER, 1, WITH("auto.offset.reset", reset));
  alerts_run(&a); /* in the group before the data, whatever the reset says */
  alerts_price(&a, "X", "1", 1000);
  alerts_notif(&a, "X", "n1", 1500);
  cj_test_settle(a.t);
  assert_alerts(&a, "n1+1");
  commit_and_stop(&a);
  cj_test_set_committed(a.t, "notif", 0, -1);
  alerts_run(&a);
  assert_alerts(&a, expected);
  alerts_close(&a);
}

static void case_71_earliest_and_latest(void **state) {
  (void)state;
  case_71_the_groups_offsets_are_gone("earliest", "n1+1 n1+1");
  case_71_the_groups_offsets_are_gone("latest", "n1+1");
}

static void case_71_error(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, WITH("auto.offset.reset", "error"));
  cj_test_set_committed(a.t, "notif", 0, 0);
  alerts_price(&a, "X", "1", 1000);
  alerts_notif(&a, "X", "n1", 1500);
  alerts_run(&a);
  assert_alerts(&a, "n1+1");
  commit_and_stop(&a);
  cj_test_set_committed(a.t, "notif", 0, -1);
  alerts_run(&a);
  const cj_error *error = cj_test_member_error(a.t, "a");
  assert_non_null(error);
  assert_non_null(strstr(cj_error_text(error), "notif"));
  assert_alerts(&a, "n1+1");
  alerts_close(&a);
}

/* A table whose group offset is gone: its store cannot be told from one that is ahead. */
static void case_71_a_table_is_rebuilt(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  prices(&a, 0, 10);
  alerts_run(&a);
  commit_and_stop(&a);
  cj_test_set_committed(a.t, "price", 0, -1);
  alerts_run(&a);
  assert_int_equal(1, cj_test_logged(a.t, "no committed offset any more"));
  cj_test_commit(a.t);
  rows_are(&a, 0, 10);
  assert_int_equal(10, cj_test_committed(a.t, "price", 0));
  alerts_close(&a);
}

static void case_72_latest_is_for_streams_only(void **state) {
  (void)state;
  alerts a = alerts_open(LEFT, 1, WITH("auto.offset.reset", "latest"));
  prices(&a, 0, 10);
  alerts_notif(&a, "k1", "before", 5000);
  alerts_run(&a);
  alerts_notif(&a, "k1", "after", 5001);
  cj_test_settle(a.t);
  assert_alerts(&a, "after+v1");
  cj_test_commit(a.t);
  rows_are(&a, 0, 10);
  alerts_close(&a);
}

/* An operator puts everything back to the beginning: it is all done again, the same way. */
static void an_operators_reset_does_it_all_again(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  alerts_price(&a, "X", "1", 1000);
  alerts_notif(&a, "X", "n1", 1500);
  alerts_price(&a, "X", "2", 2000);
  alerts_notif(&a, "X", "n2", 2500);
  alerts_run(&a);
  commit_and_stop(&a);
  cj_test_set_committed(a.t, "price", 0, 0);
  cj_test_set_committed(a.t, "notif", 0, 0);
  alerts_run(&a);
  assert_int_equal(1, cj_test_logged(a.t, "past the group's committed offset"));
  assert_alerts(&a, "n1+1 n2+2 n1+1 n2+2");
  alerts_close(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_47_the_log_was_truncated),
      cmocka_unit_test(case_47_the_log_is_truncated_while_it_runs),
      cmocka_unit_test(case_48_the_position_is_before_the_start),
      cmocka_unit_test(case_37_a_recreated_topic),
      cmocka_unit_test(case_55_truncated_and_grown_again),
      cmocka_unit_test(a_streams_offset_is_not_in_its_log),
      cmocka_unit_test(case_52_open_and_aborted_transactions),
      cmocka_unit_test(case_52_read_uncommitted_sees_them),
      cmocka_unit_test(case_71_earliest_and_latest),
      cmocka_unit_test(case_71_error),
      cmocka_unit_test(case_71_a_table_is_rebuilt),
      cmocka_unit_test(case_72_latest_is_for_streams_only),
      cmocka_unit_test(an_operators_reset_does_it_all_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
