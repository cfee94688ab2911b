/* SPDX-License-Identifier: BSD-2-Clause */
/* How an application tests its topology: partitions, members, a crash and time are steps of the
 * test. No broker, no thread, no sleep, and the runtime is the real one. Use any test framework;
 * this example has none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cojoin/cojoin.h>
#include <cojoin/testing.h>

enum { PARTITIONS = 4, SYMBOLS = 8 };
static const char *const symbols[SYMBOLS] = {"AAPL", "BBCA", "GOOG", "IBM",
                                             "MSFT", "SAP",  "TLKM", "TSLA"};

/* ---- the code under test ---- */

static cj_verdict put_price_behind(cj_ctx *ctx, const cj_record *notification, const cj_row *row,
                                   cj_buf *out) {
  (void)ctx;
  cj_buf_append(out, notification->value.data, notification->value.len);
  cj_buf_append_str(out, "@");
  cj_buf_append(out, row->value.data, row->value.len);
  return CJ_EMIT;
}

static cj_error *make_plan(cj_plan **plan) {
  cj_topology *topology = cj_topology_new();
  cj_stream *joined =
      cj_stream_join(cj_topology_stream(topology, "notifications", NULL),
                     cj_topology_table(topology, "prices", NULL), put_price_behind, NULL);
  cj_stream_to(joined, "alerts", NULL);
  cj_error *error = cj_topology_build(topology, plan);
  if (error) cj_topology_destroy(topology);
  return error;
}

/* ---- its test ---- */

#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                      \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

static void expect_success(cj_error *error) {
  if (error) fprintf(stderr, "%s\n", cj_error_text(error));
  EXPECT(!error);
}

static void pipe_all(cj_test *t, const char *topic, const char *value, int64_t timestamp) {
  for (int i = 0; i < SYMBOLS; i++)
    cj_test_pipe(t, topic, cj_bytes_str(symbols[i]), cj_bytes_str(value), timestamp);
}

/* How many alerts have that value. */
static int alerts_with(cj_test *t, const char *value) {
  int found = 0;
  cj_record alert;
  for (int32_t p = 0; p < PARTITIONS; p++)
    for (size_t i = 0; cj_test_read(t, "alerts", p, i, &alert); i++)
      found += cj_bytes_equal(alert.value, cj_bytes_str(value));
  return found;
}

/* Partition counts that differ are refused before a record is read. */
static void refuses_other_partition_counts(const cj_plan *plan) {
  cj_test *t = cj_test_new(plan, NULL);
  EXPECT(t);
  cj_test_topic(t, "prices", PARTITIONS);
  cj_test_topic(t, "notifications", PARTITIONS + 2);
  cj_error *error = cj_test_start_member(t, "a");
  EXPECT(cj_error_code(error) == CJ_ERR_NOT_COPARTITIONED);
  EXPECT(cj_report_point(cj_error_report(error), CJ_POINT_PARTITION_COUNT) == CJ_BROKEN);
  cj_error_destroy(error);
  cj_test_destroy(t);
}

/* One of two members dies; the other takes its partitions, restores their tables and goes on. */
static void a_member_dies_and_nothing_is_lost(const cj_plan *plan) {
  cj_test *t = cj_test_new(plan, NULL);
  EXPECT(t);
  cj_test_topic(t, "prices", PARTITIONS);
  cj_test_topic(t, "notifications", PARTITIONS);
  expect_success(cj_test_start_member(t, "a"));
  expect_success(cj_test_start_member(t, "b"));
  cj_test_advance(t, 60000); /* until the group has settled */

  pipe_all(t, "prices", "100", 1);
  pipe_all(t, "notifications", "first", 2);
  cj_test_settle(t);
  cj_test_commit(t);
  EXPECT(alerts_with(t, "first@100") == SYMBOLS);

  cj_test_crash_member(t, "b");
  cj_test_advance(t, 120000); /* its session ends, a takes over */
  for (int32_t p = 0; p < PARTITIONS; p++) {
    const char *owner = cj_test_owner(t, p);
    EXPECT(owner && strcmp(owner, "a") == 0);
  }
  pipe_all(t, "notifications", "second", 3);
  cj_test_settle(t);
  EXPECT(alerts_with(t, "second@100") == SYMBOLS);
  cj_test_destroy(t);
}

int main(void) {
  cj_plan *plan;
  expect_success(make_plan(&plan));
  refuses_other_partition_counts(plan);
  a_member_dies_and_nothing_is_lost(plan);
  cj_plan_destroy(plan);
  puts("ok");
  return 0;
}
