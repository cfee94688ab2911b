/* SPDX-License-Identifier: BSD-2-Clause */
/* A task's store under test: tables `price` and `fx`, partition 3 of 6, on a disk in memory. */
#ifndef CJ_TEST_TASK_STORE_FIXTURE_H
#define CJ_TEST_TASK_STORE_FIXTURE_H

#include "lib/unit.h"
#include "state/task_store.h"

enum { PRICE, FX };

static const char *const ts_tables[] = {"price", "fx"};

static inline cj_fingerprint ts_fingerprint(void) {
  return (cj_fingerprint){.cluster_id = "cluster-a",
                          .anchor = "notif",
                          .partition = 3,
                          .partition_count = 6,
                          .tables = ts_tables,
                          .table_count = 2};
}

typedef struct {
  cj_kv_source *source;
  cj_task_store *store;
  char logged[4096];
} ts_fixture;

static inline void ts_log(void *user, cj_log_level level, const char *line) {
  ts_fixture *f = user;
  (void)level;
  size_t len = strlen(f->logged);
  snprintf(f->logged + len, sizeof f->logged - len, "%s\n", line);
}

static inline cj_error *ts_try_open(ts_fixture *f, const cj_fingerprint *fingerprint) {
  const cj_log log = {.user = f, .level = CJ_LOG_INFO, .line = ts_log};
  cj_kv *kv;
  cj_error *error = f->source->ops->open(f->source, "notif-3", &kv);
  return error ? error : cj_task_store_open(kv, fingerprint, &log, &f->store);
}

static inline void ts_open_with(ts_fixture *f, const cj_fingerprint *fingerprint) {
  f->logged[0] = '\0';
  assert_no_error(ts_try_open(f, fingerprint));
}

static inline void ts_open(ts_fixture *f) {
  const cj_fingerprint fingerprint = ts_fingerprint();
  ts_open_with(f, &fingerprint);
}

static inline void ts_close(ts_fixture *f) {
  cj_task_store_close(f->store);
  f->store = NULL;
}

static inline void ts_reopen(ts_fixture *f) {
  ts_close(f);
  ts_open(f);
}

static inline void ts_crash(ts_fixture *f) {
  cj_kv_source_memory_crash(f->source);
  ts_reopen(f);
}

static inline int ts_set_up(void **state) {
  ts_fixture *f = calloc(1, sizeof *f);
  f->source = cj_kv_source_memory();
  ts_open(f);
  *state = f;
  return 0;
}

static inline int ts_tear_down(void **state) {
  ts_fixture *f = *state;
  cj_alloc_fail_after(-1);
  cj_task_store_close(f->store);
  f->source->ops->destroy(f->source);
  free(f);
  return 0;
}

static inline cj_position ts_at(int64_t offset) {
  return (cj_position){.offset = offset,
                       .last_offset = offset - 1,
                       .last_timestamp = 1000 + offset,
                       .last_key_hash = (uint64_t)offset * 31,
                       .at_end_ms = -1};
}

static inline void ts_put(ts_fixture *f, int table, const char *key, const char *value,
                          int64_t timestamp) {
  assert_no_error(
      cj_task_store_put(f->store, table, cj_bytes_str(key), cj_bytes_str(value), timestamp, NULL));
}

/* The look-up's answer; a NULL value: no row. */
static inline void ts_assert_row(ts_fixture *f, int table, const char *key, const char *value,
                                 int64_t timestamp) {
  cj_row row;
  cj_error *error;
  cj_kv_read found = cj_task_store_get(f->store, table, cj_bytes_str(key), &row, &error);
  assert_no_error(error);
  assert_int_equal(found, value ? CJ_KV_FOUND : CJ_KV_ABSENT);
  if (!value) return;
  if (!cj_bytes_equal(row.value, cj_bytes_str(value)))
    fail_msg("%s: %.*s, not %s", key, (int)row.value.len, (const char *)row.value.data, value);
  assert_int_equal(row.timestamp, timestamp);
  assert_null(row.object);
}

static inline void ts_assert_committed(ts_fixture *f, int table, const char *key, const char *value,
                                       int64_t timestamp) {
  cj_buf copy = CJ_BUF_INIT;
  cj_error *error;
  int64_t found_timestamp = 0;
  cj_kv_read found = cj_task_store_read_committed(f->store, table, cj_bytes_str(key), &copy,
                                                  &found_timestamp, &error);
  assert_no_error(error);
  assert_int_equal(found, value ? CJ_KV_FOUND : CJ_KV_ABSENT);
  if (value) {
    assert_true(cj_bytes_equal(cj_buf_bytes(&copy), cj_bytes_str(value)));
    assert_int_equal(found_timestamp, timestamp);
  }
  cj_buf_free(&copy);
}

static inline void ts_assert_position(ts_fixture *f, int table, int64_t offset) {
  const cj_position found = cj_task_store_position(f->store, table);
  const cj_position wanted = ts_at(offset);
  assert_int_equal(found.offset, offset);
  if (offset < 0) return;
  assert_int_equal(found.last_offset, wanted.last_offset);
  assert_int_equal(found.last_timestamp, wanted.last_timestamp);
  assert_int_equal(found.last_key_hash, wanted.last_key_hash);
  assert_int_equal(found.at_end_ms, wanted.at_end_ms);
}

/* Freezes and commits, with these positions. */
static inline void ts_commit(ts_fixture *f, int64_t price, int64_t fx) {
  const cj_position positions[] = {ts_at(price), ts_at(fx)};
  cj_task_store_freeze(f->store);
  assert_no_error(cj_task_store_commit(f->store, positions));
}

/* Fails with that code. Consumes the error. */
static inline void ts_assert_code(cj_error *error, cj_code code) {
  if (cj_error_code(error) != code)
    fail_msg("%s, not %s", cj_error_text(error), cj_code_name(code));
  cj_error_destroy(error);
}

#endif
