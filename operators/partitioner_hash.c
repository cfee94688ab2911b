/* SPDX-License-Identifier: BSD-2-Clause */
/* The hashes that clients of the field place keys by. All work on bytes, so that the machine's byte
 * order and the buffer's alignment do not matter. */
#include <cojoin/partitioner.h>

#include "operators/crc32_table.h"

static uint32_t load_little_endian(const unsigned char *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* MurmurHash2 with the seed of org.apache.kafka.common.utils.Utils.murmur2. */
uint32_t cj_murmur2(const void *key, size_t len) {
  const uint32_t m = 0x5bd1e995;
  const unsigned char *p = key;
  uint32_t h = UINT32_C(0x9747b28c) ^ (uint32_t)len;
  for (; len >= 4; len -= 4, p += 4) {
    uint32_t k = load_little_endian(p) * m;
    k ^= k >> 24;
    h = h * m ^ k * m;
  }
  /* The tail is mixed in once, whatever its length: a port that loses this goes wrong for three
   * quarters of the keys only (case 14). */
  if (len >= 3) h ^= (uint32_t)p[2] << 16;
  if (len >= 2) h ^= (uint32_t)p[1] << 8;
  if (len >= 1) h = (h ^ p[0]) * m;
  h ^= h >> 13;
  h *= m;
  return h ^ (h >> 15);
}

uint32_t cj_crc32(const void *key, size_t len) {
  const unsigned char *p = key;
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < len; i++)
    crc = crc >> 8 ^ crc32_table[(crc ^ p[i]) & 0xff];
  return ~crc;
}

uint32_t cj_fnv1a(const void *key, size_t len) {
  const unsigned char *p = key;
  uint32_t h = UINT32_C(2166136261);
  for (size_t i = 0; i < len; i++)
    h = (h ^ p[i]) * UINT32_C(16777619);
  return h;
}
