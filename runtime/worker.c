/* SPDX-License-Identifier: BSD-2-Clause */
#include "runtime/worker_internal.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/stamp.h"

#define EVENTS_A_STEP  64
#define RECORDS_A_STEP 512 /* of one task */
#define METADATA_MS    10000
#define LEAVE_MS       10000

/* ---- making ---- */

static cj_error *copy_setup(cj_worker *worker, const cj_worker_setup *setup) {
  size_t counts = setup->plan->topic_count + (*setup->settings->dead_letter_topic ? 1 : 0);
  int32_t *partition_counts = cj_alloc(counts * sizeof *partition_counts);
  int *anchors = cj_alloc((setup->plan->group_count + 1) * sizeof *anchors);
  char *cluster_id = cj_strdup(setup->cluster_id);
  worker->setup = *setup;
  worker->setup.partition_counts = partition_counts;
  worker->setup.cluster_id = cluster_id;
  worker->env.anchors = anchors;
  if (!partition_counts || !anchors || !cluster_id) return cj_error_no_memory();
  memcpy(partition_counts, setup->partition_counts, counts * sizeof *partition_counts);
  for (size_t g = 0; g < setup->plan->group_count; g++)
    anchors[g] = cj_stamp_anchor_counted(setup->plan, g, setup->settings, partition_counts);
  return NULL;
}

cj_error *cj_worker_new(const cj_worker_setup *setup, cj_worker **out) {
  *out = NULL;
  cj_worker *worker = cj_alloc(sizeof *worker);
  if (!worker) return cj_error_no_memory();
  pthread_mutex_init(&worker->tasks_lock, NULL);
  atomic_init(&worker->stop, false);
  worker->phase_deadline = INT64_MAX;
  cj_error *error = copy_setup(worker, setup);
  worker->env.setup = &worker->setup;
  worker->env.collector = &worker->collector;
  worker->env.counters = &worker->counters;
  worker->collector = (cj_collector){.io = setup->io,
                                     .plan = setup->plan,
                                     .settings = setup->settings,
                                     .partition_counts = worker->setup.partition_counts,
                                     .log = &worker->setup.log,
                                     .counters = &worker->counters};
  cj_collector_init(&worker->collector);
  if (!error) {
    int64_t now = cj_worker_now(worker);
    worker->commit.due_at = now + setup->settings->commit_interval_ms;
    worker->commit.refresh_at = INT64_MAX;
    worker->txn.on = setup->settings->guarantee == CJ_EXACTLY_ONCE;
    worker->metadata.due_at = setup->index == 0 ? now + METADATA_MS : INT64_MAX;
    error = setup->io->ops->subscribe(setup->io);
  }
  if (error) {
    cj_worker_destroy(worker);
    return error;
  }
  *out = worker;
  return NULL;
}

void cj_worker_destroy(cj_worker *worker) {
  if (!worker) return;
  cj_worker_release_tasks(worker, true);
  cj_collector_free(&worker->collector);
  cj_chunk_pool_free(&worker->env.chunks);
  cj_error_destroy(worker->error);
  pthread_mutex_destroy(&worker->tasks_lock);
  cj_free(worker->tasks);
  cj_free((void *)worker->setup.partition_counts);
  cj_free((void *)worker->setup.cluster_id);
  cj_free((void *)worker->env.anchors);
  cj_free(worker);
}

/* ---- ending ---- */

void cj_worker_stop(cj_worker *worker) {
  atomic_store(&worker->stop, true);
  worker->setup.io->ops->wake(worker->setup.io);
}

static void drain(cj_worker *worker, bool commit) {
  if (worker->phase != CJ_PHASE_WORKING) {
    worker->commit_on_exit = worker->commit_on_exit && commit;
    return;
  }
  worker->phase = CJ_PHASE_DRAINING;
  worker->commit_on_exit = commit;
  worker->phase_deadline = cj_worker_now(worker) + worker->setup.settings->shutdown_timeout_ms;
}

void cj_worker_fail(cj_worker *worker, cj_error *error, bool commit) {
  if (worker->error) {
    cj_error_destroy(error);
  } else {
    worker->error = error;
    cj_logf(&worker->setup.log, CJ_LOG_ERROR, "worker %d ends: %s", worker->setup.index,
            cj_error_text(error));
  }
  drain(worker, commit);
}

const cj_error *cj_worker_error(const cj_worker *worker) {
  return worker->error;
}

/* Drained, or out of time: the stores are given back before the group is left, so that the next
 * owner on this host finds them free. */
static void leave(cj_worker *worker, int64_t now) {
  if (worker->commit_on_exit && cj_worker_dirty(worker) && worker->group.member)
    cj_logf(&worker->setup.log, CJ_LOG_WARN,
            "worker %d leaves without its last commit: it took longer than shutdown.timeout.ms",
            worker->setup.index);
  worker->commit.phase = CJ_COMMIT_IDLE;
  worker->commit.id = 0;
  worker->collector.open = false; /* the io aborts what is open */
  cj_worker_leave_assignment(worker);
  cj_worker_release_tasks(worker, false);
  worker->phase = CJ_PHASE_LEAVING;
  worker->phase_deadline = now + LEAVE_MS;
  worker->setup.io->ops->close(worker->setup.io);
}

static bool phase_step(cj_worker *worker, int64_t now) {
  if (worker->phase == CJ_PHASE_WORKING && atomic_load(&worker->stop)) drain(worker, true);
  if (worker->collector.error) {
    cj_error *error = worker->collector.error;
    worker->collector.error = NULL;
    cj_worker_fail(worker, error,
                   false); /* nothing is committed past an output that is not there */
  }
  if (worker->phase == CJ_PHASE_DRAINING) {
    bool clean = worker->commit.phase == CJ_COMMIT_IDLE && !cj_worker_dirty(worker);
    if (clean || !worker->commit_on_exit || !worker->group.member || worker->commit.blocked ||
        now >= worker->phase_deadline) {
      leave(worker, now);
      return true;
    }
  }
  if (worker->phase == CJ_PHASE_LEAVING && now >= worker->phase_deadline) {
    cj_logf(&worker->setup.log, CJ_LOG_WARN, "worker %d: the group was not left in time",
            worker->setup.index);
    worker->phase = CJ_PHASE_FINISHED;
  }
  return false;
}

/* ---- events ---- */

uint64_t cj_worker_submit(cj_worker *worker, cj_io_request_kind kind, const cj_io_offset *list,
                          size_t count) {
  const cj_io_request request = {.id = ++worker->next_id,
                                 .kind = kind,
                                 .list = list,
                                 .count = count,
                                 .timeout_ms = worker->setup.settings->request_timeout_ms};
  cj_error *error = worker->setup.io->ops->submit(worker->setup.io, &request);
  if (!error) return request.id;
  cj_worker_fail(worker, error, false);
  return 0;
}

static void on_metadata(cj_worker *worker, const cj_io_event *event) {
  const cj_plan *plan = worker->setup.plan;
  worker->metadata.id = 0;
  worker->metadata.due_at = cj_worker_now(worker) + METADATA_MS;
  for (size_t i = 0; event->code == CJ_IO_OK && i < event->topic_count; i++) {
    const cj_io_topic *topic = &event->topics[i];
    int index = cj_plan_find_topic(plan, topic->name);
    if (index < 0 || topic->code != CJ_IO_OK) continue;
    int32_t count = worker->setup.partition_counts[index];
    if (topic->partitions == count) continue;
    cj_worker_fail(worker,
                   cj_error_new(CJ_ERR_PARTITIONS_CHANGED, topic->name,
                                "has %" PRId32 " partitions now, had %" PRId32
                                " at the start: keys lie elsewhere from here on; stop, bring every "
                                "joined topic to one count, rewrite the tables and start anew",
                                topic->partitions, count),
                   true);
    return;
  }
}

static void on_done(cj_worker *worker, const cj_io_event *event) {
  if (event->id == worker->commit.id)
    cj_worker_on_committed(worker, event);
  else if (event->id == worker->ends.id)
    cj_worker_on_ends(worker, event);
  else if (event->id == worker->metadata.id)
    on_metadata(worker, event);
  else
    cj_worker_on_positions(worker, event);
}

static cj_code code_of(cj_io_code code) {
  if (code == CJ_IO_AUTH) return CJ_ERR_AUTH;
  if (code == CJ_IO_FENCED) return CJ_ERR_FENCED;
  if (code == CJ_IO_INCONSISTENT_GROUP) return CJ_ERR_ASSIGNMENT;
  return CJ_ERR_KAFKA;
}

static void on_error(cj_worker *worker, const cj_io_event *event) {
  bool ends = event->fatal || event->code == CJ_IO_AUTH || event->code == CJ_IO_FENCED ||
              event->code == CJ_IO_INCONSISTENT_GROUP;
  if (!ends) {
    cj_logf(&worker->setup.log, event->code == CJ_IO_RETRIABLE ? CJ_LOG_INFO : CJ_LOG_WARN,
            "worker %d: %s: %s", worker->setup.index, cj_io_code_name(event->code), event->text);
    return;
  }
  cj_worker_fail(worker,
                 cj_error_new(code_of(event->code), worker->setup.settings->application_id,
                              "worker %d: %s: %s", worker->setup.index,
                              cj_io_code_name(event->code), event->text),
                 false);
}

static void on_event(cj_worker *worker, const cj_io_event *event) {
  switch (event->kind) {
  case CJ_EV_ASSIGN:
    cj_worker_on_assign(worker, event);
    break;
  case CJ_EV_REVOKE:
    cj_worker_on_revoke(worker, event);
    break;
  case CJ_EV_DELIVERED:
    cj_collector_delivered(&worker->collector, event->deliveries, event->delivery_count);
    break;
  case CJ_EV_DONE:
    on_done(worker, event);
    break;
  case CJ_EV_ERROR:
    on_error(worker, event);
    break;
  case CJ_EV_CLOSED:
    worker->phase = CJ_PHASE_FINISHED;
    break;
  case CJ_EV_NONE:
    break;
  }
}

static bool poll_events(cj_worker *worker) {
  cj_io *io = worker->setup.io;
  cj_io_event event;
  bool any = false;
  for (int i = 0; i < EVENTS_A_STEP && worker->phase != CJ_PHASE_FINISHED; i++) {
    event = (cj_io_event){.kind = CJ_EV_NONE};
    if (!io->ops->poll(io, &event)) break;
    on_event(worker, &event);
    any = true;
  }
  return any;
}

/* ---- a step ---- */

static bool metadata_step(cj_worker *worker, int64_t now) {
  if (worker->metadata.id || now < worker->metadata.due_at) return false;
  worker->metadata.due_at = INT64_MAX;
  worker->metadata.id = cj_worker_submit(worker, CJ_REQ_METADATA, NULL, 0);
  return true;
}

/* In a generation that is over, whatever is done would be done again by another. */
static bool may_work(const cj_worker *worker) {
  if (!worker->group.member || worker->group.revoking || worker->commit.blocked) return false;
  return !worker->txn.on || (worker->txn.ready && worker->commit.phase == CJ_COMMIT_IDLE);
}

/* The failed record stays unprocessed, what came before it is committed; not so a transaction,
 * which may hold outputs that it made before it failed. */
static bool work(cj_worker *worker, int64_t now) {
  bool worked = false;
  for (size_t i = 0; i < worker->task_count; i++) {
    if (worker->phase != CJ_PHASE_WORKING || !may_work(worker)) break; /* ended by a task before */
    cj_task *task = worker->tasks[(worker->turn + i) % worker->task_count];
    cj_error *error = cj_task_work(task, RECORDS_A_STEP, now, &worked);
    if (error) {
      cj_code code = cj_error_code(error);
      bool record = code == CJ_ERR_PROCESS || code == CJ_ERR_DESERIALIZE;
      cj_worker_fail(worker, error, record && !worker->txn.on);
    } else if (task->reposition) {
      /* What it has put into the open transaction would come twice. */
      bool abort = worker->txn.on && worker->collector.open && cj_task_dirty(task);
      cj_worker_reposition(worker, task, now);
      if (abort) cj_worker_txn_abort(worker);
      worked = true;
    } else if (task->state == CJ_TASK_STATE_RUNNING && !task->announced) {
      task->announced = true;
      if (task->store) cj_state_publish(worker->setup.state, task->store, true);
      cj_worker_announce(worker, task, CJ_TASK_RUNNING, false);
    }
    cj_task_show(task);
  }
  worker->turn++;
  return worked;
}

/* Only what a step would act on then: a moment that has passed, and that nothing is done at, lets
 * the thread spin. */
static int64_t next_deadline(const cj_worker *worker) {
  int64_t deadline = worker->phase_deadline;
  if (worker->phase == CJ_PHASE_LEAVING) return deadline;
  deadline = cj_earlier(deadline, cj_worker_commit_deadline(worker));
  if (worker->group.revoking) deadline = cj_earlier(deadline, worker->group.revoke_deadline);
  if (worker->phase != CJ_PHASE_WORKING) return deadline;
  deadline = cj_earlier(deadline, worker->metadata.due_at);
  deadline = cj_earlier(deadline, cj_worker_positions_deadline(worker));
  for (size_t i = 0; i < worker->task_count && may_work(worker); i++)
    if (worker->tasks[i]->state == CJ_TASK_STATE_RUNNING)
      deadline = cj_earlier(deadline, worker->tasks[i]->idle_until);
  return deadline;
}

cj_step cj_worker_step(cj_worker *worker, int64_t *deadline) {
  if (worker->phase == CJ_PHASE_FINISHED) return CJ_STEP_FINISHED;
  cj_phase before = worker->phase;
  bool worked = cj_collector_retry(&worker->collector);
  worked = poll_events(worker) || worked;
  int64_t now = cj_worker_now(worker);
  worked = phase_step(worker, now) || worked;
  if (worker->phase == CJ_PHASE_FINISHED) return CJ_STEP_FINISHED;
  if (worker->phase == CJ_PHASE_WORKING) {
    worked = cj_worker_positions_step(worker, now) || worked;
    worked = work(worker, now) || worked;
    worked = cj_worker_ends_step(worker, now) || worked;
    worked = metadata_step(worker, now) || worked;
  }
  if (worker->phase != CJ_PHASE_LEAVING) worked = cj_worker_commit_step(worker, now) || worked;
  worked = cj_worker_revoke_step(worker, now) || worked;
  /* What has failed in this step is acted upon in the next. */
  if (worked || worker->phase != before || worker->collector.error) return CJ_STEP_WORKED;
  *deadline = next_deadline(worker);
  return CJ_STEP_IDLE;
}

void cj_worker_commit(cj_worker *worker) {
  worker->commit.now = true;
}

bool cj_worker_owns(const cj_worker *worker, int group, int32_t partition, bool *running) {
  for (size_t i = 0; i < worker->task_count; i++) {
    const cj_task *task = worker->tasks[i];
    if (task->group != group || task->partition != partition || !task->dealt) continue;
    if (running) *running = task->state == CJ_TASK_STATE_RUNNING;
    return worker->group.member;
  }
  return false;
}
