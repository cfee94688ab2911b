/* SPDX-License-Identifier: BSD-2-Clause */
/* Uncommitted updates of a task's tables: a hash table over bytes. Keys and values are copied; what
 * they take is given back as a whole, by clear. Not locked. */
#ifndef CJ_OVERLAY_H
#define CJ_OVERLAY_H

#include "base/base.h"

typedef struct {
  uint64_t hash;
  cj_bytes key;
  cj_bytes value; /* null: the row was deleted. Otherwise never NULL, zero bytes too */
  size_t room;    /* bytes at value.data that may be written */
  int64_t timestamp;
  int table;
} cj_overlay_row;

typedef struct {
  cj_overlay_row *rows; /* in the order of their first update */
  size_t count, cap;
  uint32_t *slots; /* row index + 1, 0: free; twice as many as rows, a power of two */
  size_t slot_count;
  cj_arena arena;
  size_t bytes; /* what it all takes, dead values included */
} cj_overlay;

uint64_t cj_overlay_hash(int table, cj_bytes key);
/* The row, or NULL. Valid until the next put. */
const cj_overlay_row *cj_overlay_find(const cj_overlay *overlay, uint64_t hash, int table,
                                      cj_bytes key);
/* A null value deletes. False without memory: nothing has changed. The value may lie in the
 * overlay. */
CJ_MUST_CHECK bool cj_overlay_put(cj_overlay *overlay, uint64_t hash, int table, cj_bytes key,
                                  cj_bytes value, int64_t timestamp);
void cj_overlay_clear(cj_overlay *overlay);
void cj_overlay_free(cj_overlay *overlay);

#endif
