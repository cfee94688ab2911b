/* SPDX-License-Identifier: BSD-2-Clause */
/* A hash for tables in memory and for telling records apart. It is kept on disk (the last applied
 * record of a table), so it gives the same value on every machine. */
#include "base/base.h"

#include <string.h>

/* The finalizer of MurmurHash3 (public domain, Austin Appleby). */
static uint64_t scramble(uint64_t h) {
  h ^= h >> 33;
  h *= UINT64_C(0xff51afd7ed558ccd);
  h ^= h >> 33;
  h *= UINT64_C(0xc4ceb9fe1a85ec53);
  return h ^ (h >> 33);
}

static uint64_t load_little_endian(const unsigned char *p, size_t len) {
  uint64_t word = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  if (len == 8) {
    memcpy(&word, p, 8);
    return word;
  }
#endif
  for (size_t i = 0; i < len; i++)
    word |= (uint64_t)p[i] << (8 * i);
  return word;
}

uint64_t cj_hash64(const void *data, size_t len) {
  const unsigned char *p = data;
  uint64_t h = UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)len;
  for (; len >= 8; len -= 8, p += 8) {
    h = (h ^ load_little_endian(p, 8)) * UINT64_C(0xff51afd7ed558ccd);
    h ^= h >> 32;
  }
  if (len) h ^= load_little_endian(p, len);
  return scramble(h);
}
