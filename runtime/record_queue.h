/* SPDX-License-Identifier: BSD-2-Clause */
/* What has been fetched for one input partition and not been processed yet.
 *
 * Two chunks: the one in work, and the one behind it, fetched early so that what its records have
 * to wait for (the end of the empty table beside them) is asked for while the first is worked on.
 * The entries of a chunk are released together: freeing messages one by one costs more than
 * processing them. The memory of chunks is the worker's: a thousand partitions that are at their
 * end hold none. */
#ifndef CJ_RECORD_QUEUE_H
#define CJ_RECORD_QUEUE_H

#include "runtime/io.h"

#define CJ_CHUNK_ENTRIES 512

/* Memory that waits for the next chunk. Zero is empty. */
typedef struct {
  void *first;
  size_t count;
} cj_chunk_pool;
void cj_chunk_pool_free(cj_chunk_pool *pool);

typedef struct {
  cj_fetched *entries; /* CJ_CHUNK_ENTRIES; NULL when there are none */
  uint32_t head, count;
  uint64_t clock; /* the worker's fetch clock when it came */
} cj_chunk;

typedef struct {
  cj_io *io; /* borrowed, as the pool */
  cj_chunk_pool *pool;
  cj_tp tp;
  cj_chunk current, behind;
  bool no_memory;
} cj_record_queue;

void cj_record_queue_init(cj_record_queue *queue, cj_io *io, cj_chunk_pool *pool, cj_tp tp);
/* Releases everything that is buffered. The queue holds nothing then. */
void cj_record_queue_clear(cj_record_queue *queue);
/* Takes what has arrived, if there is room for a chunk. True if anything came; it is stamped with
 * `clock`. */
bool cj_record_queue_refill(cj_record_queue *queue, uint64_t clock);
/* Behind the head: releases the chunk when it was its last entry. */
void cj_record_queue_pop(cj_record_queue *queue);

/* The first entry, valid until it is popped; NULL when there is none. */
static inline const cj_fetched *cj_record_queue_head(const cj_record_queue *queue) {
  const cj_chunk *chunk = &queue->current;
  return chunk->head < chunk->count ? &chunk->entries[chunk->head] : NULL;
}
static inline uint64_t cj_record_queue_clock(const cj_record_queue *queue) {
  return queue->current.clock;
}

#endif
