/* SPDX-License-Identifier: BSD-2-Clause */
/* Policy `warn` on point 1: what starts although the counts differ loses no record. */
#include "lib/unit.h"

#include "lib/topologies.h"

#include <cojoin/testing.h>

static cj_plan *left_join(void) {
  cj_topology *topology = cj_topology_new();
  cj_stream *notif = cj_topology_stream(topology, "notif", NULL);
  cj_table *price = cj_topology_table(topology, "price", NULL);
  cj_stream_to(cj_stream_left_join(notif, price, value_and_row, NULL), "alerts", NULL);
  cj_plan *plan = NULL;
  assert_no_error(cj_topology_build(topology, &plan));
  return plan;
}

static cj_config *config_with(const char *policy) {
  cj_config *config = cj_config_new();
  assert_non_null(config);
  assert_no_error(cj_config_set(config, "application.id", "counts"));
  assert_no_error(cj_config_set(config, "check.partition.count", policy));
  return config;
}

static int64_t pipe_to(cj_test *t, const char *topic, int32_t partition, const char *text) {
  return cj_test_pipe_to(t, topic, partition, cj_bytes_str("k"), cj_bytes_str(text), 1000, NULL, 0);
}

static void expect_output(cj_test *t, const char *value) {
  cj_record record;
  for (int32_t p = 0; p < 6; p++)
    for (size_t i = 0; cj_test_read(t, "alerts", p, i, &record); i++)
      if (cj_bytes_equal(record.value, cj_bytes_str(value))) return;
  fail_msg("no output %s", value);
}

static void test_enforce_refuses(void **state) {
  (void)state;
  cj_plan *plan = left_join();
  cj_config *config = config_with("enforce");
  cj_test *t = cj_test_new(plan, config);
  cj_test_topic(t, "notif", 6);
  cj_test_topic(t, "price", 4);
  pipe_to(t, "notif", 0, "n0");
  cj_error *error = cj_test_start_member(t, "a");
  assert_int_equal(cj_error_code(error), CJ_ERR_NOT_COPARTITIONED);
  ASSERT_MENTIONS(cj_error_message(error), "notif has 6 partitions", "price has 4 partitions");
  cj_error_destroy(error);
  cj_test_settle(t);
  assert_int_equal(cj_test_committed(t, "notif", 0), -1);
  cj_test_destroy(t);
  cj_config_destroy(config);
  cj_plan_destroy(plan);
}

/* The stream has more partitions, then the table: every index of both is read. A stream record of
 * an index without a table meets none; a table record without a stream is read and committed. */
static void warned(int32_t notif, int32_t price) {
  cj_plan *plan = left_join();
  cj_config *config = config_with("warn");
  cj_test *t = cj_test_new(plan, config);
  cj_test_topic(t, "notif", notif);
  cj_test_topic(t, "price", price);
  pipe_to(t, "price", 3, "p3");
  if (price > 5) pipe_to(t, "price", 5, "p5");
  pipe_to(t, "notif", 3, "n3");
  if (notif > 5) pipe_to(t, "notif", 5, "n5");
  assert_no_error(cj_test_start_member(t, "a"));
  cj_test_settle(t);
  cj_test_commit(t);
  expect_output(t, "n3+p3");
  if (notif > 5) expect_output(t, "n5+NULL");
  assert_int_equal(cj_test_committed(t, "price", 3), 1);
  assert_int_equal(cj_test_committed(t, notif > 5 ? "notif" : "price", 5), 1);
  cj_test_destroy(t);
  cj_config_destroy(config);
  cj_plan_destroy(plan);
}

static void test_warn_reads_every_index_of_the_stream(void **state) {
  (void)state;
  warned(6, 4);
}

static void test_warn_reads_every_index_of_the_table(void **state) {
  (void)state;
  warned(4, 6);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_enforce_refuses),
      cmocka_unit_test(test_warn_reads_every_index_of_the_stream),
      cmocka_unit_test(test_warn_reads_every_index_of_the_table),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
