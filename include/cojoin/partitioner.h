/* SPDX-License-Identifier: BSD-2-Clause */
/* Partitioners: which partition a key belongs to. Both sides of a join must have been written with
 * the same one; a sink's records are placed by the one that the sink declares.
 *
 * Threads: pure functions, or the user's own which must be callable from every worker at once. */
#ifndef COJOIN_PARTITIONER_H
#define COJOIN_PARTITIONER_H

#include <stdint.h>

#include <cojoin/export.h>
#include <cojoin/record.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Any partition would do: the producer may choose one at random. */
#define CJ_PARTITION_ANY (-1)

typedef struct cj_partitioner {
  const char *name;
  /* The partition in [0, partitions) of a key (null: data NULL), or CJ_PARTITION_ANY.
   * `partitions` is at least 1. */
  int32_t (*partition)(void *user, cj_bytes key, int32_t partitions);
  void *user; /* outlives the plan */
} cj_partitioner;

/* murmur2 as the Java client has it; a null key goes anywhere (librdkafka: murmur2_random).
 * The default of every sink and source. */
CJ_API const cj_partitioner *cj_partitioner_murmur2(void);
/* CRC-32 as librdkafka's default `consistent_random`: null and empty keys go anywhere. */
CJ_API const cj_partitioner *cj_partitioner_crc32(void);
/* FNV-1a as librdkafka's `fnv1a_random`, Sarama's NewHashPartitioner and kafka-go's Hash. */
CJ_API const cj_partitioner *cj_partitioner_fnv1a(void);
/* "murmur2", "crc32", "fnv1a", or NULL for a name that is none of them. */
CJ_API const cj_partitioner *cj_partitioner_named(const char *name);

/* The hashes under them, over the raw key bytes; NULL with length 0 is the empty key. */
CJ_API uint32_t cj_murmur2(const void *key, size_t len);
CJ_API uint32_t cj_crc32(const void *key, size_t len);
CJ_API uint32_t cj_fnv1a(const void *key, size_t len);

#ifdef __cplusplus
}
#endif
#endif
