/* SPDX-License-Identifier: BSD-2-Clause */
/* A task's store at work. How it is opened is in task_store_open.c, its bytes in store_format.c.
 *
 * The rule for upgrades. CJ_STORE_FORMAT is the first byte of the fingerprint. It is raised when a
 * build that does not know the new format would misread the store; a new reserved key that an old
 * build may ignore does not raise it. A build that raises it either converts the format before it
 * when it opens a store, in one batch together with the new number, so that a crash leaves the one
 * or the other; or it refuses, which costs a rebuild from the topics and nothing else. A number
 * that a build does not know is refused, whichever way it differs, and the store is left as it is.
 */
#include "state/store_format.h"
#include "state/task_store_internal.h"

cj_position cj_position_none(void) {
  return (cj_position){
      .offset = -1, .last_offset = -1, .last_timestamp = -1, .last_key_hash = 0, .at_end_ms = -1};
}

cj_error *cj_task_store_damaged(const cj_task_store *store, const char *what) {
  return cj_error_new(CJ_ERR_STORE, store->name,
                      "%s cannot be read: the store is damaged. Remove it with `cojoin reset`; it "
                      "is rebuilt from the topics",
                      what);
}

void cj_task_store_close(cj_task_store *store) {
  if (!store) return;
  store->kv->ops->close(store->kv);
  for (size_t t = 0; t < store->table_count; t++) {
    cj_free(store->tables[t].topic);
    cj_kv_batch_free(&store->tables[t].restore);
  }
  cj_free(store->tables);
  cj_free(store->name);
  cj_overlay_free(&store->active);
  cj_overlay_free(&store->frozen);
  cj_kv_batch_free(&store->batch);
  cj_buf_free(&store->key);
  cj_buf_free(&store->row);
  cj_buf_free(&store->previous);
  cj_free(store);
}

/* ---- processing ---- */

/* The key in the kv, in a buffer of the store; null without memory. */
static cj_bytes stored_key(cj_task_store *store, int table, cj_bytes key) {
  const cj_store_prefix prefix = cj_store_rows_prefix(store->tables[table].id);
  store->key.failed = false;
  cj_buf_clear(&store->key);
  cj_buf_append(&store->key, prefix.bytes, sizeof prefix.bytes);
  cj_buf_append(&store->key, key.data, key.len);
  return store->key.failed ? cj_bytes_null() : cj_buf_bytes(&store->key);
}

/* Looks behind the overlays. */
static cj_kv_read get_stored(cj_task_store *store, int table, cj_bytes key, cj_buf *into,
                             cj_bytes *value, int64_t *timestamp, cj_error **error) {
  cj_bytes full = stored_key(store, table, key);
  if (!full.data) {
    *error = cj_error_no_memory();
    return CJ_KV_FAILED;
  }
  cj_kv_read result = store->kv->ops->get(store->kv, full, into, error);
  if (result != CJ_KV_FOUND || cj_store_get_row(cj_buf_bytes(into), value, timestamp))
    return result;
  *error = cj_task_store_damaged(store, "a row");
  return CJ_KV_FAILED;
}

static const cj_overlay_row *find_uncommitted(const cj_task_store *store, int table, cj_bytes key,
                                              uint64_t hash) {
  const cj_overlay_row *row = cj_overlay_find(&store->active, hash, table, key);
  return row ? row : cj_overlay_find(&store->frozen, hash, table, key);
}

cj_kv_read cj_task_store_get(cj_task_store *store, int table, cj_bytes key, cj_row *row,
                             cj_error **error) {
  row->object = NULL;
  *error = NULL;
  if (store->active.count || store->frozen.count) {
    const cj_overlay_row *found = find_uncommitted(store, table, key, cj_overlay_hash(table, key));
    if (found) {
      row->value = found->value;
      row->timestamp = found->timestamp;
      return found->value.data ? CJ_KV_FOUND : CJ_KV_ABSENT;
    }
  }
  return get_stored(store, table, key, &store->row, &row->value, &row->timestamp, error);
}

static cj_error *overwrites_newer(cj_task_store *store, int table, cj_bytes key, uint64_t hash,
                                  int64_t timestamp, bool *older) {
  *older = false;
  const cj_overlay_row *row = find_uncommitted(store, table, key, hash);
  if (row) {
    *older = row->value.data && row->timestamp > timestamp;
    return NULL;
  }
  cj_error *error = NULL;
  cj_bytes value;
  int64_t before;
  cj_kv_read found = get_stored(store, table, key, &store->previous, &value, &before, &error);
  if (found == CJ_KV_FOUND) *older = before > timestamp;
  return error;
}

cj_error *cj_task_store_put(cj_task_store *store, int table, cj_bytes key, cj_bytes value,
                            int64_t timestamp, bool *older) {
  uint64_t hash = cj_overlay_hash(table, key);
  if (older) {
    cj_error *error = overwrites_newer(store, table, key, hash, timestamp, older);
    if (error) return error;
  }
  return cj_overlay_put(&store->active, hash, table, key, value, timestamp) ? NULL
                                                                            : cj_error_no_memory();
}

size_t cj_task_store_overlay_bytes(const cj_task_store *store) {
  return store->active.bytes + store->frozen.bytes;
}

/* ---- commit ---- */

static void swap_overlays(cj_task_store *store) {
  cj_overlay active = store->active;
  store->active = store->frozen;
  store->frozen = active;
}

void cj_task_store_freeze(cj_task_store *store) {
  /* With a second cut the positions of the one would meet the rows of the other. */
  store->two_cuts = store->has_frozen;
  if (!store->has_frozen) swap_overlays(store);
  store->has_frozen = true;
}

bool cj_task_store_frozen(const cj_task_store *store) {
  return store->has_frozen;
}

static void end_frozen(cj_task_store *store) {
  cj_overlay_clear(&store->frozen);
  store->has_frozen = false;
  store->two_cuts = false;
}

static void add_row(cj_task_store *store, cj_kv_batch *batch, int table, cj_bytes key,
                    cj_bytes value, int64_t timestamp) {
  cj_bytes full = stored_key(store, table, key);
  if (!full.data) {
    batch->ops.failed = true;
    return;
  }
  if (!value.data) {
    cj_kv_batch_delete(batch, full);
    return;
  }
  unsigned char head[CJ_STORE_TIMESTAMP];
  cj_store_put_timestamp(head, timestamp);
  store->previous.failed = false;
  cj_buf_clear(&store->previous);
  cj_buf_append(&store->previous, head, sizeof head);
  cj_buf_append(&store->previous, value.data, value.len);
  if (store->previous.failed) batch->ops.failed = true;
  cj_kv_batch_put(batch, full, cj_buf_bytes(&store->previous));
}

static void add_position(cj_kv_batch *batch, const cj_store_table *table,
                         const cj_position *position) {
  const cj_store_prefix key = cj_store_position_key(table->id);
  unsigned char bytes[CJ_STORE_POSITION];
  cj_store_put_position(bytes, position);
  cj_kv_batch_put(batch, cj_bytes_of(key.bytes, sizeof key.bytes),
                  cj_bytes_of(bytes, sizeof bytes));
}

/* What the log does not hold must be durable before the log gets a position that lies after it: a
 * crash would keep the position and lose the rows. */
static cj_error *end_bulk(cj_task_store *store) {
  bool any = false;
  for (size_t t = 0; t < store->table_count; t++)
    any = any || store->tables[t].bulk;
  return any ? cj_task_store_flush(store) : NULL;
}

static cj_error *mistake(const cj_task_store *store, const char *what) {
  return cj_error_new(CJ_ERR_INTERNAL, store->name, "%s", what);
}

cj_error *cj_task_store_commit(cj_task_store *store, const cj_position *positions) {
  if (!store->has_frozen) return mistake(store, "a commit without a cut");
  if (store->two_cuts) return mistake(store, "a second cut before the first was committed");
  for (size_t t = 0; t < store->table_count; t++)
    if (store->tables[t].restore.count)
      return mistake(store, "a commit while restored rows wait for restore_flush");
  cj_error *error = end_bulk(store);
  if (error) return error;
  cj_kv_batch *batch = &store->batch;
  for (size_t i = 0; i < store->frozen.count; i++) {
    const cj_overlay_row *row = &store->frozen.rows[i];
    add_row(store, batch, row->table, row->key, row->value, row->timestamp);
  }
  for (size_t t = 0; t < store->table_count; t++)
    add_position(batch, &store->tables[t], &positions[t]);
  error = store->kv->ops->write(store->kv, batch, false);
  cj_kv_batch_clear(batch);
  if (error) return error;
  for (size_t t = 0; t < store->table_count; t++)
    store->tables[t].position = positions[t];
  end_frozen(store);
  return NULL;
}

/* A failure in the middle changes nothing that can be seen: active then says twice what frozen
 * says. */
cj_error *cj_task_store_thaw(cj_task_store *store) {
  if (!store->active.count) swap_overlays(store);
  for (size_t i = 0; i < store->frozen.count; i++) {
    const cj_overlay_row *row = &store->frozen.rows[i];
    if (cj_overlay_find(&store->active, row->hash, row->table, row->key)) continue;
    if (!cj_overlay_put(&store->active, row->hash, row->table, row->key, row->value,
                        row->timestamp))
      return cj_error_no_memory();
  }
  end_frozen(store);
  return NULL;
}

void cj_task_store_rollback(cj_task_store *store) {
  cj_overlay_clear(&store->active);
  end_frozen(store);
  for (size_t t = 0; t < store->table_count; t++)
    cj_kv_batch_clear(&store->tables[t].restore);
}

/* ---- restore ---- */

cj_error *cj_task_store_restore(cj_task_store *store, int table, cj_bytes key, cj_bytes value,
                                int64_t timestamp) {
  /* A batch keeps its order, so of two updates of a key the later offset wins. */
  cj_kv_batch *batch = &store->tables[table].restore;
  add_row(store, batch, table, key, value, timestamp);
  return batch->ops.failed ? cj_error_no_memory() : NULL;
}

cj_error *cj_task_store_restore_flush(cj_task_store *store, int table, const cj_position *position,
                                      bool bulk) {
  cj_store_table *self = &store->tables[table];
  cj_error *error = self->bulk && !bulk ? end_bulk(store) : NULL;
  if (error) return error;
  add_position(&self->restore, self, position);
  error = store->kv->ops->write(store->kv, &self->restore, bulk);
  if (error) return error;
  cj_kv_batch_clear(&self->restore);
  self->position = *position;
  self->bulk = bulk;
  return NULL;
}

cj_error *cj_task_store_restore_end(cj_task_store *store) {
  return end_bulk(store);
}

cj_error *cj_task_store_wipe(cj_task_store *store, int table) {
  cj_store_table *self = &store->tables[table];
  if (store->active.count || store->has_frozen)
    return mistake(store, "a table is wiped while updates are uncommitted");
  const cj_store_prefix rows = cj_store_rows_prefix(self->id);
  const cj_store_prefix position = cj_store_position_key(self->id);
  cj_kv_batch_delete_prefix(&store->batch, cj_bytes_of(rows.bytes, sizeof rows.bytes));
  cj_kv_batch_delete(&store->batch, cj_bytes_of(position.bytes, sizeof position.bytes));
  cj_error *error = store->kv->ops->write(store->kv, &store->batch, false);
  cj_kv_batch_clear(&store->batch);
  if (error) return error;
  cj_kv_batch_clear(&self->restore);
  self->position = cj_position_none();
  self->bulk = false;
  return NULL;
}

/* ---- reads of what is committed ---- */

cj_position cj_task_store_position(const cj_task_store *store, int table) {
  return store->tables[table].position;
}

uint64_t cj_task_store_memory(cj_task_store *store) {
  return store->kv->ops->memory(store->kv) + cj_task_store_overlay_bytes(store);
}

cj_error *cj_task_store_flush(cj_task_store *store) {
  cj_error *error = store->kv->ops->flush(store->kv);
  for (size_t t = 0; !error && t < store->table_count; t++)
    store->tables[t].bulk = false;
  return error;
}

typedef struct {
  cj_row_fn *fn;
  void *user;
  bool damaged;
} row_scan;

static bool scan_row(void *user, cj_bytes key, cj_bytes stored) {
  row_scan *scan = user;
  cj_row row = {.object = NULL};
  if (!cj_store_get_row(stored, &row.value, &row.timestamp)) {
    scan->damaged = true;
    return false;
  }
  return scan->fn(scan->user,
                  cj_bytes_of((const unsigned char *)key.data + CJ_STORE_TABLE_PREFIX,
                              key.len - CJ_STORE_TABLE_PREFIX),
                  &row);
}

cj_error *cj_task_store_scan(cj_task_store *store, int table, cj_row_fn *fn, void *user) {
  const cj_store_prefix rows = cj_store_rows_prefix(store->tables[table].id);
  row_scan scan = {.fn = fn, .user = user};
  cj_error *error =
      store->kv->ops->scan(store->kv, cj_bytes_of(rows.bytes, sizeof rows.bytes), scan_row, &scan);
  return error || !scan.damaged ? error : cj_task_store_damaged(store, "a row");
}

#define KEY_ON_STACK 512

cj_kv_read cj_task_store_read_committed(cj_task_store *store, int table, cj_bytes key,
                                        cj_buf *value, int64_t *timestamp, cj_error **error) {
  /* Nothing of the store but its kv and the table's id may be touched here: the owner works on the
   * rest meanwhile. */
  unsigned char few[KEY_ON_STACK], *full = few;
  *error = NULL;
  if (key.len > sizeof few - CJ_STORE_TABLE_PREFIX &&
      !(full = cj_alloc(CJ_STORE_TABLE_PREFIX + key.len))) {
    *error = cj_error_no_memory();
    return CJ_KV_FAILED;
  }
  const cj_store_prefix prefix = cj_store_rows_prefix(store->tables[table].id);
  memcpy(full, prefix.bytes, sizeof prefix.bytes);
  if (key.len) memcpy(full + sizeof prefix.bytes, key.data, key.len);
  cj_kv_read result = store->kv->ops->get(
      store->kv, cj_bytes_of(full, sizeof prefix.bytes + key.len), value, error);
  if (full != few) cj_free(full);
  if (result != CJ_KV_FOUND) return result;
  cj_bytes row;
  if (!cj_store_get_row(cj_buf_bytes(value), &row, timestamp)) {
    *error = cj_task_store_damaged(store, "a row");
    return CJ_KV_FAILED;
  }
  cj_buf_set(value, row); /* moves it to the front */
  return CJ_KV_FOUND;
}
