/* SPDX-License-Identifier: BSD-2-Clause */
/* The order of outputs, offsets and stores where something fails in the middle of it. */
#include "lib/alerts.h"

/* A dead letter stands for the output that it replaces: the commit that waits for the one waits for
 * the other. */
static void a_commit_waits_for_the_dead_letter_of_a_failed_output(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1,
                         WITH("errors.produce", "dead_letter", "errors.dead.letter.topic", "dead"));
  cj_test_topic(a.t, "dead", 1);
  alerts_price(&a, "X", "1", 1);
  alerts_run(&a);
  cj_test_commit(a.t);
  cj_test_hold(a.t, "alerts", 0, true);
  cj_test_hold(a.t, "dead", 0, true);
  alerts_notif(&a, "X", "n1", 2);
  cj_test_settle(a.t);
  cj_test_commit(a.t); /* the cut is made, the output is on its way */
  cj_test_fail_delivery(a.t, "alerts", 1);
  cj_test_hold(a.t, "alerts", 0, false);
  cj_test_advance(a.t, 5000);
  assert_int_equal(0, cj_test_count(a.t, "dead", 0));
  assert_int_equal(0, cj_test_committed(a.t, "notif", 0));
  cj_test_hold(a.t, "dead", 0, false);
  cj_test_advance(a.t, 5000);
  assert_int_equal(1, cj_test_count(a.t, "dead", 0));
  assert_int_equal(1, cj_test_committed(a.t, "notif", 0));
  alerts_close(&a);
}

/* What is restored ends at the committed offset, though the fetcher's position is past the holes
 * behind it already: a store that said more would be ahead of the group, and be rebuilt. */
static void a_restored_store_is_not_ahead_of_the_group(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, WITH("commit.interval.ms", "600000"));
  alerts_price(&a, "X", "1", 1);
  alerts_run(&a);
  cj_test_commit(a.t);
  cj_test_crash_member(a.t, "a");
  cj_test_wipe_member(a.t, "a");
  cj_test_advance(a.t, 60000);
  cj_test_gap(a.t, "price", 0, 5);
  alerts_run(&a);
  assert_int_equal(1, cj_test_metric(a.t, "restored", NULL));
  cj_test_crash_member(a.t, "a"); /* the position behind the holes was not committed */
  assert_int_equal(1, cj_test_committed(a.t, "price", 0));
  cj_test_advance(a.t, 60000);
  alerts_run(&a);
  assert_int_equal(0, cj_test_logged(a.t, "rebuilt"));
  assert_int_equal(0, cj_test_metric(a.t, "restored", NULL));
  cj_test_commit(a.t);
  assert_int_equal(6, cj_test_committed(a.t, "price", 0));
  assert_string_equal("1", alerts_row(&a, "X"));
  alerts_close(&a);
}

/* `table_first` waits for the end that the table had; where the log is cut meanwhile that end does
 * not come. */
static void a_table_cut_while_it_is_loaded_does_not_hold_the_stream(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, WITH("order", "table_first"));
  alerts_price(&a, "X", "1", 1);
  alerts_price(&a, "X", "2", 2);
  alerts_price(&a, "X", "3", 3);
  alerts_notif(&a, "X", "n1", 4);
  cj_test_hold(a.t, "price", 0, true);
  alerts_run(&a);
  cj_test_truncate(a.t, "price", 0, 2);
  cj_test_hold(a.t, "price", 0, false);
  cj_test_advance(a.t, 10000);
  assert_alerts(&a, "n1+2");
  assert_int_equal(2, cj_test_committed(a.t, "price", 0));
  alerts_close(&a);
}

/* The log was cut and has grown again past the store's position, and the last applied record is
 * still the same: but there were holes behind it, and now there are records. */
static void records_where_there_were_holes_tell_another_log(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  alerts_price(&a, "X", "1", 1);
  cj_test_gap(a.t, "price", 0, 3);
  alerts_run(&a);
  cj_test_commit(a.t);
  assert_int_equal(4, cj_test_committed(a.t, "price", 0));
  cj_test_stop_member(a.t, "a");
  cj_test_truncate(a.t, "price", 0, 1);
  for (int i = 2; i < 7; i++) {
    char key[8];
    snprintf(key, sizeof key, "Y%d", i);
    alerts_price(&a, key, "2", i);
  }
  alerts_run(&a);
  cj_test_advance(a.t, 5000);
  assert_int_equal(1, cj_test_logged(a.t, "rebuilt"));
  assert_string_equal("1", alerts_row(&a, "X"));
  assert_string_equal("2", alerts_row(&a, "Y2")); /* at a hole's offset */
  alerts_close(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_commit_waits_for_the_dead_letter_of_a_failed_output),
      cmocka_unit_test(a_restored_store_is_not_ahead_of_the_group),
      cmocka_unit_test(a_table_cut_while_it_is_loaded_does_not_hold_the_stream),
      cmocka_unit_test(records_where_there_were_holes_tell_another_log),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
