/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables and joins, as topology.h describes them; case numbers are those of the public reports that
 * the semantics were tried on. */
#include "lib/fake_env.h"
#include "lib/topologies.h"

static fake_env env;

/* notif joined with price, inner to `inner` and left to `left`. */
static void start(void) {
  cj_topology *t = cj_topology_new();
  cj_stream *notif = cj_topology_stream(t, "notif", NULL);
  cj_table *price = cj_topology_table(t, "price", NULL);
  cj_stream_to(cj_stream_join(notif, price, value_and_row, NULL), "inner", NULL);
  cj_stream_to(cj_stream_left_join(notif, price, value_and_row, NULL), "left", NULL);
  fake_start(&env, t);
}

/* The time line in topology.h. */
static void the_worked_example(void **state) {
  (void)state;
  start();
  fake_pipe(&env, "price", "BBCA", "9100", 1);
  fake_pipe(&env, "notif", "BBCA", "n1", 3);
  fake_pipe(&env, "notif", "TLKM", "n2", 4);
  fake_pipe(&env, "price", "BBCA", "9200", 5);
  fake_pipe(&env, "notif", "BBCA", "n3", 6);
  assert_int_equal(env.output_count, 5);
  assert_output(&env, 0, "inner", "BBCA", "n1+9100");
  assert_output(&env, 1, "left", "BBCA", "n1+9100");
  assert_output(&env, 2, "left", "TLKM", "n2+NULL");
  assert_output(&env, 3, "inner", "BBCA", "n3+9200");
  assert_output(&env, 4, "left", "BBCA", "n3+9200");
  assert_int_equal(env.outputs[3].timestamp, 6);
  /* A miss is counted by both. */
  assert_int_equal(env.counters.joined, 4);
  assert_int_equal(env.counters.missed, 2);
  assert_int_equal(env.counters.table_updates, 2);
  assert_int_equal(env.counters.records_in, 5);
  fake_stop(&env);
}

static void case_28_null_keys(void **state) {
  (void)state;
  start();
  fake_pipe(&env, "price", NULL, "5", 1);
  assert_int_equal(env.row_count, 0);
  assert_int_equal(env.counters.dropped[CJ_DROP_NULL_KEY], 1);
  assert_int_equal(env.counters.table_updates, 0);
  fake_pipe(&env, "notif", NULL, "n1", 2);
  assert_int_equal(env.counters.dropped[CJ_DROP_NULL_KEY], 2);
  fake_pipe(&env, "notif", "", "n2", 3);
  /* The empty key is a key: null is not equal to it, but it is equal to itself. */
  fake_pipe(&env, "price", "", "6", 4);
  fake_pipe(&env, "notif", "", "n3", 5);
  fake_pipe(&env, "notif", NULL, "n4", 6);
  assert_int_equal(env.output_count, 5);
  assert_output(&env, 0, "left", NULL, "n1+NULL");
  assert_output(&env, 1, "left", "", "n2+NULL");
  assert_output(&env, 2, "inner", "", "n3+6");
  assert_output(&env, 3, "left", "", "n3+6");
  assert_output(&env, 4, "left", NULL, "n4+NULL");
  assert_int_equal(env.counters.missed, 4);
  assert_int_equal(env.counters.joined, 2);
  assert_int_equal(env.counters.dropped[CJ_DROP_NULL_KEY], 3);
  fake_stop(&env);
}

static void case_29_null_values(void **state) {
  (void)state;
  start();
  fake_pipe(&env, "price", "BBCA", "9100", 1);
  fake_pipe(&env, "notif", "BBCA", NULL, 2);
  fake_pipe(&env, "notif", "TLKM", NULL, 3);
  assert_int_equal(env.output_count, 0);
  assert_int_equal(env.counters.dropped[CJ_DROP_NULL_VALUE], 4);
  /* Without a key either it is one drop at each join. */
  fake_pipe(&env, "notif", NULL, NULL, 4);
  assert_int_equal(env.counters.dropped[CJ_DROP_NULL_VALUE], 5);
  assert_int_equal(env.counters.dropped[CJ_DROP_NULL_KEY], 1);
  assert_int_equal(env.counters.joined + env.counters.missed, 0);
  fake_stop(&env);
}

static void case_30_empty_is_no_tombstone(void **state) {
  (void)state;
  start();
  fake_pipe(&env, "price", "BBCA", "9100", 1);
  fake_pipe(&env, "price", "BBCA", "", 2);
  fake_pipe(&env, "notif", "BBCA", "n1", 3);
  fake_pipe(&env, "price", "BBCA", NULL, 4);
  assert_int_equal(env.row_count, 0);
  fake_pipe(&env, "notif", "BBCA", "n2", 5);
  fake_pipe(&env, "notif", "BBCA", "", 6);
  assert_int_equal(env.output_count, 4);
  assert_output(&env, 0, "inner", "BBCA", "n1+");
  assert_output(&env, 1, "left", "BBCA", "n1+");
  assert_output(&env, 2, "left", "BBCA", "n2+NULL");
  assert_output(&env, 3, "left", "BBCA", "+NULL");
  assert_int_equal(env.counters.table_updates, 3);
  fake_stop(&env);
}

static void case_60_the_later_offset_wins(void **state) {
  (void)state;
  start();
  fake_pipe(&env, "price", "BBCA", "9200", 2000);
  assert_int_equal(env.counters.out_of_order, 0);
  fake_pipe(&env, "price", "BBCA", "9100", 1000);
  assert_int_equal(env.counters.out_of_order, 1);
  fake_pipe(&env, "notif", "BBCA", "n", 3000);
  assert_output(&env, 0, "inner", "BBCA", "n+9100");
  fake_pipe(&env, "price", "BBCA", "9300", 1000);
  assert_int_equal(env.counters.out_of_order, 1);
  fake_stop(&env);
}

static void case_61_negative_timestamps(void **state) {
  (void)state;
  start();
  fake_pipe(&env, "price", "BBCA", "9100", -1);
  fake_pipe(&env, "notif", "BBCA", "n", -1);
  assert_int_equal(env.output_count, 2);
  assert_output(&env, 0, "inner", "BBCA", "n+9100");
  assert_int_equal(env.outputs[0].timestamp, -1);
  assert_int_equal(env.counters.negative_timestamp, 2);
  fake_stop(&env);
}

static void a_table_update_emits_nothing(void **state) {
  (void)state;
  start();
  fake_pipe(&env, "notif", "BBCA", "n1", 1);
  assert_int_equal(env.output_count, 1);
  fake_pipe(&env, "price", "BBCA", "9100", 1);
  assert_int_equal(env.output_count, 1);
  fake_stop(&env);
}

/* The join sees the output of what is before it, and a second join that of the first. */
static void joins_follow_each_other(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream *notif = cj_topology_stream(t, "notif", NULL);
  cj_table *price = cj_topology_table(t, "price", NULL);
  cj_table *holder = cj_topology_table(t, "holder", NULL);
  cj_stream *at = cj_stream_join(notif, price, value_and_row, NULL);
  cj_stream_to(cj_stream_left_join(at, holder, value_and_row, NULL), "out", NULL);
  fake_start(&env, t);
  fake_pipe(&env, "price", "BBCA", "9100", 1);
  fake_pipe(&env, "notif", "BBCA", "n1", 2);
  fake_pipe(&env, "holder", "BBCA", "ana", 3);
  fake_pipe(&env, "notif", "BBCA", "n2", 4);
  fake_pipe(&env, "notif", "TLKM", "n3", 5);
  assert_int_equal(env.output_count, 2);
  assert_output(&env, 0, "out", "BBCA", "n1+9100+NULL");
  assert_output(&env, 1, "out", "BBCA", "n2+9100+ana");
  fake_stop(&env);
}

typedef struct {
  int calls;
  bool met, object;
  double price;
  int64_t timestamp;
} seen_row;

static cj_verdict above_price(cj_ctx *ctx, const cj_record *record, const cj_row *row,
                              cj_buf *value) {
  seen_row *seen = cj_ctx_user(ctx);
  seen->calls++;
  seen->met = row != NULL;
  seen->object = row && row->object;
  if (!seen->object) return CJ_EMIT;
  seen->price = *(const double *)row->object;
  seen->timestamp = row->timestamp;
  if (*(const double *)record->value_object <= seen->price) return CJ_DROP;
  cj_put_double(value, seen->price);
  return CJ_EMIT;
}

static cj_bytes number(cj_buf *buf, double value) {
  cj_buf_clear(buf);
  cj_put_double(buf, value);
  return cj_buf_bytes(buf);
}

static void rows_and_values_are_decoded_for_the_join(void **state) {
  (void)state;
  seen_row seen = {0};
  cj_topology *t = cj_topology_new();
  const cj_source_options options = {.key_serde = cj_serde_string(),
                                     .value_serde = cj_serde_double()};
  cj_stream *notif = cj_topology_stream(t, "notif", &options);
  cj_table *price = cj_topology_table(t, "price", &options);
  cj_stream *joined = cj_stream_left_join(
      notif, price, above_price, &(cj_node){.user = &seen, .value_serde = cj_serde_double()});
  cj_stream_to(joined, "out", NULL);
  fake_start(&env, t);
  cj_buf buf = CJ_BUF_INIT;
  cj_bytes key = cj_bytes_str("BBCA");
  assert_int_equal(fake_try(&env, "price", key, number(&buf, 9100.5), 77), CJ_PROCESSED);
  assert_int_equal(fake_try(&env, "notif", key, number(&buf, 9200), 80), CJ_PROCESSED);
  assert_true(seen.met && seen.object);
  assert_true(seen.price == 9100.5);
  assert_int_equal(seen.timestamp, 77);
  assert_int_equal(env.output_count, 1);
  assert_non_null(env.outputs[0].key_object);
  assert_non_null(env.outputs[0].value_object);
  /* What the join drops has met its row all the same. */
  assert_int_equal(fake_try(&env, "notif", key, number(&buf, 9000), 80), CJ_PROCESSED);
  assert_int_equal(env.output_count, 1);
  assert_int_equal(env.counters.joined, 2);
  assert_int_equal(env.counters.dropped[CJ_DROP_FILTER], 1);
  cj_buf_free(&buf);
  fake_stop(&env);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_worked_example),
      cmocka_unit_test(case_28_null_keys),
      cmocka_unit_test(case_29_null_values),
      cmocka_unit_test(case_30_empty_is_no_tombstone),
      cmocka_unit_test(case_60_the_later_offset_wins),
      cmocka_unit_test(case_61_negative_timestamps),
      cmocka_unit_test(a_table_update_emits_nothing),
      cmocka_unit_test(joins_follow_each_other),
      cmocka_unit_test(rows_and_values_are_decoded_for_the_join),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
