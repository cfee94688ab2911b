/* SPDX-License-Identifier: BSD-2-Clause */
#include "state/overlay.h"

#define FIRST_ROWS ((size_t)64)
/* Above this the table goes back to the heap on clear; see KEEP_MAX in kv_batch.c. */
#define KEEP_ROWS ((size_t)1 << 13)

uint64_t cj_overlay_hash(int table, cj_bytes key) {
  return cj_hash64(key.data, key.len) ^ (uint64_t)table * UINT64_C(0x9e3779b97f4a7c15);
}

/* The row's slot, or the free one where it would go. */
static size_t find_slot(const cj_overlay *overlay, uint64_t hash, int table, cj_bytes key) {
  size_t mask = overlay->slot_count - 1;
  size_t at = (size_t)hash & mask;
  for (; overlay->slots[at]; at = (at + 1) & mask) {
    const cj_overlay_row *row = &overlay->rows[overlay->slots[at] - 1];
    if (row->hash == hash && row->table == table && cj_bytes_equal(row->key, key)) break;
  }
  return at;
}

const cj_overlay_row *cj_overlay_find(const cj_overlay *overlay, uint64_t hash, int table,
                                      cj_bytes key) {
  if (!overlay->count) return NULL;
  uint32_t index = overlay->slots[find_slot(overlay, hash, table, key)];
  return index ? &overlay->rows[index - 1] : NULL;
}

static bool grow(cj_overlay *overlay) {
  size_t cap = overlay->cap ? overlay->cap * 2 : FIRST_ROWS;
  size_t slot_count = cap * 2;
  if (slot_count > UINT32_MAX) return false;
  uint32_t *slots = cj_alloc(slot_count * sizeof *slots);
  if (!slots) return false;
  cj_overlay_row *rows = cj_realloc(overlay->rows, cap * sizeof *rows);
  if (!rows) {
    cj_free(slots);
    return false;
  }
  cj_free(overlay->slots);
  overlay->rows = rows;
  overlay->cap = cap;
  overlay->slots = slots;
  overlay->slot_count = slot_count;
  for (size_t i = 0; i < overlay->count; i++) {
    size_t at = (size_t)rows[i].hash & (slot_count - 1);
    while (slots[at])
      at = (at + 1) & (slot_count - 1);
    slots[at] = (uint32_t)(i + 1);
  }
  return true;
}

static bool update(cj_overlay *overlay, cj_overlay_row *row, cj_bytes value, int64_t timestamp) {
  if (value.data && (!row->value.data || row->room < value.len)) {
    unsigned char *data = cj_arena_alloc(&overlay->arena, value.len);
    if (!data) return false;
    overlay->bytes += value.len;
    if (value.len) memcpy(data, value.data, value.len);
    row->room = value.len;
    row->value.data = data;
  } else if (value.data && value.len) {
    /* The row's own memory, allocated above or below; the new value may be a part of the old. */
    memmove((void *)row->value.data, value.data, value.len);
  }
  if (!value.data) row->value.data = NULL;
  row->value.len = value.len;
  row->timestamp = timestamp;
  return true;
}

bool cj_overlay_put(cj_overlay *overlay, uint64_t hash, int table, cj_bytes key, cj_bytes value,
                    int64_t timestamp) {
  if (overlay->count == overlay->cap && !grow(overlay)) return false;
  size_t slot = find_slot(overlay, hash, table, key);
  if (overlay->slots[slot])
    return update(overlay, &overlay->rows[overlay->slots[slot] - 1], value, timestamp);
  unsigned char *data = cj_arena_alloc(&overlay->arena, key.len + value.len);
  if (!data) return false;
  if (key.len) memcpy(data, key.data, key.len);
  if (value.len) memcpy(data + key.len, value.data, value.len);
  cj_overlay_row *row = &overlay->rows[overlay->count++];
  *row = (cj_overlay_row){.hash = hash,
                          .key = cj_bytes_of(data, key.len),
                          .room = value.len,
                          .timestamp = timestamp,
                          .table = table};
  if (value.data) row->value = cj_bytes_of(data + key.len, value.len);
  overlay->slots[slot] = (uint32_t)overlay->count;
  overlay->bytes += sizeof *row + 2 * sizeof *overlay->slots + key.len + value.len;
  return true;
}

void cj_overlay_clear(cj_overlay *overlay) {
  if (overlay->cap > KEEP_ROWS) {
    cj_overlay_free(overlay);
    return;
  }
  if (overlay->count) memset(overlay->slots, 0, overlay->slot_count * sizeof *overlay->slots);
  overlay->count = 0;
  overlay->bytes = 0;
  cj_arena_reset(&overlay->arena);
}

void cj_overlay_free(cj_overlay *overlay) {
  cj_free(overlay->rows);
  cj_free(overlay->slots);
  cj_arena_free(&overlay->arena);
  *overlay = (cj_overlay){.rows = NULL};
}
