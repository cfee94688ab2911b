/* SPDX-License-Identifier: BSD-2-Clause */
#include <pthread.h>

#include "lib/task_store_fixture.h"

/* ---- processing ---- */

static void a_look_up_sees_uncommitted_updates(void **state) {
  ts_fixture *f = *state;
  ts_assert_row(f, PRICE, "BBCA", NULL, 0);
  ts_put(f, PRICE, "BBCA", "9100", 1000);
  ts_assert_row(f, PRICE, "BBCA", "9100", 1000);
  ts_put(f, PRICE, "BBCA", "9200 and longer than before", 900);
  ts_assert_row(f, PRICE, "BBCA", "9200 and longer than before", 900);
  ts_put(f, PRICE, "BBCA", "9", 901);
  ts_assert_row(f, PRICE, "BBCA", "9", 901);
  ts_put(f, PRICE, "BBCA", NULL, 902);
  ts_assert_row(f, PRICE, "BBCA", NULL, 0);
  ts_put(f, PRICE, "BBCA", "back", 903);
  ts_assert_row(f, PRICE, "BBCA", "back", 903);
  ts_assert_committed(f, PRICE, "BBCA", NULL, 0);
}

static void tables_are_apart(void **state) {
  ts_fixture *f = *state;
  ts_put(f, PRICE, "k", "of price", 1);
  ts_put(f, FX, "k", "of fx", 2);
  ts_assert_row(f, PRICE, "k", "of price", 1);
  ts_assert_row(f, FX, "k", "of fx", 2);
  ts_put(f, PRICE, "k", NULL, 3);
  ts_commit(f, 1, 1);
  ts_assert_row(f, PRICE, "k", NULL, 0);
  ts_assert_row(f, FX, "k", "of fx", 2);
}

/* "Zero bytes is a value, NULL is not." */
static void zero_bytes_are_a_value(void **state) {
  ts_fixture *f = *state;
  ts_put(f, PRICE, "k", "", 5);
  ts_put(f, PRICE, "", "of the empty key", 6);
  for (int committed = 0; committed < 2; committed++) {
    ts_assert_row(f, PRICE, "k", "", 5);
    ts_assert_row(f, PRICE, "", "of the empty key", 6);
    ts_commit(f, 1, 1);
    ts_reopen(f);
  }
}

static void put_copies(void **state) {
  ts_fixture *f = *state;
  char key[] = "BBCA", value[] = "9100";
  ts_put(f, PRICE, key, value, 1);
  memset(key, 'x', 4);
  memset(value, 'x', 4);
  ts_assert_row(f, PRICE, "BBCA", "9100", 1);
}

/* What get returned may be put under another key, and under its own. */
static void a_row_may_be_put_again(void **state) {
  ts_fixture *f = *state;
  ts_put(f, PRICE, "a", "value", 1);
  for (int committed = 0; committed < 2; committed++) {
    cj_row row;
    cj_error *error;
    bool older;
    assert_int_equal(cj_task_store_get(f->store, PRICE, cj_bytes_str("a"), &row, &error),
                     CJ_KV_FOUND);
    assert_no_error(cj_task_store_put(f->store, PRICE, cj_bytes_str("b"), row.value, 2, &older));
    assert_int_equal(cj_task_store_get(f->store, PRICE, cj_bytes_str("a"), &row, &error),
                     CJ_KV_FOUND);
    row.value = cj_bytes_of((const char *)row.value.data + 1, row.value.len - 1);
    assert_no_error(cj_task_store_put(f->store, PRICE, cj_bytes_str("a"), row.value, 2, &older));
    ts_assert_row(f, PRICE, "b", committed ? "alue" : "value", 2);
    ts_assert_row(f, PRICE, "a", committed ? "lue" : "alue", 2);
    ts_commit(f, 1, 1);
  }
}

static bool put_older(ts_fixture *f, const char *value, int64_t timestamp) {
  bool older = true;
  assert_no_error(cj_task_store_put(f->store, PRICE, cj_bytes_str("k"), cj_bytes_str(value),
                                    timestamp, &older));
  return older;
}

/* Case 60: the later offset wins, and that its timestamp is older is told. */
static void an_older_timestamp_is_told(void **state) {
  ts_fixture *f = *state;
  assert_false(put_older(f, "9200", 2000));
  assert_true(put_older(f, "9100", 1000)); /* active */
  ts_assert_row(f, PRICE, "k", "9100", 1000);
  assert_false(put_older(f, "9100", 1000));
  cj_task_store_freeze(f->store);
  assert_true(put_older(f, "9000", 999)); /* frozen */
  assert_no_error(cj_task_store_thaw(f->store));
  ts_commit(f, 1, 1);
  assert_true(put_older(f, NULL, 998)); /* the kv */
  assert_false(put_older(f, "after a delete", 1));
  ts_commit(f, 2, 2);
  ts_put(f, PRICE, "k", NULL, 5);
  ts_commit(f, 3, 3);
  assert_false(put_older(f, "after a delete", -7));
}

static void overlay_bytes_count_what_is_kept(void **state) {
  ts_fixture *f = *state;
  assert_int_equal(cj_task_store_overlay_bytes(f->store), 0);
  static char value[1001];
  memset(value, 'v', sizeof value - 1);
  for (int i = 0; i < 100; i++) {
    char key[16];
    snprintf(key, sizeof key, "%d", i);
    ts_put(f, PRICE, key, value, i);
  }
  size_t full = cj_task_store_overlay_bytes(f->store);
  assert_true(full >= 100 * 1000 && full < 2 * 100 * 1000);
  for (int i = 0; i < 10000; i++)
    ts_put(f, PRICE, "7", value, i); /* in its own place */
  assert_int_equal(cj_task_store_overlay_bytes(f->store), full);
  cj_task_store_freeze(f->store);
  assert_int_equal(cj_task_store_overlay_bytes(f->store), full);
  cj_task_store_rollback(f->store);
  assert_int_equal(cj_task_store_overlay_bytes(f->store), 0);
}

static void a_warm_get_allocates_nothing(void **state) {
  ts_fixture *f = *state;
  ts_put(f, PRICE, "in the kv", "a value", 1);
  ts_commit(f, 1, 1);
  ts_put(f, PRICE, "frozen", "a value", 1);
  cj_task_store_freeze(f->store);
  ts_put(f, PRICE, "active", "a value", 1);
  for (int warm = 0; warm < 2; warm++) {
    cj_alloc_fail_after(warm ? 0 : -1);
    ts_assert_row(f, PRICE, "in the kv", "a value", 1);
    ts_assert_row(f, PRICE, "frozen", "a value", 1);
    ts_assert_row(f, PRICE, "active", "a value", 1);
    ts_assert_row(f, PRICE, "nowhere", NULL, 1);
  }
  cj_alloc_fail_after(-1);
}

/* ---- commit ---- */

static void a_commit_is_the_cut(void **state) {
  ts_fixture *f = *state;
  const cj_position positions[] = {ts_at(7), ts_at(9)};
  ts_put(f, PRICE, "a", "before", 1);
  ts_put(f, PRICE, "b", "before", 1);
  assert_false(cj_task_store_frozen(f->store));
  cj_task_store_freeze(f->store);
  assert_true(cj_task_store_frozen(f->store));
  ts_put(f, PRICE, "a", "after", 2);
  ts_put(f, PRICE, "b", NULL, 2);
  ts_assert_row(f, PRICE, "a", "after", 2);
  ts_assert_row(f, PRICE, "b", NULL, 2);
  ts_assert_position(f, PRICE, -1);
  assert_no_error(cj_task_store_commit(f->store, positions));
  assert_false(cj_task_store_frozen(f->store));
  ts_assert_committed(f, PRICE, "a", "before", 1);
  ts_assert_committed(f, PRICE, "b", "before", 1);
  ts_assert_row(f, PRICE, "a", "after", 2);
  ts_assert_row(f, PRICE, "b", NULL, 2);
  ts_crash(f);
  ts_assert_row(f, PRICE, "a", "before", 1);
  ts_assert_row(f, PRICE, "b", "before", 1);
  ts_assert_position(f, PRICE, 7);
  ts_assert_position(f, FX, 9);
}

static void a_commit_without_updates_moves_the_positions(void **state) {
  ts_fixture *f = *state;
  ts_commit(f, 4, -1);
  ts_crash(f);
  ts_assert_position(f, PRICE, 4);
  ts_assert_position(f, FX, -1);
}

static void thaw_goes_under_what_came_since(void **state) {
  ts_fixture *f = *state;
  ts_put(f, PRICE, "a", "cut", 1);
  ts_put(f, PRICE, "b", "cut", 1);
  ts_put(f, PRICE, "c", NULL, 1);
  cj_task_store_freeze(f->store);
  ts_put(f, PRICE, "b", "since", 2);
  ts_put(f, PRICE, "d", "since", 2);
  assert_no_error(cj_task_store_thaw(f->store));
  assert_false(cj_task_store_frozen(f->store));
  ts_assert_row(f, PRICE, "a", "cut", 1);
  ts_assert_row(f, PRICE, "b", "since", 2);
  ts_assert_row(f, PRICE, "d", "since", 2);
  ts_assert_committed(f, PRICE, "a", NULL, 0);
  ts_commit(f, 1, 1);
  ts_crash(f);
  ts_assert_row(f, PRICE, "a", "cut", 1);
  ts_assert_row(f, PRICE, "b", "since", 2);
  ts_assert_row(f, PRICE, "c", NULL, 1);
  ts_assert_row(f, PRICE, "d", "since", 2);
}

static void rollback_leaves_what_was_committed(void **state) {
  ts_fixture *f = *state;
  ts_put(f, PRICE, "a", "committed", 1);
  ts_commit(f, 5, 5);
  ts_put(f, PRICE, "a", "frozen", 2);
  cj_task_store_freeze(f->store);
  ts_put(f, PRICE, "b", "active", 2);
  assert_no_error(cj_task_store_restore(f->store, FX, cj_bytes_str("r"), cj_bytes_str("x"), 1));
  cj_task_store_rollback(f->store);
  assert_false(cj_task_store_frozen(f->store));
  ts_assert_row(f, PRICE, "a", "committed", 1);
  ts_assert_row(f, PRICE, "b", NULL, 0);
  ts_assert_position(f, PRICE, 5);
  ts_commit(f, 6, 6);
  ts_assert_row(f, FX, "r", NULL, 0);
}

/* What the caller must not do is refused before it can harm. */
static void mistakes_are_refused(void **state) {
  ts_fixture *f = *state;
  const cj_position positions[] = {ts_at(1), ts_at(1)}, later[] = {ts_at(2), ts_at(2)};
  ts_assert_code(cj_task_store_commit(f->store, positions), CJ_ERR_INTERNAL);
  ts_put(f, PRICE, "a", "1", 1);
  ts_assert_code(cj_task_store_wipe(f->store, PRICE), CJ_ERR_INTERNAL);
  cj_task_store_freeze(f->store);
  ts_put(f, PRICE, "b", "2", 2);
  cj_task_store_freeze(f->store);
  ts_assert_code(cj_task_store_commit(f->store, later), CJ_ERR_INTERNAL);
  assert_no_error(cj_task_store_thaw(f->store));
  ts_commit(f, 2, 2);
  assert_no_error(cj_task_store_restore(f->store, FX, cj_bytes_str("r"), cj_bytes_str("x"), 1));
  cj_task_store_freeze(f->store);
  ts_assert_code(cj_task_store_commit(f->store, later), CJ_ERR_INTERNAL);
  ts_crash(f);
  ts_assert_row(f, PRICE, "a", "1", 1);
  ts_assert_row(f, PRICE, "b", "2", 2);
  ts_assert_position(f, PRICE, 2);
}

/* ---- restore ---- */

static void restore(ts_fixture *f, int table, const char *key, const char *value, int64_t time) {
  assert_no_error(
      cj_task_store_restore(f->store, table, cj_bytes_str(key), cj_bytes_str(value), time));
}

static void restore_flush(ts_fixture *f, int table, int64_t offset, bool bulk) {
  const cj_position position = ts_at(offset);
  assert_no_error(cj_task_store_restore_flush(f->store, table, &position, bulk));
}

static void restore_follows_the_rules_of_processing(void **state) {
  ts_fixture *f = *state;
  restore(f, PRICE, "later offset", "first", 2000);
  restore(f, PRICE, "later offset", "second", 1000);
  restore(f, PRICE, "deleted", "x", 1);
  restore(f, PRICE, "deleted", NULL, 2);
  restore(f, PRICE, "zero bytes", "", 3);
  restore(f, FX, "of fx", "x", 4);
  ts_assert_row(f, PRICE, "zero bytes", NULL, 0);
  restore_flush(f, PRICE, 5, false);
  ts_assert_row(f, PRICE, "later offset", "second", 1000);
  ts_assert_row(f, PRICE, "deleted", NULL, 0);
  ts_assert_row(f, PRICE, "zero bytes", "", 3);
  ts_assert_row(f, FX, "of fx", NULL, 0);
  ts_assert_position(f, PRICE, 5);
  ts_assert_position(f, FX, -1);
  restore_flush(f, FX, 1, false);
  ts_assert_row(f, FX, "of fx", "x", 4);
  ts_crash(f);
  ts_assert_row(f, PRICE, "later offset", "second", 1000);
  ts_assert_row(f, FX, "of fx", "x", 4);
  ts_assert_position(f, PRICE, 5);
  ts_assert_position(f, FX, 1);
}

/* Case 67: rows and position are lost together or kept together. */
static void a_crash_in_a_bulk_load_keeps_a_cut(void **state) {
  ts_fixture *f = *state;
  restore(f, PRICE, "a", "1", 1);
  restore_flush(f, PRICE, 10, true);
  ts_assert_position(f, PRICE, 10);
  ts_crash(f);
  ts_assert_row(f, PRICE, "a", NULL, 0);
  ts_assert_position(f, PRICE, -1);

  restore(f, PRICE, "a", "1", 1);
  restore_flush(f, PRICE, 10, true);
  assert_no_error(cj_task_store_restore_end(f->store));
  restore(f, PRICE, "b", "2", 2);
  restore_flush(f, PRICE, 20, true);
  ts_crash(f);
  ts_assert_row(f, PRICE, "a", "1", 1);
  ts_assert_row(f, PRICE, "b", NULL, 0);
  ts_assert_position(f, PRICE, 10);
}

/* A position that the log keeps must not stand above rows that it does not have. */
static void a_commit_after_a_bulk_load_keeps_its_rows(void **state) {
  ts_fixture *f = *state;
  restore(f, PRICE, "a", "1", 1);
  restore_flush(f, PRICE, 10, true);
  ts_put(f, PRICE, "b", "2", 2);
  ts_commit(f, 11, 1);
  ts_crash(f);
  ts_assert_row(f, PRICE, "a", "1", 1);
  ts_assert_row(f, PRICE, "b", "2", 2);
  ts_assert_position(f, PRICE, 11);

  restore(f, PRICE, "c", "3", 3);
  restore_flush(f, PRICE, 12, true);
  restore(f, PRICE, "d", "4", 4);
  restore_flush(f, PRICE, 13, false);
  ts_crash(f);
  ts_assert_row(f, PRICE, "c", "3", 3);
  ts_assert_row(f, PRICE, "d", "4", 4);
  ts_assert_position(f, PRICE, 13);
}

static void wipe_takes_one_table(void **state) {
  ts_fixture *f = *state;
  ts_put(f, PRICE, "a", "1", 1);
  ts_put(f, PRICE, "b", "1", 1);
  ts_put(f, FX, "a", "1", 1);
  ts_commit(f, 8, 9);
  restore(f, PRICE, "collected", "x", 1);
  assert_no_error(cj_task_store_wipe(f->store, PRICE));
  for (int crashed = 0; crashed < 2; crashed++) {
    ts_assert_row(f, PRICE, "a", NULL, 0);
    ts_assert_row(f, PRICE, "b", NULL, 0);
    ts_assert_row(f, FX, "a", "1", 1);
    ts_assert_position(f, PRICE, -1);
    ts_assert_position(f, FX, 9);
    ts_crash(f);
  }
  restore_flush(f, PRICE, 3, false);
  ts_assert_row(f, PRICE, "collected", NULL, 0);
}

/* ---- reads of what is committed ---- */

static bool append_row(void *user, cj_bytes key, const cj_row *row) {
  cj_buf_printf(user, "%.*s=%.*s@%d ", (int)key.len, (const char *)key.data, (int)row->value.len,
                (const char *)row->value.data, (int)row->timestamp);
  return true;
}

static void scan_walks_one_table_in_order(void **state) {
  ts_fixture *f = *state;
  ts_put(f, FX, "of fx", "x", 1);
  ts_put(f, PRICE, "b", "2", 20);
  ts_put(f, PRICE, "a", "1", 10);
  ts_put(f, PRICE, "", "0", -1);
  ts_commit(f, 1, 1);
  ts_put(f, PRICE, "c", "uncommitted", 30);
  cj_buf found = CJ_BUF_INIT;
  assert_no_error(cj_task_store_scan(f->store, PRICE, append_row, &found));
  cj_buf_append(&found, "", 1);
  assert_string_equal((const char *)found.data, "=0@-1 a=1@10 b=2@20 ");
  cj_buf_free(&found);
}

static void long_keys_are_read_too(void **state) {
  ts_fixture *f = *state;
  static char key[5000];
  memset(key, 'k', sizeof key - 1);
  ts_put(f, PRICE, key, "found", 1);
  ts_commit(f, 1, 1);
  for (size_t len = 500; len < 520; len++) { /* around the room on the stack */
    char *end = &key[len];
    *end = '\0';
    ts_put(f, PRICE, key, "found", 1);
    *end = 'k';
  }
  ts_commit(f, 2, 2);
  ts_assert_committed(f, PRICE, key, "found", 1);
  for (size_t len = 500; len < 520; len++) {
    key[len] = '\0';
    ts_assert_committed(f, PRICE, key, "found", 1);
    key[len] = 'k';
  }
}

typedef struct {
  cj_task_store *store;
  bool stop; /* atomic */
  int64_t last;
  size_t reads, wrong;
} committed_reader;

/* Versions may be skipped and never go back. */
static void *read_committed(void *arg) {
  committed_reader *r = arg;
  cj_buf copy = CJ_BUF_INIT;
  while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE) || !r->reads) {
    int64_t timestamp = -1, value = -2;
    cj_error *error = NULL;
    cj_kv_read found =
        cj_task_store_read_committed(r->store, PRICE, cj_bytes_str("k"), &copy, &timestamp, &error);
    if (copy.len == sizeof value) memcpy(&value, copy.data, sizeof value);
    if (found != CJ_KV_FOUND || error || value != timestamp || timestamp < r->last) r->wrong++;
    r->last = timestamp;
    r->reads++;
    cj_error_destroy(error);
  }
  cj_buf_free(&copy);
  return NULL;
}

static void another_thread_reads_what_is_committed(void **state) {
  ts_fixture *f = *state;
  committed_reader r = {.store = f->store};
  pthread_t thread;
  for (int64_t n = 0; n < 3000; n++) {
    assert_no_error(
        cj_task_store_put(f->store, PRICE, cj_bytes_str("k"), cj_bytes_of(&n, 8), n, NULL));
    ts_put(f, FX, "other", "work", n);
    ts_commit(f, n, n);
    if (n == 0) assert_int_equal(pthread_create(&thread, NULL, read_committed, &r), 0);
  }
  __atomic_store_n(&r.stop, true, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  assert_int_equal(r.wrong, 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, ts_set_up, ts_tear_down)

int main(void) {
  const struct CMUnitTest cases[] = {
      CASE(a_look_up_sees_uncommitted_updates),
      CASE(tables_are_apart),
      CASE(zero_bytes_are_a_value),
      CASE(put_copies),
      CASE(a_row_may_be_put_again),
      CASE(an_older_timestamp_is_told),
      CASE(overlay_bytes_count_what_is_kept),
      CASE(a_warm_get_allocates_nothing),
      CASE(a_commit_is_the_cut),
      CASE(a_commit_without_updates_moves_the_positions),
      CASE(thaw_goes_under_what_came_since),
      CASE(rollback_leaves_what_was_committed),
      CASE(mistakes_are_refused),
      CASE(restore_follows_the_rules_of_processing),
      CASE(a_crash_in_a_bulk_load_keeps_a_cut),
      CASE(a_commit_after_a_bulk_load_keeps_its_rows),
      CASE(wipe_takes_one_table),
      CASE(scan_walks_one_table_in_order),
      CASE(long_keys_are_read_too),
      CASE(another_thread_reads_what_is_committed),
  };
  return cmocka_run_group_tests(cases, NULL, NULL);
}
