/* SPDX-License-Identifier: BSD-2-Clause */
/* Nodes that look at one record and nothing else. */
#include "operators/processor_node.h"

/* Streams, merges and the developer's word on co-partitioning: the graph is all they are. */
cj_process_result cj_process_pass(cj_processor_node *node, const cj_record *record) {
  return cj_node_push(node, record);
}

cj_process_result cj_process_filter(cj_processor_node *node, const cj_record *record) {
  cj_verdict verdict = ((cj_filter_fn *)node->def->fn)(&node->ctx, record);
  if (verdict != CJ_EMIT) return cj_node_verdict(node, record, verdict);
  return cj_node_push(node, record);
}

cj_process_result cj_process_peek(cj_processor_node *node, const cj_record *record) {
  ((cj_peek_fn *)node->def->fn)(&node->ctx, record);
  return cj_node_push(node, record);
}

cj_process_result cj_process_branch(cj_processor_node *node, const cj_record *record) {
  const cj_plan_node *def = node->def;
  int branch = ((cj_branch_fn *)def->fn)(&node->ctx, record);
  if (branch == -1) return cj_node_verdict(node, record, CJ_DROP);
  if ((size_t)branch >= def->branches) /* a negative one is a very large one */
    return cj_node_failed(node, record, "the callback returned a branch that there is not");
  for (size_t i = 0; i < def->next_count; i++) {
    if (def->branch_of[i] != branch) continue;
    cj_processor_node *to = &node->processor->nodes[def->next[i]];
    cj_process_result result = to->process(to, record);
    if (result != CJ_PROCESSED) return result;
  }
  return CJ_PROCESSED;
}

cj_process_result cj_process_map_values(cj_processor_node *node, const cj_record *record) {
  cj_node_lend(&node->value);
  cj_verdict verdict = ((cj_map_values_fn *)node->def->fn)(&node->ctx, record, &node->value);
  if (verdict != CJ_EMIT) return cj_node_verdict(node, record, verdict);
  if (node->value.failed) return cj_node_fatal(node, cj_error_no_memory());
  cj_bytes value = cj_buf_bytes(&node->value);
  return cj_node_push_made(node, record, NULL, &value);
}

cj_process_result cj_process_map(cj_processor_node *node, const cj_record *record) {
  cj_node_lend(&node->key);
  cj_node_lend(&node->value);
  cj_verdict verdict = ((cj_map_fn *)node->def->fn)(&node->ctx, record, &node->key, &node->value);
  if (verdict != CJ_EMIT) return cj_node_verdict(node, record, verdict);
  if (node->key.failed || node->value.failed) return cj_node_fatal(node, cj_error_no_memory());
  cj_bytes key = cj_buf_bytes(&node->key), value = cj_buf_bytes(&node->value);
  return cj_node_push_made(node, record, &key, &value);
}

cj_process_result cj_process_select_key(cj_processor_node *node, const cj_record *record) {
  cj_node_lend(&node->key);
  cj_verdict verdict = ((cj_select_key_fn *)node->def->fn)(&node->ctx, record, &node->key);
  if (verdict != CJ_EMIT) return cj_node_verdict(node, record, verdict);
  if (node->key.failed) return cj_node_fatal(node, cj_error_no_memory());
  cj_bytes key = cj_buf_bytes(&node->key);
  return cj_node_push_made(node, record, &key, NULL);
}

struct cj_emitter {
  cj_processor_node *node;
  const cj_record *record; /* the one that comes in */
  cj_process_result result;
};

cj_verdict cj_emit(cj_emitter *out, cj_bytes key, cj_bytes value) {
  if (out->result == CJ_PROCESSED)
    out->result = cj_node_push_made(out->node, out->record, &key, &value);
  return out->result == CJ_PROCESSED ? CJ_EMIT : CJ_FAIL;
}

cj_process_result cj_process_flat_map(cj_processor_node *node, const cj_record *record) {
  cj_emitter out = {.node = node, .record = record, .result = CJ_PROCESSED};
  cj_verdict verdict = ((cj_flat_map_fn *)node->def->fn)(&node->ctx, record, &out);
  /* A failure further on is the failure, whatever the callback makes of it. */
  if (out.result != CJ_PROCESSED) return out.result;
  return verdict == CJ_EMIT ? CJ_PROCESSED : cj_node_verdict(node, record, verdict);
}

cj_process_result cj_process_sink(cj_processor_node *node, const cj_record *record) {
  cj_processor_env *env = &node->processor->env;
  cj_error *error = env->emit(env->self, node->def, record);
  if (error) return cj_node_fatal(node, error);
  cj_counter_add(&env->counters->out, 1);
  return CJ_PROCESSED;
}
