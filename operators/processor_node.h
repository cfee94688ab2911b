/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kinds of nodes have in common. A kind is one function; which one is in the table in
 * processor.c. */
#ifndef CJ_PROCESSOR_NODE_H
#define CJ_PROCESSOR_NODE_H

#include "operators/processor.h"

typedef struct cj_processor_node cj_processor_node;

/* Does the node's work on the record and pushes what comes of it to the nodes after it. On a result
 * other than CJ_PROCESSED the processor's error is set. */
typedef cj_process_result cj_node_process(cj_processor_node *node, const cj_record *record);

struct cj_ctx {
  void *user, *task_state;
  cj_arena *arena;
  cj_buf *reason;
  int32_t partition;
};

struct cj_processor_node {
  cj_node_process *process; /* NULL: the group's topics do not reach it */
  const cj_plan_node *def;
  cj_processor *processor;
  cj_ctx ctx;
  /* What the node makes. The graph has no cycle, so a node is never entered again while the nodes
   * after it read these. */
  cj_buf key, value;
  /* Of a table and of joins: the table's number within the group, its topic. */
  int table;
  const cj_plan_topic *table_topic;
};

struct cj_processor {
  const cj_plan *plan;
  cj_processor_env env;
  cj_arena arena;
  cj_buf reason; /* what cj_ctx_fail was told */
  cj_error *error;
  cj_processor_node nodes[]; /* as many as the plan has */
};

static inline cj_process_result cj_node_push(cj_processor_node *from, const cj_record *record) {
  const cj_plan_node *def = from->def;
  for (size_t i = 0; i < def->next_count; i++) {
    cj_processor_node *to = &from->processor->nodes[def->next[i]];
    cj_process_result result = to->process(to, record);
    if (result != CJ_PROCESSED) return result;
  }
  return CJ_PROCESSED;
}

static inline void cj_node_drop(cj_processor_node *node, cj_drop_reason reason) {
  cj_counter_add(&node->processor->env.counters->dropped[reason], 1);
}

/* Empties a buffer that the record before may have left null or without memory. */
static inline void cj_node_lend(cj_buf *buf) {
  cj_buf_clear(buf);
  buf->failed = false;
}

/* What a verdict other than CJ_EMIT means: dropped and counted, or a failure. */
cj_process_result cj_node_verdict(cj_processor_node *node, const cj_record *record,
                                  cj_verdict verdict);
/* The callback failed for the reason it gave, or, where `why` is set, for that. */
cj_process_result cj_node_failed(cj_processor_node *node, const cj_record *record, const char *why);
cj_process_result cj_node_fatal(cj_processor_node *node, cj_error *error);

/* Pushes a record that differs from `record` in the parts that are given: each is decoded, if the
 * node declares its serde. */
cj_process_result cj_node_push_made(cj_processor_node *node, const cj_record *record,
                                    const cj_bytes *key, const cj_bytes *value);

/* Decodes bytes that are not null into *object; without a serde it is NULL. `of` is the topic or
 * node that made them, `part` "key", "value" or "row": both for the error. */
cj_process_result cj_node_decode(cj_processor *processor, const cj_record *record, const char *of,
                                 const char *part, const cj_serde *serde, cj_bytes bytes,
                                 const void **object);

/* node_stateless.c */
cj_node_process cj_process_pass, cj_process_filter, cj_process_peek, cj_process_branch;
cj_node_process cj_process_map_values, cj_process_map, cj_process_flat_map, cj_process_select_key;
cj_node_process cj_process_sink;
/* node_table.c */
cj_node_process cj_process_table, cj_process_join, cj_process_left_join;

#endif
