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
    to[0] = alphabet[group >> 18];
    to[1] = alphabet[group >> 12 & 63];
    to[2] = to[3] = '=';
    if (left > 1) to[2] = alphabet[group >> 6 & 63];
    if (left > 2) to[3] = alphabet[group & 63];
    to += 4;
  }
  out->len += (size_t)(to - start);
}

/* ---- JSON ---- */
/* The frame of a line is always the same and most parts are plain text: those are written as they
 * are, and jansson writes every string with something to escape. Building each line from its
 * objects took 5.6 us, more than all the rest of a join. */
typedef enum { TEXT_PLAIN, TEXT_ESCAPED, TEXT_NONE } text_kind;

static text_kind text_kind_of(const unsigned char *data, size_t len) {
  text_kind kind = TEXT_PLAIN;
  for (size_t i = 0; i < len;) {
    unsigned char c = data[i];
    size_t size = tool_utf8_char(data + i, len - i);
    if (size == 0) return TEXT_NONE;
    if (c < 0x20 || c == 0x7f || c == '"' || c == '\\' || (c == 0xc2 && data[i + 1] < 0xa0))
      kind = TEXT_ESCAPED;
    i += size;
  }
  return kind;
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

static void append_escaped(cj_buf *out, cj_bytes text) {
  json_t *string = json_stringn_nocheck(text.data, text.len);
  if (!string || json_dump_callback(string, append_dumped, out, JSON_ENCODE_ANY) != 0)
    out->failed = true;
  json_decref(string);
}

static void append_part(cj_buf *out, cj_bytes part) {
  if (!part.data) {
    cj_buf_append_str(out, "null");
    return;
  }
  switch (text_kind_of(part.data, part.len)) {
  case TEXT_PLAIN:
    cj_buf_append(out, "\"", 1);
    cj_buf_append(out, part.data, part.len);
    cj_buf_append(out, "\"", 1);
    break;
  case TEXT_ESCAPED:
    append_escaped(out, part);
    break;
  case TEXT_NONE:
    cj_buf_append_str(out, "{\"base64\":\"");
    tool_base64(out, part);
    cj_buf_append_str(out, "\"}");
    break;
  }
}

static void append_headers(cj_buf *out, const cj_header *headers, size_t count) {
  cj_buf_append(out, "[", 1);
  for (size_t i = 0; i < count; i++) {
    cj_buf_append_str(out, i ? ",[" : "[");
    append_part(out, cj_bytes_str(headers[i].name));
    cj_buf_append(out, ",", 1);
    append_part(out, headers[i].value);
    cj_buf_append(out, "]", 1);
  }
  cj_buf_append(out, "]", 1);
}

bool tool_joined_json(const tool_joined *joined, cj_buf *out) {
  cj_buf_append_str(out, "{\"topic\":");
  append_part(out, cj_bytes_str(joined->topic));
  cj_buf_printf(
      out, ",\"partition\":%" PRId32 ",\"offset\":%" PRId64 ",\"timestamp\":%" PRId64 ",\"key\":",
      joined->partition, joined->offset, joined->timestamp);
  append_part(out, joined->key);
  cj_buf_append_str(out, ",\"stream\":");
  append_part(out, joined->stream);
  cj_buf_append_str(out, ",\"table\":");
  append_part(out, joined->table);
  cj_buf_append_str(out, ",\"headers\":");
  append_headers(out, joined->headers, joined->header_count);
  cj_buf_append(out, "}", 1);
  return !out->failed;
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
