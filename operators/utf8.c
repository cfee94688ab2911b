/* SPDX-License-Identifier: BSD-2-Clause */
#include "operators/utf8.h"

/* Keys and values are mostly ASCII: the bytes that are it are passed eight at a time. */
static size_t skip_ascii(const unsigned char *p, size_t len) {
  size_t at = 0;
  for (uint64_t word; len - at >= sizeof word; at += sizeof word) {
    memcpy(&word, p + at, sizeof word);
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones << 7;
    /* A byte that is NUL or beyond ASCII sets a high bit here. */
    if ((word | (word - ones)) & highs) break;
  }
  return at;
}

/* How many bytes the sequence at p has, or 0 if it is none. The bounds of the second byte keep out
 * overlong forms, surrogates and what lies beyond U+10FFFF (RFC 3629, section 4). */
static size_t sequence(const unsigned char *p, size_t len) {
  unsigned char first = p[0], low = 0x80, high = 0xbf;
  size_t size;
  if (first >= 0xc2 && first <= 0xdf)
    size = 2;
  else if (first >= 0xe0 && first <= 0xef)
    size = 3;
  else if (first >= 0xf0 && first <= 0xf4)
    size = 4;
  else
    return 0;
  if (first == 0xe0) low = 0xa0;
  if (first == 0xed) high = 0x9f;
  if (first == 0xf0) low = 0x90;
  if (first == 0xf4) high = 0x8f;
  if (len < size || p[1] < low || p[1] > high) return 0;
  for (size_t i = 2; i < size; i++)
    if (p[i] < 0x80 || p[i] > 0xbf) return 0;
  return size;
}

const char *cj_utf8_wrong(cj_bytes text) {
  const unsigned char *p = text.data;
  size_t at = text.len ? skip_ascii(p, text.len) : 0;
  while (at < text.len) {
    if (p[at] == 0) return "it has a NUL byte in it";
    if (p[at] < 0x80) {
      at++;
      continue;
    }
    size_t size = sequence(p + at, text.len - at);
    if (!size) return "it is not UTF-8";
    at += size;
  }
  return NULL;
}
