/* SPDX-License-Identifier: BSD-2-Clause */
/* The counters and gauges of a worker, for other threads: each value is read once, relaxed. */
#include "runtime/worker_internal.h"

typedef struct {
  cj_metric_fn *fn;
  void *user;
  bool go_on;
} walk;

static void tell(walk *to, cj_metric metric) {
  if (to->go_on) to->go_on = to->fn(to->user, &metric);
}

static void tell_counter(walk *to, const char *name, const char *reason, const uint64_t *counter) {
  tell(to, (cj_metric){.name = name,
                       .kind = CJ_METRIC_COUNTER,
                       .reason = reason,
                       .partition = -1,
                       .value = (int64_t)cj_counter_read(counter)});
}

static void tell_counters(walk *to, cj_worker *worker) {
  const cj_counters *counters = &worker->counters;
  tell_counter(to, "records_in", NULL, &counters->records_in);
  tell_counter(to, "table_updates", NULL, &counters->table_updates);
  tell_counter(to, "joined", NULL, &counters->joined);
  tell_counter(to, "missed", NULL, &counters->missed);
  tell_counter(to, "records_out", NULL, &counters->out);
  tell_counter(to, "out_of_order", NULL, &counters->out_of_order);
  tell_counter(to, "negative_timestamp", NULL, &counters->negative_timestamp);
  tell_counter(to, "misplaced", NULL, &worker->collector.misplaced);
  for (int reason = 0; reason < CJ_DROP_REASONS; reason++)
    tell_counter(to, "dropped", cj_drop_reason_name((cj_drop_reason)reason),
                 &counters->dropped[reason]);
}

static int64_t shown(const int64_t *value) {
  return __atomic_load_n(value, __ATOMIC_RELAXED);
}

static void tell_input(walk *to, const cj_input *input) {
  int64_t position = shown(&input->shown_position), end = shown(&input->shown_end);
  cj_metric metric = {
      .kind = CJ_METRIC_GAUGE, .topic = input->topic->name, .partition = input->tp.partition};
  metric.name = "position";
  metric.value = position;
  tell(to, metric);
  metric.name = "committed";
  metric.value = shown(&input->shown_committed);
  tell(to, metric);
  metric.name = "lag";
  metric.value = end > position ? end - position : 0;
  tell(to, metric);
  if (input->table < 0) return;
  metric.name = "restored";
  metric.value = (int64_t)__atomic_load_n(&input->restored, __ATOMIC_RELAXED);
  tell(to, metric);
}

bool cj_worker_metrics(cj_worker *worker, cj_metric_fn *fn, void *user) {
  walk to = {fn, user, true};
  tell_counters(&to, worker);
  pthread_mutex_lock(&worker->tasks_lock);
  tell(&to, (cj_metric){.name = "tasks",
                        .kind = CJ_METRIC_GAUGE,
                        .partition = -1,
                        .value = (int64_t)worker->task_count});
  for (size_t i = 0; i < worker->task_count; i++)
    for (size_t n = 0; n < worker->tasks[i]->input_count; n++)
      tell_input(&to, &worker->tasks[i]->inputs[n]);
  pthread_mutex_unlock(&worker->tasks_lock);
  return to.go_on;
}

bool cj_worker_committed(cj_worker *worker, int topic, int32_t partition, int64_t *offset) {
  bool found = false;
  pthread_mutex_lock(&worker->tasks_lock);
  for (size_t i = 0; i < worker->task_count && !found; i++)
    for (size_t n = 0; n < worker->tasks[i]->input_count && !found; n++) {
      const cj_input *input = &worker->tasks[i]->inputs[n];
      if (input->tp.topic != topic || input->tp.partition != partition) continue;
      *offset = shown(&input->shown_committed);
      found = *offset != CJ_OFFSET_NONE;
    }
  pthread_mutex_unlock(&worker->tasks_lock);
  return found;
}
