/* SPDX-License-Identifier: BSD-2-Clause */
#include "operators/processor_node.h"

#include <inttypes.h>
#include <stdio.h>

static cj_node_process *const kinds[] = {
    [CJ_NODE_STREAM] = cj_process_pass,
    [CJ_NODE_TABLE] = cj_process_table,
    [CJ_NODE_FILTER] = cj_process_filter,
    [CJ_NODE_MAP_VALUES] = cj_process_map_values,
    [CJ_NODE_MAP] = cj_process_map,
    [CJ_NODE_FLAT_MAP] = cj_process_flat_map,
    [CJ_NODE_SELECT_KEY] = cj_process_select_key,
    [CJ_NODE_PEEK] = cj_process_peek,
    [CJ_NODE_BRANCH] = cj_process_branch,
    [CJ_NODE_MERGE] = cj_process_pass,
    [CJ_NODE_ASSUME] = cj_process_pass,
    [CJ_NODE_JOIN] = cj_process_join,
    [CJ_NODE_LEFT_JOIN] = cj_process_left_join,
    [CJ_NODE_SINK] = cj_process_sink,
};

const char *cj_drop_reason_name(cj_drop_reason reason) {
  static const char *const names[CJ_DROP_REASONS] = {
      [CJ_DROP_FILTER] = "filter",           [CJ_DROP_NULL_KEY] = "null-key",
      [CJ_DROP_NULL_VALUE] = "null-value",   [CJ_DROP_DESERIALIZE] = "deserialize",
      [CJ_DROP_PROCESS] = "process",         [CJ_DROP_PRODUCE] = "produce",
      [CJ_DROP_DEAD_LETTER] = "dead-letter",
  };
  return (unsigned)reason < CJ_DROP_REASONS ? names[reason] : "unknown";
}

/* ---- what callbacks ask for ---- */

void *cj_ctx_user(const cj_ctx *ctx) {
  return ctx->user;
}

void *cj_ctx_task_state(const cj_ctx *ctx) {
  return ctx->task_state;
}

int32_t cj_ctx_partition(const cj_ctx *ctx) {
  return ctx->partition;
}

cj_arena *cj_ctx_arena(cj_ctx *ctx) {
  return ctx->arena;
}

cj_verdict cj_ctx_fail(cj_ctx *ctx, const char *format, ...) {
  char *text = NULL;
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int len = vsnprintf(NULL, 0, format, args);
  va_end(args);
  cj_node_lend(ctx->reason);
  if (len >= 0) text = cj_buf_reserve(ctx->reason, (size_t)len + 1);
  if (text) {
    vsnprintf(text, (size_t)len + 1, format, again);
    ctx->reason->len = (size_t)len;
  }
  va_end(again);
  return CJ_FAIL;
}

/* ---- failures ---- */

cj_process_result cj_node_fatal(cj_processor_node *node, cj_error *error) {
  node->processor->error = error;
  return CJ_PROCESS_FATAL;
}

cj_process_result cj_node_failed(cj_processor_node *node, const cj_record *record,
                                 const char *why) {
  cj_processor *processor = node->processor;
  const cj_buf *reason = &processor->reason;
  if (!why) why = reason->len ? (const char *)reason->data : "the callback gave no reason";
  processor->error = cj_error_new(CJ_ERR_PROCESS, node->def->name,
                                  "%s (topic %s, partition %" PRId32 ", offset %" PRId64 ")", why,
                                  record->topic, record->partition, record->offset);
  return CJ_PROCESS_FAILED;
}

cj_process_result cj_node_verdict(cj_processor_node *node, const cj_record *record,
                                  cj_verdict verdict) {
  if (verdict == CJ_FAIL) {
    /* A callback may fail because we had no memory for it. That is not the record's fault, and a
     * policy that skips records must not skip it. */
    if (node->key.failed || node->value.failed || node->processor->arena.failed)
      return cj_node_fatal(node, cj_error_no_memory());
    return cj_node_failed(node, record, NULL);
  }
  if (verdict != CJ_DROP)
    return cj_node_failed(node, record, "the callback returned what is no cj_verdict");
  cj_node_drop(node, CJ_DROP_FILTER);
  return CJ_PROCESSED;
}

/* ---- records that nodes make ---- */

cj_process_result cj_node_decode(cj_processor *processor, const cj_record *record, const char *of,
                                 const char *part, const cj_serde *serde, cj_bytes bytes,
                                 const void **object) {
  *object = NULL;
  if (!serde || !bytes.data) return CJ_PROCESSED;
  const char *why = NULL;
  *object = serde->decode(serde->user, bytes, &processor->arena, &why);
  if (*object) return CJ_PROCESSED;
  if (processor->arena.failed) {
    /* Not the record's fault: no policy may drop it for that. */
    processor->error = cj_error_no_memory();
    return CJ_PROCESS_FATAL;
  }
  processor->error =
      cj_error_new(CJ_ERR_DESERIALIZE, of,
                   "the %s, %zu bytes, cannot be decoded as %s: %s (topic %s, partition %" PRId32
                   ", offset %" PRId64 ")",
                   part, bytes.len, serde->name, why ? why : "the serde gave no reason",
                   record->topic, record->partition, record->offset);
  return CJ_PROCESS_DESERIALIZE;
}

cj_process_result cj_node_push_made(cj_processor_node *node, const cj_record *record,
                                    const cj_bytes *key, const cj_bytes *value) {
  const cj_plan_node *def = node->def;
  cj_record made = *record;
  cj_process_result result = CJ_PROCESSED;
  if (key) {
    made.key = *key;
    result = cj_node_decode(node->processor, record, def->name, "key", def->key_serde, *key,
                            &made.key_object);
  }
  if (value && result == CJ_PROCESSED) {
    made.value = *value;
    result = cj_node_decode(node->processor, record, def->name, "value", def->value_serde, *value,
                            &made.value_object);
  }
  return result == CJ_PROCESSED ? cj_node_push(node, &made) : result;
}

/* ---- the processor ---- */

static void set_up(cj_processor *processor, int index, int32_t partition) {
  cj_processor_node *node = &processor->nodes[index];
  const cj_plan_node *def = &processor->plan->nodes[index];
  if (node->process) return;
  node->process = kinds[def->kind];
  node->def = def;
  node->processor = processor;
  node->ctx = (cj_ctx){
      .user = def->user,
      .arena = &processor->arena,
      .reason = &processor->reason,
      .partition = partition,
  };
  if (def->topic >= 0 && def->kind != CJ_NODE_SINK) {
    node->table_topic = &processor->plan->topics[def->topic];
    node->table = node->table_topic->table;
  }
  if (def->task_open) node->ctx.task_state = def->task_open(def->user, partition);
}

cj_error *cj_processor_new(const cj_plan *plan, int group, int32_t partition,
                           const cj_processor_env *env, cj_processor **processor) {
  *processor = NULL;
  cj_processor *made = cj_alloc(sizeof *made + plan->node_count * sizeof made->nodes[0]);
  if (!made) return cj_error_no_memory();
  made->plan = plan;
  made->env = *env;
  const cj_plan_group *of = &plan->groups[group];
  for (size_t i = 0; i < of->topic_count; i++)
    set_up(made, plan->topics[of->topics[i]].source_node, partition);
  /* Nodes are in topological order: when the loop arrives at one, all before it are known. */
  for (size_t i = 0; i < plan->node_count; i++)
    for (size_t k = 0; made->nodes[i].process && k < plan->nodes[i].next_count; k++)
      set_up(made, plan->nodes[i].next[k], partition);
  *processor = made;
  return NULL;
}

void cj_processor_destroy(cj_processor *processor) {
  if (!processor) return;
  for (size_t i = 0; i < processor->plan->node_count; i++) {
    cj_processor_node *node = &processor->nodes[i];
    if (!node->process) continue;
    if (node->def->task_open && node->def->task_close)
      node->def->task_close(node->ctx.user, node->ctx.task_state);
    cj_buf_free(&node->key);
    cj_buf_free(&node->value);
  }
  cj_arena_free(&processor->arena);
  cj_buf_free(&processor->reason);
  cj_free(processor);
}

static cj_process_result decode_source(cj_processor *processor, const cj_plan_topic *topic,
                                       cj_record *record) {
  cj_arena_reset(&processor->arena);
  cj_process_result result = cj_node_decode(processor, record, topic->name, "key", topic->key_serde,
                                            record->key, &record->key_object);
  if (result != CJ_PROCESSED) return result;
  return cj_node_decode(processor, record, topic->name, "value", topic->value_serde, record->value,
                        &record->value_object);
}

cj_process_result cj_processor_decode(cj_processor *processor, int topic, cj_record *record,
                                      cj_error **error) {
  processor->error = NULL;
  cj_process_result result = decode_source(processor, &processor->plan->topics[topic], record);
  *error = processor->error;
  return result;
}

cj_process_result cj_processor_process(cj_processor *processor, int topic, cj_record *record,
                                       cj_error **error) {
  const cj_plan_topic *source = &processor->plan->topics[topic];
  cj_counters *counters = processor->env.counters;
  processor->error = NULL;
  cj_node_lend(&processor->reason);
  cj_counter_add(&counters->records_in, 1);
  record->timestamp = cj_plan_timestamp(source, record);
  if (record->timestamp < 0) cj_counter_add(&counters->negative_timestamp, 1);
  cj_process_result result = decode_source(processor, source, record);
  if (result == CJ_PROCESSED) {
    cj_processor_node *node = &processor->nodes[source->source_node];
    result = node->process(node, record);
  }
  *error = processor->error;
  return result;
}
