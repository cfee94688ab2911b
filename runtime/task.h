/* SPDX-License-Identifier: BSD-2-Clause */
/* A task: index p of a co-partitioned set. It owns partition p of each of the set's topics, their
 * store and the nodes' state, whole or not at all.
 *
 *   OPENING ─▶ POSITIONING ─▶ POSITIONED ─▶ RESTORING ─▶ LOADING ─▶ RUNNING
 *   (store)    (T, bounds)    (to be        (below T)    (order =
 *                             fetched)                   table_first)
 *        any of them ─▶ SUSPENDED (revoked; store open) ─▶ POSITIONING, or gone
 *
 * Threads: its worker's, except what task_metrics.c reads through relaxed atomics. */
#ifndef CJ_TASK_H
#define CJ_TASK_H

#include "operators/processor.h"
#include "runtime/collector.h"
#include "runtime/config.h"
#include "runtime/record_queue.h"
#include "runtime/worker.h"
#include "state/state.h"

/* What every task of a worker shares. */
typedef struct {
  const cj_worker_setup *setup;
  cj_collector *collector;
  cj_counters *counters;
  const int *anchors; /* of each set: the plan's topic index */
  cj_chunk_pool chunks;
  uint64_t fetch_clock; /* grows with each chunk fetched: tells what was learnt after what */
} cj_task_env;

/* One input partition. Offsets are CJ_OFFSET_NONE where unknown. */
typedef struct {
  cj_tp tp;
  const cj_plan_topic *topic;
  int table; /* number within the set; -1: a stream */
  cj_record_queue queue;
  bool ready; /* the queue's head is a record to be processed, of timestamp head_time */
  int64_t head_time;
  int64_t next; /* the next offset to process: everything before it is done */
  int64_t eof;  /* the log's end as the last EOF told it */

  int64_t end;        /* the log's end as asked for */
  uint64_t end_clock; /* the fetch clock when it was asked for */
  bool want_end;

  int64_t committed;          /* by the group, as far as this worker knows */
  int64_t log_start, log_end; /* when it was positioned */
  int64_t cut;                /* position of the commit under way */

  /* Tables. */
  int64_t last_offset, last_timestamp; /* of the last applied record */
  uint64_t last_key_hash;
  cj_position cut_position;
  int64_t restore_from, restore_to;
  uint64_t restored; /* records */
  size_t restore_unflushed;
  int64_t at_end_ms; /* wall clock when it was last read to its end; -1 */
  bool verify;       /* the record at last_offset is read again first: is it still the same one? */
  const char *rebuild; /* why the table has to be rebuilt when it is positioned anew, or NULL */

  /* For other threads. */
  int64_t shown_position, shown_end, shown_committed;
} cj_input;

typedef enum {
  CJ_TASK_STATE_OPENING,
  CJ_TASK_STATE_POSITIONING,
  CJ_TASK_STATE_POSITIONED,
  CJ_TASK_STATE_RESTORING,
  CJ_TASK_STATE_LOADING,
  CJ_TASK_STATE_RUNNING,
  CJ_TASK_STATE_SUSPENDED,
} cj_task_state;

struct task_headers {
  cj_headers base;
  struct cj_task *task;
};

typedef struct cj_task {
  cj_task_env *env;
  int group;
  int32_t partition;
  cj_task_state state;
  bool dealt;     /* in the present generation */
  bool announced; /* RUNNING was told to the rebalance listener */
  bool fetching;  /* its inputs are in the assignment */
  bool polled;    /* the empty inputs have been asked in this turn */
  bool in_cut;    /* of the commit under way */
  bool bulk;      /* restoring without the store's log */
  cj_store_ticket *ticket;
  cj_task_store *store; /* NULL in a set without tables */
  cj_processor *processor;
  cj_input *inputs;
  size_t input_count;
  int64_t idle_since;       /* since when it could run if it did not wait; -1 */
  int64_t idle_until;       /* when waiting ends by itself; INT64_MAX */
  const char *reposition;   /* why it must be positioned anew, or NULL; static */
  int64_t position_at;      /* not before; for a retry */
  uint64_t positions_round; /* the round of requests that will answer */
  const cj_fetched *source; /* the record being processed */
  int32_t source_topic;
  struct task_headers headers;
  cj_header *header_list;
  size_t header_room;
} cj_task;

CJ_MUST_CHECK cj_error *cj_task_new(cj_task_env *env, int group, int32_t partition, cj_task **task);
/* The store must have been given back. */
void cj_task_destroy(cj_task *task);
/* "price-3" */
void cj_task_name(const cj_task *task, char *out, size_t size);
cj_fingerprint cj_task_fingerprint(const cj_task *task, const char **tables, size_t room);

/* ---- start ---- */
/* The store is open and inputs' committed, log_start and log_end are known: decides where each
 * input starts, wipes what has to be rebuilt. Then POSITIONED. */
CJ_MUST_CHECK cj_error *cj_task_position(cj_task *task);
/* Where an input is to be fetched from now. What is buffered is given up. */
int64_t cj_input_fetch_from(cj_input *input);
/* The inputs are being fetched: RESTORING, or what follows it. */
void cj_task_fetching(cj_task *task);

/* ---- work ---- */
/* Processes or restores at most `most` records. *worked: something moved. A record that failed
 * under policy `fail` comes back as the error; nothing after it is processed. */
CJ_MUST_CHECK cj_error *cj_task_work(cj_task *task, size_t most, int64_t now, bool *worked);
/* task_restore.c */
CJ_MUST_CHECK cj_error *cj_task_restore(cj_task *task, size_t most, bool *worked);
/* Everything before it is done, the end of an empty rest included. */
static inline int64_t cj_input_position(const cj_input *input) {
  return !cj_record_queue_head(&input->queue) && input->eof > input->next ? input->eof
                                                                          : input->next;
}
/* Brings a record to be processed to the head of the queue: skips what was done before, takes in
 * the end's marks. True when there is one. `refill`: asks the io when the queue is empty. */
CJ_MUST_CHECK cj_error *cj_input_advance(cj_task *task, cj_input *input, bool refill, bool *ready);
void cj_input_applied(cj_input *input, const cj_fetched *record);

/* ---- commit ---- */
bool cj_task_dirty(const cj_task *task);
void cj_task_cut(cj_task *task); /* remembers the positions, freezes the store */
CJ_MUST_CHECK cj_error *cj_task_committed(cj_task *task); /* the group has the cut */
CJ_MUST_CHECK cj_error *cj_task_not_committed(cj_task *task);
/* Uncommitted updates are dropped; buffered records are given up. Positions are not valid until it
 * is positioned anew. */
void cj_task_rollback(cj_task *task);
/* The same where the task goes on: what its nodes keep is closed too if it has seen records that
 * will come again. */
void cj_task_undo(cj_task *task);
void cj_task_show(cj_task *task); /* positions for other threads */

#endif
