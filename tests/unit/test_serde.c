/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/unit.h"

#include <cojoin/serde.h>

#include "base/base.h"

static void round_trip(const cj_serde *serde, const void *object, const char *bytes, size_t len) {
  cj_buf buf = CJ_BUF_INIT;
  const char *why = NULL;
  assert_true(serde->encode(serde->user, object, &buf, &why));
  assert_int_equal(buf.len, len);
  assert_memory_equal(buf.data, bytes, len);
  cj_arena arena = {0};
  const void *back = serde->decode(serde->user, cj_buf_bytes(&buf), &arena, &why);
  assert_non_null(back);
  cj_buf_clear(&buf);
  assert_true(serde->encode(serde->user, back, &buf, &why));
  assert_memory_equal(buf.data, bytes, len);
  cj_arena_free(&arena);
  cj_buf_free(&buf);
}

/* What IntegerSerializer, LongSerializer, DoubleSerializer and StringSerializer write. */
static void bytes_are_those_of_the_java_client(void **state) {
  (void)state;
  round_trip(cj_serde_int32(), &(int32_t){42}, "\x00\x00\x00\x2a", 4);
  round_trip(cj_serde_int32(), &(int32_t){-2}, "\xff\xff\xff\xfe", 4);
  round_trip(cj_serde_int32(), &(int32_t){INT32_MIN}, "\x80\x00\x00\x00", 4);
  round_trip(cj_serde_int64(), &(int64_t){1234}, "\x00\x00\x00\x00\x00\x00\x04\xd2", 8);
  round_trip(cj_serde_int64(), &(int64_t){INT64_MIN}, "\x80\x00\x00\x00\x00\x00\x00\x00", 8);
  round_trip(cj_serde_double(), &(double){9100.25}, "\x40\xc1\xc6\x20\x00\x00\x00\x00", 8);
  round_trip(cj_serde_double(), &(double){-0.0}, "\x80\x00\x00\x00\x00\x00\x00\x00", 8);
  round_trip(cj_serde_string(), "BBCA", "BBCA", 4);
  round_trip(cj_serde_string(), "", "", 0);
  round_trip(cj_serde_string(), "Gr\xc3\xb6\xc3\x9fte \xf0\x9f\x93\x88",
             "Gr\xc3\xb6\xc3\x9fte \xf0\x9f\x93\x88", 13);
  cj_bytes raw = cj_bytes_of("\0\xff\x01", 3);
  round_trip(cj_serde_bytes(), &raw, "\0\xff\x01", 3);
}

static bool decodes(const cj_serde *serde, const char *bytes, size_t len) {
  cj_arena arena = {0};
  const char *why = NULL;
  bool fits = serde->decode(serde->user, cj_bytes_of(bytes, len), &arena, &why) != NULL;
  assert_true(fits == (why == NULL));
  cj_arena_free(&arena);
  return fits;
}

/* Case 25: 1234 as a long that went through a pipe of text is ten bytes. */
static void other_lengths_are_refused(void **state) {
  (void)state;
  static const char bytes[16] = {0};
  for (size_t len = 0; len < 16; len++) {
    assert_int_equal(decodes(cj_serde_int32(), bytes, len), len == 4);
    assert_int_equal(decodes(cj_serde_int64(), bytes, len), len == 8);
    assert_int_equal(decodes(cj_serde_double(), bytes, len), len == 8);
    assert_true(decodes(cj_serde_bytes(), bytes, len));
    int32_t i;
    int64_t l;
    double d;
    assert_int_equal(cj_get_int32(cj_bytes_of(bytes, len), &i), len == 4);
    assert_int_equal(cj_get_int64(cj_bytes_of(bytes, len), &l), len == 8);
    assert_int_equal(cj_get_double(cj_bytes_of(bytes, len), &d), len == 8);
    assert_false(cj_get_int32(cj_bytes_null(), &i));
  }
}

/* The well-formed byte sequences of RFC 3629, section 4, at their edges. */
static void strings_are_utf8_without_nul(void **state) {
  (void)state;
  static const char *const good[] = {
      "plain ascii of more than eight bytes",
      "\xc2\x80",
      "\xdf\xbf",
      "\xe0\xa0\x80",
      "\xed\x9f\xbf",
      "\xee\x80\x80",
      "\xef\xbf\xbf",
      "\xf0\x90\x80\x80",
      "\xf4\x8f\xbf\xbf",
      "12345678\xc3\xb6stuvwxyz",
      "\x7f",
  };
  static const char *const bad[] = {
      "\x80",
      "\xbf",
      "\xc0\x80",
      "\xc1\xbf",
      "\xc2",
      "\xc2\x41",
      "\xe0\x9f\xbf",
      "\xe1\x80",
      "\xed\xa0\x80",
      "\xef\xbf",
      "\xf0\x8f\xbf\xbf",
      "\xf0\x90\x80",
      "\xf4\x90\x80\x80",
      "\xf5\x80\x80\x80",
      "\xff",
      "12345678\xff",
      "1234567\xc3",
      "stuvwxyz\xe2\x82stuvwxyz",
  };
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    assert_true(decodes(cj_serde_string(), good[i], strlen(good[i])));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_false(decodes(cj_serde_string(), bad[i], strlen(bad[i])));
  for (size_t at = 0; at < 20; at++) {
    char text[20];
    memset(text, 'x', sizeof text);
    text[at] = '\0';
    assert_false(decodes(cj_serde_string(), text, sizeof text));
    assert_true(decodes(cj_serde_string(), text, at));
  }
  const char *why = NULL;
  cj_buf buf = CJ_BUF_INIT;
  assert_false(cj_serde_string()->encode(NULL, "\xff", &buf, &why));
  assert_non_null(why);
  cj_buf_free(&buf);
}

static void null_bytes_cannot_be_appended(void **state) {
  (void)state;
  cj_buf buf = CJ_BUF_INIT;
  const char *why = NULL;
  cj_bytes null = cj_bytes_null();
  assert_false(cj_serde_bytes()->encode(NULL, &null, &buf, &why));
  assert_non_null(why);
  cj_buf_free(&buf);
}

static void names_find_them(void **state) {
  (void)state;
  static const char *const names[] = {"bytes", "string", "int32", "int64", "double"};
  for (size_t i = 0; i < 5; i++)
    assert_string_equal(cj_serde_named(names[i])->name, names[i]);
  assert_ptr_equal(cj_serde_named("int64"), cj_serde_int64());
  assert_null(cj_serde_named("avro"));
  assert_null(cj_serde_named(NULL));
}

static void without_memory_they_say_so(void **state) {
  (void)state;
  static const char *const names[] = {"bytes", "string", "int32", "int64", "double"};
  for (size_t i = 0; i < 5; i++) {
    const cj_serde *serde = cj_serde_named(names[i]);
    cj_arena arena = {0};
    const char *why = NULL;
    cj_alloc_fail_after(0);
    const void *object =
        serde->decode(serde->user, cj_bytes_of("12345678", i == 2 ? 4 : 8), &arena, &why);
    cj_buf buf = CJ_BUF_INIT;
    const char *why_not = NULL;
    cj_bytes bytes = cj_bytes_str("12345678");
    const void *any = i == 0 ? (const void *)&bytes : "12345678";
    bool done = i == 1 || i == 0 ? serde->encode(serde->user, any, &buf, &why_not)
                                 : serde->encode(serde->user, &(int64_t){1}, &buf, &why_not);
    cj_alloc_fail_after(-1);
    assert_null(object);
    assert_non_null(why);
    assert_true(arena.failed);
    assert_false(done);
    assert_non_null(why_not);
    cj_buf_free(&buf);
    cj_arena_free(&arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_are_those_of_the_java_client),
      cmocka_unit_test(other_lengths_are_refused),
      cmocka_unit_test(strings_are_utf8_without_nul),
      cmocka_unit_test(null_bytes_cannot_be_appended),
      cmocka_unit_test(names_find_them),
      cmocka_unit_test(without_memory_they_say_so),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
