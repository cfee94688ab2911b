/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables, and the joins that look records up in them. NULL is tested by the pointer: zero bytes is
 * a key, and a value, like any other (case 30). */
#include "operators/processor_node.h"

/* The later offset wins, whatever its timestamp: the compacted topic keeps that one too, so a
 * rebuilt table holds the same (case 60). An update emits nothing. */
cj_process_result cj_process_table(cj_processor_node *node, const cj_record *record) {
  cj_processor_env *env = &node->processor->env;
  if (!record->key.data) {
    cj_node_drop(node, CJ_DROP_NULL_KEY);
    return CJ_PROCESSED;
  }
  bool older = false;
  cj_error *error =
      env->put(env->self, node->table, record->key, record->value, record->timestamp, &older);
  if (error) return cj_node_fatal(node, error);
  cj_counter_add(&env->counters->table_updates, 1);
  if (older) cj_counter_add(&env->counters->out_of_order, 1);
  return CJ_PROCESSED;
}

/* Calls the join function with the row, or with none, and pushes what it makes. */
static cj_process_result join(cj_processor_node *node, const cj_record *record, const cj_row *row) {
  cj_node_lend(&node->value);
  cj_verdict verdict = ((cj_join_fn *)node->def->fn)(&node->ctx, record, row, &node->value);
  if (verdict != CJ_EMIT) return cj_node_verdict(node, record, verdict);
  if (node->value.failed) return cj_node_fatal(node, cj_error_no_memory());
  cj_bytes value = cj_buf_bytes(&node->value);
  return cj_node_push_made(node, record, NULL, &value);
}

/* Looks the record's key up. *result is other than CJ_PROCESSED when that failed. */
static bool find_row(cj_processor_node *node, const cj_record *record, cj_row *row,
                     cj_process_result *result) {
  cj_processor_env *env = &node->processor->env;
  const cj_plan_topic *topic = node->table_topic;
  cj_error *error = NULL;
  *result = CJ_PROCESSED;
  switch (env->get(env->self, node->table, record->key, row, &error)) {
  case CJ_KV_FOUND:
    *result = cj_node_decode(node->processor, record, topic->name, "row", topic->value_serde,
                             row->value, &row->object);
    return *result == CJ_PROCESSED;
  case CJ_KV_ABSENT:
    return false;
  case CJ_KV_FAILED:
    break;
  }
  *result = cj_node_fatal(node, error);
  return false;
}

static void count(cj_processor_node *node, bool met) {
  cj_counters *counters = node->processor->env.counters;
  cj_counter_add(met ? &counters->joined : &counters->missed, 1);
}

cj_process_result cj_process_join(cj_processor_node *node, const cj_record *record) {
  if (!record->key.data || !record->value.data) {
    cj_node_drop(node, record->key.data ? CJ_DROP_NULL_VALUE : CJ_DROP_NULL_KEY);
    return CJ_PROCESSED;
  }
  cj_row row = {0};
  cj_process_result result;
  bool met = find_row(node, record, &row, &result);
  if (result != CJ_PROCESSED) return result;
  count(node, met);
  return met ? join(node, record, &row) : CJ_PROCESSED;
}

/* A null key has no row and goes on without one (KIP-962). */
cj_process_result cj_process_left_join(cj_processor_node *node, const cj_record *record) {
  if (!record->value.data) {
    cj_node_drop(node, CJ_DROP_NULL_VALUE);
    return CJ_PROCESSED;
  }
  cj_row row = {0};
  cj_process_result result = CJ_PROCESSED;
  bool met = record->key.data && find_row(node, record, &row, &result);
  if (result != CJ_PROCESSED) return result;
  count(node, met);
  return join(node, record, met ? &row : NULL);
}
