/* SPDX-License-Identifier: BSD-2-Clause */
/* Topologies of other shapes than one stream and one table. */
#include "lib/alerts.h"

static cj_plan *built(cj_topology *topology) {
  cj_plan *plan = NULL;
  cj_error *error = cj_topology_build(topology, &plan);
  if (error) fail_msg("%s", cj_error_text(error));
  return plan;
}

static void listed(const alerts *a, const char *topic, const char *expected) {
  char got[1024];
  alerts_list(a, topic, 0, got, sizeof got);
  assert_string_equal(expected, got);
}

/* ---- nodes see what the record came with ---- */

static cj_verdict trace_only(cj_ctx *ctx, const cj_record *record) {
  (void)ctx;
  const cj_header *headers;
  size_t count = cj_record_headers(record, &headers);
  for (size_t i = 0; i < count; i++)
    if (strcmp(headers[i].name, "trace") == 0) return CJ_EMIT;
  return CJ_DROP;
}

static cj_verdict where_from(cj_ctx *ctx, const cj_record *record, cj_buf *value) {
  cj_buf_printf(value, "%s[%d]@%lld/%d", record->topic, (int)record->partition,
                (long long)record->offset, (int)cj_ctx_partition(ctx));
  return CJ_EMIT;
}

static void a_stream_without_tables(void **state) {
  (void)state;
  cj_topology *topology = cj_topology_new();
  cj_stream *stream = cj_topology_stream(topology, "notif", NULL);
  stream = cj_stream_filter(stream, trace_only, NULL);
  cj_stream_to(cj_stream_map_values(stream, where_from, NULL), "alerts", NULL);
  alerts a = alerts_over(built(topology), 1, NULL);
  const cj_header headers[] = {{"other", cj_bytes_null()}, {"trace", cj_bytes_str("1")}};
  cj_test_pipe_to(a.t, "notif", 0, cj_bytes_str("k"), cj_bytes_str("v"), 1, headers, 1);
  cj_test_pipe_to(a.t, "notif", 0, cj_bytes_str("k"), cj_bytes_str("v"), 2, headers, 2);
  alerts_run(&a);
  assert_alerts(&a, "notif[0]@1/0");
  assert_int_equal(1, cj_test_metric(a.t, "dropped", "filter"));
  cj_test_commit(a.t);
  assert_int_equal(2, cj_test_committed(a.t, "notif", 0));
  cj_test_stop_member(a.t, "a");
  alerts_run(&a);
  assert_alerts(&a, "notif[0]@1/0");
  alerts_close(&a);
}

/* ---- several inputs ---- */

/* Two streams merged before a join are one set with the table: their records go by timestamp. */
static void merged_streams_go_by_timestamp(void **state) {
  (void)state;
  cj_topology *topology = cj_topology_new();
  cj_stream *merged = cj_stream_merge(cj_topology_stream(topology, "notif", NULL),
                                      cj_topology_stream(topology, "orders", NULL), NULL);
  cj_table *price = cj_topology_table(topology, "price", NULL);
  cj_stream_to(cj_stream_join(merged, price, alerts_pair, NULL), "alerts", NULL);
  alerts a = alerts_over(built(topology), 1, NULL);
  cj_test_topic(a.t, "orders", 1);
  alerts_price(&a, "X", "1", 10);
  alerts_price(&a, "X", "2", 30);
  alerts_notif(&a, "X", "n1", 20);
  alerts_notif(&a, "X", "n2", 40);
  alerts_put(&a, "orders", "X", "o1", 25);
  alerts_put(&a, "orders", "X", "o2", 40);
  alerts_run(&a);
  assert_alerts(&a, "n1+1 o1+1 n2+2 o2+2"); /* at equal timestamps by the topic's name */
  alerts_close(&a);
}

/* A chain of joins: all tables are the task's, in one store, told apart. */
static void a_chain_of_tables(void **state) {
  (void)state;
  enum { TABLES = 20 };
  cj_topology *topology = cj_topology_new();
  cj_stream *stream = cj_topology_stream(topology, "notif", NULL);
  for (int i = 0; i < TABLES; i++) {
    char name[16];
    snprintf(name, sizeof name, "t%02d", i);
    stream =
        cj_stream_left_join(stream, cj_topology_table(topology, name, NULL), alerts_pair, NULL);
  }
  cj_stream_to(stream, "alerts", NULL);
  alerts a = alerts_over(built(topology), 1, NULL);
  char expected[256] = "n";
  size_t len = 1;
  for (int i = 0; i < TABLES; i++) {
    char name[16], value[16];
    snprintf(name, sizeof name, "t%02d", i);
    snprintf(value, sizeof value, "%d", i);
    cj_test_topic(a.t, name, 1);
    if (i % 3) alerts_put(&a, name, "X", value, 10);
    len += (size_t)snprintf(expected + len, sizeof expected - len, "+%s", i % 3 ? value : "NULL");
  }
  alerts_run(&a);
  cj_test_stop_member(a.t, "a");
  alerts_notif(&a, "X", "n", 20);
  alerts_run(&a);
  assert_alerts(&a, expected);
  cj_test_stop_member(a.t, "a");
  cj_test_wipe_member(a.t, "a");
  alerts_notif(&a, "X", "n", 21);
  alerts_run(&a);
  char twice[600];
  snprintf(twice, sizeof twice, "%s %s", expected, expected);
  assert_alerts(&a, twice);
  alerts_close(&a);
}

/* Two sets that are joined with nothing of each other: tasks of their own, and counts of their
 * own. */
static void two_sets_beside_each_other(void **state) {
  (void)state;
  cj_topology *topology = cj_topology_new();
  cj_stream *orders = cj_topology_stream(topology, "orders", NULL);
  cj_table *customers = cj_topology_table(topology, "customers", NULL);
  cj_stream *notif = cj_topology_stream(topology, "notif", NULL);
  cj_table *price = cj_topology_table(topology, "price", NULL);
  cj_stream_to(cj_stream_join(orders, customers, alerts_pair, NULL), "invoices", NULL);
  cj_stream_to(cj_stream_join(notif, price, alerts_pair, NULL), "alerts", NULL);
  alerts a = alerts_over(built(topology), 6, WITH("assignment", "spread"));
  cj_test_topic(a.t, "orders", 4);
  cj_test_topic(a.t, "customers", 4);
  cj_test_topic(a.t, "invoices", 1);
  static const char *const members[] = {"a", "b", "c"};
  for (size_t i = 0; i < 3; i++)
    alerts_start(&a, members[i]);
  for (int k = 0; k < 20; k++) {
    char key[16];
    snprintf(key, sizeof key, "k%d", k);
    alerts_price(&a, key, "p", 1);
    alerts_notif(&a, key, "n", 2);
    alerts_put(&a, "customers", key, "c", 1);
    alerts_put(&a, "orders", key, "o", 2);
  }
  cj_test_settle(a.t);
  assert_int_equal(40, cj_test_metric(a.t, "joined", NULL));
  assert_int_equal(0, cj_test_metric(a.t, "missed", NULL));
  assert_int_equal(20, cj_test_count(a.t, "invoices", 0));
  assert_int_equal(10, cj_test_metric(a.t, "tasks", NULL));
  alerts_close(&a);
}

static int by_length(cj_ctx *ctx, const cj_record *record) {
  (void)ctx;
  return record->value.len == 1 ? 0 : record->value.len == 2 ? 1 : -1;
}

/* One stream joined twice, and written to two places. */
static void branches_and_several_sinks(void **state) {
  (void)state;
  cj_topology *topology = cj_topology_new();
  cj_stream *branch[2];
  cj_stream_branch(cj_topology_stream(topology, "notif", NULL), by_length, branch, 2, NULL);
  cj_table *price = cj_topology_table(topology, "price", NULL);
  cj_stream_to(cj_stream_join(branch[0], price, alerts_pair, NULL), "alerts", NULL);
  cj_stream_to(cj_stream_left_join(branch[1], price, alerts_pair, NULL), "others", NULL);
  alerts a = alerts_over(built(topology), 1, NULL);
  alerts_price(&a, "X", "1", 1);
  alerts_notif(&a, "X", "a", 2);
  alerts_notif(&a, "Y", "b", 3);
  alerts_notif(&a, "X", "aa", 4);
  alerts_notif(&a, "Y", "bb", 5);
  alerts_notif(&a, "Y", "ccc", 6);
  alerts_run(&a);
  listed(&a, "alerts", "a+1");
  listed(&a, "others", "aa+1 bb+NULL");
  assert_int_equal(1, cj_test_metric(a.t, "dropped", "filter"));
  alerts_close(&a);
}

/* More outputs than the producer's queue takes, with headers, from one record: they wait in their
 * order, and a member that dies meanwhile leaves nothing behind. */
static cj_verdict five_times(cj_ctx *ctx, const cj_record *record, cj_emitter *out) {
  (void)ctx;
  static const char *const values[] = {"1", "2", "3", "4", "5"};
  for (size_t i = 0; i < 5; i++)
    if (cj_emit(out, record->key, cj_bytes_str(values[i])) != CJ_EMIT) return CJ_FAIL;
  return CJ_EMIT;
}

static void outputs_wait_for_room_in_their_order(void **state) {
  (void)state;
  for (int crash = 0; crash < 2; crash++) {
    cj_topology *topology = cj_topology_new();
    cj_stream *stream = cj_topology_stream(topology, "notif", NULL);
    cj_stream_to(cj_stream_flat_map(stream, five_times, NULL), "alerts", NULL);
    alerts a = alerts_over(built(topology), 1, WITH("rd.queue.buffering.max.messages", "2"));
    const cj_header header = {"h", cj_bytes_str("v")};
    cj_test_topic(a.t, "alerts", 1);
    cj_test_hold(a.t, "alerts", 0, true);
    for (int i = 0; i < 3; i++)
      cj_test_pipe_to(a.t, "notif", 0, cj_bytes_str("k"), cj_bytes_str("v"), i, &header, 1);
    alerts_run(&a);
    assert_int_equal(0, cj_test_count(a.t, "alerts", 0));
    if (crash) cj_test_crash_member(a.t, "a");
    cj_test_hold(a.t, "alerts", 0, false);
    if (crash) alerts_start(&a, "a");
    cj_test_advance(a.t, 60000);
    assert_alerts(&a, "1 2 3 4 5 1 2 3 4 5 1 2 3 4 5");
    cj_record record;
    const cj_header *headers;
    for (size_t i = 0; cj_test_read(a.t, "alerts", 0, i, &record); i++) {
      assert_int_equal(1, cj_record_headers(&record, &headers));
      assert_string_equal("h", headers[0].name);
    }
    assert_int_equal(3, cj_test_committed(a.t, "notif", 0));
    alerts_close(&a);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_stream_without_tables),
      cmocka_unit_test(merged_streams_go_by_timestamp),
      cmocka_unit_test(a_chain_of_tables),
      cmocka_unit_test(two_sets_beside_each_other),
      cmocka_unit_test(branches_and_several_sinks),
      cmocka_unit_test(outputs_wait_for_room_in_their_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
