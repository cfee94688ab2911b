/* SPDX-License-Identifier: BSD-2-Clause */
#include "runtime/record_queue.h"

void cj_record_queue_init(cj_record_queue *queue, cj_io *io, cj_tp tp) {
  *queue = (cj_record_queue){.io = io, .tp = tp};
}

static void chunk_release(cj_record_queue *queue, cj_chunk *chunk) {
  if (chunk->count) queue->io->ops->release(queue->io, chunk->entries, chunk->count);
  chunk->head = 0;
  chunk->count = 0;
}

void cj_record_queue_clear(cj_record_queue *queue) {
  chunk_release(queue, &queue->current);
  chunk_release(queue, &queue->behind);
}

void cj_record_queue_free(cj_record_queue *queue) {
  cj_record_queue_clear(queue);
  cj_free(queue->current.entries);
  cj_free(queue->behind.entries);
  queue->current.entries = NULL;
  queue->behind.entries = NULL;
}

static bool chunk_fill(cj_record_queue *queue, cj_chunk *chunk, uint64_t clock) {
  if (!chunk->entries) {
    chunk->entries = cj_alloc(CJ_CHUNK_ENTRIES * sizeof *chunk->entries);
    if (!chunk->entries) {
      queue->no_memory = true;
      return false;
    }
  }
  size_t n = queue->io->ops->fetch(queue->io, queue->tp, chunk->entries, CJ_CHUNK_ENTRIES);
  chunk->head = 0;
  chunk->count = (uint32_t)n;
  chunk->clock = clock;
  return n > 0;
}

bool cj_record_queue_refill(cj_record_queue *queue, uint64_t clock) {
  if (queue->current.count == 0) return chunk_fill(queue, &queue->current, clock);
  if (queue->behind.count == 0) return chunk_fill(queue, &queue->behind, clock);
  return false;
}

void cj_record_queue_pop(cj_record_queue *queue) {
  if (++queue->current.head < queue->current.count) return;
  chunk_release(queue, &queue->current);
  cj_chunk empty = queue->current;
  queue->current = queue->behind;
  queue->behind = empty;
}
