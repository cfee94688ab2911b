/* SPDX-License-Identifier: BSD-2-Clause */
/* Key-value stores: what a task's store stands on. RocksDB (store_rocksdb.c) or memory
 * (store_memory.c). One kv has one writer at a time, its owner's thread; get and scan may be called
 * from other threads meanwhile. */
#ifndef CJ_KV_H
#define CJ_KV_H

#include "base/base.h"

typedef struct cj_kv cj_kv;

typedef enum { CJ_KV_FOUND, CJ_KV_ABSENT, CJ_KV_FAILED } cj_kv_read;

/* A list of puts and deletes that is applied whole or not at all. Keys and values are copied in. */
typedef struct {
  cj_buf ops; /* encoded: see kv_batch.c */
  size_t count;
} cj_kv_batch;
#define CJ_KV_BATCH_INIT                                                                           \
  { CJ_BUF_INIT, 0 }
void cj_kv_batch_put(cj_kv_batch *batch, cj_bytes key, cj_bytes value);
void cj_kv_batch_delete(cj_kv_batch *batch, cj_bytes key);
/* Deletes every key that begins with the prefix, those too that came earlier in the batch. */
void cj_kv_batch_delete_prefix(cj_kv_batch *batch, cj_bytes prefix);
void cj_kv_batch_clear(cj_kv_batch *batch);
void cj_kv_batch_free(cj_kv_batch *batch);
/* Walks the batch; `value.data` NULL is a delete, of all keys that begin with `key` if `prefix`. */
typedef struct {
  const cj_kv_batch *batch;
  size_t at;
  bool prefix;
} cj_kv_batch_walk;
bool cj_kv_batch_next(cj_kv_batch_walk *walk, cj_bytes *key, cj_bytes *value);

/* Returns false to end the scan. The views are valid during the call. */
typedef bool cj_kv_scan_fn(void *user, cj_bytes key, cj_bytes value);

typedef struct {
  /* The value is copied into `out`; `error` is set on FAILED only. */
  cj_kv_read (*get)(cj_kv *kv, cj_bytes key, cj_buf *out, cj_error **error);
  /* All of the batch or nothing. `bulk`: without the write-ahead log; survives the process only
   * after flush or close. A write of the same process that is not `bulk` may survive alone. */
  cj_error *(*write)(cj_kv *kv, const cj_kv_batch *batch, bool bulk);
  /* In the order of the keys' bytes, over what the kv holds when the scan begins. fn may read and
   * write the kv. */
  cj_error *(*scan)(cj_kv *kv, cj_bytes prefix, cj_kv_scan_fn *fn, void *user);
  cj_error *(*flush)(cj_kv *kv);
  uint64_t (*memory)(cj_kv *kv); /* bytes in write buffers */
  void (*close)(cj_kv *kv);
} cj_kv_ops;

struct cj_kv {
  const cj_kv_ops *ops;
};

/* Where kvs come from: one for a process (RocksDB: shared cache, write-buffer budget, threads) or
 * for a test (memory: the "disk" that outlives a crash). Any thread may call it. */
typedef struct cj_kv_source cj_kv_source;
typedef struct {
  /* Opens or creates. CJ_ERR_STORE_LOCKED when another owner holds it: the message names the path,
   * and the process where that is known. */
  cj_error *(*open)(cj_kv_source *source, const char *path, cj_kv **kv);
  /* Removes all that is at the path; nothing there is fine. CJ_ERR_STORE_LOCKED when it is open. */
  cj_error *(*remove)(cj_kv_source *source, const char *path);
  void (*destroy)(cj_kv_source *source); /* when every kv is closed */
} cj_kv_source_ops;
struct cj_kv_source {
  const cj_kv_source_ops *ops;
};

typedef struct {
  uint64_t cache_bytes;        /* one block cache for all */
  uint64_t write_buffer_bytes; /* for all together */
  int max_open_files;          /* for all together */
  int stores;                  /* how many are expected to be open at once */
  cj_log log;
} cj_rocksdb_options;
cj_error *cj_kv_source_rocksdb(const cj_rocksdb_options *options, cj_kv_source **source);
cj_kv_source *cj_kv_source_memory(void); /* NULL without memory */
/* Everything that is open at the source is closed without a flush, as a crash does: what was
 * written with `bulk` and not flushed since is gone, the paths can be opened again. The handles are
 * dead: every call on them fails, and each still has to be closed, before the source is destroyed,
 * which then changes nothing on the "disk". Memory only. */
void cj_kv_source_memory_crash(cj_kv_source *source);

#endif
