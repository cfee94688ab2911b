/* SPDX-License-Identifier: BSD-2-Clause */
/* RocksDB: the only file that knows it. Written for the C interface of 7.8.3, every function of
 * which that is used here is still there in 9.10.
 *
 * All stores of a process share one block cache, one environment with its threads and one budget
 * for write buffers. That interface has no write-buffer manager, so the writers look after the
 * budget themselves, see keep_budget.
 *
 * Beside RocksDB's own LOCK lies a lock file of ours, OWNER (cj_dir_own). It is taken first, since
 * an attempt to open a database that someone else holds is not free of effects: RocksDB renames the
 * holder's LOG before it finds the lock taken. It also tells who the holder is, which LOCK cannot
 * be asked: opening and closing LOCK in the process that holds it would end that lock (fcntl(2)).
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rocksdb/c.h>

#include "state/kv.h"
#include "state/state_dir.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

typedef struct rocks_source rocks_source;

typedef struct rocks_kv {
  cj_kv kv;
  rocks_source *source;
  char *path;
  rocksdb_t *db;
  rocksdb_writebatch_t *batch; /* the writer's, reused */
  cj_lock_file owner;
  /* Under the source's lock: */
  struct rocks_kv *prev, *next;
  uint64_t active, all; /* bytes in write buffers when last looked at */
  bool flushing;        /* another thread asks for a flush: not to be closed yet */
  /* Atomic: */
  bool written; /* since the last look */
} rocks_kv;

struct rocks_source {
  cj_kv_source source;
  rocksdb_options_t *options;
  rocksdb_readoptions_t *read, *scan;
  rocksdb_writeoptions_t *logged, *unlogged;
  rocksdb_flushoptions_t *flush, *flush_later;
  rocksdb_cache_t *cache;
  rocksdb_env_t *env;
  cj_log log;
  uint64_t budget;    /* for write buffers */
  uint64_t look_each; /* bytes written between two looks */
  uint64_t unlooked;  /* atomic: bytes written since the last look */
  pthread_mutex_t lock;
  pthread_cond_t flushed;
  rocks_kv *open;
};

/* ---- errors ---- */

/* The C interface gives no status codes, only their text. */
static cj_error *rocks_error(const char *path, const char *what, char *text) {
  cj_error *error;
  if (strstr(text, "lock hold by current process"))
    error = cj_error_new(CJ_ERR_STORE_LOCKED, path, "%s is held open by this process", path);
  else if (strstr(text, "/LOCK: Resource temporarily unavailable"))
    error = cj_error_new(CJ_ERR_STORE_LOCKED, path, "%s is held open by another process", path);
  else if (strncmp(text, "Corruption", strlen("Corruption")) == 0)
    error =
        cj_error_new(CJ_ERR_STORE, path,
                     "%s: the store at %s is damaged: %s. Remove that directory, or use `cojoin "
                     "reset`: it is rebuilt from the topics",
                     what, path, text);
  else
    error = cj_error_new(CJ_ERR_STORE, path, "%s: %s", what, text);
  rocksdb_free(text);
  return error;
}

/* ---- the write-buffer budget ---- */

/* RocksDB's own manager counts in the same way (WriteBufferManager::ShouldFlush): a flush when the
 * buffers that can still be flushed are near the budget, or when all together are over it and it is
 * not because of flushes that run already. */
static bool over_budget(const rocks_source *self, uint64_t active, uint64_t all) {
  return active > self->budget / 8 * 7 || (all >= self->budget && active >= self->budget / 2);
}

static uint64_t property(const rocks_kv *kv, const char *name) {
  uint64_t value = 0;
  return rocksdb_property_int(kv->db, name, &value) == 0 ? value : 0;
}

/* Looks at the stores that may have changed. If one is to be flushed: the largest of those that no
 * flush runs for. *wait: the disk does not keep up, and the writer has to wait for it, as under
 * WriteBufferManager's allow_stall; then it is the one that holds most, flushes under way included.
 */
static rocks_kv *look(rocks_source *self, bool *wait) {
  uint64_t active = 0, all = 0;
  rocks_kv *largest = NULL, *fullest = NULL;
  for (rocks_kv *kv = self->open; kv; kv = kv->next) {
    if (__atomic_exchange_n(&kv->written, false, __ATOMIC_RELAXED) || kv->all != kv->active) {
      kv->active = property(kv, "rocksdb.cur-size-active-mem-table");
      kv->all = property(kv, "rocksdb.cur-size-all-mem-tables");
    }
    active += kv->active;
    all += kv->all;
    if (kv->flushing) continue;
    if (!fullest || kv->all > fullest->all) fullest = kv;
    if (kv->all == kv->active && (!largest || kv->active > largest->active)) largest = kv;
  }
  *wait = all >= self->budget / 2 * 3;
  if (*wait) return fullest;
  return over_budget(self, active, all) ? largest : NULL;
}

static void keep_budget(rocks_kv *writer, uint64_t bytes) {
  rocks_source *self = writer->source;
  __atomic_store_n(&writer->written, true, __ATOMIC_RELAXED);
  if (__atomic_add_fetch(&self->unlooked, bytes, __ATOMIC_RELAXED) < self->look_each) return;
  __atomic_store_n(&self->unlooked, 0, __ATOMIC_RELAXED);
  pthread_mutex_lock(&self->lock);
  bool wait;
  rocks_kv *kv = look(self, &wait);
  if (kv) kv->flushing = true;
  pthread_mutex_unlock(&self->lock);
  if (!kv) return;
  char *text = NULL;
  rocksdb_flush(kv->db, wait ? self->flush : self->flush_later, &text);
  /* What made it fail meets the store's own next write. */
  if (text) cj_logf(&self->log, CJ_LOG_WARN, "store %s: flush: %s", kv->path, text);
  rocksdb_free(text);
  pthread_mutex_lock(&self->lock);
  kv->flushing = false;
  __atomic_store_n(&kv->written, true, __ATOMIC_RELAXED);
  pthread_cond_broadcast(&self->flushed);
  pthread_mutex_unlock(&self->lock);
}

/* ---- a store's operations ---- */

static cj_kv_read rocks_get(cj_kv *kv, cj_bytes key, cj_buf *out, cj_error **error) {
  rocks_kv *self = (rocks_kv *)kv;
  char *text = NULL;
  rocksdb_pinnableslice_t *slice =
      rocksdb_get_pinned(self->db, self->source->read, key.data, key.len, &text);
  if (text) {
    *error = rocks_error(self->path, "get", text);
    return CJ_KV_FAILED;
  }
  if (!slice) return CJ_KV_ABSENT;
  size_t len = 0;
  const char *value = rocksdb_pinnableslice_value(slice, &len);
  out->failed = false;
  cj_buf_set(out, cj_bytes_of(value, len));
  rocksdb_pinnableslice_destroy(slice);
  if (!out->failed) return CJ_KV_FOUND;
  *error = cj_error_no_memory();
  return CJ_KV_FAILED;
}

/* The first bytes after all that begin with the prefix; false if there are none. */
static bool end_of_prefix(cj_bytes prefix, cj_buf *end) {
  cj_buf_set(end, prefix);
  if (end->failed) return false;
  while (end->len && end->data[end->len - 1] == 0xff)
    end->len--;
  if (!end->len) return false;
  end->data[end->len - 1]++;
  return true;
}

/* Prefixes that delete are those of our own tables: never all 0xff, never empty. */
static bool add_delete_prefix(rocksdb_writebatch_t *batch, cj_bytes prefix) {
  cj_buf end = CJ_BUF_INIT;
  bool found = end_of_prefix(prefix, &end);
  if (found)
    rocksdb_writebatch_delete_range(batch, prefix.data, prefix.len, (const char *)end.data,
                                    end.len);
  cj_buf_free(&end);
  return found;
}

static cj_error *rocks_write(cj_kv *kv, const cj_kv_batch *batch, bool bulk) {
  rocks_kv *self = (rocks_kv *)kv;
  if (batch->ops.failed) return cj_error_no_memory();
  cj_bytes key, value;
  bool ready = true;
  for (cj_kv_batch_walk walk = {.batch = batch}; ready && cj_kv_batch_next(&walk, &key, &value);) {
    if (value.data)
      rocksdb_writebatch_put(self->batch, key.data, key.len, value.data, value.len);
    else if (walk.prefix)
      ready = add_delete_prefix(self->batch, key);
    else
      rocksdb_writebatch_delete(self->batch, key.data, key.len);
  }
  char *text = NULL;
  rocks_source *source = self->source;
  if (ready) rocksdb_write(self->db, bulk ? source->unlogged : source->logged, self->batch, &text);
  rocksdb_writebatch_clear(self->batch);
  if (batch->ops.len > MIB) {
    /* clear keeps the memory, and a large commit is rare. */
    rocksdb_writebatch_destroy(self->batch);
    self->batch = rocksdb_writebatch_create();
  }
  if (!ready) return cj_error_no_memory();
  if (text) return rocks_error(self->path, "write", text);
  keep_budget(self, batch->ops.len);
  return NULL;
}

static cj_error *rocks_scan(cj_kv *kv, cj_bytes prefix, cj_kv_scan_fn *fn, void *user) {
  rocks_kv *self = (rocks_kv *)kv;
  rocksdb_iterator_t *it = rocksdb_create_iterator(self->db, self->source->scan);
  for (rocksdb_iter_seek(it, prefix.len ? prefix.data : "", prefix.len); rocksdb_iter_valid(it);
       rocksdb_iter_next(it)) {
    cj_bytes key, value;
    key.data = rocksdb_iter_key(it, &key.len);
    value.data = rocksdb_iter_value(it, &value.len);
    if (key.len < prefix.len || (prefix.len && memcmp(key.data, prefix.data, prefix.len) != 0))
      break;
    if (!fn(user, key, value)) break;
  }
  char *text = NULL;
  rocksdb_iter_get_error(it, &text);
  rocksdb_iter_destroy(it);
  return text ? rocks_error(self->path, "scan", text) : NULL;
}

static cj_error *rocks_flush(cj_kv *kv) {
  rocks_kv *self = (rocks_kv *)kv;
  char *text = NULL;
  rocksdb_flush(self->db, self->source->flush, &text);
  __atomic_store_n(&self->written, true, __ATOMIC_RELAXED);
  return text ? rocks_error(self->path, "flush", text) : NULL;
}

static uint64_t rocks_memory(cj_kv *kv) {
  return property((rocks_kv *)kv, "rocksdb.cur-size-all-mem-tables");
}

static void unlink_kv(rocks_kv *self) {
  rocks_source *source = self->source;
  pthread_mutex_lock(&source->lock);
  while (self->flushing)
    pthread_cond_wait(&source->flushed, &source->lock);
  if (self->prev)
    self->prev->next = self->next;
  else
    source->open = self->next;
  if (self->next) self->next->prev = self->prev;
  pthread_mutex_unlock(&source->lock);
}

static void free_kv(rocks_kv *self) {
  if (self->batch) rocksdb_writebatch_destroy(self->batch);
  if (self->db) rocksdb_close(self->db);
  cj_lock_file_release(&self->owner);
  cj_free(self->path);
  cj_free(self);
}

/* RocksDB writes out on close what is in no log, that is, what `bulk` wrote. */
static void rocks_close(cj_kv *kv) {
  rocks_kv *self = (rocks_kv *)kv;
  unlink_kv(self);
  free_kv(self);
}

static const cj_kv_ops rocks_kv_ops = {
    .get = rocks_get,
    .write = rocks_write,
    .scan = rocks_scan,
    .flush = rocks_flush,
    .memory = rocks_memory,
    .close = rocks_close,
};

/* ---- opening ---- */

/* Threads that RocksDB starts inherit the mask: signals are for the application's own threads. */
static void block_signals(sigset_t *before) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, before);
}

static cj_error *open_db(rocks_kv *self) {
  sigset_t before;
  char *text = NULL;
  block_signals(&before);
  self->db = rocksdb_open(self->source->options, self->path, &text);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (text) return rocks_error(self->path, "open", text);
  self->batch = rocksdb_writebatch_create();
  return NULL;
}

static cj_error *rocks_open(cj_kv_source *source, const char *path, cj_kv **kv) {
  rocks_source *self = (rocks_source *)source;
  cj_error *error = cj_dir_make(path);
  if (error) return error;
  rocks_kv *handle = cj_alloc(sizeof *handle);
  if (!handle) return cj_error_no_memory();
  handle->owner = (cj_lock_file)CJ_LOCK_FILE_INIT;
  handle->kv.ops = &rocks_kv_ops;
  handle->source = self;
  handle->path = cj_strdup(path);
  error = handle->path ? cj_dir_own(&handle->owner, path) : cj_error_no_memory();
  if (!error) error = open_db(handle);
  if (error) {
    free_kv(handle);
    return error;
  }
  handle->written = true; /* what its log brought back is in a write buffer */
  pthread_mutex_lock(&self->lock);
  handle->next = self->open;
  if (handle->next) handle->next->prev = handle;
  self->open = handle;
  pthread_mutex_unlock(&self->lock);
  *kv = &handle->kv;
  return NULL;
}

static cj_error *rocks_remove(cj_kv_source *source, const char *path) {
  (void)source;
  if (access(path, F_OK) != 0 && errno == ENOENT) return NULL;
  cj_lock_file owner = CJ_LOCK_FILE_INIT;
  cj_error *error = cj_dir_own(&owner, path);
  if (!error) error = cj_dir_remove(path);
  cj_lock_file_release(&owner);
  return error;
}

/* ---- the source ---- */

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most) {
  return value < least ? least : value > most ? most : value;
}

static void set_files(rocksdb_options_t *options, const cj_rocksdb_options *wanted, int stores) {
  /* RocksDB keeps ten of these for other files, the rest is for tables, and takes no less than 20.
   * Its cache of open tables is cut in 64 parts by default, each of which would hold one at
   * least. */
  int each = wanted->max_open_files > 0 ? wanted->max_open_files / stores : 64;
  rocksdb_options_set_max_open_files(options, each < 20 ? 20 : each);
  rocksdb_options_set_table_cache_numshardbits(options, 0);
  rocksdb_options_set_max_file_opening_threads(options, 1);
  /* Space set aside on disk: a manifest takes 4 MiB by default, a log 1.1 write buffers, for each
   * store. With one column family this limit has no other effect (DBImpl::HandleWALFull). */
  rocksdb_options_set_manifest_preallocation_size(options, 4096);
  rocksdb_options_set_max_total_wal_size(options, 256 * KIB);
  /* Its own log: warnings, in two files of bounded size. */
  rocksdb_options_set_info_log_level(options, 2);
  rocksdb_options_set_max_log_file_size(options, MIB);
  rocksdb_options_set_keep_log_file_num(options, 2);
}

static void set_buffers(rocksdb_options_t *options, uint64_t budget, int stores) {
  rocksdb_options_set_write_buffer_size(options, clamp(budget / 4, 256 * KIB, 64 * MIB));
  rocksdb_options_set_max_write_buffer_number(options, 3);
  /* A write buffer grows by arena blocks: with many stores the first one alone must not eat up the
   * budget. */
  uint64_t share = budget / (uint64_t)stores;
  rocksdb_options_set_arena_block_size(options, clamp(share / 8, 16 * KIB, MIB));
  /* One writer a store. */
  rocksdb_options_set_allow_concurrent_memtable_write(options, 0);
}

static void set_tables(rocksdb_options_t *options, rocksdb_cache_t *cache) {
  /* For point look-ups: a filter over whole keys, small blocks with a hash index inside, index and
   * filter in the shared cache where they count as memory. */
  rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_block_cache(table, cache);
  rocksdb_block_based_options_set_block_size(table, 4 * KIB);
  rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
  rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(table, 1);
  rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(table, 1);
  rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom_full(10));
  rocksdb_block_based_options_set_whole_key_filtering(table, 1);
  rocksdb_block_based_options_set_data_block_index_type(
      table, rocksdb_block_based_table_data_block_index_type_binary_search_and_hash);
  rocksdb_block_based_options_set_data_block_hash_ratio(table, 0.75);
  rocksdb_block_based_options_set_format_version(table, 5);
  rocksdb_options_set_block_based_table_factory(options, table);
  rocksdb_block_based_options_destroy(table); /* the options keep a copy */
  rocksdb_options_set_compression(options, rocksdb_no_compression);
  rocksdb_options_set_level_compaction_dynamic_level_bytes(options, 1);
}

/* The filter of a large table file is one block of a megabyte and more. By default the cache is cut
 * in parts of half a megabyte, in which such a block does not stay: measured with 16 MiB, each
 * look-up then took 120 microseconds instead of 10. */
static rocksdb_cache_t *make_cache(uint64_t bytes) {
  int bits = 0;
  while (bits < 6 && bytes >> (bits + 1) >= 8 * MIB)
    bits++;
  rocksdb_lru_cache_options_t *options = rocksdb_lru_cache_options_create();
  rocksdb_lru_cache_options_set_capacity(options, bytes);
  rocksdb_lru_cache_options_set_num_shard_bits(options, bits);
  rocksdb_cache_t *cache = rocksdb_cache_create_lru_opts(options);
  rocksdb_lru_cache_options_destroy(options);
  return cache;
}

static void make_options(rocks_source *self, const cj_rocksdb_options *wanted) {
  int stores = wanted->stores > 0 ? wanted->stores : 1;
  self->options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(self->options, 1);
  rocksdb_options_set_env(self->options, self->env);
  rocksdb_options_set_max_background_jobs(self->options, 2);
  rocksdb_options_set_stats_dump_period_sec(self->options, 0);
  rocksdb_options_set_stats_persist_period_sec(self->options, 0);
  rocksdb_options_set_skip_stats_update_on_db_open(self->options, 1);
  set_files(self->options, wanted, stores);
  set_buffers(self->options, self->budget, stores);
  set_tables(self->options, self->cache);
  self->read = rocksdb_readoptions_create();
  self->scan = rocksdb_readoptions_create();
  rocksdb_readoptions_set_fill_cache(self->scan, 0);
  self->logged = rocksdb_writeoptions_create();
  self->unlogged = rocksdb_writeoptions_create();
  rocksdb_writeoptions_disable_WAL(self->unlogged, 1);
  self->flush = rocksdb_flushoptions_create();
  self->flush_later = rocksdb_flushoptions_create();
  rocksdb_flushoptions_set_wait(self->flush_later, 0);
}

static void rocks_destroy(cj_kv_source *source) {
  rocks_source *self = (rocks_source *)source;
  rocksdb_flushoptions_destroy(self->flush_later);
  rocksdb_flushoptions_destroy(self->flush);
  rocksdb_writeoptions_destroy(self->unlogged);
  rocksdb_writeoptions_destroy(self->logged);
  rocksdb_readoptions_destroy(self->scan);
  rocksdb_readoptions_destroy(self->read);
  rocksdb_options_destroy(self->options);
  rocksdb_env_destroy(self->env);
  rocksdb_cache_destroy(self->cache);
  pthread_cond_destroy(&self->flushed);
  pthread_mutex_destroy(&self->lock);
  cj_free(self);
}

static const cj_kv_source_ops rocks_source_ops = {
    .open = rocks_open,
    .remove = rocks_remove,
    .destroy = rocks_destroy,
};

cj_error *cj_kv_source_rocksdb(const cj_rocksdb_options *options, cj_kv_source **source) {
  rocks_source *self = cj_alloc(sizeof *self);
  if (!self) return cj_error_no_memory();
  self->source.ops = &rocks_source_ops;
  self->log = options->log;
  self->budget = clamp(options->write_buffer_bytes, MIB, UINT64_MAX);
  self->look_each = clamp(self->budget / 16, 64 * KIB, 8 * MIB);
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->flushed, NULL);
  self->cache = make_cache(clamp(options->cache_bytes, MIB, SIZE_MAX));
  /* The environment is one for the process; its threads are flush (high) and compaction (low). */
  sigset_t before;
  block_signals(&before);
  self->env = rocksdb_create_default_env();
  rocksdb_env_set_background_threads(self->env, 2);
  rocksdb_env_set_high_priority_background_threads(self->env, 1);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  make_options(self, options);
  *source = &self->source;
  return NULL;
}

/* ---- the version ---- */

static char loaded_version[32] = "unknown";

/* The C interface cannot tell, but the file that was loaded is named after it. */
static void find_version(void) {
  Dl_info info;
  char file[PATH_MAX];
  rocksdb_t *(*symbol)(const rocksdb_options_t *, const char *, char **) = rocksdb_open;
  void *address;
  memcpy(&address, &symbol, sizeof address);
  if (!dladdr(address, &info) || !realpath(info.dli_fname, file)) return;
  const char *version = strstr(file, ".so.");
  if (version) snprintf(loaded_version, sizeof loaded_version, "%.31s", version + strlen(".so."));
}

const char *cj_rocksdb_version(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_version);
  return loaded_version;
}
