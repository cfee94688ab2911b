/* SPDX-License-Identifier: BSD-2-Clause */
/* A task's store without memory: each allocation fails in its turn, and what the store says stays
 * true. */
#include "lib/task_store_fixture.h"

static void a_failed_commit_leaves_the_cut(void **state) {
  ts_fixture *f = *state;
  const cj_position positions[] = {ts_at(7), ts_at(7)};
  ts_put(f, PRICE, "a", "1", 1);
  cj_task_store_freeze(f->store);
  ts_put(f, PRICE, "b", "2", 2);
  for (long n = 0;; n++) {
    cj_alloc_fail_after(n);
    cj_error *error = cj_task_store_commit(f->store, positions);
    cj_alloc_fail_after(-1);
    if (!error) {
      assert_true(n > 0);
      break;
    }
    ts_assert_code(error, CJ_ERR_NO_MEMORY);
    assert_true(cj_task_store_frozen(f->store));
    ts_assert_committed(f, PRICE, "a", NULL, 0);
    ts_assert_row(f, PRICE, "a", "1", 1);
    ts_assert_position(f, PRICE, -1);
  }
  ts_assert_committed(f, PRICE, "a", "1", 1);
  ts_assert_row(f, PRICE, "b", "2", 2);
  ts_assert_position(f, PRICE, 7);
}

static void a_failed_thaw_changes_nothing_seen(void **state) {
  ts_fixture *f = *state;
  enum { ROWS = 300 };
  char key[16];
  for (int i = 0; i < ROWS; i++) {
    snprintf(key, sizeof key, "%d", i);
    ts_put(f, PRICE, key, "cut", 1);
  }
  cj_task_store_freeze(f->store);
  ts_put(f, PRICE, "7", "since", 2);
  for (long n = 0;; n++) {
    cj_alloc_fail_after(n);
    cj_error *error = cj_task_store_thaw(f->store);
    cj_alloc_fail_after(-1);
    for (int i = 0; i < ROWS; i++) {
      snprintf(key, sizeof key, "%d", i);
      ts_assert_row(f, PRICE, key, i == 7 ? "since" : "cut", i == 7 ? 2 : 1);
    }
    if (!error) {
      assert_true(n > 0);
      break;
    }
    ts_assert_code(error, CJ_ERR_NO_MEMORY);
    assert_true(cj_task_store_frozen(f->store));
  }
  assert_false(cj_task_store_frozen(f->store));
}

static cj_error *put_all(ts_fixture *f) {
  cj_error *error = NULL;
  for (int i = 0; !error && i < 100; i++) {
    char key[16];
    snprintf(key, sizeof key, "%d", i);
    bool older;
    error = cj_task_store_put(f->store, PRICE, cj_bytes_str(key), cj_bytes_str("value"), i, &older);
    cj_row row;
    if (!error) (void)!cj_task_store_get(f->store, PRICE, cj_bytes_str(key), &row, &error);
    if (!error && i % 10 == 0)
      error = cj_task_store_restore(f->store, FX, cj_bytes_str(key), cj_bytes_str("x"), i);
  }
  const cj_position position = ts_at(100);
  return error ? error : cj_task_store_restore_flush(f->store, FX, &position, false);
}

/* Opening, updating, restoring, with each allocation failing in its turn. */
static void no_allocation_is_trusted(void **state) {
  ts_fixture *f = *state;
  const cj_fingerprint fingerprint = ts_fingerprint();
  ts_close(f);
  bool done = false;
  for (long n = 0; !done; n++) {
    cj_alloc_fail_after(n);
    cj_error *error = ts_try_open(f, &fingerprint);
    if (!error) error = put_all(f);
    done = !error;
    cj_alloc_fail_after(-1);
    if (error) ts_assert_code(error, CJ_ERR_NO_MEMORY);
    ts_close(f);
    assert_true(n < 10000);
  }
  ts_open(f);
  ts_assert_position(f, FX, 100);
  ts_assert_row(f, FX, "90", "x", 90);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, ts_set_up, ts_tear_down)

int main(void) {
  const struct CMUnitTest cases[] = {
      CASE(a_failed_commit_leaves_the_cut),
      CASE(a_failed_thaw_changes_nothing_seen),
      CASE(no_allocation_is_trusted),
  };
  return cmocka_run_group_tests(cases, NULL, NULL);
}
