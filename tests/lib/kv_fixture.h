/* SPDX-License-Identifier: BSD-2-Clause */
/* A key-value store under test, of either kind, in a directory of its own, and short words for what
 * is done with it. */
#ifndef CJ_TEST_KV_FIXTURE_H
#define CJ_TEST_KV_FIXTURE_H

#include "lib/store_dir.h"
#include "state/kv.h"

typedef struct {
  const char *name;
  cj_kv_source *(*source)(void);
} kv_kind;

static inline cj_kv_source *kv_rocksdb_of(uint64_t write_buffer_bytes, int stores) {
  const cj_rocksdb_options options = {.cache_bytes = 8 << 20,
                                      .write_buffer_bytes = write_buffer_bytes,
                                      .max_open_files = stores * 40,
                                      .stores = stores};
  cj_kv_source *source;
  assert_no_error(cj_kv_source_rocksdb(&options, &source));
  return source;
}

static inline cj_kv_source *kv_rocksdb(void) {
  return kv_rocksdb_of(8 << 20, 2);
}

typedef struct {
  const kv_kind *kind;
  char *dir, *path;
  cj_kv_source *source;
  cj_kv *kv;
} kv_fixture;

static inline cj_kv *kv_must_open(cj_kv_source *source, const char *path) {
  cj_kv *kv;
  assert_no_error(source->ops->open(source, path, &kv));
  return kv;
}

static inline int kv_set_up(void **state) {
  kv_fixture *f = calloc(1, sizeof *f);
  f->kind = *state;
  f->dir = store_dir_new();
  f->path = cj_asprintf("%s/some/where/price-3", f->dir);
  f->source = f->kind->source();
  f->kv = kv_must_open(f->source, f->path);
  *state = f;
  return 0;
}

static inline int kv_tear_down(void **state) {
  kv_fixture *f = *state;
  if (f->kv) f->kv->ops->close(f->kv);
  f->source->ops->destroy(f->source);
  store_dir_remove(f->dir);
  cj_free(f->path);
  free(f);
  return 0;
}

static inline void kv_reopen(kv_fixture *f) {
  f->kv->ops->close(f->kv);
  f->kv = kv_must_open(f->source, f->path);
}

/* ---- small words for what the cases do ---- */

static inline void kv_write(cj_kv *kv, cj_kv_batch *batch, bool bulk) {
  assert_no_error(kv->ops->write(kv, batch, bulk));
  cj_kv_batch_free(batch);
}

static inline void kv_put_with(cj_kv *kv, const char *key, const char *value, bool bulk) {
  cj_kv_batch batch = CJ_KV_BATCH_INIT;
  cj_kv_batch_put(&batch, cj_bytes_str(key), cj_bytes_str(value));
  kv_write(kv, &batch, bulk);
}

static inline void kv_put(cj_kv *kv, const char *key, const char *value) {
  kv_put_with(kv, key, value, false);
}

static inline void kv_delete_with(cj_kv *kv, const char *key, bool bulk) {
  cj_kv_batch batch = CJ_KV_BATCH_INIT;
  cj_kv_batch_delete(&batch, cj_bytes_str(key));
  kv_write(kv, &batch, bulk);
}

static inline void kv_assert_value(cj_kv *kv, cj_bytes key, cj_bytes value) {
  cj_buf out = CJ_BUF_INIT;
  cj_error *error = NULL;
  cj_kv_read found = kv->ops->get(kv, key, &out, &error);
  assert_no_error(error);
  assert_int_equal(found, value.data ? CJ_KV_FOUND : CJ_KV_ABSENT);
  if (value.data) assert_true(cj_bytes_equal(cj_buf_bytes(&out), value));
  cj_buf_free(&out);
}

static inline void kv_assert_holds(cj_kv *kv, const char *key, const char *value) {
  kv_assert_value(kv, cj_bytes_str(key), cj_bytes_str(value));
}

static inline void kv_assert_absent(cj_kv *kv, const char *key) {
  kv_assert_value(kv, cj_bytes_str(key), cj_bytes_null());
}

static inline bool kv_append_pair(void *user, cj_bytes key, cj_bytes value) {
  cj_buf_printf(user, "%.*s=%.*s ", (int)key.len, (const char *)key.data, (int)value.len,
                (const char *)value.data);
  return true;
}

static inline void kv_assert_scan(cj_kv *kv, const char *prefix, const char *all) {
  cj_buf found = CJ_BUF_INIT;
  assert_no_error(kv->ops->scan(kv, cj_bytes_str(prefix), kv_append_pair, &found));
  assert_non_null(cj_dir_text(&found));
  assert_string_equal((const char *)found.data, all);
  cj_buf_free(&found);
}

static inline bool kv_count_pairs(void *user, cj_bytes key, cj_bytes value) {
  (void)key;
  (void)value;
  ++*(size_t *)user;
  return true;
}

static inline size_t kv_count(cj_kv *kv) {
  size_t n = 0;
  assert_no_error(kv->ops->scan(kv, cj_bytes_null(), kv_count_pairs, &n));
  return n;
}

#endif
