/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/base.h"

#include <stdalign.h>
#include <stddef.h>

#define FIRST_BLOCK ((size_t)4096)
/* A block above this goes back to the heap: one huge record must not stay in memory for good. */
#define KEEP_MAX ((size_t)1 << 20)

struct cj_arena_block {
  struct cj_arena_block *next;
  size_t size;
  alignas(max_align_t) unsigned char data[];
};

static struct cj_arena_block *add_block(cj_arena *arena, size_t size) {
  /* Each block is twice as large as the one before. So reset, which keeps the last, arrives after a
   * few records at one block that holds a whole record. */
  size_t want = arena->current ? arena->current->size * 2 : FIRST_BLOCK;
  if (want < size) want = size;
  if (want > SIZE_MAX - sizeof(struct cj_arena_block)) return NULL;
  struct cj_arena_block *block = cj_realloc(NULL, sizeof *block + want);
  if (!block) return NULL;
  block->next = NULL;
  block->size = want;
  if (arena->current)
    arena->current->next = block;
  else
    arena->first = block;
  arena->current = block;
  arena->used = 0;
  return block;
}

void *cj_arena_alloc(cj_arena *arena, size_t size) {
  const size_t align = alignof(max_align_t);
  struct cj_arena_block *block = arena->current;
  if (size <= SIZE_MAX / 4) {
    size = size ? (size + align - 1) / align * align : align;
    if (!block || block->size - arena->used < size) block = add_block(arena, size);
  } else {
    block = NULL;
  }
  if (!block) {
    arena->failed = true;
    return NULL;
  }
  void *p = block->data + arena->used;
  arena->used += size;
  return p;
}

static void free_until(cj_arena *arena, const struct cj_arena_block *end) {
  while (arena->first && arena->first != end) {
    struct cj_arena_block *next = arena->first->next;
    cj_free(arena->first);
    arena->first = next;
  }
}

void cj_arena_reset(cj_arena *arena) {
  arena->used = 0;
  arena->failed = false;
  if (!arena->current) return;
  if (arena->current->size > KEEP_MAX)
    cj_arena_free(arena);
  else
    free_until(arena, arena->current);
}

void cj_arena_free(cj_arena *arena) {
  free_until(arena, NULL);
  *arena = (cj_arena){0};
}
