/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/encode.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

/* The second byte's range depends on the first (RFC 3629, section 4): that is what keeps overlong
 * forms (E0 80…, F0 80…), surrogates (ED A0…) and code points past U+10FFFF (F4 90…) out. */
size_t tool_utf8_char(const unsigned char *data, size_t len) {
  if (len == 0) return 0;
  unsigned char first = data[0];
  if (first < 0x80) return 1;
  size_t size = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (size == 0 || len < size) return 0;
  unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (data[1] < low || data[1] > high) return 0;
  for (size_t i = 2; i < size; i++)
    if ((data[i] & 0xc0) != 0x80) return 0;
  return size;
}

bool tool_utf8_valid(const void *data, size_t len) {
  const unsigned char *p = data;
  for (size_t i = 0; i < len;) {
    size_t size = tool_utf8_char(p + i, len - i);
    if (size == 0) return false;
    i += size;
  }
  return true;
}

void tool_base64(cj_buf *out, cj_bytes in) {
  static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const unsigned char *p = in.data;
  char *to = cj_buf_reserve(out, (in.len + 2) / 3 * 4);
  if (!to) return;
  char *start = to;
  for (size_t i = 0; i < in.len; i += 3) {
    size_t left = in.len - i;
    unsigned long group = (unsigned long)p[i] << 16;
    if (left > 1) group |= (unsigned long)p[i + 1] << 8;
    if (left > 2) group |= p[i + 2];
    *to++ = alphabet[group >> 18];
    *to++ = alphabet[group >> 12 & 63];
    *to++ = left > 1 ? alphabet[group >> 6 & 63] : '=';
    *to++ = left > 2 ? alphabet[group & 63] : '=';
  }
  out->len += (size_t)(to - start);
}

/* ---- JSON ---- */
static json_t *json_base64(cj_bytes part) {
  cj_buf text = CJ_BUF_INIT;
  tool_base64(&text, part);
  json_t *object = text.failed ? NULL : json_object();
  if (object &&
      json_object_set_new_nocheck(object, "base64",
                                  json_stringn_nocheck((const char *)text.data, text.len)) != 0) {
    json_decref(object);
    object = NULL;
  }
  cj_buf_free(&text);
  return object;
}

static json_t *json_part(cj_bytes part) {
  if (!part.data) return json_null();
  if (!tool_utf8_valid(part.data, part.len)) return json_base64(part);
  return json_stringn_nocheck(part.len ? part.data : "", part.len);
}

static json_t *json_headers(const cj_header *headers, size_t count) {
  json_t *list = json_array();
  if (!list) return NULL;
  for (size_t i = 0; i < count; i++) {
    json_t *pair = json_array();
    if (!pair || json_array_append_new(pair, json_part(cj_bytes_str(headers[i].name))) != 0 ||
        json_array_append_new(pair, json_part(headers[i].value)) != 0 ||
        json_array_append(list, pair) != 0) {
      json_decref(pair);
      json_decref(list);
      return NULL;
    }
    json_decref(pair);
  }
  return list;
}

/* JSON asks for C0 to be escaped. DEL and C1 (as UTF-8: C2 80 … C2 9F) are control characters for a
 * terminal all the same, so they are escaped too; they stand only inside strings. */
static int append_dumped(const char *text, size_t len, void *user) {
  cj_buf *out = user;
  size_t plain = 0;
  for (size_t i = 0; i < len; i++) {
    const unsigned char *c = (const unsigned char *)text + i;
    size_t size = *c == 0x7f ? 1 : *c == 0xc2 && i + 1 < len && c[1] < 0xa0 ? 2 : 0;
    if (size == 0) continue;
    cj_buf_append(out, text + plain, i - plain);
    cj_buf_printf(out, "\\u00%02x", size == 1 ? *c : c[1]);
    i += size - 1;
    plain = i + 1;
  }
  cj_buf_append(out, text + plain, len - plain);
  return out->failed ? -1 : 0;
}

bool tool_joined_json(const tool_joined *joined, cj_buf *out) {
  json_t *object = json_object();
  if (!object) return false;
  struct {
    const char *name;
    json_t *value;
  } members[] = {
      {"topic", json_part(cj_bytes_str(joined->topic))},
      {"partition", json_integer(joined->partition)},
      {"offset", json_integer(joined->offset)},
      {"timestamp", json_integer(joined->timestamp)},
      {"key", json_part(joined->key)},
      {"stream", json_part(joined->stream)},
      {"table", json_part(joined->table)},
      {"headers", json_headers(joined->headers, joined->header_count)},
  };
  bool ok = true;
  for (size_t i = 0; i < sizeof members / sizeof *members; i++)
    if (json_object_set_new_nocheck(object, members[i].name, members[i].value) != 0) ok = false;
  ok =
      ok && json_dump_callback(object, append_dumped, out, JSON_COMPACT | JSON_PRESERVE_ORDER) == 0;
  json_decref(object);
  return ok && !out->failed;
}

/* ---- tab-separated ---- */
/* How many bytes at the front need no escape. */
static size_t plain_run(const unsigned char *data, size_t len, bool backslash) {
  size_t i = 0;
  while (i < len) {
    unsigned char c = data[i];
    if (c < 0x20 || c == 0x7f || (backslash && c == '\\')) break;
    size_t size = tool_utf8_char(data + i, len - i);
    if (size == 0 || (c == 0xc2 && data[i + 1] < 0xa0)) break;
    i += size;
  }
  return i;
}

static void escape(cj_buf *out, cj_bytes in, bool backslash) {
  const unsigned char *data = in.data;
  for (size_t i = 0; i < in.len; i++) {
    size_t run = plain_run(data + i, in.len - i, backslash);
    cj_buf_append(out, data + i, run);
    i += run;
    if (i == in.len) return;
    switch (data[i]) {
    case '\\':
      cj_buf_append_str(out, "\\\\");
      break;
    case '\t':
      cj_buf_append_str(out, "\\t");
      break;
    case '\n':
      cj_buf_append_str(out, "\\n");
      break;
    case '\r':
      cj_buf_append_str(out, "\\r");
      break;
    default:
      /* The second byte of a C1 character goes the same way on the next turn: alone it is not
       * UTF-8. */
      cj_buf_printf(out, "\\x%02X", data[i]);
      break;
    }
  }
}

void tool_escape(cj_buf *out, cj_bytes in) {
  if (!in.data)
    cj_buf_append_str(out, "\\N");
  else
    escape(out, in, true);
}

void tool_printable(cj_buf *out, const char *text, size_t len) {
  escape(out, cj_bytes_of(text, len), false);
}

void tool_joined_tsv(const tool_joined *joined, cj_buf *out) {
  tool_escape(out, cj_bytes_str(joined->topic));
  cj_buf_printf(out, "\t%" PRId32 "\t%" PRId64 "\t%" PRId64 "\t", joined->partition, joined->offset,
                joined->timestamp);
  tool_escape(out, joined->key);
  cj_buf_append_str(out, "\t");
  tool_escape(out, joined->stream);
  cj_buf_append_str(out, "\t");
  tool_escape(out, joined->table);
}
