/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <string.h>

#include "tools/encode.h"

#define BYTES(text) cj_bytes_of(text, sizeof(text) - 1)

static void check_text(const cj_buf *buf, const char *expected) {
  assert_false(buf->failed);
  assert_int_equal(buf->len, strlen(expected));
  assert_memory_equal(buf->data, expected, buf->len);
}

/* ---- UTF-8 ---- */
static void utf8_takes_what_rfc_3629_takes(void **state) {
  (void)state;
  static const char *const good[] = {
      "",
      "BBCA",
      "\xc2\x80",
      "\xdf\xbf",
      "\xe0\xa0\x80",
      "\xed\x9f\xbf",
      "\xee\x80\x80",
      "\xef\xbf\xbf",
      "\xf0\x90\x80\x80",
      "\xf4\x8f\xbf\xbf",
      "harga \xe2\x82\xac 5",
  };
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    if (!tool_utf8_valid(good[i], strlen(good[i]))) fail_msg("good %zu was refused", i);
  assert_true(tool_utf8_valid("a\0b", 3));
}

static void utf8_refuses_the_rest(void **state) {
  (void)state;
  static const char *const bad[] = {
      "\x80",             /* a continuation alone */
      "\xc0\x80",         /* overlong NUL */
      "\xc1\xbf",         /* overlong DEL */
      "\xe0\x9f\xbf",     /* overlong, three bytes */
      "\xf0\x8f\xbf\xbf", /* overlong, four bytes */
      "\xed\xa0\x80",     /* the first surrogate */
      "\xed\xbf\xbf",     /* the last one */
      "\xf4\x90\x80\x80", /* U+110000 */
      "\xf5\x80\x80\x80",
      "\xff",
      "\xfe",
      "\xc2", /* cut off */
      "\xe2\x82",
      "\xf0\x9f\x98",
      "\xe2\x28\xa1", /* no continuation */
      "abc\xe2\x82(",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (tool_utf8_valid(bad[i], strlen(bad[i]))) fail_msg("bad %zu was taken", i);
}

/* ---- base64: the vectors of RFC 4648, section 10 ---- */
static void base64_of_the_rfc(void **state) {
  (void)state;
  static const char *const pairs[][2] = {
      {"", ""},
      {"f", "Zg=="},
      {"fo", "Zm8="},
      {"foo", "Zm9v"},
      {"foob", "Zm9vYg=="},
      {"fooba", "Zm9vYmE="},
      {"foobar", "Zm9vYmFy"},
      {"\xff\xfb\xbf", "//u/"},
  };
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    cj_buf out = CJ_BUF_INIT;
    tool_base64(&out, cj_bytes_str(pairs[i][0]));
    check_text(&out, pairs[i][1]);
    cj_buf_free(&out);
  }
}

/* ---- JSON ---- */
static void json_has_exactly_the_members(void **state) {
  (void)state;
  const cj_header headers[] = {{"trace", BYTES("7")}, {"trace", BYTES("8")}, {"none", {NULL, 0}}};
  tool_joined joined = {.topic = "notif",
                        .partition = 3,
                        .offset = 9007199254740993,
                        .timestamp = -1,
                        .key = BYTES("BBCA"),
                        .stream = BYTES("n1"),
                        .table = BYTES("9100"),
                        .headers = headers,
                        .header_count = 3};
  cj_buf out = CJ_BUF_INIT;
  assert_true(tool_joined_json(&joined, &out));
  check_text(&out, "{\"topic\":\"notif\",\"partition\":3,\"offset\":9007199254740993,"
                   "\"timestamp\":-1,\"key\":\"BBCA\",\"stream\":\"n1\",\"table\":\"9100\","
                   "\"headers\":[[\"trace\",\"7\"],[\"trace\",\"8\"],[\"none\",null]]}");
  cj_buf_free(&out);
}

static void json_tells_null_empty_and_bytes_apart(void **state) {
  (void)state;
  const cj_header header = {"h\xff", BYTES("\x01\xfe")};
  tool_joined joined = {.topic = "notif",
                        .stream = BYTES(""),
                        .table = BYTES("\xff\x00\x10"),
                        .headers = &header,
                        .header_count = 1};
  cj_buf out = CJ_BUF_INIT;
  assert_true(tool_joined_json(&joined, &out));
  check_text(&out, "{\"topic\":\"notif\",\"partition\":0,\"offset\":0,\"timestamp\":0,\"key\":null,"
                   "\"stream\":\"\",\"table\":{\"base64\":\"/wAQ\"},"
                   "\"headers\":[[{\"base64\":\"aP8=\"},{\"base64\":\"Af4=\"}]]}");
  cj_buf_free(&out);
}

/* Every byte below 0x100 as a character: what comes out has no control byte, and a JSON reader
 * gets the same text back. */
static void json_escapes_every_control_character(void **state) {
  (void)state;
  unsigned char text[2 * 256];
  size_t len = 0;
  for (unsigned c = 0; c < 0x100; c++) {
    if (c >= 0x80) text[len++] = (unsigned char)(0xc0 | c >> 6);
    text[len++] = (unsigned char)(c < 0x80 ? c : 0x80 | (c & 0x3f));
  }
  tool_joined joined = {.topic = "t", .key = cj_bytes_of(text, len)};
  cj_buf out = CJ_BUF_INIT;
  assert_true(tool_joined_json(&joined, &out));
  for (size_t i = 0; i < out.len; i++) {
    assert_true(out.data[i] >= 0x20 && out.data[i] != 0x7f);
    if (out.data[i] == 0xc2) assert_true(out.data[i + 1] >= 0xa0);
  }
  json_t *object = json_loadb((const char *)out.data, out.len, JSON_ALLOW_NUL, NULL);
  assert_non_null(object);
  json_t *key = json_object_get(object, "key");
  assert_int_equal(json_string_length(key), len);
  assert_memory_equal(json_string_value(key), text, len);
  json_decref(object);
  cj_buf_free(&out);
}

/* The base64 of a part, decoded. */
static size_t unbase64(const char *text, unsigned char *out) {
  static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  size_t len = 0;
  unsigned bits = 0, group = 0;
  for (; *text && *text != '='; text++) {
    group = group << 6 | (unsigned)(strchr(alphabet, *text) - alphabet);
    bits += 6;
    if (bits >= 8) out[len++] = (unsigned char)(group >> (bits -= 8));
  }
  return len;
}

/* Whatever the bytes are, a JSON reader gets them back: jansson is the judge. */
static void json_gives_every_byte_back(void **state) {
  (void)state;
  uint32_t chance = 1;
  for (int round = 0; round < 5000; round++) {
    unsigned char bytes[24], back[32];
    size_t len = (size_t)round % sizeof bytes;
    for (size_t i = 0; i < len; i++) {
      chance = chance * 1664525 + 1013904223;
      /* Every other round ASCII, most of which is text, quotes and backslashes among it. */
      bytes[i] = (unsigned char)(chance >> 24 & (round % 2 ? 0x7f : 0xff));
    }
    tool_joined joined = {.topic = "t", .stream = cj_bytes_of(bytes, len)};
    cj_buf out = CJ_BUF_INIT;
    assert_true(tool_joined_json(&joined, &out));
    json_t *object = json_loadb((const char *)out.data, out.len, JSON_ALLOW_NUL, NULL);
    assert_non_null(object);
    json_t *value = json_object_get(object, "stream");
    json_t *encoded = json_object_get(value, "base64");
    assert_true(json_is_string(encoded) == !tool_utf8_valid(bytes, len));
    if (encoded) {
      assert_int_equal(unbase64(json_string_value(encoded), back), len);
      assert_memory_equal(back, bytes, len);
    } else {
      assert_int_equal(json_string_length(value), len);
      assert_memory_equal(json_string_value(value), bytes, len);
    }
    json_decref(object);
    cj_buf_free(&out);
  }
}

static void json_appends(void **state) {
  (void)state;
  tool_joined joined = {.topic = "t"};
  cj_buf out = CJ_BUF_INIT;
  assert_true(tool_joined_json(&joined, &out));
  size_t one = out.len;
  assert_true(tool_joined_json(&joined, &out));
  assert_int_equal(out.len, 2 * one);
  cj_buf_free(&out);
}

/* ---- tab-separated ---- */
static void tsv_has_seven_fields(void **state) {
  (void)state;
  tool_joined joined = {.topic = "notif",
                        .partition = 3,
                        .offset = 42,
                        .timestamp = 1000,
                        .key = BYTES("BBCA"),
                        .stream = BYTES("a\tb\nc\\d\r"),
                        .table = {NULL, 0}};
  cj_buf out = CJ_BUF_INIT;
  tool_joined_tsv(&joined, &out);
  check_text(&out, "notif\t3\t42\t1000\tBBCA\ta\\tb\\nc\\\\d\\r\t\\N");
  cj_buf_free(&out);
}

static void tsv_escapes_what_is_not_text(void **state) {
  (void)state;
  const struct {
    cj_bytes in;
    const char *out;
  } cases[] = {
      {BYTES(""), ""},
      {BYTES("\\N"), "\\\\N"}, /* not taken for an absent one */
      {BYTES("\x00\x1b[31m\x7f"), "\\x00\\x1B[31m\\x7F"},
      {BYTES("\xc2\x9b"), "\\xC2\\x9B"}, /* CSI as one character */
      {BYTES("\xc2\xa0\xe2\x82\xac"), "\xc2\xa0\xe2\x82\xac"},
      {BYTES("a\xff\xe2\x82z"), "a\\xFF\\xE2\\x82z"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cj_buf out = CJ_BUF_INIT;
    tool_escape(&out, cases[i].in);
    check_text(&out, cases[i].out);
    cj_buf_free(&out);
  }
}

static void messages_keep_a_backslash(void **state) {
  (void)state;
  cj_buf out = CJ_BUF_INIT;
  tool_printable(&out, "C:\\x \x1b", 6);
  check_text(&out, "C:\\x \\x1B");
  cj_buf_free(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(utf8_takes_what_rfc_3629_takes),
      cmocka_unit_test(utf8_refuses_the_rest),
      cmocka_unit_test(base64_of_the_rfc),
      cmocka_unit_test(json_has_exactly_the_members),
      cmocka_unit_test(json_tells_null_empty_and_bytes_apart),
      cmocka_unit_test(json_escapes_every_control_character),
      cmocka_unit_test(json_gives_every_byte_back),
      cmocka_unit_test(json_appends),
      cmocka_unit_test(tsv_has_seven_fields),
      cmocka_unit_test(tsv_escapes_what_is_not_text),
      cmocka_unit_test(messages_keep_a_backslash),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
