/* SPDX-License-Identifier: BSD-2-Clause */
#include "runtime/record_queue.h"

/* More of them go back to the heap. */
#define POOL_MAX 64

/* ---- the memory of chunks ---- */

static cj_fetched *pool_take(cj_chunk_pool *pool) {
  void *entries = pool->first;
  if (!entries) return cj_alloc(CJ_CHUNK_ENTRIES * sizeof(cj_fetched));
  pool->first = *(void **)entries;
  pool->count--;
  return entries;
}

static void pool_give(cj_chunk_pool *pool, void *entries) {
  if (pool->count == POOL_MAX) {
    cj_free(entries);
    return;
  }
  *(void **)entries = pool->first;
  pool->first = entries;
  pool->count++;
}

void cj_chunk_pool_free(cj_chunk_pool *pool) {
  while (pool->first) {
    void *entries = pool->first;
    pool->first = *(void **)entries;
    cj_free(entries);
  }
  pool->count = 0;
}

/* ---- the queue ---- */

void cj_record_queue_init(cj_record_queue *queue, cj_io *io, cj_chunk_pool *pool, cj_tp tp) {
  *queue = (cj_record_queue){.io = io, .pool = pool, .tp = tp};
}

static void chunk_release(cj_record_queue *queue, cj_chunk *chunk) {
  if (!chunk->entries) return;
  queue->io->ops->release(queue->io, chunk->entries, chunk->count);
  pool_give(queue->pool, chunk->entries);
  *chunk = (cj_chunk){.entries = NULL};
}

void cj_record_queue_clear(cj_record_queue *queue) {
  chunk_release(queue, &queue->current);
  chunk_release(queue, &queue->behind);
}

static bool chunk_fill(cj_record_queue *queue, cj_chunk *chunk, uint64_t clock) {
  cj_fetched *entries = pool_take(queue->pool);
  if (!entries) {
    queue->no_memory = true;
    return false;
  }
  size_t n = queue->io->ops->fetch(queue->io, queue->tp, entries, CJ_CHUNK_ENTRIES);
  if (n == 0) {
    pool_give(queue->pool, entries);
    return false;
  }
  *chunk = (cj_chunk){.entries = entries, .count = (uint32_t)n, .clock = clock};
  return true;
}

bool cj_record_queue_refill(cj_record_queue *queue, uint64_t clock) {
  if (queue->current.count == 0) return chunk_fill(queue, &queue->current, clock);
  if (queue->behind.count == 0) return chunk_fill(queue, &queue->behind, clock);
  return false;
}

void cj_record_queue_pop(cj_record_queue *queue) {
  if (++queue->current.head < queue->current.count) return;
  chunk_release(queue, &queue->current);
  queue->current = queue->behind;
  queue->behind = (cj_chunk){.entries = NULL};
}
