/* SPDX-License-Identifier: BSD-2-Clause */
/* The topology that most tests of semantics run: stream `notif` joined with table `price`, the
 * result to `alerts`. An output's value is "stream+table", or "stream+NULL" for a left join's miss;
 * a value "fail" in the stream makes the join fail. Every test says what the outputs are. */
#ifndef CJ_TEST_ALERTS_H
#define CJ_TEST_ALERTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <cojoin/cojoin.h>
#include <cojoin/testing.h>

typedef struct {
  cj_plan *plan;
  cj_config *config;
  cj_test *t;
} alerts;

typedef enum { INNER, LEFT } alerts_join;

static inline cj_verdict alerts_pair(cj_ctx *ctx, const cj_record *record, const cj_row *row,
                                     cj_buf *value) {
  if (record->value.len == 4 && memcmp(record->value.data, "fail", 4) == 0)
    return cj_ctx_fail(ctx, "asked to fail");
  cj_buf_append(value, record->value.data, record->value.len);
  cj_buf_append_str(value, "+");
  if (row)
    cj_buf_append(value, row->value.data, row->value.len);
  else
    cj_buf_append_str(value, "NULL");
  return CJ_EMIT;
}

static inline cj_plan *alerts_plan(alerts_join join, const cj_source_options *notif,
                                   const cj_source_options *price) {
  cj_topology *topology = cj_topology_new();
  cj_stream *stream = cj_topology_stream(topology, "notif", notif);
  cj_table *table = cj_topology_table(topology, "price", price);
  cj_stream *joined = join == LEFT ? cj_stream_left_join(stream, table, alerts_pair, NULL)
                                   : cj_stream_join(stream, table, alerts_pair, NULL);
  cj_stream_to(joined, "alerts", NULL);
  cj_plan *plan = NULL;
  cj_error *error = cj_topology_build(topology, &plan);
  if (error) fail_msg("%s", cj_error_text(error));
  return plan;
}

/* Properties: name, value, name, value, … */
#define WITH(...)                                                                                  \
  (const char *const[]) {                                                                          \
    __VA_ARGS__, NULL                                                                              \
  }

static inline cj_config *alerts_config(const char *const *properties) {
  cj_config *config = cj_config_new();
  for (size_t i = 0; properties && properties[i]; i += 2) {
    cj_error *error = cj_config_set(config, properties[i], properties[i + 1]);
    if (error) fail_msg("%s", cj_error_text(error));
  }
  return config;
}

static inline alerts alerts_over(cj_plan *plan, int32_t partitions, const char *const *properties) {
  alerts a = {.plan = plan, .config = alerts_config(properties)};
  a.t = cj_test_new(a.plan, a.config);
  cj_test_topic(a.t, "notif", partitions);
  cj_test_topic(a.t, "price", partitions);
  return a;
}

static inline alerts alerts_open(alerts_join join, int32_t partitions,
                                 const char *const *properties) {
  return alerts_over(alerts_plan(join, NULL, NULL), partitions, properties);
}

static inline void alerts_close(alerts *a) {
  cj_test_destroy(a->t);
  cj_config_destroy(a->config);
  cj_plan_destroy(a->plan);
}

static inline void alerts_start(alerts *a, const char *member) {
  cj_error *error = cj_test_start_member(a->t, member);
  if (error) fail_msg("%s", cj_error_text(error));
}

/* Starts one member and lets it settle. */
static inline void alerts_run(alerts *a) {
  alerts_start(a, "a");
  cj_test_settle(a->t);
}

static inline void alerts_put(alerts *a, const char *topic, const char *key, const char *value,
                              int64_t timestamp) {
  cj_test_pipe(a->t, topic, cj_bytes_str(key), cj_bytes_str(value), timestamp);
}

static inline void alerts_price(alerts *a, const char *key, const char *value, int64_t timestamp) {
  alerts_put(a, "price", key, value, timestamp);
}

static inline void alerts_notif(alerts *a, const char *key, const char *value, int64_t timestamp) {
  alerts_put(a, "notif", key, value, timestamp);
}

/* "n1+9100 n2+NULL …": the values of a partition of a topic, "null" for null. */
static inline void alerts_list(const alerts *a, const char *topic, int32_t partition, char *out,
                               size_t size) {
  cj_record record;
  size_t len = 0;
  out[0] = 0;
  for (size_t i = 0; cj_test_read(a->t, topic, partition, i, &record); i++) {
    int n = record.value.data ? snprintf(out + len, size - len, "%s%.*s", i ? " " : "",
                                         (int)record.value.len, (const char *)record.value.data)
                              : snprintf(out + len, size - len, "%snull", i ? " " : "");
    if (n < 0 || (size_t)n >= size - len) fail_msg("too many outputs for this test");
    len += (size_t)n;
  }
}

/* What was written to partition 0 of `alerts`, in order: "n1+9100 n2+9200", or "". */
#define assert_alerts(a, expected)                                                                 \
  do {                                                                                             \
    char got_[8192];                                                                               \
    alerts_list((a), "alerts", 0, got_, sizeof got_);                                              \
    assert_string_equal(got_, expected);                                                           \
  } while (0)

/* The last committed row of `price`: its value, "NULL" when there is none, "?" when it cannot be
 * read here. In a buffer of its own, valid until the next call. */
static inline const char *alerts_row(alerts *a, const char *key) {
  static char text[256];
  cj_buf copy = CJ_BUF_INIT;
  cj_read read = cj_test_get(a->t, "price", cj_bytes_str(key), &copy);
  snprintf(text, sizeof text, "%.*s", (int)copy.len, copy.data ? (const char *)copy.data : "");
  cj_buf_free(&copy);
  return read == CJ_READ_FOUND ? text : read == CJ_READ_ABSENT ? "NULL" : "?";
}

/* The member must be alive and without an error. */
static inline void alerts_well(alerts *a, const char *member) {
  const cj_error *error = cj_test_member_error(a->t, member);
  if (error) fail_msg("%s", cj_error_text(error));
}

#endif
