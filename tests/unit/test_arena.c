/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/unit.h"

#include <stdalign.h>
#include <stddef.h>

#include "base/base.h"

static void pieces_are_aligned_and_apart(void **state) {
  (void)state;
  cj_arena arena = {0};
  unsigned char *pieces[200];
  for (size_t i = 0; i < 200; i++) {
    pieces[i] = cj_arena_alloc(&arena, i);
    assert_non_null(pieces[i]);
    assert_int_equal((uintptr_t)pieces[i] % alignof(max_align_t), 0);
    memset(pieces[i], (int)i, i);
  }
  for (size_t i = 0; i < 200; i++)
    for (size_t k = 0; k < i; k++)
      assert_int_equal(pieces[i][k], i);
  cj_arena_free(&arena);
}

static void a_large_piece_gets_its_own_block(void **state) {
  (void)state;
  cj_arena arena = {0};
  void *small = cj_arena_alloc(&arena, 10);
  void *large = cj_arena_alloc(&arena, 100000);
  assert_non_null(small);
  assert_non_null(large);
  memset(large, 1, 100000);
  cj_arena_free(&arena);
}

/* The processing path counts on it: records of one size allocate nothing after the first few. */
static void no_allocation_once_warm(void **state) {
  (void)state;
  cj_arena arena = {0};
  for (int record = 0; record < 20; record++) {
    if (record == 10) cj_alloc_fail_after(0);
    cj_arena_reset(&arena);
    for (int i = 0; i < 50; i++)
      assert_non_null(cj_arena_alloc(&arena, 1000));
  }
  cj_alloc_fail_after(-1);
  cj_arena_free(&arena);
}

static void one_huge_record_is_not_kept(void **state) {
  (void)state;
  cj_arena arena = {0};
  assert_non_null(cj_arena_alloc(&arena, (size_t)8 << 20));
  cj_arena_reset(&arena);
  assert_null(arena.first);
  assert_non_null(cj_arena_alloc(&arena, 10));
  cj_arena_free(&arena);
}

static void failure_is_remembered_until_reset(void **state) {
  (void)state;
  cj_arena arena = {0};
  assert_null(cj_arena_alloc(&arena, SIZE_MAX - 5));
  assert_true(arena.failed);
  cj_arena_reset(&arena);
  assert_false(arena.failed);
  cj_alloc_fail_after(0);
  assert_null(cj_arena_alloc(&arena, 1));
  cj_alloc_fail_after(-1);
  assert_true(arena.failed);
  assert_non_null(cj_arena_alloc(&arena, 1));
  cj_arena_free(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pieces_are_aligned_and_apart),
      cmocka_unit_test(a_large_piece_gets_its_own_block),
      cmocka_unit_test(no_allocation_once_warm),
      cmocka_unit_test(one_huge_record_is_not_kept),
      cmocka_unit_test(failure_is_remembered_until_reset),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
