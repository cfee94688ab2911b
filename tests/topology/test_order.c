/* SPDX-License-Identifier: BSD-2-Clause */
/* Which record goes first: by timestamp across the partitions of a task, and what is waited for. */
#include "lib/alerts.h"

static void the_smallest_timestamp_goes_first(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  alerts_price(&a, "BBCA", "9100", 1000);
  alerts_price(&a, "BBCA", "9200", 2000);
  alerts_price(&a, "BBCA", "9300", 3000);
  alerts_notif(&a, "BBCA", "n1", 1500);
  alerts_notif(&a, "BBCA", "n2", 2500);
  alerts_notif(&a, "BBCA", "n3", 3500);
  alerts_run(&a);
  assert_alerts(&a, "n1+9100 n2+9200 n3+9300");
  alerts_close(&a);
}

static void at_equal_timestamps_the_table_goes_first(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  alerts_notif(&a, "BBCA", "n1", 1000);
  alerts_price(&a, "BBCA", "9100", 1000);
  alerts_price(&a, "BBCA", "9200", 1000);
  alerts_notif(&a, "BBCA", "n2", 1000);
  alerts_run(&a);
  assert_alerts(&a, "n1+9200 n2+9200");
  alerts_close(&a);
}

/* Within a partition the order is the log's, whatever the timestamps say. */
static void a_partition_is_read_in_its_own_order(void **state) {
  (void)state;
  alerts a = alerts_open(LEFT, 1, NULL);
  alerts_notif(&a, "BBCA", "late", 5000);
  alerts_notif(&a, "BBCA", "early", 1000);
  alerts_price(&a, "BBCA", "9100", 3000);
  alerts_run(&a);
  /* 5000 heads the stream, so 3000 of the table goes before it; "early" is behind it. */
  assert_alerts(&a, "late+9100 early+9100");
  alerts_close(&a);
}

/* Case 59: events from before the table's dump do not match by timestamp, by design. */
static void case_59_a_price_from_the_future_is_not_joined(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  alerts_price(&a, "BBCA", "9100", 2000);
  alerts_notif(&a, "BBCA", "n1", 1000);
  alerts_run(&a);
  assert_alerts(&a, "");
  assert_int_equal(1, cj_test_metric(a.t, "missed", NULL));
  alerts_close(&a);
}

static void case_59_table_first_joins_the_latest(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, WITH("order", "table_first"));
  alerts_price(&a, "BBCA", "9100", 2000);
  alerts_notif(&a, "BBCA", "n1", 1000);
  alerts_run(&a);
  assert_alerts(&a, "n1+9100");
  alerts_close(&a);
}

/* Case 57: the stream waits until the table has reached the end that it had at assignment. */
static void case_57_the_table_is_loaded_first(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, WITH("order", "table_first"));
  for (int i = 0; i < 10000; i++) {
    char key[16];
    snprintf(key, sizeof key, "k%d", i);
    alerts_price(&a, i == 9999 ? "BBCA" : key, "9100", 100000 + i);
  }
  alerts_notif(&a, "BBCA", "n1", 1);
  cj_test_hold(a.t, "price", 0, true);
  alerts_run(&a);
  assert_alerts(&a, "");
  /* What comes after the assignment is not waited for. */
  cj_test_hold(a.t, "price", 0, false);
  cj_test_settle(a.t);
  assert_alerts(&a, "n1+9100");
  assert_int_equal(0, cj_test_metric(a.t, "missed", NULL));
  alerts_close(&a);
}

static void table_first_does_not_wait_for_an_empty_table(void **state) {
  (void)state;
  alerts a = alerts_open(LEFT, 1, WITH("order", "table_first"));
  cj_test_gap(a.t, "price", 0, 5);
  alerts_notif(&a, "BBCA", "n1", 1);
  alerts_run(&a);
  assert_alerts(&a, "n1+NULL");
  alerts_close(&a);
}

/* Case 58: the row was written just before the event, but the event is fetched first. The stream
 * waits for a table that is known not to be read to its end. */
static void case_58_the_stream_waits_for_the_table(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  alerts_run(&a);
  cj_test_hold(a.t, "price", 0, true);
  alerts_price(&a, "X", "1", 1000);
  alerts_notif(&a, "X", "n1", 1001);
  cj_test_settle(a.t);
  cj_test_advance(a.t, 60000);
  assert_alerts(&a, "");
  cj_test_hold(a.t, "price", 0, false);
  cj_test_settle(a.t);
  assert_alerts(&a, "n1+1");
  alerts_close(&a);
}

/* An end that was learnt before the record came proves nothing: it is asked for anew. */
static void case_58_an_old_end_is_not_enough(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  alerts_price(&a, "X", "0", 500);
  alerts_notif(&a, "X", "n0", 501);
  alerts_run(&a);
  assert_alerts(&a, "n0+0"); /* the table's end is known now: 1, and reached */
  cj_test_hold(a.t, "price", 0, true);
  alerts_price(&a, "X", "1", 1000);
  alerts_notif(&a, "X", "n1", 1001);
  cj_test_settle(a.t);
  assert_alerts(&a, "n0+0");
  cj_test_hold(a.t, "price", 0, false);
  cj_test_settle(a.t);
  assert_alerts(&a, "n0+0 n1+1");
  alerts_close(&a);
}

/* An unknown end means wait, not "there is nothing". */
static void an_end_that_cannot_be_learnt_is_waited_for(void **state) {
  (void)state;
  alerts a = alerts_open(LEFT, 1, NULL);
  alerts_run(&a);
  cj_test_fail_request(a.t, CJ_TEST_ENDS, CJ_TEST_REFUSED, 10);
  alerts_notif(&a, "X", "n1", 1001);
  cj_test_settle(a.t);
  assert_alerts(&a, "");
  cj_test_advance(a.t, 5000);
  assert_alerts(&a, "n1+NULL");
  alerts_close(&a);
}

static void minus_one_does_not_wait_for_anything(void **state) {
  (void)state;
  alerts a = alerts_open(LEFT, 1, WITH("max.task.idle.ms", "-1"));
  alerts_run(&a);
  cj_test_hold(a.t, "price", 0, true);
  alerts_price(&a, "X", "1", 1000);
  alerts_notif(&a, "X", "n1", 1001);
  cj_test_settle(a.t);
  assert_alerts(&a, "n1+NULL");
  alerts_close(&a);
}

/* The table is read to its end, and something may still be under way to it. */
static void an_idle_time_waits_for_what_is_yet_to_come(void **state) {
  (void)state;
  alerts a = alerts_open(LEFT, 1, WITH("max.task.idle.ms", "500"));
  alerts_run(&a);
  alerts_notif(&a, "X", "n1", 1001);
  cj_test_settle(a.t);
  cj_test_advance(a.t, 300);
  assert_alerts(&a, "");
  alerts_price(&a, "X", "1", 1000);
  cj_test_settle(a.t);
  /* The price came in time and goes first; then the stream's record waits anew. */
  assert_alerts(&a, "");
  cj_test_advance(a.t, 500);
  assert_alerts(&a, "n1+1");
  alerts_notif(&a, "X", "n2", 1002);
  cj_test_advance(a.t, 499);
  assert_alerts(&a, "n1+1");
  cj_test_advance(a.t, 1);
  assert_alerts(&a, "n1+1 n2+1");
  alerts_close(&a);
}

/* The other way round: a table's record from later waits for the stream, or the stream's next one
 * would be joined with the future. */
static void the_table_waits_for_the_stream_too(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  alerts_price(&a, "X", "old", 1000);
  alerts_run(&a);
  cj_test_hold(a.t, "notif", 0, true);
  alerts_notif(&a, "X", "n1", 1500);
  alerts_price(&a, "X", "new", 2000);
  cj_test_settle(a.t);
  cj_test_hold(a.t, "notif", 0, false);
  cj_test_settle(a.t);
  assert_alerts(&a, "n1+old");
  alerts_close(&a);
}

/* Two tasks do not wait for each other. */
static void partitions_of_other_tasks_do_not_hold_one_up(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 2, NULL);
  cj_test_hold(a.t, "price", 1, true);
  for (int32_t p = 0; p < 2; p++) {
    cj_test_pipe_to(a.t, "price", p, cj_bytes_str("X"), cj_bytes_str("1"), 1000, NULL, 0);
    cj_test_pipe_to(a.t, "notif", p, cj_bytes_str("X"), cj_bytes_str("n"), 2000, NULL, 0);
  }
  alerts_run(&a);
  assert_int_equal(1, cj_test_metric(a.t, "joined", NULL));
  cj_test_hold(a.t, "price", 1, false);
  cj_test_settle(a.t);
  assert_int_equal(2, cj_test_metric(a.t, "joined", NULL));
  alerts_close(&a);
}

static int64_t timestamp_in_the_value(void *user, const cj_record *record) {
  (void)user;
  int64_t ms = 0;
  for (size_t i = 0; i < record->value.len; i++)
    ms = ms * 10 + (((const char *)record->value.data)[i] - '0');
  return ms;
}

static void a_source_may_take_its_timestamp_from_elsewhere(void **state) {
  (void)state;
  const cj_source_options price = {.timestamp = timestamp_in_the_value};
  alerts a = alerts_over(alerts_plan(INNER, NULL, &price), 1, NULL);
  alerts_price(&a, "X", "1000", 9999);
  alerts_price(&a, "X", "3000", 9);
  alerts_notif(&a, "X", "n1", 2000);
  alerts_run(&a);
  assert_alerts(&a, "n1+1000");
  alerts_close(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_smallest_timestamp_goes_first),
      cmocka_unit_test(at_equal_timestamps_the_table_goes_first),
      cmocka_unit_test(a_partition_is_read_in_its_own_order),
      cmocka_unit_test(case_59_a_price_from_the_future_is_not_joined),
      cmocka_unit_test(case_59_table_first_joins_the_latest),
      cmocka_unit_test(case_57_the_table_is_loaded_first),
      cmocka_unit_test(table_first_does_not_wait_for_an_empty_table),
      cmocka_unit_test(case_58_the_stream_waits_for_the_table),
      cmocka_unit_test(case_58_an_old_end_is_not_enough),
      cmocka_unit_test(an_end_that_cannot_be_learnt_is_waited_for),
      cmocka_unit_test(minus_one_does_not_wait_for_anything),
      cmocka_unit_test(an_idle_time_waits_for_what_is_yet_to_come),
      cmocka_unit_test(the_table_waits_for_the_stream_too),
      cmocka_unit_test(partitions_of_other_tasks_do_not_hold_one_up),
      cmocka_unit_test(a_source_may_take_its_timestamp_from_elsewhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
