/* SPDX-License-Identifier: BSD-2-Clause */
/* What both kinds of key-value store promise, from one table of cases, and what a crash of the one
 * in memory takes away. */
#include <pthread.h>

#include "lib/kv_fixture.h"

/* ---- the contract ---- */

static void finds_what_was_put(void **state) {
  kv_fixture *f = *state;
  kv_assert_absent(f->kv, "BBCA");
  kv_put(f->kv, "BBCA", "9100");
  kv_assert_holds(f->kv, "BBCA", "9100");
  kv_put(f->kv, "BBCA", "9200");
  kv_assert_holds(f->kv, "BBCA", "9200");
  kv_assert_absent(f->kv, "BBC");
  kv_assert_absent(f->kv, "BBCAx");
  kv_delete_with(f->kv, "BBCA", false);
  kv_assert_absent(f->kv, "BBCA");
  kv_delete_with(f->kv, "never there", false);
}

static void zero_bytes_are_a_value_and_a_key(void **state) {
  kv_fixture *f = *state;
  kv_put(f->kv, "k", "");
  kv_assert_holds(f->kv, "k", "");
  kv_put(f->kv, "", "of the empty key");
  kv_assert_holds(f->kv, "", "of the empty key");
  kv_reopen(f);
  kv_assert_holds(f->kv, "k", "");
  kv_assert_holds(f->kv, "", "of the empty key");
}

static void keys_and_values_are_any_bytes(void **state) {
  kv_fixture *f = *state;
  const cj_bytes a = cj_bytes_of("\0\xff\n", 3), b = cj_bytes_of("\0\xff", 2);
  const cj_bytes va = cj_bytes_of("\xff\0\0", 3), vb = cj_bytes_of("\0", 1);
  cj_kv_batch batch = CJ_KV_BATCH_INIT;
  cj_kv_batch_put(&batch, a, va);
  cj_kv_batch_put(&batch, b, vb);
  kv_write(f->kv, &batch, false);
  kv_assert_value(f->kv, a, va);
  kv_assert_value(f->kv, b, vb);
  kv_assert_value(f->kv, cj_bytes_of("\0", 1), cj_bytes_null());
}

static void the_last_operation_of_a_batch_wins(void **state) {
  kv_fixture *f = *state;
  kv_put(f->kv, "c", "old");
  cj_kv_batch batch = CJ_KV_BATCH_INIT;
  cj_kv_batch_put(&batch, cj_bytes_str("a"), cj_bytes_str("1"));
  cj_kv_batch_put(&batch, cj_bytes_str("a"), cj_bytes_str("2"));
  cj_kv_batch_put(&batch, cj_bytes_str("b"), cj_bytes_str("1"));
  cj_kv_batch_delete(&batch, cj_bytes_str("b"));
  cj_kv_batch_delete(&batch, cj_bytes_str("c"));
  cj_kv_batch_put(&batch, cj_bytes_str("c"), cj_bytes_str("new"));
  kv_write(f->kv, &batch, false);
  kv_assert_scan(f->kv, "", "a=2 c=new ");
}

static void a_prefix_is_deleted_whole_and_in_its_turn(void **state) {
  kv_fixture *f = *state;
  kv_put(f->kv, "t1", "the prefix itself");
  kv_put(f->kv, "t1a", "x");
  kv_put(f->kv, "t1\xff\xff", "x");
  kv_put(f->kv, "t0\xff", "before");
  kv_put(f->kv, "t2", "after");
  cj_kv_batch batch = CJ_KV_BATCH_INIT;
  cj_kv_batch_put(&batch, cj_bytes_str("t1new"), cj_bytes_str("earlier in the batch"));
  cj_kv_batch_delete_prefix(&batch, cj_bytes_str("t1"));
  cj_kv_batch_put(&batch, cj_bytes_str("t1z"), cj_bytes_str("later"));
  kv_write(f->kv, &batch, false);
  kv_assert_scan(f->kv, "", "t0\xff=before t1z=later t2=after ");
  kv_reopen(f);
  kv_assert_scan(f->kv, "", "t0\xff=before t1z=later t2=after ");
}

static void a_prefix_that_ends_in_ff_is_deleted(void **state) {
  kv_fixture *f = *state;
  kv_put(f->kv,
         "t\xff\xff"
         "1",
         "x");
  kv_put(f->kv, "t\xfe", "before");
  kv_put(f->kv, "u", "after");
  cj_kv_batch batch = CJ_KV_BATCH_INIT;
  cj_kv_batch_delete_prefix(&batch, cj_bytes_str("t\xff\xff"));
  kv_write(f->kv, &batch, false);
  kv_assert_scan(f->kv, "", "t\xfe=before u=after ");
}

static void an_empty_batch_changes_nothing(void **state) {
  kv_fixture *f = *state;
  kv_put(f->kv, "a", "1");
  cj_kv_batch batch = CJ_KV_BATCH_INIT;
  kv_write(f->kv, &batch, false);
  kv_assert_scan(f->kv, "", "a=1 ");
}

static void a_cleared_batch_is_empty(void **state) {
  kv_fixture *f = *state;
  cj_kv_batch batch = CJ_KV_BATCH_INIT;
  cj_kv_batch_put(&batch, cj_bytes_str("a"), cj_bytes_str("1"));
  cj_kv_batch_clear(&batch);
  cj_kv_batch_put(&batch, cj_bytes_str("b"), cj_bytes_str("2"));
  assert_int_equal(batch.count, 1);
  kv_write(f->kv, &batch, false);
  kv_assert_scan(f->kv, "", "b=2 ");
}

static void a_scan_goes_by_bytes_within_its_prefix(void **state) {
  kv_fixture *f = *state;
  const char *const keys[] = {"b", "a", "ab", "\xff", "aa", "B", "a\x01", "abc"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    kv_put(f->kv, keys[i], "v");
  kv_assert_scan(f->kv, "", "B=v a=v a\x01=v aa=v ab=v abc=v b=v \xff=v ");
  kv_assert_scan(f->kv, "ab", "ab=v abc=v ");
  kv_assert_scan(f->kv, "abcd", "");
  kv_assert_scan(f->kv, "\xff", "\xff=v ");
}

static bool stop_at_second(void *user, cj_bytes key, cj_bytes value) {
  (void)key;
  (void)value;
  return ++*(size_t *)user < 2;
}

static void a_scan_ends_when_told(void **state) {
  kv_fixture *f = *state;
  kv_put(f->kv, "a", "1");
  kv_put(f->kv, "b", "2");
  kv_put(f->kv, "c", "3");
  size_t seen = 0;
  assert_no_error(f->kv->ops->scan(f->kv, cj_bytes_str(""), stop_at_second, &seen));
  assert_int_equal(seen, 2);
}

typedef struct {
  cj_kv *kv;
  size_t seen;
  cj_error *error;
} writing_scan;

static bool write_while_scanning(void *user, cj_bytes key, cj_bytes value) {
  writing_scan *scan = user;
  cj_kv_batch batch = CJ_KV_BATCH_INIT;
  cj_buf longer = CJ_BUF_INIT;
  cj_buf_append(&longer, key.data, key.len);
  cj_buf_append_str(&longer, "x");
  cj_kv_batch_put(&batch, cj_buf_bytes(&longer), value);
  cj_kv_batch_delete(&batch, key);
  if (!scan->error) scan->error = scan->kv->ops->write(scan->kv, &batch, false);
  cj_kv_batch_free(&batch);
  cj_buf_free(&longer);
  return ++scan->seen < 100;
}

static void a_scan_sees_what_was_there_when_it_began(void **state) {
  kv_fixture *f = *state;
  kv_put(f->kv, "a", "1");
  kv_put(f->kv, "b", "2");
  writing_scan scan = {.kv = f->kv};
  assert_no_error(f->kv->ops->scan(f->kv, cj_bytes_str(""), write_while_scanning, &scan));
  assert_no_error(scan.error);
  assert_int_equal(scan.seen, 2);
  kv_assert_scan(f->kv, "", "ax=1 bx=2 ");
}

static void a_close_keeps_everything(void **state) {
  kv_fixture *f = *state;
  kv_put(f->kv, "logged", "1");
  kv_put_with(f->kv, "bulk", "2", true);
  kv_put_with(f->kv, "logged", "3", true);
  kv_reopen(f);
  kv_assert_scan(f->kv, "", "bulk=2 logged=3 ");
  kv_delete_with(f->kv, "bulk", true);
  assert_no_error(f->kv->ops->flush(f->kv));
  kv_reopen(f);
  kv_assert_scan(f->kv, "", "logged=3 ");
}

static void a_path_has_one_owner(void **state) {
  kv_fixture *f = *state;
  cj_kv *second = NULL;
  cj_error *error = f->source->ops->open(f->source, f->path, &second);
  assert_int_equal(cj_error_code(error), CJ_ERR_STORE_LOCKED);
  ASSERT_MENTIONS(cj_error_message(error), f->path, "this process");
  cj_error_destroy(error);
  error = f->source->ops->remove(f->source, f->path);
  assert_int_equal(cj_error_code(error), CJ_ERR_STORE_LOCKED);
  cj_error_destroy(error);
  kv_put(f->kv, "still", "works");
  kv_reopen(f);
  kv_assert_holds(f->kv, "still", "works");
}

static void remove_leaves_nothing(void **state) {
  kv_fixture *f = *state;
  kv_put(f->kv, "a", "1");
  f->kv->ops->close(f->kv);
  f->kv = NULL;
  assert_no_error(f->source->ops->remove(f->source, f->path));
  assert_no_error(f->source->ops->remove(f->source, f->path));
  assert_int_equal(access(f->path, F_OK), -1);
  f->kv = kv_must_open(f->source, f->path);
  assert_int_equal(kv_count(f->kv), 0);
}

static void paths_are_apart(void **state) {
  kv_fixture *f = *state;
  char *path = cj_asprintf("%s/some/where/price-33", f->dir);
  cj_kv *other = kv_must_open(f->source, path);
  kv_put(other, "a", "other");
  kv_put(f->kv, "a", "this");
  kv_assert_holds(other, "a", "other");
  kv_assert_holds(f->kv, "a", "this");
  other->ops->close(other);
  cj_free(path);
}

static void memory_grows_with_what_is_written(void **state) {
  kv_fixture *f = *state;
  uint64_t before = f->kv->ops->memory(f->kv);
  char value[4001];
  memset(value, 'v', sizeof value - 1);
  value[sizeof value - 1] = '\0';
  for (int i = 0; i < 50; i++) {
    char key[16];
    snprintf(key, sizeof key, "%d", i);
    kv_put(f->kv, key, value);
  }
  assert_true(f->kv->ops->memory(f->kv) >= before + 100000);
}

static void holds_many_rows(void **state) {
  kv_fixture *f = *state;
  enum { ROWS = 100000, STEP = 500 };
  cj_kv_batch batch = CJ_KV_BATCH_INIT;
  for (uint32_t i = 0; i < ROWS; i++) {
    uint32_t key = i * 7919u % ROWS; /* in no order */
    cj_kv_batch_put(&batch, cj_bytes_of(&key, sizeof key), cj_bytes_of(&key, sizeof key));
    if (batch.count < STEP) continue;
    assert_no_error(f->kv->ops->write(f->kv, &batch, false));
    cj_kv_batch_clear(&batch);
  }
  for (uint32_t key = 0; key < ROWS; key += 2)
    cj_kv_batch_delete(&batch, cj_bytes_of(&key, sizeof key));
  kv_write(f->kv, &batch, false);
  assert_int_equal(kv_count(f->kv), ROWS / 2);
  for (uint32_t key = 0; key < ROWS; key += 997)
    kv_assert_value(f->kv, cj_bytes_of(&key, sizeof key),
                    key % 2 ? cj_bytes_of(&key, sizeof key) : cj_bytes_null());
}

/* A reader beside the writer: it sees one of the values that were written, whole. */
typedef struct {
  cj_kv *kv;
  bool stop; /* atomic */
  size_t reads, wrong;
} reader;

static void *read_on(void *arg) {
  reader *r = arg;
  cj_buf out = CJ_BUF_INIT;
  while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE) || !r->reads) {
    cj_error *error = NULL;
    cj_kv_read found = r->kv->ops->get(r->kv, cj_bytes_str("k"), &out, &error);
    const unsigned char *bytes = out.data;
    bool right = found == CJ_KV_FOUND && !error && out.len >= 1 && out.len == 1u + bytes[0] % 64;
    for (size_t i = 0; right && i < out.len; i++)
      right = bytes[i] == bytes[0];
    r->wrong += !right;
    r->reads++;
    cj_error_destroy(error);
  }
  cj_buf_free(&out);
  return NULL;
}

static void can_be_read_while_it_is_written(void **state) {
  kv_fixture *f = *state;
  unsigned char value[64] = {0};
  reader r = {.kv = f->kv};
  pthread_t thread;
  for (unsigned i = 0; i < 3000; i++) {
    memset(value, (int)(i & 0xff), sizeof value);
    cj_kv_batch batch = CJ_KV_BATCH_INIT;
    cj_kv_batch_put(&batch, cj_bytes_str("k"), cj_bytes_of(value, 1 + (i & 0xff) % 64));
    kv_write(f->kv, &batch, false);
    if (i == 0) assert_int_equal(pthread_create(&thread, NULL, read_on, &r), 0);
  }
  __atomic_store_n(&r.stop, true, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  assert_true(r.reads > 0);
  assert_int_equal(r.wrong, 0);
}

static void a_batch_without_memory_is_not_written(void **state) {
  kv_fixture *f = *state;
  cj_kv_batch batch = CJ_KV_BATCH_INIT;
  cj_kv_batch_put(&batch, cj_bytes_str("a"), cj_bytes_str("1"));
  static char large[100000];
  cj_alloc_fail_after(0);
  cj_kv_batch_put(&batch, cj_bytes_str("b"), cj_bytes_of(large, sizeof large));
  cj_alloc_fail_after(-1);
  cj_error *error = f->kv->ops->write(f->kv, &batch, false);
  assert_int_equal(cj_error_code(error), CJ_ERR_NO_MEMORY);
  cj_error_destroy(error);
  cj_kv_batch_clear(&batch);
  assert_int_equal(kv_count(f->kv), 0);
  cj_kv_batch_put(&batch, cj_bytes_str("c"), cj_bytes_str("3"));
  kv_write(f->kv, &batch, false);
  kv_assert_scan(f->kv, "", "c=3 ");
}

/* ---- memory: what a crash takes ---- */

static void crash(kv_fixture *f) {
  cj_kv_source_memory_crash(f->source);
  f->kv->ops->close(f->kv);
  f->kv = kv_must_open(f->source, f->path);
}

static void a_crash_takes_bulk_writes_only(void **state) {
  kv_fixture *f = *state;
  kv_put(f->kv, "logged", "1");
  kv_put_with(f->kv, "bulk", "2", true);
  kv_put(f->kv, "after", "3");
  crash(f);
  kv_assert_scan(f->kv, "", "after=3 logged=1 ");
}

static void a_crash_brings_back_what_bulk_changed(void **state) {
  kv_fixture *f = *state;
  kv_put(f->kv, "a", "1");
  kv_put(f->kv, "b", "1");
  kv_put(f->kv, "t1", "1");
  kv_put_with(f->kv, "a", "2", true);
  kv_put_with(f->kv, "a", "3", true);
  kv_delete_with(f->kv, "b", true);
  cj_kv_batch batch = CJ_KV_BATCH_INIT;
  cj_kv_batch_delete_prefix(&batch, cj_bytes_str("t"));
  kv_write(f->kv, &batch, true);
  kv_assert_scan(f->kv, "", "a=3 ");
  crash(f);
  kv_assert_scan(f->kv, "", "a=1 b=1 t1=1 ");
}

static void a_flush_saves_bulk_writes(void **state) {
  kv_fixture *f = *state;
  kv_put(f->kv, "gone", "1");
  kv_put_with(f->kv, "a", "1", true);
  kv_delete_with(f->kv, "gone", true);
  assert_no_error(f->kv->ops->flush(f->kv));
  kv_put_with(f->kv, "b", "1", true);
  crash(f);
  kv_assert_scan(f->kv, "", "a=1 ");
}

static void a_logged_write_after_bulk_survives(void **state) {
  kv_fixture *f = *state;
  kv_put_with(f->kv, "a", "bulk", true);
  kv_put(f->kv, "a", "logged");
  kv_put(f->kv, "b", "logged");
  kv_put_with(f->kv, "b", "bulk", true);
  crash(f);
  kv_assert_scan(f->kv, "", "a=logged b=logged ");
}

static void what_is_deleted_takes_no_memory(void **state) {
  kv_fixture *f = *state;
  for (int i = 0; i < 100; i++) {
    char key[16];
    snprintf(key, sizeof key, "key-%d", i);
    kv_put(f->kv, key, "value");
    kv_delete_with(f->kv, key, i % 2);
  }
  assert_no_error(f->kv->ops->flush(f->kv));
  assert_int_equal(f->kv->ops->memory(f->kv), 0);
  kv_put(f->kv, "a", "1");
  kv_delete_with(f->kv, "a", false);
  assert_int_equal(f->kv->ops->memory(f->kv), 0);
}

static void a_handle_is_dead_after_a_crash(void **state) {
  kv_fixture *f = *state;
  kv_put(f->kv, "a", "1");
  cj_kv_source_memory_crash(f->source);
  cj_kv *successor = kv_must_open(f->source, f->path);
  cj_kv_batch batch = CJ_KV_BATCH_INIT;
  cj_kv_batch_put(&batch, cj_bytes_str("a"), cj_bytes_str("from the dead"));
  cj_error *error = f->kv->ops->write(f->kv, &batch, false);
  assert_int_equal(cj_error_code(error), CJ_ERR_STORE);
  cj_error_destroy(error);
  cj_kv_batch_free(&batch);
  cj_buf out = CJ_BUF_INIT;
  assert_int_equal(f->kv->ops->get(f->kv, cj_bytes_str("a"), &out, &error), CJ_KV_FAILED);
  cj_error_destroy(error);
  error = f->kv->ops->flush(f->kv);
  assert_int_equal(cj_error_code(error), CJ_ERR_STORE);
  cj_error_destroy(error);
  kv_put_with(successor, "b", "2", true);
  f->kv->ops->close(f->kv); /* must not settle what the successor does */
  f->kv = successor;
  crash(f);
  kv_assert_scan(f->kv, "", "a=1 ");
}

#define CASE(f) cmocka_unit_test_prestate_setup_teardown(f, kv_set_up, kv_tear_down, (void *)kind)

static int run_contract(const kv_kind *kind) {
  const struct CMUnitTest cases[] = {
      CASE(finds_what_was_put),
      CASE(zero_bytes_are_a_value_and_a_key),
      CASE(keys_and_values_are_any_bytes),
      CASE(the_last_operation_of_a_batch_wins),
      CASE(a_prefix_is_deleted_whole_and_in_its_turn),
      CASE(a_prefix_that_ends_in_ff_is_deleted),
      CASE(an_empty_batch_changes_nothing),
      CASE(a_cleared_batch_is_empty),
      CASE(a_scan_goes_by_bytes_within_its_prefix),
      CASE(a_scan_ends_when_told),
      CASE(a_scan_sees_what_was_there_when_it_began),
      CASE(a_close_keeps_everything),
      CASE(a_path_has_one_owner),
      CASE(remove_leaves_nothing),
      CASE(paths_are_apart),
      CASE(memory_grows_with_what_is_written),
      CASE(holds_many_rows),
      CASE(can_be_read_while_it_is_written),
      CASE(a_batch_without_memory_is_not_written),
  };
  return cmocka_run_group_tests_name(kind->name, cases, NULL, NULL);
}

int main(void) {
  static const kv_kind memory = {.name = "kv memory", .source = cj_kv_source_memory};
  static const kv_kind rocksdb = {.name = "kv rocksdb", .source = kv_rocksdb};
  const kv_kind *kind = &memory;
  const struct CMUnitTest crashes[] = {
      CASE(a_crash_takes_bulk_writes_only),  CASE(a_crash_brings_back_what_bulk_changed),
      CASE(a_flush_saves_bulk_writes),       CASE(a_logged_write_after_bulk_survives),
      CASE(what_is_deleted_takes_no_memory), CASE(a_handle_is_dead_after_a_crash),
  };
  int failed = run_contract(&memory);
  failed += cmocka_run_group_tests_name("kv memory crash", crashes, NULL, NULL);
  return CJ_TEST_ROCKSDB ? failed + run_contract(&rocksdb) : failed;
}
