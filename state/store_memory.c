/* SPDX-License-Identifier: BSD-2-Clause */
/* The twin of the RocksDB store: a "disk" of named stores that outlives its handles, with the same
 * promises and the same losses. Two rules of RocksDB matter to the layers above, and are kept here:
 *
 *   - what was written with `bulk` is gone after a crash, unless a flush or a close came between;
 *     the twin always takes the worst case, where nothing of it had been written out by chance;
 *   - a write that is not `bulk` survives a crash even if a `bulk` one before it does not.
 *
 * Rows lie in a hash table; a scan sorts what it found. */
#include <pthread.h>
#include <stdlib.h>

#include "state/kv.h"

#define FIRST_BUCKETS ((size_t)64)

typedef struct {
  size_t len;
  unsigned char data[];
} memory_value;

/* A row that is `dirty` was changed by `bulk` writes: a crash brings `durable` back. A value that
 * is NULL is not there. */
typedef struct memory_row {
  struct memory_row *next;
  uint64_t hash;
  memory_value *now, *durable;
  bool dirty;
  size_t key_len;
  unsigned char key[];
} memory_row;

typedef struct memory_disk {
  struct memory_disk *next;
  char *path;
  pthread_mutex_t lock; /* of all below */
  memory_row **buckets;
  size_t bucket_count, row_count;
  uint64_t bytes;
  struct memory_kv *holder; /* the handle that has it open */
} memory_disk;

typedef struct memory_kv {
  cj_kv kv;
  memory_disk *disk;
  bool dead; /* a crash took it */
} memory_kv;

typedef struct {
  cj_kv_source source;
  pthread_mutex_t lock; /* of the list */
  memory_disk *disks;
} memory_source;

/* ---- rows ---- */

static void change(memory_disk *disk, memory_row *row, memory_value *value, bool bulk) {
  disk->bytes -= row->now ? row->now->len : 0;
  disk->bytes += value ? value->len : 0;
  if (bulk && !row->dirty) {
    row->dirty = true;
    row->durable = row->now;
  } else {
    cj_free(row->now);
  }
  row->now = value;
  if (!bulk && row->dirty) {
    row->dirty = false;
    cj_free(row->durable);
    row->durable = NULL;
  }
}

static memory_row **bucket(const memory_disk *disk, uint64_t hash) {
  return &disk->buckets[hash & (disk->bucket_count - 1)];
}

static memory_row *find(const memory_disk *disk, cj_bytes key) {
  if (!disk->bucket_count) return NULL;
  uint64_t hash = cj_hash64(key.data, key.len);
  memory_row *row = *bucket(disk, hash);
  while (row && (row->hash != hash || row->key_len != key.len ||
                 (key.len && memcmp(row->key, key.data, key.len) != 0)))
    row = row->next;
  return row;
}

static bool has_prefix(const memory_row *row, cj_bytes prefix) {
  return row->key_len >= prefix.len &&
         (prefix.len == 0 || memcmp(row->key, prefix.data, prefix.len) == 0);
}

/* Frees the rows of a bucket that hold nothing, now or after a crash. */
static void sweep_bucket(memory_disk *disk, memory_row **at) {
  while (*at) {
    memory_row *row = *at;
    if (row->now || row->dirty) {
      at = &row->next;
      continue;
    }
    *at = row->next;
    disk->row_count--;
    disk->bytes -= row->key_len;
    cj_free(row);
  }
}

static void sweep(memory_disk *disk) {
  for (size_t b = 0; b < disk->bucket_count; b++)
    sweep_bucket(disk, &disk->buckets[b]);
}

/* Ends what `bulk` writes left open: as they are (flush), or as they were (crash). */
static void settle(memory_disk *disk, bool keep) {
  for (size_t b = 0; b < disk->bucket_count; b++)
    for (memory_row *row = disk->buckets[b]; row; row = row->next) {
      if (!row->dirty) continue;
      memory_value *kept = keep ? row->now : row->durable;
      memory_value *lost = keep ? row->durable : row->now;
      disk->bytes += kept ? kept->len : 0;
      disk->bytes -= row->now ? row->now->len : 0;
      cj_free(lost);
      row->now = kept;
      row->durable = NULL;
      row->dirty = false;
    }
  sweep(disk);
}

static bool reserve(memory_disk *disk, size_t more) {
  size_t count = disk->bucket_count ? disk->bucket_count : FIRST_BUCKETS;
  while (count < disk->row_count + more)
    count *= 2;
  if (count == disk->bucket_count) return true;
  /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers it is. */
  memory_row **buckets = cj_alloc(count * sizeof *buckets);
  if (!buckets) return false;
  for (size_t b = 0; b < disk->bucket_count; b++)
    while (disk->buckets[b]) {
      memory_row *row = disk->buckets[b];
      disk->buckets[b] = row->next;
      row->next = buckets[row->hash & (count - 1)];
      buckets[row->hash & (count - 1)] = row;
    }
  cj_free(disk->buckets);
  disk->buckets = buckets;
  disk->bucket_count = count;
  return true;
}

/* ---- writing: everything that may fail comes before the first change ---- */

/* What a put needs; the row is NULL where there was one already. */
typedef struct {
  memory_row *row;
  memory_value *value;
} memory_put;

static bool prepare(memory_disk *disk, cj_bytes key, cj_bytes value, memory_put *put) {
  put->value = cj_alloc(sizeof *put->value + value.len);
  if (!put->value) return false;
  put->value->len = value.len;
  if (value.len) memcpy(put->value->data, value.data, value.len);
  if (find(disk, key)) return true;
  put->row = cj_alloc(sizeof *put->row + key.len);
  if (!put->row) return false;
  put->row->hash = cj_hash64(key.data, key.len);
  put->row->key_len = key.len;
  if (key.len) memcpy(put->row->key, key.data, key.len);
  return true;
}

static void apply_put(memory_disk *disk, cj_bytes key, memory_put *put, bool bulk) {
  memory_row *row = find(disk, key);
  if (!row) {
    row = put->row;
    put->row = NULL;
    memory_row **at = bucket(disk, row->hash);
    row->next = *at;
    *at = row;
    disk->row_count++;
    disk->bytes += row->key_len;
  }
  change(disk, row, put->value, bulk);
  put->value = NULL;
}

static void apply_delete(memory_disk *disk, cj_bytes key, bool prefix, bool bulk) {
  if (!prefix) {
    memory_row *row = find(disk, key);
    if (row) change(disk, row, NULL, bulk);
    return;
  }
  for (size_t b = 0; b < disk->bucket_count; b++)
    for (memory_row *row = disk->buckets[b]; row; row = row->next)
      if (has_prefix(row, key)) change(disk, row, NULL, bulk);
}

/* Only now are the rows freed that became empty: a later put of the batch may have filled one. */
static void sweep_deleted(memory_disk *disk, const cj_kv_batch *batch) {
  cj_bytes key, value;
  for (cj_kv_batch_walk walk = {.batch = batch}; cj_kv_batch_next(&walk, &key, &value);) {
    if (walk.prefix)
      sweep(disk);
    else if (!value.data)
      sweep_bucket(disk, bucket(disk, cj_hash64(key.data, key.len)));
  }
}

static bool write_locked(memory_disk *disk, const cj_kv_batch *batch, bool bulk) {
  cj_bytes key, value;
  size_t i = 0;
  memory_put *puts = cj_alloc(batch->count * sizeof *puts);
  bool ready = puts && reserve(disk, batch->count);
  for (cj_kv_batch_walk walk = {.batch = batch}; ready && cj_kv_batch_next(&walk, &key, &value);
       i++)
    if (value.data) ready = prepare(disk, key, value, &puts[i]);
  i = 0;
  for (cj_kv_batch_walk walk = {.batch = batch}; ready && cj_kv_batch_next(&walk, &key, &value);
       i++) {
    if (value.data)
      apply_put(disk, key, &puts[i], bulk);
    else
      apply_delete(disk, key, walk.prefix, bulk);
  }
  if (ready) sweep_deleted(disk, batch);
  for (i = 0; puts && i < batch->count; i++) {
    cj_free(puts[i].row);
    cj_free(puts[i].value);
  }
  cj_free(puts);
  return ready;
}

/* ---- the store's operations ---- */

static cj_error *dead_error(const memory_kv *self) {
  return self->dead ? cj_error_new(CJ_ERR_STORE, self->disk->path, "the store was lost in a crash")
                    : NULL;
}

static cj_kv_read memory_get(cj_kv *kv, cj_bytes key, cj_buf *out, cj_error **error) {
  memory_kv *self = (memory_kv *)kv;
  pthread_mutex_lock(&self->disk->lock);
  *error = dead_error(self);
  memory_row *row = *error ? NULL : find(self->disk, key);
  cj_kv_read result = *error ? CJ_KV_FAILED : CJ_KV_ABSENT;
  if (row && row->now) {
    out->failed = false;
    cj_buf_set(out, cj_bytes_of(row->now->data, row->now->len));
    if (out->failed) *error = cj_error_no_memory();
    result = *error ? CJ_KV_FAILED : CJ_KV_FOUND;
  }
  pthread_mutex_unlock(&self->disk->lock);
  return result;
}

static cj_error *memory_write(cj_kv *kv, const cj_kv_batch *batch, bool bulk) {
  memory_kv *self = (memory_kv *)kv;
  if (batch->ops.failed) return cj_error_no_memory();
  pthread_mutex_lock(&self->disk->lock);
  cj_error *error = dead_error(self);
  if (!error && !write_locked(self->disk, batch, bulk)) error = cj_error_no_memory();
  pthread_mutex_unlock(&self->disk->lock);
  return error;
}

typedef struct {
  const unsigned char *key;
  size_t key_len, value_len; /* the value follows its key */
} memory_found;

static int by_key(const void *left, const void *right) {
  const memory_found *a = left, *b = right;
  size_t common = a->key_len < b->key_len ? a->key_len : b->key_len;
  int order = memcmp(a->key, b->key, common);
  return order ? order : (a->key_len > b->key_len) - (a->key_len < b->key_len);
}

/* Copies what is found, so that the lock is not held while fn runs. */
static bool snapshot(const memory_disk *disk, cj_bytes prefix, memory_found **found, size_t *count,
                     unsigned char **bytes) {
  size_t n = 0, size = 0;
  for (size_t b = 0; b < disk->bucket_count; b++)
    for (const memory_row *row = disk->buckets[b]; row; row = row->next)
      if (row->now && has_prefix(row, prefix)) {
        n++;
        size += row->key_len + row->now->len;
      }
  *count = n;
  *found = cj_alloc(n * sizeof **found);
  unsigned char *to = *bytes = cj_alloc(size);
  if (!*found || !*bytes) return false;
  n = 0;
  for (size_t b = 0; b < disk->bucket_count; b++)
    for (const memory_row *row = disk->buckets[b]; row; row = row->next) {
      if (!row->now || !has_prefix(row, prefix)) continue;
      (*found)[n++] = (memory_found){to, row->key_len, row->now->len};
      if (row->key_len) memcpy(to, row->key, row->key_len);
      if (row->now->len) memcpy(to + row->key_len, row->now->data, row->now->len);
      to += row->key_len + row->now->len;
    }
  return true;
}

static cj_error *memory_scan(cj_kv *kv, cj_bytes prefix, cj_kv_scan_fn *fn, void *user) {
  memory_kv *self = (memory_kv *)kv;
  memory_found *found = NULL;
  unsigned char *bytes = NULL;
  size_t count = 0;
  pthread_mutex_lock(&self->disk->lock);
  cj_error *error = dead_error(self);
  if (!error && !snapshot(self->disk, prefix, &found, &count, &bytes)) error = cj_error_no_memory();
  pthread_mutex_unlock(&self->disk->lock);
  if (!error) {
    qsort(found, count, sizeof *found, by_key);
    for (size_t i = 0; i < count; i++)
      if (!fn(user, cj_bytes_of(found[i].key, found[i].key_len),
              cj_bytes_of(found[i].key + found[i].key_len, found[i].value_len)))
        break;
  }
  cj_free(found);
  cj_free(bytes);
  return error;
}

static cj_error *memory_flush(cj_kv *kv) {
  memory_kv *self = (memory_kv *)kv;
  pthread_mutex_lock(&self->disk->lock);
  cj_error *error = dead_error(self);
  if (!error) settle(self->disk, true);
  pthread_mutex_unlock(&self->disk->lock);
  return error;
}

static uint64_t memory_memory(cj_kv *kv) {
  memory_kv *self = (memory_kv *)kv;
  pthread_mutex_lock(&self->disk->lock);
  uint64_t bytes = self->dead ? 0 : self->disk->bytes;
  pthread_mutex_unlock(&self->disk->lock);
  return bytes;
}

static void memory_close(cj_kv *kv) {
  memory_kv *self = (memory_kv *)kv;
  pthread_mutex_lock(&self->disk->lock);
  if (!self->dead) {
    settle(self->disk, true);
    self->disk->holder = NULL;
  }
  pthread_mutex_unlock(&self->disk->lock);
  cj_free(self);
}

static const cj_kv_ops memory_kv_ops = {
    .get = memory_get,
    .write = memory_write,
    .scan = memory_scan,
    .flush = memory_flush,
    .memory = memory_memory,
    .close = memory_close,
};

/* ---- the source ---- */

static memory_disk *find_disk(memory_source *self, const char *path) {
  memory_disk *disk = self->disks;
  while (disk && strcmp(disk->path, path) != 0)
    disk = disk->next;
  return disk;
}

static memory_disk *add_disk(memory_source *self, const char *path) {
  memory_disk *disk = cj_alloc(sizeof *disk);
  if (!disk) return NULL;
  disk->path = cj_strdup(path);
  if (!disk->path) {
    cj_free(disk);
    return NULL;
  }
  pthread_mutex_init(&disk->lock, NULL);
  disk->next = self->disks;
  self->disks = disk;
  return disk;
}

static cj_error *memory_open(cj_kv_source *source, const char *path, cj_kv **kv) {
  memory_source *self = (memory_source *)source;
  memory_kv *handle = cj_alloc(sizeof *handle);
  if (!handle) return cj_error_no_memory();
  pthread_mutex_lock(&self->lock);
  cj_error *error = NULL;
  memory_disk *disk = find_disk(self, path);
  if (!disk) disk = add_disk(self, path);
  if (!disk) {
    error = cj_error_no_memory();
  } else {
    pthread_mutex_lock(&disk->lock);
    if (disk->holder)
      error = cj_error_new(CJ_ERR_STORE_LOCKED, path, "%s is held open by this process", path);
    else
      disk->holder = handle;
    pthread_mutex_unlock(&disk->lock);
  }
  pthread_mutex_unlock(&self->lock);
  if (error) {
    cj_free(handle);
    return error;
  }
  handle->kv.ops = &memory_kv_ops;
  handle->disk = disk;
  *kv = &handle->kv;
  return NULL;
}

static void clear_disk(memory_disk *disk) {
  for (size_t b = 0; b < disk->bucket_count; b++)
    for (memory_row *row = disk->buckets[b]; row; row = row->next)
      change(disk, row, NULL, false);
  sweep(disk);
}

/* The disk's name stays: handles that a crash killed still point at it. */
static cj_error *memory_remove(cj_kv_source *source, const char *path) {
  memory_source *self = (memory_source *)source;
  cj_error *error = NULL;
  pthread_mutex_lock(&self->lock);
  memory_disk *disk = find_disk(self, path);
  if (disk) {
    pthread_mutex_lock(&disk->lock);
    if (disk->holder)
      error = cj_error_new(CJ_ERR_STORE_LOCKED, path, "%s is held open by this process", path);
    else
      clear_disk(disk);
    pthread_mutex_unlock(&disk->lock);
  }
  pthread_mutex_unlock(&self->lock);
  return error;
}

void cj_kv_source_memory_crash(cj_kv_source *source) {
  memory_source *self = (memory_source *)source;
  pthread_mutex_lock(&self->lock);
  for (memory_disk *disk = self->disks; disk; disk = disk->next) {
    pthread_mutex_lock(&disk->lock);
    if (disk->holder) {
      disk->holder->dead = true;
      disk->holder = NULL;
      settle(disk, false);
    }
    pthread_mutex_unlock(&disk->lock);
  }
  pthread_mutex_unlock(&self->lock);
}

static void memory_destroy(cj_kv_source *source) {
  memory_source *self = (memory_source *)source;
  while (self->disks) {
    memory_disk *disk = self->disks;
    self->disks = disk->next;
    clear_disk(disk);
    pthread_mutex_destroy(&disk->lock);
    cj_free(disk->buckets);
    cj_free(disk->path);
    cj_free(disk);
  }
  pthread_mutex_destroy(&self->lock);
  cj_free(self);
}

static const cj_kv_source_ops memory_source_ops = {
    .open = memory_open,
    .remove = memory_remove,
    .destroy = memory_destroy,
};

cj_kv_source *cj_kv_source_memory(void) {
  memory_source *self = cj_alloc(sizeof *self);
  if (!self) return NULL;
  self->source.ops = &memory_source_ops;
  pthread_mutex_init(&self->lock, NULL);
  return &self->source;
}
