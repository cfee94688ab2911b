/* SPDX-License-Identifier: BSD-2-Clause */
/* The work of a task: which record is next, and what becomes of it.
 *
 * The smallest head timestamp goes first, the table first among equals, but only when every input
 * has a buffered record or is known to have none: when it was read to an end that was learnt
 * *after* the chosen record had been fetched. An end learnt before proves nothing, an unknown one
 * less. (KIP-353, KIP-695; DESIGN "Semantics".) */
#include <inttypes.h>

#include "runtime/task.h"

/* ---- heads ---- */

static bool refill(cj_task *task, cj_input *input) {
  uint64_t clock = task->env->fetch_clock + 1;
  if (!cj_record_queue_refill(&input->queue, clock)) return false;
  task->env->fetch_clock = clock;
  /* These records will have to wait until the ends of the empty inputs beside them are known: ask
   * now, while the records before them are processed. */
  for (size_t i = 0; i < task->input_count; i++)
    if (!cj_record_queue_head(&task->inputs[i].queue)) task->inputs[i].want_end = true;
  return true;
}

static cj_error *fetch_failed(cj_task *task, cj_input *input, const cj_fetched *entry) {
  switch (entry->code) {
  case CJ_IO_OUT_OF_RANGE:
    task->reposition = "its position is not in the log any more";
    return NULL;
  case CJ_IO_RETRIABLE:
  case CJ_IO_TIMED_OUT:
    task->reposition = "fetching failed";
    return NULL;
  case CJ_IO_UNKNOWN_TOPIC:
    return cj_error_new(CJ_ERR_TOPIC_MISSING, input->topic->name,
                        "partition %" PRId32 " does not exist any more", task->partition);
  case CJ_IO_AUTH:
    return cj_error_new(CJ_ERR_AUTH, input->topic->name, "reading partition %" PRId32 " is refused",
                        task->partition);
  default:
    return cj_error_new(CJ_ERR_KAFKA, input->topic->name, "fetching partition %" PRId32 ": %s",
                        task->partition, cj_io_code_name(entry->code));
  }
}

static void read_anew(cj_task *task, cj_input *input, const char *why) {
  input->verify = false;
  input->rebuild = why;
  task->reposition = why;
}

/* A record below the position was read again only to see whether the log is still the one that the
 * store was filled from: a re-created topic has another record there (or none, which a compacted
 * topic can have as well); one that was cut and grew again may have records where there was nothing
 * between the last applied record and the position. librdkafka 2.0.2 knows no topic ids. */
static void skip_old(cj_task *task, cj_input *input, const cj_fetched *record) {
  if (input->last_offset == CJ_OFFSET_NONE) return;
  if (record->offset > input->last_offset)
    read_anew(task, input, "there are records where the log had none (truncated or re-created)");
  if (!input->verify || record->offset != input->last_offset) return;
  input->verify = false;
  if (record->timestamp != input->last_timestamp ||
      cj_hash64(record->key.data, record->key.len) != input->last_key_hash)
    read_anew(task, input,
              "the record last applied is not in the topic any more (re-created topic)");
}

static int64_t record_time(const cj_input *input, const cj_fetched *entry) {
  if (!input->topic->timestamp) return entry->timestamp;
  const cj_record record = {.key = entry->key,
                            .value = entry->value,
                            .timestamp = entry->timestamp,
                            .topic = input->topic->name,
                            .partition = input->tp.partition,
                            .offset = entry->offset};
  return cj_plan_timestamp(input->topic, &record);
}

cj_error *cj_input_advance(cj_task *task, cj_input *input, bool may_refill, bool *ready) {
  *ready = false;
  while (!task->reposition) {
    const cj_fetched *entry = cj_record_queue_head(&input->queue);
    if (!entry) {
      input->ready = false;
      if (!may_refill || !refill(task, input)) break;
      continue;
    }
    if (entry->kind == CJ_FETCHED_ERROR) return fetch_failed(task, input, entry);
    if (entry->kind == CJ_FETCHED_EOF) {
      if (entry->offset > input->eof) input->eof = entry->offset;
      /* The holes before it are behind too: or the next record's coming would move the position
       * back to the last one's. */
      if (entry->offset > input->next) input->next = entry->offset;
      input->verify = false;
    } else if (entry->offset < input->next) {
      skip_old(task, input, entry);
    } else {
      input->verify = false;
      if (!input->ready) {
        input->ready = true;
        input->head_time = record_time(input, entry);
      }
      *ready = true;
      return NULL;
    }
    cj_record_queue_pop(&input->queue);
  }
  return input->queue.no_memory ? cj_error_no_memory() : NULL;
}

/* ---- choosing ---- */

/* Is the empty input known to have nothing that lies before a record fetched at `clock`? */
static bool caught_up(const cj_input *input, uint64_t clock) {
  return !input->verify && input->end != CJ_OFFSET_NONE && input->end_clock >= clock &&
         cj_input_position(input) >= input->end;
}

static bool goes_before(const cj_input *a, const cj_input *b) {
  if (a->head_time != b->head_time) return a->head_time < b->head_time;
  if ((a->table >= 0) != (b->table >= 0)) return a->table >= 0;
  return a->tp.topic < b->tp.topic;
}

static bool takes_part(const cj_task *task, const cj_input *input) {
  return task->state == CJ_TASK_STATE_RUNNING || input->table >= 0;
}

/* The earliest head. *empty tells whether some input has none. */
static cj_error *earliest(cj_task *task, cj_input **best, bool *empty) {
  *best = NULL;
  *empty = false;
  for (size_t i = 0; i < task->input_count; i++) {
    cj_input *input = &task->inputs[i];
    if (!takes_part(task, input)) continue;
    bool ready = input->ready;
    if (!ready) {
      cj_error *error = cj_input_advance(task, input, false, &ready);
      if (error) return error;
    }
    if (!ready)
      *empty = true;
    else if (!*best || goes_before(input, *best))
      *best = input;
  }
  return NULL;
}

/* Asks the io for the inputs that have nothing buffered and are not known to be at their end.
 * *came: something is there now, choose again. *unknown: an end has to be learnt first. */
static cj_error *look_at_empty(cj_task *task, const cj_input *best, bool *came, bool *unknown) {
  /* max.task.idle.ms waits for what is not written yet: its coming has to be seen. */
  bool idles = task->env->setup->settings->max_task_idle_ms > 0;
  *came = false;
  *unknown = false;
  for (size_t i = 0; i < task->input_count && !task->reposition; i++) {
    cj_input *input = &task->inputs[i];
    if (!takes_part(task, input) || input->ready) continue;
    uint64_t clock = best ? cj_record_queue_clock(&best->queue) : UINT64_MAX;
    if (caught_up(input, clock) && !idles) continue;
    bool ready;
    cj_error *error = cj_input_advance(task, input, true, &ready);
    if (error) return error;
    if (ready) {
      *came = true;
    } else if (best && !caught_up(input, clock)) {
      *unknown = true;
      if (input->end_clock < clock) input->want_end = true;
    }
  }
  return NULL;
}

/* All that can be known is known, and an input is empty: wait for it as long as max.task.idle.ms
 * says. True: go on without it. */
static bool idled_enough(cj_task *task, int64_t now) {
  int64_t idle_ms = task->env->setup->settings->max_task_idle_ms;
  if (idle_ms <= 0) return true;
  if (task->idle_since < 0) task->idle_since = now;
  if (now - task->idle_since >= idle_ms) return true;
  task->idle_until = task->idle_since + idle_ms;
  return false;
}

/* The input whose head is to be processed now, or NULL: nothing to do, or not yet. */
static cj_error *choose(cj_task *task, int64_t now, cj_input **chosen) {
  *chosen = NULL;
  bool waits = task->env->setup->settings->max_task_idle_ms >= 0;
  for (;;) {
    cj_input *best;
    bool empty, came, unknown;
    cj_error *error = earliest(task, &best, &empty);
    if (error || task->reposition) return error;
    if (best && !empty) {
      task->idle_since = -1;
      *chosen = best;
      return NULL;
    }
    if (!waits && best && task->polled) {
      *chosen = best;
      return NULL;
    }
    error = look_at_empty(task, best, &came, &unknown);
    if (error || task->reposition) return error;
    task->polled = true;
    if (came) continue;
    if (!best) {
      task->idle_since = -1;
      return NULL;
    }
    if (waits && unknown) return NULL;
    if (!waits || idled_enough(task, now)) *chosen = best;
    return NULL;
  }
}

/* ---- processing ---- */

void cj_input_applied(cj_input *input, const cj_fetched *record) {
  input->next = record->offset + 1;
  if (input->table < 0) return;
  input->last_offset = record->offset;
  input->last_timestamp = record->timestamp;
  input->last_key_hash = cj_hash64(record->key.data, record->key.len);
}

/* The guard: does the record lie where the declared partitioner puts its key? */
static void guard(cj_task *task, const cj_input *input, const cj_fetched *record) {
  const cj_partitioner *partitioner = input->topic->partitioner;
  int32_t count = task->env->setup->partition_counts[input->tp.topic];
  if (!record->key.data || count == 1) return;
  int32_t expected = partitioner->partition(partitioner->user, record->key, count);
  if (expected != CJ_PARTITION_ANY && expected != input->tp.partition)
    cj_counter_add(&task->env->collector->misplaced, 1);
}

/* A record that could not be processed. NULL: the policy lets the task go on behind it. */
static cj_error *failed(cj_task *task, const cj_fetched *source, cj_process_result result,
                        cj_error *error) {
  const cj_settings *settings = task->env->setup->settings;
  if (result == CJ_PROCESS_FATAL) return error;
  bool decoding = result == CJ_PROCESS_DESERIALIZE;
  cj_error_policy policy = decoding ? settings->on_deserialize : settings->on_process;
  if (policy == CJ_POLICY_FAIL) return error;
  cj_logf(&task->env->setup->log, CJ_LOG_WARN, "record skipped (%s): %s",
          decoding ? "errors.deserialize" : "errors.process", cj_error_text(error));
  cj_error *fatal = NULL;
  if (policy == CJ_POLICY_DEAD_LETTER) {
    cj_origin origin = {task->source_topic, task->partition, source->offset};
    fatal = cj_collector_dead_letter(task->env->collector, source, origin, cj_error_text(error));
  } else {
    cj_drop_reason reason = decoding ? CJ_DROP_DESERIALIZE : CJ_DROP_PROCESS;
    cj_counter_add(&task->env->counters->dropped[reason], 1);
  }
  cj_error_destroy(error);
  return fatal;
}

static cj_error *process(cj_task *task, cj_input *input) {
  const cj_fetched *source = cj_record_queue_head(&input->queue);
  cj_record record = {.key = source->key,
                      .value = source->value,
                      .timestamp = source->timestamp,
                      .topic = input->topic->name,
                      .partition = input->tp.partition,
                      .offset = source->offset,
                      .headers = &task->headers.base};
  guard(task, input, source);
  task->source = source;
  task->source_topic = input->tp.topic;
  cj_error *error = NULL;
  cj_process_result result =
      cj_processor_process(task->processor, input->tp.topic, &record, &error);
  if (result != CJ_PROCESSED) error = failed(task, source, result, error);
  if (error) return error;
  cj_input_applied(input, source);
  input->ready = false;
  cj_record_queue_pop(&input->queue);
  return NULL;
}

/* order = table_first: the tables are read to the ends that they had when the task was positioned,
 * then the streams begin. */
static bool loaded(cj_task *task) {
  for (size_t i = 0; i < task->input_count; i++) {
    const cj_input *input = &task->inputs[i];
    if (input->table < 0 || (!input->verify && cj_input_position(input) >= input->log_end))
      continue;
    if (input->eof != CJ_OFFSET_NONE && !cj_record_queue_head(&input->queue))
      task->reposition = "the log ends before the end that it had";
    return false;
  }
  return true;
}

static cj_error *process_some(cj_task *task, size_t most, int64_t now, bool *worked) {
  const cj_settings *settings = task->env->setup->settings;
  task->polled = false;
  task->idle_until = INT64_MAX;
  for (size_t i = 0; i < task->input_count; i++)
    if (task->inputs[i].ready) refill(task, &task->inputs[i]);
  for (size_t n = 0; n < most; n++) {
    /* Beyond twice its budget the overlay waits for the commit under way. */
    if (cj_collector_blocked(task->env->collector) ||
        (task->store &&
         (int64_t)cj_task_store_overlay_bytes(task->store) > 2 * settings->overlay_bytes))
      return NULL;
    cj_input *input;
    cj_error *error = choose(task, now, &input);
    if (error || !input) return error;
    error = process(task, input);
    if (error) return error;
    *worked = true;
  }
  return NULL;
}

cj_error *cj_task_work(cj_task *task, size_t most, int64_t now, bool *worked) {
  /* Its end is announced before a record is processed. */
  if (task->state == CJ_TASK_STATE_RESTORING) return cj_task_restore(task, most, worked);
  if (task->state != CJ_TASK_STATE_LOADING && task->state != CJ_TASK_STATE_RUNNING) return NULL;
  cj_error *error = process_some(task, most, now, worked);
  if (!error && task->state == CJ_TASK_STATE_LOADING && loaded(task)) {
    task->state = CJ_TASK_STATE_RUNNING;
    *worked = true;
  }
  return error;
}
