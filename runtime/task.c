/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of a task but its work: making, positions, commits. */
#include "runtime/task.h"

#include <inttypes.h>
#include <stdio.h>

#include "runtime/restore_plan.h"

/* A gap larger than this is loaded without the store's log, which a flush at its end makes good. */
#define BULK_RECORDS 100000

static cj_kv_read env_get(void *self, int table, cj_bytes key, cj_row *row, cj_error **error) {
  cj_task *task = self;
  return cj_task_store_get(task->store, table, key, row, error);
}

static cj_error *env_put(void *self, int table, cj_bytes key, cj_bytes value, int64_t timestamp,
                         bool *older) {
  cj_task *task = self;
  return cj_task_store_put(task->store, table, key, value, timestamp, older);
}

static cj_error *env_emit(void *self, const cj_plan_node *sink, const cj_record *record) {
  cj_task *task = self;
  cj_origin origin = {task->source_topic, record->partition, record->offset};
  return cj_collector_emit(task->env->collector, sink, record, task->source, origin);
}

static size_t headers_read(const cj_headers *headers, const cj_header **out) {
  cj_task *task = ((const struct task_headers *)headers)->task;
  cj_io *io = task->env->setup->io;
  size_t count = io->ops->headers(io, task->source, task->header_list, task->header_room);
  if (count > task->header_room) {
    cj_header *more = cj_realloc(task->header_list, count * sizeof *more);
    if (!more) return 0;
    task->header_list = more;
    task->header_room = count;
    io->ops->headers(io, task->source, task->header_list, task->header_room);
  }
  *out = task->header_list;
  return count;
}

static void input_init(cj_task *task, cj_input *input, int topic) {
  const cj_worker_setup *setup = task->env->setup;
  *input = (cj_input){.tp = {topic, task->partition},
                      .topic = &setup->plan->topics[topic],
                      .table = setup->plan->topics[topic].table,
                      .next = CJ_OFFSET_NONE,
                      .eof = CJ_OFFSET_NONE,
                      .end = CJ_OFFSET_NONE,
                      .committed = CJ_OFFSET_NONE,
                      .log_start = CJ_OFFSET_NONE,
                      .log_end = CJ_OFFSET_NONE,
                      .last_offset = CJ_OFFSET_NONE,
                      .at_end_ms = -1,
                      .shown_position = CJ_OFFSET_NONE,
                      .shown_end = CJ_OFFSET_NONE,
                      .shown_committed = CJ_OFFSET_NONE};
  cj_record_queue_init(&input->queue, setup->io, &task->env->chunks, input->tp);
}

cj_error *cj_task_new(cj_task_env *env, int group, int32_t partition, cj_task **out) {
  const cj_worker_setup *setup = env->setup;
  const cj_plan_group *set = &setup->plan->groups[group];
  cj_task *task = cj_alloc(sizeof *task);
  cj_input *inputs = cj_alloc(set->topic_count * sizeof *inputs);
  if (!task || !inputs) {
    cj_free(task);
    cj_free(inputs);
    return cj_error_no_memory();
  }
  *task = (cj_task){.env = env,
                    .group = group,
                    .partition = partition,
                    .inputs = inputs,
                    .idle_since = -1,
                    .idle_until = INT64_MAX,
                    .headers = {.base = {.read = headers_read}, .task = task}};
  /* Under the policy `warn` counts may differ: a topic that has no partition p is not an input. */
  for (size_t i = 0; i < set->topic_count; i++)
    if (partition < setup->partition_counts[set->topics[i]])
      input_init(task, &task->inputs[task->input_count++], set->topics[i]);
  *out = task;
  return NULL;
}

void cj_task_destroy(cj_task *task) {
  if (!task) return;
  for (size_t i = 0; i < task->input_count; i++)
    cj_record_queue_clear(&task->inputs[i].queue);
  cj_processor_destroy(task->processor);
  cj_free(task->header_list);
  cj_free(task->inputs);
  cj_free(task);
}

static const char *anchor_name(const cj_task *task) {
  const cj_plan *plan = task->env->setup->plan;
  return plan->topics[task->env->anchors[task->group]].name;
}

void cj_task_name(const cj_task *task, char *out, size_t size) {
  snprintf(out, size, "%s-%" PRId32, anchor_name(task), task->partition);
}

cj_fingerprint cj_task_fingerprint(const cj_task *task, const char **tables, size_t room) {
  const cj_worker_setup *setup = task->env->setup;
  const cj_plan_group *set = &setup->plan->groups[task->group];
  size_t count = set->table_count < room ? set->table_count : room;
  for (size_t i = 0; i < count; i++)
    tables[i] = setup->plan->topics[set->tables[i]].name;
  return (cj_fingerprint){.cluster_id = setup->cluster_id,
                          .anchor = anchor_name(task),
                          .partition = task->partition,
                          .partition_count =
                              setup->partition_counts[task->env->anchors[task->group]],
                          .tables = tables,
                          .table_count = count};
}

/* ---- start ---- */

static cj_error *processor_open(cj_task *task) {
  const cj_processor_env env = {.self = task,
                                .get = env_get,
                                .put = env_put,
                                .emit = env_emit,
                                .counters = task->env->counters};
  return cj_processor_new(task->env->setup->plan, task->group, task->partition, &env,
                          &task->processor);
}

static cj_error *position_table(cj_task *task, cj_input *input) {
  const cj_log *log = &task->env->setup->log;
  cj_position at = cj_task_store_position(task->store, input->table);
  cj_restore_plan plan =
      cj_plan_table_start(at.offset, input->committed, input->log_start, input->log_end);
  if (!plan.rebuild && input->rebuild) {
    plan = cj_plan_table_start(CJ_OFFSET_NONE, input->committed, input->log_start, input->log_end);
    plan.rebuild = input->rebuild;
  }
  input->rebuild = NULL;
  if (plan.rebuild) {
    cj_logf(log, CJ_LOG_WARN,
            "table %s[%" PRId32 "]: rebuilt from the topic: %s (store at %" PRId64
            ", committed %" PRId64 ", log %" PRId64 " to %" PRId64 ")",
            input->topic->name, task->partition, plan.rebuild, at.offset, input->committed,
            input->log_start, input->log_end);
    cj_error *error = cj_task_store_wipe(task->store, input->table);
    if (error) return error;
    at = (cj_position){.offset = CJ_OFFSET_NONE, .last_offset = CJ_OFFSET_NONE, .at_end_ms = -1};
  }
  input->at_end_ms = at.at_end_ms;
  input->next = plan.from;
  input->restore_from = plan.from;
  input->restore_to = plan.to;
  input->restored = 0;
  input->restore_unflushed = 0;
  input->last_offset = at.offset == CJ_OFFSET_NONE ? CJ_OFFSET_NONE : at.last_offset;
  input->last_timestamp = at.last_timestamp;
  input->last_key_hash = at.last_key_hash;
  input->verify = input->last_offset >= input->log_start && input->last_offset >= 0;
  if (plan.to - plan.from > BULK_RECORDS) task->bulk = true;
  cj_logf(log, CJ_LOG_INFO,
          "restore %s[%" PRId32 "]: resumes at %" PRId64 ", up to %" PRId64 " (store at %" PRId64
          ", committed %" PRId64 ", log %" PRId64 " to %" PRId64 ")",
          input->topic->name, task->partition, plan.from, plan.to, at.offset, input->committed,
          input->log_start, input->log_end);
  return NULL;
}

static cj_error *position_stream(cj_task *task, cj_input *input) {
  const cj_settings *settings = task->env->setup->settings;
  cj_stream_start start = cj_plan_stream_start(input->committed, input->log_start, input->log_end,
                                               settings->auto_offset_reset);
  if (start.refused)
    return cj_error_new(
        CJ_ERR_STATE, input->topic->name,
        "partition %" PRId32 " cannot be resumed: %s (committed %" PRId64 ", log %" PRId64
        " to %" PRId64 ") and auto.offset.reset is error; `cojoin reset` sets an offset",
        task->partition, start.reset ? start.reset : "the group has no committed offset",
        input->committed, input->log_start, input->log_end);
  if (start.reset)
    cj_logf(&task->env->setup->log, CJ_LOG_WARN,
            "stream %s[%" PRId32 "]: %s (committed %" PRId64 ", log %" PRId64 " to %" PRId64
            "): starts at %" PRId64 " by auto.offset.reset",
            input->topic->name, task->partition, start.reset, input->committed, input->log_start,
            input->log_end, start.from);
  input->next = start.from;
  return NULL;
}

cj_error *cj_task_position(cj_task *task) {
  task->bulk = false;
  for (size_t i = 0; i < task->input_count; i++) {
    cj_input *input = &task->inputs[i];
    cj_record_queue_clear(&input->queue);
    input->ready = false;
    input->eof = CJ_OFFSET_NONE;
    input->end = CJ_OFFSET_NONE;
    input->end_clock = 0;
    cj_error *error =
        input->table >= 0 ? position_table(task, input) : position_stream(task, input);
    if (error) return error;
  }
  task->reposition = NULL;
  task->idle_since = -1;
  task->state = CJ_TASK_STATE_POSITIONED;
  if (!task->processor) return processor_open(task);
  return NULL;
}

int64_t cj_input_fetch_from(cj_input *input) {
  int64_t from = cj_input_position(input);
  cj_record_queue_clear(&input->queue);
  input->ready = false;
  input->next = from;
  input->eof = CJ_OFFSET_NONE;
  return input->verify ? input->last_offset : from;
}

void cj_task_fetching(cj_task *task) {
  if (task->state == CJ_TASK_STATE_POSITIONED) task->state = CJ_TASK_STATE_RESTORING;
}

/* ---- commit ---- */

bool cj_task_dirty(const cj_task *task) {
  if (task->state != CJ_TASK_STATE_RUNNING && task->state != CJ_TASK_STATE_LOADING) return false;
  for (size_t i = 0; i < task->input_count; i++)
    if (cj_input_position(&task->inputs[i]) != task->inputs[i].committed) return true;
  return false;
}

void cj_task_cut(cj_task *task) {
  cj_io *io = task->env->setup->io;
  for (size_t i = 0; i < task->input_count; i++) {
    cj_input *input = &task->inputs[i];
    input->cut = cj_input_position(input);
    if (input->eof != CJ_OFFSET_NONE && input->cut == input->eof)
      input->at_end_ms = io->ops->wall(io);
    input->cut_position = (cj_position){.offset = input->cut,
                                        .last_offset = input->last_offset,
                                        .last_timestamp = input->last_timestamp,
                                        .last_key_hash = input->last_key_hash,
                                        .at_end_ms = input->at_end_ms};
  }
  if (task->store) cj_task_store_freeze(task->store);
  task->in_cut = true;
}

#define TABLES_ON_STACK 16

/* Into the store, what the group has of the tables now. */
static cj_error *store_committed(cj_task *task) {
  cj_position few[TABLES_ON_STACK] = {{0}}, *positions = few;
  size_t tables = task->env->setup->plan->groups[task->group].table_count;
  if (tables > TABLES_ON_STACK) {
    positions = cj_alloc(tables * sizeof *positions);
    if (!positions) return cj_error_no_memory();
  }
  for (size_t t = 0; t < tables; t++)
    positions[t] =
        (cj_position){.offset = CJ_OFFSET_NONE, .last_offset = CJ_OFFSET_NONE, .at_end_ms = -1};
  for (size_t i = 0; i < task->input_count; i++) {
    cj_input *input = &task->inputs[i];
    if (input->table >= 0) positions[input->table] = input->cut_position;
  }
  cj_error *error = cj_task_store_commit(task->store, positions);
  if (positions != few) cj_free(positions);
  return error;
}

cj_error *cj_task_committed(cj_task *task) {
  task->in_cut = false;
  for (size_t i = 0; i < task->input_count; i++)
    task->inputs[i].committed = task->inputs[i].cut;
  cj_error *error = task->store ? store_committed(task) : NULL;
  cj_task_show(task);
  return error;
}

cj_error *cj_task_not_committed(cj_task *task) {
  task->in_cut = false;
  return task->store ? cj_task_store_thaw(task->store) : NULL;
}

void cj_task_rollback(cj_task *task) {
  task->in_cut = false;
  if (task->store) cj_task_store_rollback(task->store);
  for (size_t i = 0; i < task->input_count; i++) {
    cj_record_queue_clear(&task->inputs[i].queue);
    task->inputs[i].ready = false;
  }
}

void cj_task_undo(cj_task *task) {
  if (cj_task_dirty(task)) {
    cj_processor_destroy(task->processor);
    task->processor = NULL;
  }
  cj_task_rollback(task);
}

void cj_task_show(cj_task *task) {
  for (size_t i = 0; i < task->input_count; i++) {
    cj_input *input = &task->inputs[i];
    int64_t end = input->end > input->eof ? input->end : input->eof;
    if (end < input->log_end) end = input->log_end;
    __atomic_store_n(&input->shown_position, cj_input_position(input), __ATOMIC_RELAXED);
    __atomic_store_n(&input->shown_end, end, __ATOMIC_RELAXED);
    __atomic_store_n(&input->shown_committed, input->committed, __ATOMIC_RELAXED);
  }
}
