/* SPDX-License-Identifier: BSD-2-Clause */
/* The topology at work in one task: a record goes in at its source node and is pushed through the
 * nodes, depth first, to tables and sinks. No allocation per record once the buffers have grown. */
#ifndef CJ_PROCESSOR_H
#define CJ_PROCESSOR_H

#include "operators/plan.h"
#include "state/kv.h"

typedef struct cj_processor cj_processor;

/* Why a record left the way to the output; each is a counter of the task. */
typedef enum {
  CJ_DROP_FILTER,      /* a callback returned CJ_DROP, a branch took none */
  CJ_DROP_NULL_KEY,    /* table records, and stream records at an inner join */
  CJ_DROP_NULL_VALUE,  /* stream records at a join */
  CJ_DROP_DESERIALIZE, /* skipped by policy */
  CJ_DROP_PROCESS,     /* skipped by policy */
  CJ_DROP_PRODUCE,     /* skipped by policy */
  CJ_DROP_DEAD_LETTER, /* sent to the dead-letter topic instead */
  CJ_DROP_REASONS
} cj_drop_reason;
const char *cj_drop_reason_name(cj_drop_reason reason); /* "null-key" … */

/* Written by the task's thread; read by others with relaxed atomics through cj_counter_read. */
typedef struct {
  uint64_t records_in;    /* records processed, tables and streams */
  uint64_t table_updates; /* puts and deletes */
  uint64_t joined;        /* stream records that met a row, at each join */
  uint64_t missed;        /* those that met none, inner and left */
  uint64_t out;           /* records handed to sinks */
  uint64_t out_of_order;  /* table updates with an older timestamp than the row they overwrite */
  uint64_t negative_timestamp;
  uint64_t dropped[CJ_DROP_REASONS];
} cj_counters;
static inline void cj_counter_add(uint64_t *counter, uint64_t n) {
  /* One writer: a relaxed load and store, no locked instruction. */
  __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}
static inline uint64_t cj_counter_read(const uint64_t *counter) {
  return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* What the nodes need from the task. `table` is the number within the group. */
typedef struct {
  void *self;
  cj_kv_read (*get)(void *self, int table, cj_bytes key, cj_row *row, cj_error **error);
  cj_error *(*put)(void *self, int table, cj_bytes key, cj_bytes value, int64_t timestamp,
                   bool *older);
  /* One record for a sink topic; the partition is the callee's to find with the node's partitioner.
   * The record's headers are those of the source record being processed. */
  cj_error *(*emit)(void *self, const cj_plan_node *sink, const cj_record *record);
  cj_counters *counters;
} cj_processor_env;

/* Opens the task state of each node that the group's topics reach, and only of those. Borrows the
 * plan and copies the env. */
CJ_MUST_CHECK cj_error *cj_processor_new(const cj_plan *plan, int group, int32_t partition,
                                         const cj_processor_env *env, cj_processor **processor);
void cj_processor_destroy(cj_processor *processor); /* closes the nodes' task state. NULL is fine */

typedef enum {
  CJ_PROCESSED,
  CJ_PROCESS_DESERIALIZE, /* the key or value could not be decoded: *error CJ_ERR_DESERIALIZE */
  CJ_PROCESS_FAILED,      /* a callback failed: *error CJ_ERR_PROCESS, subject the node's name */
  CJ_PROCESS_FATAL,       /* the store or the task failed: no policy helps */
} cj_process_result;

/* One record from the input `topic` (plan index). key, value, timestamp, topic, partition, offset
 * and headers of the record are set by the caller; objects are decoded here, and the timestamp,
 * which comes as it is in the log, becomes what cj_plan_timestamp makes of it. On a result other
 * than CJ_PROCESSED *error is set and the caller's; it names topic, partition and offset. A record
 * that failed has changed no table; outputs it made before it failed may have been emitted. */
CJ_MUST_CHECK cj_process_result cj_processor_process(cj_processor *processor, int topic,
                                                     cj_record *record, cj_error **error);

/* Only what process does first: decodes key and value with the source's serdes, so that a restore
 * can leave out what processing would have refused. Counts nothing. */
CJ_MUST_CHECK cj_process_result cj_processor_decode(cj_processor *processor, int topic,
                                                    cj_record *record, cj_error **error);

#endif
