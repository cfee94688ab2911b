/* SPDX-License-Identifier: BSD-2-Clause */
/* What is refused at the start, and what becomes of a record that fails on the way. */
#include "lib/alerts.h"
#include "testing/driver.h"

/* ---- the start ---- */

static cj_error *refused(alerts *a, cj_code code) {
  cj_error *error = cj_test_start_member(a->t, "a");
  assert_non_null(error);
  assert_int_equal(code, cj_error_code(error));
  assert_false(cj_test_step(a->t)); /* nobody is there */
  return error;
}

static void says(const cj_error *error, const char *part) {
  if (!strstr(cj_error_text(error), part))
    fail_msg("\"%s\" does not say \"%s\"", cj_error_text(error), part);
}

static void case_31_counts_that_differ_are_refused(void **state) {
  (void)state;
  alerts a = alerts_over(alerts_plan(INNER, NULL, NULL), 4, NULL);
  cj_test_topic(a.t, "notif", 6);
  alerts_price(&a, "BBCA", "1", 1);
  alerts_notif(&a, "BBCA", "n1", 2);
  cj_error *error = refused(&a, CJ_ERR_NOT_COPARTITIONED);
  says(error, "notif");
  says(error, "price");
  says(error, "6");
  says(error, "4");
  const cj_report *report = cj_error_report(error);
  assert_non_null(report);
  assert_int_equal(CJ_BROKEN, cj_report_point(report, CJ_POINT_PARTITION_COUNT));
  cj_error_destroy(error);
  /* Nothing was read or committed, no topic was written. */
  assert_int_equal(-1, cj_test_committed(a.t, "notif", 0));
  for (int32_t p = 0; p < 6; p++)
    assert_int_equal(0, cj_test_count(a.t, "alerts", p));
  alerts_close(&a);
}

/* In a join of several the odd topic is named, not the one that happens to come last. */
static void case_31_the_odd_one_is_named(void **state) {
  (void)state;
  static const char *const tables[] = {"a-table", "b-odd", "c-table"};
  cj_topology *topology = cj_topology_new();
  cj_stream *stream = cj_topology_stream(topology, "notif", NULL);
  for (size_t i = 0; i < 3; i++)
    stream =
        cj_stream_join(stream, cj_topology_table(topology, tables[i], NULL), alerts_pair, NULL);
  cj_stream_to(stream, "alerts", NULL);
  cj_plan *plan;
  assert_null(cj_topology_build(topology, &plan));
  alerts a = alerts_over(plan, 6, NULL);
  for (size_t i = 0; i < 3; i++)
    cj_test_topic(a.t, tables[i], i == 1 ? 1 : 6);
  cj_error *error = refused(&a, CJ_ERR_NOT_COPARTITIONED);
  says(error, "b-odd");
  cj_error_destroy(error);
  alerts_close(&a);
}

static void a_team_may_be_warned_only(void **state) {
  (void)state;
  alerts a = alerts_over(alerts_plan(LEFT, NULL, NULL), 4, WITH("check.partition.count", "warn"));
  cj_test_topic(a.t, "notif", 6);
  for (int32_t p = 0; p < 6; p++)
    cj_test_pipe_to(a.t, "notif", p, cj_bytes_str("X"), cj_bytes_str("n"), 1, NULL, 0);
  alerts_run(&a);
  assert_int_equal(6, cj_test_metric(a.t, "missed", NULL)); /* no record is left aside */
  assert_true(cj_test_logged(a.t, "same partition count") > 0);
  alerts_close(&a);
}

static void case_35_a_misspelt_topic(void **state) {
  (void)state;
  cj_topology *topology = cj_topology_new();
  cj_stream *stream = cj_topology_stream(topology, "notif", NULL);
  cj_table *table = cj_topology_table(topology, "prices", NULL);
  cj_stream_to(cj_stream_join(stream, table, alerts_pair, NULL), "alerts", NULL);
  cj_plan *plan;
  assert_null(cj_topology_build(topology, &plan));
  alerts a = alerts_over(plan, 6, NULL);
  int64_t before = cj_test_now(a.t);
  cj_error *error = refused(&a, CJ_ERR_TOPIC_MISSING);
  assert_true(cj_test_now(a.t) - before <= 30000); /* check.timeout.ms */
  says(error, "prices");
  says(error, "nearest");
  cj_error_destroy(error);
  error = refused(&a, CJ_ERR_TOPIC_MISSING); /* asking has not made it */
  cj_error_destroy(error);
  alerts_close(&a);
}

static void case_83_brokers_are_down_at_the_start(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  cj_test_broker_up(a.t, false);
  int64_t before = cj_test_now(a.t);
  cj_error *error = refused(&a, CJ_ERR_BROKER);
  assert_int_equal(30000, cj_test_now(a.t) - before);
  assert_int_equal(CJ_CLASS_RETRIABLE, cj_error_class(error));
  cj_error_destroy(error);
  cj_test_broker_up(a.t, true);
  alerts_price(&a, "X", "1", 1);
  alerts_notif(&a, "X", "n1", 2);
  alerts_run(&a);
  assert_alerts(&a, "n1+1");
  alerts_close(&a);
}

/* Case 32: growth moves keys. It ends the member with an error that says so. */
static void case_32_a_topic_grows_while_it_runs(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 2, NULL);
  alerts_price(&a, "X", "1", 1);
  alerts_run(&a);
  cj_test_topic(a.t, "price", 4);
  cj_test_advance(a.t, 30000);
  const cj_error *error = cj_test_member_error(a.t, "a");
  assert_int_equal(CJ_ERR_PARTITIONS_CHANGED, cj_error_code(error));
  says(error, "price");
  says(error, "4");
  says(error, "2");
  alerts_close(&a);
}

/* The group deals a partition that was not there at the start, before the worker has seen the
 * growth by itself. */
static void case_32_a_new_partition_is_dealt(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 2, NULL);
  alerts_run(&a);
  cj_test_topic(a.t, "price", 3);
  cj_test_topic(a.t, "notif", 3);
  cj_test_rebalance(a.t);
  cj_test_settle(a.t);
  assert_int_equal(CJ_ERR_PARTITIONS_CHANGED, cj_error_code(cj_test_member_error(a.t, "a")));
  alerts_close(&a);
}

static void a_topic_is_deleted_while_it_runs(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  alerts_price(&a, "X", "1", 1);
  alerts_run(&a);
  cj_test_delete_topic(a.t, "price");
  cj_test_advance(a.t, 60000);
  const cj_error *error = cj_test_member_error(a.t, "a");
  assert_int_equal(CJ_ERR_TOPIC_MISSING, cj_error_code(error));
  says(error, "price");
  alerts_close(&a);
}

static void a_fetch_that_fails_for_a_moment(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  alerts_price(&a, "X", "1", 1);
  alerts_notif(&a, "X", "n1", 2);
  alerts_run(&a);
  cj_test_fail_fetch(a.t, "price", 0);
  alerts_price(&a, "X", "2", 3);
  alerts_notif(&a, "X", "n2", 4);
  cj_test_advance(a.t, 5000);
  alerts_well(&a, "a");
  cj_test_commit(a.t);
  assert_string_equal("2", alerts_row(&a, "X"));
  assert_int_equal(2, cj_test_committed(a.t, "notif", 0));
  /* At least once: what was not committed is done again, with the same row. */
  cj_record record;
  for (size_t i = 0; cj_test_read(a.t, "alerts", 0, i, &record); i++)
    assert_true(cj_bytes_equal(record.value, cj_bytes_str("n1+1")) ||
                cj_bytes_equal(record.value, cj_bytes_str("n2+2")));
  assert_true(cj_test_count(a.t, "alerts", 0) >= 2);
  alerts_close(&a);
}

/* The client as a whole fails: the member ends with the error's kind, and has not committed. */
static void a_client_that_is_fenced_or_not_let_in(void **state) {
  (void)state;
  static const struct {
    cj_io_code code;
    bool fatal;
    cj_code expected;
  } kinds[] = {
      {CJ_IO_FENCED, true, CJ_ERR_FENCED},
      {CJ_IO_AUTH, false, CJ_ERR_AUTH},
      {CJ_IO_INCONSISTENT_GROUP, false, CJ_ERR_ASSIGNMENT},
      {CJ_IO_OTHER, true, CJ_ERR_KAFKA},
      {CJ_IO_RETRIABLE, false, CJ_OK}, /* all brokers down: said now and then, not an end */
  };
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    alerts a = alerts_open(INNER, 1, NULL);
    alerts_price(&a, "X", "1", 1);
    alerts_run(&a);
    cj_io_memory_fail(cj_driver_member(a.t, "a")->workers[0].io, kinds[i].code, kinds[i].fatal,
                      "said by the client");
    cj_test_settle(a.t);
    const cj_error *error = cj_test_member_error(a.t, "a");
    assert_int_equal(kinds[i].expected, cj_error_code(error));
    if (error) says(error, "said by the client");
    if (error) assert_int_equal(-1, cj_test_committed(a.t, "price", 0));
    alerts_close(&a);
  }
}

/* ---- records that fail ---- */

typedef struct {
  const char *policy; /* the property */
  const char *reason; /* of the counter */
  cj_code code;
} kind;

static const kind process = {"errors.process", "process", CJ_ERR_PROCESS};
static const kind deserialize = {"errors.deserialize", "deserialize", CJ_ERR_DESERIALIZE};

/* Case 80: n0 … n9 where 0 and 5 fail, or the price when `in_table`. */
static alerts poisoned(const kind *k, const char *policy, bool in_table) {
  const cj_source_options text = {.value_serde = cj_serde_string()};
  bool decoding = k == &deserialize;
  alerts a = alerts_over(alerts_plan(INNER, decoding ? &text : NULL, decoding ? &text : NULL), 1,
                         WITH(k->policy, policy, "errors.dead.letter.topic", "dead"));
  const char *bad = decoding ? "\xff\xfe" : "fail";
  alerts_price(&a, "X", "1", 1);
  if (in_table) alerts_price(&a, "X", bad, 2);
  for (int i = 0; i < 10; i++) {
    char value[16];
    snprintf(value, sizeof value, "n%d", i);
    bool fails = !in_table && (i == 0 || i == 5);
    alerts_notif(&a, "X", fails ? bad : value, 10 + i);
  }
  alerts_run(&a);
  return a;
}

static void case_80_fail(const kind *k) {
  alerts a = poisoned(k, "fail", false);
  const cj_error *error = cj_test_member_error(a.t, "a");
  assert_int_equal(k->code, cj_error_code(error));
  says(error, "topic notif, partition 0, offset 0");
  /* What came before is committed, what failed is not. */
  assert_int_equal(0, cj_test_committed(a.t, "notif", 0));
  assert_int_equal(1, cj_test_committed(a.t, "price", 0));
  assert_alerts(&a, "");
  alerts_run(&a); /* and it is met again */
  assert_int_equal(k->code, cj_error_code(cj_test_member_error(a.t, "a")));
  alerts_close(&a);
}

static void case_80_skip(const kind *k) {
  alerts a = poisoned(k, "skip", false);
  alerts_well(&a, "a");
  assert_alerts(&a, "n1+1 n2+1 n3+1 n4+1 n6+1 n7+1 n8+1 n9+1");
  assert_int_equal(2, cj_test_metric(a.t, "dropped", k->reason));
  cj_test_commit(a.t);
  assert_int_equal(10, cj_test_committed(a.t, "notif", 0));
  alerts_close(&a);
}

static bool header_is(const cj_record *record, const char *name, const char *value) {
  const cj_header *headers;
  size_t count = cj_record_headers(record, &headers);
  for (size_t i = 0; i < count; i++)
    if (strcmp(headers[i].name, name) == 0)
      return cj_bytes_equal(headers[i].value, cj_bytes_str(value));
  return false;
}

static void case_80_dead_letter(const kind *k) {
  alerts a = poisoned(k, "dead_letter", false);
  alerts_well(&a, "a");
  assert_alerts(&a, "n1+1 n2+1 n3+1 n4+1 n6+1 n7+1 n8+1 n9+1");
  cj_record record;
  assert_int_equal(2, cj_test_count(a.t, "dead", 0));
  assert_true(cj_test_read(a.t, "dead", 0, 1, &record));
  assert_true(cj_bytes_equal(cj_bytes_str("X"), record.key));
  assert_true(cj_bytes_equal(cj_bytes_str(k == &process ? "fail" : "\xff\xfe"), record.value));
  assert_int_equal(15, record.timestamp);
  assert_true(header_is(&record, "cojoin.topic", "notif"));
  assert_true(header_is(&record, "cojoin.partition", "0"));
  assert_true(header_is(&record, "cojoin.offset", "5"));
  cj_test_commit(a.t);
  assert_int_equal(10, cj_test_committed(a.t, "notif", 0));
  alerts_close(&a);
}

static void case_80_a_callback_fails(void **state) {
  (void)state;
  case_80_fail(&process);
  case_80_skip(&process);
  case_80_dead_letter(&process);
}

static void case_80_bytes_do_not_decode(void **state) {
  (void)state;
  case_80_fail(&deserialize);
  case_80_skip(&deserialize);
  case_80_dead_letter(&deserialize);
}

/* Records before the failed one count, and are not done again. */
static void a_failure_in_the_middle_keeps_what_came_before(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  alerts_price(&a, "X", "1", 1);
  alerts_notif(&a, "X", "n0", 10);
  alerts_notif(&a, "X", "n1", 11);
  alerts_notif(&a, "X", "fail", 12);
  alerts_notif(&a, "X", "n3", 13);
  alerts_run(&a);
  says(cj_test_member_error(a.t, "a"), "topic notif, partition 0, offset 2");
  assert_int_equal(2, cj_test_committed(a.t, "notif", 0));
  assert_alerts(&a, "n0+1 n1+1");
  alerts_run(&a);
  assert_alerts(&a, "n0+1 n1+1");
  alerts_close(&a);
}

/* A table's row that does not decode is skipped the same way by a restore. */
static void case_80_a_restore_skips_what_processing_skipped(void **state) {
  (void)state;
  alerts a = poisoned(&deserialize, "skip", true);
  cj_test_commit(a.t);
  assert_string_equal("1", alerts_row(&a, "X"));
  assert_int_equal(2, cj_test_committed(a.t, "price", 0));
  cj_test_stop_member(a.t, "a");
  cj_test_wipe_member(a.t, "a");
  alerts_run(&a);
  assert_string_equal("1", alerts_row(&a, "X"));
  alerts_close(&a);
}

/* ---- outputs that fail ---- */

/* Case 78: refused by the broker in its report, or by the client at once. */
static alerts unproduced(const char *policy, bool at_once) {
  static char large[2001];
  memset(large, 'x', sizeof large - 1);
  alerts a = alerts_open(INNER, 1,
                         WITH("errors.produce", policy, "errors.dead.letter.topic", "dead",
                              "rd.message.max.bytes", at_once ? "1000" : "1000000"));
  alerts_price(&a, "X", "1", 1);
  alerts_run(&a);
  cj_test_commit(a.t);
  if (!at_once) cj_test_fail_delivery(a.t, "alerts", 1);
  alerts_notif(&a, "X", at_once ? large : "n0", 10);
  alerts_notif(&a, "X", "n1", 11);
  cj_test_settle(a.t);
  cj_test_commit(a.t);
  return a;
}

static void case_78(bool at_once) {
  alerts a = unproduced("fail", at_once);
  const cj_error *error = cj_test_member_error(a.t, "a");
  assert_int_equal(CJ_ERR_PRODUCE, cj_error_code(error));
  says(error, "alerts");
  says(error, "notif[0]@0");
  assert_int_equal(0, cj_test_committed(a.t, "notif", 0));
  alerts_close(&a);

  a = unproduced("skip", at_once);
  alerts_well(&a, "a");
  assert_alerts(&a, "n1+1");
  assert_int_equal(1, cj_test_metric(a.t, "dropped", "produce"));
  assert_int_equal(2, cj_test_committed(a.t, "notif", 0));
  alerts_close(&a);

  a = unproduced("dead_letter", at_once);
  alerts_well(&a, "a");
  assert_alerts(&a, "n1+1");
  cj_record record;
  assert_int_equal(1, cj_test_count(a.t, "dead", 0));
  assert_true(cj_test_read(a.t, "dead", 0, 0, &record));
  assert_true(header_is(&record, "cojoin.topic", "notif"));
  assert_true(header_is(&record, "cojoin.offset", "0"));
  assert_int_equal(2, cj_test_committed(a.t, "notif", 0));
  alerts_close(&a);
}

static void case_78_the_broker_refuses_an_output(void **state) {
  (void)state;
  case_78(false);
}

static void case_78_the_client_refuses_an_output(void **state) {
  (void)state;
  case_78(true);
}

static int32_t beyond(void *user, cj_bytes key, int32_t partitions) {
  (void)user, (void)key;
  return partitions;
}

static void an_output_has_nowhere_to_go(void **state) {
  (void)state;
  const cj_partitioner bad = {.name = "bad", .partition = beyond};
  const cj_sink_options sink = {.partitioner = &bad};
  cj_topology *topology = cj_topology_new();
  cj_stream_to(cj_topology_stream(topology, "notif", NULL), "alerts", &sink);
  cj_plan *plan;
  assert_null(cj_topology_build(topology, &plan));
  alerts a = alerts_over(plan, 2, NULL);
  alerts_notif(&a, "X", "n1", 1);
  alerts_run(&a);
  const cj_error *error = cj_test_member_error(a.t, "a");
  assert_int_equal(CJ_ERR_PRODUCE, cj_error_code(error));
  says(error, "bad");
  alerts_close(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_31_counts_that_differ_are_refused),
      cmocka_unit_test(case_31_the_odd_one_is_named),
      cmocka_unit_test(a_team_may_be_warned_only),
      cmocka_unit_test(case_35_a_misspelt_topic),
      cmocka_unit_test(case_83_brokers_are_down_at_the_start),
      cmocka_unit_test(case_32_a_topic_grows_while_it_runs),
      cmocka_unit_test(case_32_a_new_partition_is_dealt),
      cmocka_unit_test(a_topic_is_deleted_while_it_runs),
      cmocka_unit_test(a_fetch_that_fails_for_a_moment),
      cmocka_unit_test(a_client_that_is_fenced_or_not_let_in),
      cmocka_unit_test(an_output_has_nowhere_to_go),
      cmocka_unit_test(case_80_a_callback_fails),
      cmocka_unit_test(case_80_bytes_do_not_decode),
      cmocka_unit_test(a_failure_in_the_middle_keeps_what_came_before),
      cmocka_unit_test(case_80_a_restore_skips_what_processing_skipped),
      cmocka_unit_test(case_78_the_broker_refuses_an_output),
      cmocka_unit_test(case_78_the_client_refuses_an_output),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
