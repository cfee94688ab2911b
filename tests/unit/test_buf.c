/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/unit.h"

#include "base/base.h"

static void starts_as_zero_bytes_not_null(void **state) {
  (void)state;
  cj_buf buf = CJ_BUF_INIT;
  cj_bytes bytes = cj_buf_bytes(&buf);
  assert_non_null(bytes.data);
  assert_int_equal(bytes.len, 0);
  cj_buf_free(&buf);
}

static void null_and_empty_are_two_things(void **state) {
  (void)state;
  cj_buf buf = CJ_BUF_INIT;
  cj_buf_append_str(&buf, "BBCA");
  cj_buf_set_null(&buf);
  assert_null(cj_buf_bytes(&buf).data);
  cj_buf_clear(&buf);
  assert_non_null(cj_buf_bytes(&buf).data);
  cj_buf_set_null(&buf);
  cj_buf_append(&buf, "", 0);
  assert_non_null(cj_buf_bytes(&buf).data);
  cj_buf_set(&buf, cj_bytes_null());
  assert_null(cj_buf_bytes(&buf).data);
  cj_buf_set(&buf, cj_bytes_of("", 0));
  assert_non_null(cj_buf_bytes(&buf).data);
  cj_buf_free(&buf);
}

static void appends_grow(void **state) {
  (void)state;
  cj_buf buf = CJ_BUF_INIT;
  for (int i = 0; i < 1000; i++)
    cj_buf_printf(&buf, "%d,", i);
  cj_buf_append(&buf, "end", 3);
  assert_false(buf.failed);
  assert_memory_equal(buf.data, "0,1,2,3,", 8);
  assert_memory_equal(buf.data + buf.len - 11, "998,999,end", 11);
  cj_buf_free(&buf);
  assert_null(buf.data);
}

/* The text's NUL must not count, whether or not the text just fits. */
static void printf_fits_at_every_length(void **state) {
  (void)state;
  char text[201] = {0};
  for (size_t len = 0; len < 200; len++) {
    cj_buf buf = CJ_BUF_INIT;
    cj_buf_append(&buf, "<", 1);
    cj_buf_printf(&buf, "%s", text);
    cj_buf_append(&buf, ">", 1);
    assert_int_equal(buf.len, len + 2);
    assert_int_equal(buf.data[len + 1], '>');
    assert_memory_equal(buf.data + 1, text, len);
    cj_buf_free(&buf);
    text[len] = 'x';
  }
}

static void set_takes_a_part_of_itself(void **state) {
  (void)state;
  cj_buf buf = CJ_BUF_INIT;
  cj_buf_append_str(&buf, "0123456789");
  cj_buf_set(&buf, cj_bytes_of(buf.data + 2, 7));
  assert_int_equal(buf.len, 7);
  assert_memory_equal(buf.data, "2345678", 7);
  cj_buf_free(&buf);
}

static void reserve_keeps_the_length(void **state) {
  (void)state;
  cj_buf buf = CJ_BUF_INIT;
  assert_non_null(cj_buf_reserve(&buf, 0));
  char *to = cj_buf_reserve(&buf, 300);
  assert_non_null(to);
  assert_int_equal(buf.len, 0);
  memset(to, 'a', 300);
  buf.len += 300;
  assert_int_equal(((const char *)cj_buf_bytes(&buf).data)[299], 'a');
  assert_null(cj_buf_reserve(&buf, SIZE_MAX - 10));
  assert_true(buf.failed);
  assert_int_equal(buf.len, 300);
  cj_buf_free(&buf);
}

static void failure_sticks_and_keeps_the_content(void **state) {
  (void)state;
  cj_buf buf = CJ_BUF_INIT;
  cj_buf_append_str(&buf, "BBCA");
  cj_alloc_fail_after(0);
  cj_buf_append(&buf, (char[100]){0}, 100);
  cj_buf_printf(&buf, "%0100d", 1);
  cj_alloc_fail_after(-1);
  assert_true(buf.failed);
  assert_int_equal(buf.len, 4);
  cj_buf_append_str(&buf, "!");
  assert_true(buf.failed);
  cj_buf_free(&buf);
  assert_false(buf.failed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(starts_as_zero_bytes_not_null),
      cmocka_unit_test(null_and_empty_are_two_things),
      cmocka_unit_test(appends_grow),
      cmocka_unit_test(printf_fits_at_every_length),
      cmocka_unit_test(set_takes_a_part_of_itself),
      cmocka_unit_test(reserve_keeps_the_length),
      cmocka_unit_test(failure_sticks_and_keeps_the_content),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
