/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening a task's store: is it ours, which tables does it hold, where does each stand. */
#include <inttypes.h>

#include "state/store_format.h"
#include "state/task_store_internal.h"

/* ---- whose is it ---- */

static int text_len(cj_bytes text) {
  return text.len > 200 ? 200 : (int)text.len;
}

static cj_error *check_identity(const cj_task_store *store, const cj_store_identity *found,
                                const cj_fingerprint *wanted) {
  if (found->format != CJ_STORE_FORMAT)
    return cj_error_new(CJ_ERR_STORE_MISMATCH, store->name,
                        "the store has format %d and this build of cojoin reads format %d: run the "
                        "build that wrote it, or remove it with `cojoin reset`; it is rebuilt from "
                        "the topics",
                        found->format, CJ_STORE_FORMAT);
  if (!cj_bytes_equal(found->cluster_id, cj_bytes_str(wanted->cluster_id)))
    return cj_error_new(CJ_ERR_STORE_MISMATCH, store->name,
                        "the store belongs to cluster %.*s and this is cluster %s: set another "
                        "state.dir for it, or remove the store with `cojoin reset`",
                        text_len(found->cluster_id), (const char *)found->cluster_id.data,
                        wanted->cluster_id);
  if (!cj_bytes_equal(found->anchor, cj_bytes_str(wanted->anchor)) ||
      found->partition != wanted->partition)
    return cj_error_new(CJ_ERR_STORE_MISMATCH, store->name,
                        "the store belongs to %.*s[%" PRId32 "] and was opened for %s[%" PRId32
                        "]: its directory was renamed; remove it with `cojoin reset`",
                        text_len(found->anchor), (const char *)found->anchor.data, found->partition,
                        wanted->anchor, wanted->partition);
  if (found->partition_count != wanted->partition_count)
    return cj_error_new(CJ_ERR_PARTITIONS_CHANGED, store->name,
                        "the store was made when the topics had %" PRId32
                        " partitions and they have %" PRId32
                        " now, so keys have moved: remove it with `cojoin reset`; it is rebuilt "
                        "from the topics",
                        found->partition_count, wanted->partition_count);
  return NULL;
}

static bool note_key(void *user, cj_bytes key, cj_bytes value) {
  (void)key;
  (void)value;
  *(bool *)user = true;
  return false;
}

static bool holds_any(cj_kv *kv, cj_bytes prefix, cj_error **error) {
  bool any = false;
  *error = kv->ops->scan(kv, prefix, note_key, &any);
  return any;
}

static cj_error *add_identity(cj_task_store *store, const cj_fingerprint *wanted) {
  cj_buf identity = CJ_BUF_INIT;
  cj_store_put_identity(&identity, wanted);
  cj_error *error = identity.failed ? cj_error_no_memory() : NULL;
  if (!error) cj_kv_batch_put(&store->batch, cj_bytes_str("mf"), cj_buf_bytes(&identity));
  cj_buf_free(&identity);
  return error;
}

static cj_error *identify(cj_task_store *store, const cj_fingerprint *wanted) {
  cj_error *error = NULL;
  cj_kv *kv = store->kv;
  cj_store_identity found;
  switch (kv->ops->get(kv, cj_bytes_str("mf"), &store->row, &error)) {
  case CJ_KV_FAILED:
    return error;
  case CJ_KV_FOUND:
    if (!cj_store_get_identity(cj_buf_bytes(&store->row), &found))
      return cj_task_store_damaged(store, "its fingerprint");
    return check_identity(store, &found, wanted);
  case CJ_KV_ABSENT:
    break;
  }
  if (holds_any(kv, cj_bytes_of("", 0), &error) && !error)
    error = cj_error_new(CJ_ERR_STORE_MISMATCH, store->name,
                         "its directory holds data that cojoin has not written: set another "
                         "state.dir, or remove it");
  return error ? error : add_identity(store, wanted);
}

/* ---- its tables ---- */

typedef struct {
  cj_task_store *store;
  bool used[CJ_STORE_TABLES_MAX + 1]; /* ids */
  bool damaged;
} table_walk;

static void add_removal(cj_task_store *store, uint16_t id) {
  const cj_store_prefix rows = cj_store_rows_prefix(id), position = cj_store_position_key(id);
  cj_kv_batch_delete_prefix(&store->batch, cj_bytes_of(rows.bytes, sizeof rows.bytes));
  cj_kv_batch_delete(&store->batch, cj_bytes_of(position.bytes, sizeof position.bytes));
}

static bool known_table(void *user, cj_bytes key, cj_bytes value) {
  table_walk *walk = user;
  cj_task_store *store = walk->store;
  cj_bytes topic = cj_bytes_of((const char *)key.data + 2, key.len - 2);
  uint16_t id;
  if (!cj_store_get_table_id(value, &id) || id == 0) {
    walk->damaged = true;
    return false;
  }
  for (size_t t = 0; t < store->table_count; t++)
    if (cj_bytes_equal(topic, cj_bytes_str(store->tables[t].topic))) {
      store->tables[t].id = id;
      walk->used[id] = true;
      return true;
    }
  walk->used[id] = true; /* not again before the batch that frees it is written */
  cj_logf(&store->log, CJ_LOG_INFO, "store %s: the rows of %.*s are removed: no table any more",
          store->name, text_len(topic), (const char *)topic.data);
  add_removal(store, id);
  cj_kv_batch_delete(&store->batch, key);
  return true;
}

static cj_error *add_tables(cj_task_store *store, table_walk *walk) {
  size_t next = 1;
  for (size_t t = 0; t < store->table_count; t++) {
    cj_store_table *table = &store->tables[t];
    if (table->id) continue;
    while (next <= CJ_STORE_TABLES_MAX && walk->used[next])
      next++;
    if (next > CJ_STORE_TABLES_MAX)
      return cj_error_new(CJ_ERR_LIMIT, store->name, "a store holds %d tables at most",
                          CJ_STORE_TABLES_MAX);
    walk->used[next] = true;
    table->id = (uint16_t)next;
    unsigned char id[2];
    cj_store_put_table_id(id, table->id);
    cj_buf_clear(&store->key);
    cj_buf_append_str(&store->key, "mt");
    cj_buf_append_str(&store->key, table->topic);
    if (store->key.failed) return cj_error_no_memory();
    cj_kv_batch_put(&store->batch, cj_buf_bytes(&store->key), cj_bytes_of(id, sizeof id));
  }
  return NULL;
}

static cj_error *find_tables(cj_task_store *store) {
  table_walk *walk = cj_alloc(sizeof *walk);
  if (!walk) return cj_error_no_memory();
  walk->store = store;
  cj_error *error = store->kv->ops->scan(store->kv, cj_bytes_str("mt"), known_table, walk);
  if (!error && walk->damaged) error = cj_task_store_damaged(store, "its list of tables");
  if (!error) error = add_tables(store, walk);
  cj_free(walk);
  return error;
}

/* Data and position are written together, so rows without a position mean that somebody meddled:
 * the table starts anew, as it does when nothing is there (cases 65 a to c). */
static cj_error *find_position(cj_task_store *store, cj_store_table *table) {
  const cj_store_prefix key = cj_store_position_key(table->id);
  const cj_store_prefix rows = cj_store_rows_prefix(table->id);
  cj_kv *kv = store->kv;
  cj_error *error = NULL;
  switch (kv->ops->get(kv, cj_bytes_of(key.bytes, sizeof key.bytes), &store->row, &error)) {
  case CJ_KV_FAILED:
    return error;
  case CJ_KV_FOUND:
    return cj_store_get_position(cj_buf_bytes(&store->row), &table->position)
               ? NULL
               : cj_task_store_damaged(store, "a table's position");
  case CJ_KV_ABSENT:
    break;
  }
  if (holds_any(kv, cj_bytes_of(rows.bytes, sizeof rows.bytes), &error) && !error) {
    cj_logf(&store->log, CJ_LOG_WARN,
            "store %s: the rows of %s are removed: they have no position; the table is rebuilt",
            store->name, table->topic);
    add_removal(store, table->id);
  }
  return error;
}

static void log_opened(const cj_task_store *store) {
  if (store->log.level < CJ_LOG_INFO) return;
  cj_buf line = CJ_BUF_INIT;
  for (size_t t = 0; t < store->table_count; t++) {
    const cj_store_table *table = &store->tables[t];
    cj_buf_printf(&line, "%s%s[%" PRId32 "]", t ? ", " : "", table->topic, store->partition);
    if (table->position.offset >= 0)
      cj_buf_printf(&line, "@%" PRId64, table->position.offset);
    else
      cj_buf_append_str(&line, " (empty)");
  }
  cj_logf(&store->log, CJ_LOG_INFO, "store %s: opened%s%.*s", store->name,
          store->table_count ? " at " : "", line.failed ? 0 : (int)line.len,
          line.data ? (const char *)line.data : "");
  cj_buf_free(&line);
}

/* ---- open ---- */

static cj_error *prepare(cj_task_store *store, const cj_fingerprint *fingerprint) {
  store->partition = fingerprint->partition;
  store->name = cj_asprintf("%s-%" PRId32, fingerprint->anchor, fingerprint->partition);
  store->tables = cj_alloc(fingerprint->table_count * sizeof *store->tables);
  if (!store->name || !store->tables) return cj_error_no_memory();
  store->table_count = fingerprint->table_count;
  for (size_t t = 0; t < store->table_count; t++) {
    store->tables[t].topic = cj_strdup(fingerprint->tables[t]);
    if (!store->tables[t].topic) return cj_error_no_memory();
    store->tables[t].position = cj_position_none();
  }
  return NULL;
}

static cj_error *read_all(cj_task_store *store, const cj_fingerprint *fingerprint) {
  cj_error *error = identify(store, fingerprint);
  if (!error) error = find_tables(store);
  for (size_t t = 0; !error && t < store->table_count; t++)
    error = find_position(store, &store->tables[t]);
  if (!error && (store->batch.count || store->batch.ops.failed))
    error = store->kv->ops->write(store->kv, &store->batch, false);
  cj_kv_batch_clear(&store->batch);
  return error;
}

cj_error *cj_task_store_open(cj_kv *kv, const cj_fingerprint *fingerprint, const cj_log *log,
                             cj_task_store **store) {
  cj_task_store *self = cj_alloc(sizeof *self);
  if (!self) {
    kv->ops->close(kv);
    return cj_error_no_memory();
  }
  self->kv = kv;
  if (log) self->log = *log;
  cj_error *error = prepare(self, fingerprint);
  if (!error) error = read_all(self, fingerprint);
  if (error) {
    cj_task_store_close(self);
    return error;
  }
  log_opened(self);
  *store = self;
  return NULL;
}
