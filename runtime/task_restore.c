/* SPDX-License-Identifier: BSD-2-Clause */
/* Restoring: the tables are read from the store's position up to what the group has committed, by
 * the rules that processing follows, straight into the store. It ends by position: never by having
 * seen the record at end - 1, which may be a transaction's marker or compacted away. */
#include <inttypes.h>

#include "runtime/task.h"

#define FLUSH_RECORDS 2048

/* What processing would have skipped is skipped here too, or the table would differ after a restore
 * (KAFKA-8037 tells what happens when a restore does not look). */
static cj_error *accept(cj_task *task, const cj_input *input, const cj_fetched *entry, bool *yes) {
  *yes = entry->key.data != NULL;
  if (!*yes || (!input->topic->key_serde && !input->topic->value_serde)) return NULL;
  cj_record record = {.key = entry->key,
                      .value = entry->value,
                      .timestamp = entry->timestamp,
                      .topic = input->topic->name,
                      .partition = input->tp.partition,
                      .offset = entry->offset};
  cj_error *error = NULL;
  cj_process_result result = cj_processor_decode(task->processor, input->tp.topic, &record, &error);
  *yes = result == CJ_PROCESSED;
  if (result != CJ_PROCESS_DESERIALIZE) return error;
  cj_error_destroy(error);
  return NULL;
}

/* The fetcher's position may be past holes that lie behind the committed offset: the store's is
 * not, or it would be ahead of the group. */
static cj_error *flush(cj_task *task, cj_input *input) {
  int64_t reached = input->next < input->restore_to ? input->next : input->restore_to;
  input->restore_unflushed = 0;
  const cj_position position = {.offset = reached,
                                .last_offset = input->last_offset,
                                .last_timestamp = input->last_timestamp,
                                .last_key_hash = input->last_key_hash,
                                .at_end_ms = input->at_end_ms};
  cj_error *error = cj_task_store_restore_flush(task->store, input->table, &position, task->bulk);
  const cj_worker_setup *setup = task->env->setup;
  if (!error && setup->on_restore) {
    const cj_restore progress = {.table = input->topic->name,
                                 .partition = task->partition,
                                 .from = input->restore_from,
                                 .position = reached,
                                 .to = input->restore_to,
                                 .records = (int64_t)input->restored};
    setup->on_restore(setup->user, &progress);
  }
  return error;
}

static cj_error *apply(cj_task *task, cj_input *input, const cj_fetched *record) {
  bool yes;
  cj_error *error = accept(task, input, record, &yes);
  if (error) return error;
  if (yes) {
    int64_t timestamp = input->topic->timestamp ? input->head_time : record->timestamp;
    error = cj_task_store_restore(task->store, input->table, record->key, record->value, timestamp);
    if (error) return error;
  }
  cj_input_applied(input, record);
  input->restored++;
  input->ready = false;
  cj_record_queue_pop(&input->queue);
  return ++input->restore_unflushed >= FLUSH_RECORDS ? flush(task, input) : NULL;
}

/* The end of one table: what lies beyond it stays in the queue, as input. */
static cj_error *end(cj_task *task, cj_input *input) {
  if (input->next < input->restore_to) input->next = input->restore_to;
  cj_error *error = flush(task, input);
  if (error) return error;
  cj_logf(&task->env->setup->log, CJ_LOG_INFO,
          "restore %s[%" PRId32 "]: done, %" PRIu64 " records from %" PRId64 " to %" PRId64,
          input->topic->name, task->partition, input->restored, input->restore_from,
          input->restore_to);
  input->restore_from = input->restore_to;
  return NULL;
}

static bool restoring(const cj_input *input) {
  return input->table >= 0 && input->restore_from < input->restore_to;
}

static cj_error *restore_input(cj_task *task, cj_input *input, size_t most, bool *worked) {
  for (size_t n = 0; n < most; n++) {
    bool ready;
    cj_error *error = cj_input_advance(task, input, true, &ready);
    if (error || task->reposition) return error;
    const cj_fetched *head = ready ? cj_record_queue_head(&input->queue) : NULL;
    int64_t reached = head ? head->offset : cj_input_position(input);
    if (reached >= input->restore_to) {
      *worked = true;
      return end(task, input);
    }
    if (!head) {
      /* At the log's end, but before what was to be restored: the log was cut meanwhile. */
      if (input->eof != CJ_OFFSET_NONE)
        task->reposition = "the log ends before the committed offset";
      return NULL;
    }
    error = apply(task, input, head);
    if (error) return error;
    *worked = true;
  }
  return NULL;
}

cj_error *cj_task_restore(cj_task *task, size_t most, bool *worked) {
  bool more = false;
  for (size_t i = 0; i < task->input_count && !task->reposition; i++) {
    cj_input *input = &task->inputs[i];
    if (!restoring(input)) continue;
    cj_error *error = restore_input(task, input, most, worked);
    if (error) return error;
    more = more || restoring(input);
  }
  if (more || task->reposition) return NULL;
  if (task->bulk) {
    cj_error *error = cj_task_store_restore_end(task->store);
    if (error) return error;
    task->bulk = false;
  }
  bool load = task->env->setup->settings->order == CJ_ORDER_TABLE_FIRST;
  task->state = load ? CJ_TASK_STATE_LOADING : CJ_TASK_STATE_RUNNING;
  *worked = true;
  return NULL;
}
