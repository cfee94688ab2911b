/* SPDX-License-Identifier: BSD-2-Clause */
/* What keys, values, timestamps and headers mean: nulls, zero bytes, tombstones, what an output
 * carries. Case numbers are those of the public trouble reports that the project collected. */
#include "lib/alerts.h"

static cj_bytes empty(void) {
  return cj_bytes_of("", 0);
}

static void put(alerts *a, const char *topic, cj_bytes key, cj_bytes value) {
  static int64_t timestamp = 1000;
  cj_test_pipe_to(a->t, topic, 0, key, value, timestamp++, NULL, 0);
}

static void case_28(alerts_join join, const char *expected, int64_t dropped) {
  alerts a = alerts_open(join, 1, NULL);
  put(&a, "price", cj_bytes_null(), cj_bytes_str("5"));
  put(&a, "notif", cj_bytes_null(), cj_bytes_str("n1"));
  put(&a, "notif", empty(), cj_bytes_str("n2"));
  alerts_run(&a);
  assert_alerts(&a, expected);
  assert_int_equal(dropped, cj_test_metric(a.t, "dropped", "null-key"));
  assert_int_equal(0, cj_test_metric(a.t, "joined", NULL)); /* null equals nothing, "" neither */
  cj_test_commit(a.t);
  assert_int_equal(1, cj_test_committed(a.t, "price", 0));
  assert_int_equal(2, cj_test_committed(a.t, "notif", 0));
  alerts_close(&a);
}

static void case_28_null_keys_inner(void **state) {
  (void)state;
  case_28(INNER, "", 2);
}

static void case_28_null_keys_left(void **state) {
  (void)state;
  case_28(LEFT, "n1+NULL n2+NULL", 1);
}

static void case_29_null_stream_values_are_dropped(void **state) {
  (void)state;
  alerts a = alerts_open(LEFT, 1, NULL);
  put(&a, "price", cj_bytes_str("BBCA"), cj_bytes_str("9100"));
  put(&a, "notif", cj_bytes_str("BBCA"), cj_bytes_null());
  alerts_run(&a);
  assert_alerts(&a, "");
  assert_int_equal(1, cj_test_metric(a.t, "dropped", "null-value"));
  cj_test_commit(a.t);
  assert_int_equal(1, cj_test_committed(a.t, "notif", 0));
  alerts_close(&a);
}

static void case_30_zero_bytes_are_a_value(void **state) {
  (void)state;
  alerts a = alerts_open(LEFT, 1, NULL);
  put(&a, "price", cj_bytes_str("BBCA"), cj_bytes_str("9100"));
  put(&a, "price", cj_bytes_str("BBCA"), empty());
  put(&a, "notif", cj_bytes_str("BBCA"), cj_bytes_str("n1"));
  put(&a, "price", cj_bytes_str("BBCA"), cj_bytes_null());
  put(&a, "notif", cj_bytes_str("BBCA"), cj_bytes_str("n2"));
  put(&a, "notif", cj_bytes_str("BBCA"), empty()); /* a value as well */
  alerts_run(&a);
  assert_alerts(&a, "n1+ n2+NULL +NULL");
  assert_int_equal(1, cj_test_metric(a.t, "joined", NULL));
  assert_int_equal(2, cj_test_metric(a.t, "missed", NULL));
  alerts_close(&a);
}

static void case_30_zero_bytes_are_a_key(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  put(&a, "price", empty(), cj_bytes_str("9100"));
  put(&a, "notif", empty(), cj_bytes_str("n1"));
  alerts_run(&a);
  assert_alerts(&a, "n1+9100");
  alerts_close(&a);
}

/* The same before and after a restart that restores from the topic. */
static void case_30_a_tombstone_is_restored_as_one(void **state) {
  (void)state;
  alerts a = alerts_open(LEFT, 1, NULL);
  put(&a, "price", cj_bytes_str("kept"), empty());
  put(&a, "price", cj_bytes_str("gone"), cj_bytes_str("9100"));
  put(&a, "price", cj_bytes_str("gone"), cj_bytes_null());
  put(&a, "price", cj_bytes_null(), cj_bytes_str("no key"));
  alerts_run(&a);
  cj_test_stop_member(a.t, "a");
  cj_test_wipe_member(a.t, "a");
  alerts_run(&a);
  assert_string_equal("", alerts_row(&a, "kept"));
  assert_string_equal("NULL", alerts_row(&a, "gone"));
  put(&a, "notif", cj_bytes_str("kept"), cj_bytes_str("n1"));
  put(&a, "notif", cj_bytes_str("gone"), cj_bytes_str("n2"));
  put(&a, "notif", cj_bytes_null(), cj_bytes_str("n3"));
  cj_test_settle(a.t);
  assert_alerts(&a, "n1+ n2+NULL n3+NULL");
  alerts_close(&a);
}

/* Case 60: the later offset wins, whatever its timestamp, as in the compacted topic. */
static void case_60_the_later_offset_wins(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  alerts_price(&a, "BBCA", "9200", 2000);
  alerts_price(&a, "BBCA", "9100", 1000);
  alerts_notif(&a, "BBCA", "n1", 3000);
  alerts_run(&a);
  assert_alerts(&a, "n1+9100");
  assert_int_equal(1, cj_test_metric(a.t, "out_of_order", NULL));
  cj_test_stop_member(a.t, "a");
  cj_test_wipe_member(a.t, "a");
  cj_test_compact(a.t, "price", 0);
  alerts_run(&a);
  alerts_notif(&a, "BBCA", "n2", 3001);
  cj_test_settle(a.t);
  assert_alerts(&a, "n1+9100 n2+9100");
  alerts_close(&a);
}

static void case_61_a_negative_timestamp_is_kept(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  alerts_price(&a, "BBCA", "9100", -1);
  alerts_notif(&a, "BBCA", "n1", -1);
  alerts_run(&a);
  assert_alerts(&a, "n1+9100");
  cj_record record;
  assert_true(cj_test_read(a.t, "alerts", 0, 0, &record));
  assert_int_equal(-1, record.timestamp);
  assert_int_equal(2, cj_test_metric(a.t, "negative_timestamp", NULL));
  alerts_well(&a, "a");
  alerts_close(&a);
}

/* Case 81: exactly the stream's headers, in their order, with duplicates and nulls. */
static void case_81_headers(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  const cj_header of_price[] = {{"src", cj_bytes_str("x")}};
  const cj_header of_notif[] = {
      {"trace", cj_bytes_str("1")}, {"trace", cj_bytes_str("2")}, {"k", cj_bytes_null()}};
  cj_test_pipe_to(a.t, "price", 0, cj_bytes_str("BBCA"), cj_bytes_str("9100"), 1, of_price, 1);
  cj_test_pipe_to(a.t, "notif", 0, cj_bytes_str("BBCA"), cj_bytes_str("n1"), 2, of_notif, 3);
  alerts_run(&a);
  cj_record record;
  assert_true(cj_test_read(a.t, "alerts", 0, 0, &record));
  const cj_header *headers;
  assert_int_equal(3, cj_record_headers(&record, &headers));
  for (size_t i = 0; i < 3; i++) {
    assert_string_equal(of_notif[i].name, headers[i].name);
    assert_true(cj_bytes_equal(of_notif[i].value, headers[i].value));
  }
  alerts_close(&a);
}

/* Key and timestamp of the stream's record, in the partition that murmur2 gives (vectors of
 * partition-vectors.tsv: six partitions). */
static void an_output_has_the_streams_key_and_timestamp(void **state) {
  (void)state;
  static const struct {
    const char *key;
    int32_t partition;
  } vectors[] = {{"BBCA", 0}, {"TLKM", 5}, {"UNVR", 3}, {"ADRO", 1}};
  alerts a = alerts_open(INNER, 6, NULL);
  for (size_t i = 0; i < 4; i++) {
    alerts_price(&a, vectors[i].key, "1", 10);
    alerts_notif(&a, vectors[i].key, "n", 20 + (int64_t)i);
  }
  alerts_run(&a);
  for (size_t i = 0; i < 4; i++) {
    cj_record record;
    assert_int_equal(1, cj_test_count(a.t, "alerts", vectors[i].partition));
    assert_true(cj_test_read(a.t, "alerts", vectors[i].partition, 0, &record));
    assert_true(cj_bytes_equal(cj_bytes_str(vectors[i].key), record.key));
    assert_int_equal(20 + (int64_t)i, record.timestamp);
  }
  alerts_close(&a);
}

/* Case 25: keys are bytes, NUL and those above 0x7f included, and compared as such. */
static void case_25_keys_are_bytes(void **state) {
  (void)state;
  static const unsigned char number[] = {0, 0, 0, 0, 0, 0, 0x04, 0xd2};
  static const unsigned char mangled[] = {0, 0, 0, 0, 0, 0, 0x04, 0xef, 0xbf, 0xbd};
  alerts a = alerts_open(LEFT, 1, NULL);
  put(&a, "price", cj_bytes_of(number, sizeof number), cj_bytes_str("9100"));
  put(&a, "notif", cj_bytes_of(number, sizeof number), cj_bytes_str("n1"));
  put(&a, "notif", cj_bytes_of(mangled, sizeof mangled), cj_bytes_str("n2"));
  put(&a, "notif", cj_bytes_of(number, 7), cj_bytes_str("n3"));
  alerts_run(&a);
  assert_alerts(&a, "n1+9100 n2+NULL n3+NULL");
  alerts_close(&a);
}

static void a_table_update_emits_nothing(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  alerts_notif(&a, "BBCA", "n1", 1000);
  alerts_run(&a);
  alerts_price(&a, "BBCA", "9100", 2000);
  alerts_price(&a, "BBCA", "9200", 3000);
  cj_test_settle(a.t);
  assert_alerts(&a, "");
  assert_int_equal(2, cj_test_metric(a.t, "table_updates", NULL));
  alerts_close(&a);
}

static void everything_is_counted(void **state) {
  (void)state;
  alerts a = alerts_open(LEFT, 1, NULL);
  alerts_price(&a, "BBCA", "9100", 1);
  alerts_price(&a, "TLKM", "3000", 2);
  alerts_price(&a, "TLKM", NULL, 3);
  alerts_notif(&a, "BBCA", "n1", 4);
  alerts_notif(&a, "TLKM", "n2", 5);
  alerts_notif(&a, "TLKM", NULL, 6);
  alerts_run(&a);
  assert_int_equal(6, cj_test_metric(a.t, "records_in", NULL));
  assert_int_equal(3, cj_test_metric(a.t, "table_updates", NULL));
  assert_int_equal(1, cj_test_metric(a.t, "joined", NULL));
  assert_int_equal(1, cj_test_metric(a.t, "missed", NULL));
  assert_int_equal(2, cj_test_metric(a.t, "records_out", NULL));
  assert_int_equal(1, cj_test_metric(a.t, "dropped", NULL));
  assert_int_equal(0, cj_test_metric(a.t, "lag", NULL));
  cj_test_hold(a.t, "notif", 0, true);
  alerts_notif(&a, "TLKM", "n3", 7);
  cj_test_advance(a.t, 10000); /* the ends are asked for now and then */
  assert_int_equal(1, cj_test_metric(a.t, "lag", NULL));
  alerts_close(&a);
}

/* The guard: a record in a partition where its key does not belong is joined there, and counted. */
static void misplaced_records_are_counted(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 6, NULL);
  cj_test_pipe_to(a.t, "price", 2, cj_bytes_str("BBCA"), cj_bytes_str("1"), 1, NULL, 0);
  alerts_price(&a, "BBCA", "2", 1);
  alerts_notif(&a, "BBCA", "n1", 2);
  alerts_run(&a);
  assert_alerts(&a, "n1+2");
  assert_int_equal(1, cj_test_metric(a.t, "misplaced", NULL));
  alerts_close(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_28_null_keys_inner),
      cmocka_unit_test(case_28_null_keys_left),
      cmocka_unit_test(case_29_null_stream_values_are_dropped),
      cmocka_unit_test(case_30_zero_bytes_are_a_value),
      cmocka_unit_test(case_30_zero_bytes_are_a_key),
      cmocka_unit_test(case_30_a_tombstone_is_restored_as_one),
      cmocka_unit_test(case_60_the_later_offset_wins),
      cmocka_unit_test(case_61_a_negative_timestamp_is_kept),
      cmocka_unit_test(case_81_headers),
      cmocka_unit_test(an_output_has_the_streams_key_and_timestamp),
      cmocka_unit_test(case_25_keys_are_bytes),
      cmocka_unit_test(a_table_update_emits_nothing),
      cmocka_unit_test(everything_is_counted),
      cmocka_unit_test(misplaced_records_are_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
