/* SPDX-License-Identifier: BSD-2-Clause */
#include <cojoin/partitioner.h>

/* Masks the sign bit before the modulo, as Utils.toPositive does: without it about half of the keys
 * move for counts that are no power of two (case 8). */
static int32_t murmur2_partition(void *user, cj_bytes key, int32_t partitions) {
  (void)user;
  if (!key.data) return CJ_PARTITION_ANY;
  return (int32_t)(cj_murmur2(key.data, key.len) & INT32_MAX) % partitions;
}

/* librdkafka's consistent_random scatters the empty key too (case 16). */
static int32_t crc32_partition(void *user, cj_bytes key, int32_t partitions) {
  (void)user;
  if (!key.data || key.len == 0) return CJ_PARTITION_ANY;
  return (int32_t)(cj_crc32(key.data, key.len) % (uint32_t)partitions);
}

/* Sarama and kafka-go take the remainder of the hash as a signed number and then drop its sign
 * (case 10); librdkafka gives the same. In 64 bits, because -INT32_MIN is no int32_t (case 9). */
static int32_t fnv1a_partition(void *user, cj_bytes key, int32_t partitions) {
  (void)user;
  if (!key.data) return CJ_PARTITION_ANY;
  int64_t hash = cj_fnv1a(key.data, key.len);
  if (hash > INT32_MAX) hash -= INT64_C(1) << 32;
  int64_t rest = hash % partitions;
  return (int32_t)(rest < 0 ? -rest : rest);
}

static const cj_partitioner murmur2 = {.name = "murmur2", .partition = murmur2_partition};
static const cj_partitioner crc32 = {.name = "crc32", .partition = crc32_partition};
static const cj_partitioner fnv1a = {.name = "fnv1a", .partition = fnv1a_partition};

const cj_partitioner *cj_partitioner_murmur2(void) {
  return &murmur2;
}

const cj_partitioner *cj_partitioner_crc32(void) {
  return &crc32;
}

const cj_partitioner *cj_partitioner_fnv1a(void) {
  return &fnv1a;
}

const cj_partitioner *cj_partitioner_named(const char *name) {
  static const cj_partitioner *const all[] = {&murmur2, &crc32, &fnv1a, NULL};
  for (const cj_partitioner *const *one = all; name && *one; one++)
    if (strcmp((*one)->name, name) == 0) return *one;
  return NULL;
}
