/* SPDX-License-Identifier: BSD-2-Clause */
/* The store of one task: all its tables and their positions, in one kv.
 *
 * Updates since the last commit live in an overlay in memory; look-ups see them first. A commit is
 * two steps, so that processing goes on between them:
 *
 *   put, put, …   ──▶ active overlay
 *   freeze        ──▶ active becomes frozen, a new active begins      (the cut)
 *   … outputs acknowledged, offsets committed by the group …
 *   commit        ──▶ frozen and the positions at the cut go into the kv, in one batch
 *   thaw          ──▶ the commit did not happen: frozen goes back under active
 *   rollback      ──▶ both overlays are dropped, and so is what restore has collected and not
 *                     flushed: the kv and the positions are what was committed
 *
 * So the kv is never ahead of the group's committed offsets (DESIGN: positions).
 *
 * Rows are kept with the timestamp of the record that wrote them. Keys in the kv: "t" table-id(2,
 * big-endian) key; reserved keys begin with "m" (fingerprint, table ids) and "p" (positions).
 *
 * Threads: the owner's, except cj_task_store_read_committed. */
#ifndef CJ_TASK_STORE_H
#define CJ_TASK_STORE_H

#include "state/kv.h"

typedef struct cj_task_store cj_task_store;

/* Where a table partition stands in the store. */
typedef struct {
  int64_t offset;      /* the next offset to apply; CJ_OFFSET_NONE (-1): nothing was applied */
  int64_t last_offset; /* the last applied record, to know a re-created topic by; or -1 */
  int64_t last_timestamp;
  uint64_t last_key_hash;
  int64_t at_end_ms; /* wall clock when the partition was last seen read to its end; or -1 */
} cj_position;

/* What a store belongs to. Strings are copied. */
typedef struct {
  const char *cluster_id;
  const char *anchor;
  int32_t partition;
  int32_t partition_count;
  const char *const *tables; /* topics; the index is the table's number in the calls below */
  size_t table_count;
} cj_fingerprint;

#define CJ_STORE_FORMAT 1 /* rule for upgrades: see task_store.c */

/* Takes the kv (closed on failure too). Checks the fingerprint: another cluster, anchor or format
 * is CJ_ERR_STORE_MISMATCH, another partition count CJ_ERR_PARTITIONS_CHANGED, each naming both
 * sides and what to do. A new kv gets the fingerprint. Tables that it has not seen are added, those
 * that are not declared any more are removed. */
CJ_MUST_CHECK cj_error *cj_task_store_open(cj_kv *kv, const cj_fingerprint *fingerprint,
                                           const cj_log *log, cj_task_store **store);
/* Without a commit: overlays are dropped. */
void cj_task_store_close(cj_task_store *store);

/* ---- processing ---- */
/* On FOUND the row's views are valid until the next call on the store. `object` is left NULL. */
CJ_MUST_CHECK cj_kv_read cj_task_store_get(cj_task_store *store, int table, cj_bytes key,
                                           cj_row *row, cj_error **error);
/* A null value deletes. *older is set when the row that this overwrites has a newer timestamp; to
 * know that, the row is looked up. `older` may be NULL: then nothing is. */
CJ_MUST_CHECK cj_error *cj_task_store_put(cj_task_store *store, int table, cj_bytes key,
                                          cj_bytes value, int64_t timestamp, bool *older);
size_t cj_task_store_overlay_bytes(const cj_task_store *store);

/* ---- commit ---- */
void cj_task_store_freeze(cj_task_store *store); /* at most one frozen at a time */
bool cj_task_store_frozen(const cj_task_store *store);
/* positions[i] belongs to table i. On failure all is as before: thaw, roll back or try again. */
CJ_MUST_CHECK cj_error *cj_task_store_commit(cj_task_store *store, const cj_position *positions);
CJ_MUST_CHECK cj_error *cj_task_store_thaw(cj_task_store *store);
void cj_task_store_rollback(cj_task_store *store);

/* ---- restore: what lies below the committed offsets goes straight to the kv ---- */
/* Collected into batches; visible to look-ups after restore_flush. */
CJ_MUST_CHECK cj_error *cj_task_store_restore(cj_task_store *store, int table, cj_bytes key,
                                              cj_bytes value, int64_t timestamp);
/* Writes what was collected together with the table's position. `bulk`: without the log, for large
 * gaps: after a crash the table then stands at a position between its last restore_end (or any
 * flush) and this one. A commit in between makes it durable first. */
CJ_MUST_CHECK cj_error *cj_task_store_restore_flush(cj_task_store *store, int table,
                                                    const cj_position *position, bool bulk);
/* Ends a bulk load: everything is durable. */
CJ_MUST_CHECK cj_error *cj_task_store_restore_end(cj_task_store *store);
/* Removes all rows and the position of one table, in one step. Not while updates are uncommitted:
 * roll back first. */
CJ_MUST_CHECK cj_error *cj_task_store_wipe(cj_task_store *store, int table);

/* The committed position of a table. */
cj_position cj_task_store_position(const cj_task_store *store, int table);
uint64_t cj_task_store_memory(cj_task_store *store);
CJ_MUST_CHECK cj_error *cj_task_store_flush(cj_task_store *store);
/* All committed rows of a table. */
typedef bool cj_row_fn(void *user, cj_bytes key, const cj_row *row);
CJ_MUST_CHECK cj_error *cj_task_store_scan(cj_task_store *store, int table, cj_row_fn *fn,
                                           void *user);

/* From any thread while the store is open (the state registry sees to that): the committed row. */
CJ_MUST_CHECK cj_kv_read cj_task_store_read_committed(cj_task_store *store, int table, cj_bytes key,
                                                      cj_buf *value, int64_t *timestamp,
                                                      cj_error **error);

#endif
