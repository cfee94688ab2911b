/* SPDX-License-Identifier: BSD-2-Clause */
/* What the group deals becomes tasks. Only the anchor's partitions count: anchor partition p is
 * task p, with partition p of each topic of its set, whatever the assignor dealt for the others. So
 * a task is whole, and co-location holds by construction. */
#include <inttypes.h>

#include "runtime/worker_internal.h"

void cj_worker_announce(cj_worker *worker, const cj_task *task, cj_task_event event, bool lost) {
  static const char *const names[] = {[CJ_TASK_ASSIGNED] = "assigned",
                                      [CJ_TASK_RUNNING] = "running",
                                      [CJ_TASK_SUSPENDED] = "suspended",
                                      [CJ_TASK_CLOSED] = "closed"};
  char name[300];
  cj_task_name(task, name, sizeof name);
  cj_logf(&worker->setup.log, CJ_LOG_INFO, "worker %d: task %s %s%s", worker->setup.index, name,
          names[event], lost ? " (lost)" : "");
  if (!worker->setup.on_rebalance) return;
  const cj_rebalance rebalance = {.event = event,
                                  .worker = worker->setup.index,
                                  .group = task->group,
                                  .partition = task->partition,
                                  .lost = lost};
  worker->setup.on_rebalance(worker->setup.user, &rebalance);
}

/* ---- the list ---- */

static void task_release(cj_worker *worker, cj_task *task, bool lost) {
  if (task->ticket) cj_ticket_cancel(task->ticket);
  task->ticket = NULL;
  if (task->store) {
    cj_task_rollback(task);
    cj_state_release(worker->setup.state, task->store);
    task->store = NULL;
  }
  cj_worker_announce(worker, task, CJ_TASK_CLOSED, lost);
  cj_task_destroy(task);
}

static void task_remove(cj_worker *worker, size_t i, bool lost) {
  cj_task *task = worker->tasks[i];
  pthread_mutex_lock(&worker->tasks_lock);
  worker->tasks[i] = worker->tasks[--worker->task_count];
  pthread_mutex_unlock(&worker->tasks_lock);
  task_release(worker, task, lost);
}

void cj_worker_release_tasks(cj_worker *worker, bool lost) {
  while (worker->task_count)
    task_remove(worker, worker->task_count - 1, lost);
}

static cj_error *task_add(cj_worker *worker, cj_task *task) {
  cj_error *error = NULL;
  pthread_mutex_lock(&worker->tasks_lock);
  if (worker->task_count == worker->task_room) {
    size_t room = worker->task_room ? 2 * worker->task_room : 16;
    cj_task **tasks = cj_realloc(worker->tasks, room * sizeof(*tasks));
    if (tasks) {
      worker->tasks = tasks;
      worker->task_room = room;
    } else {
      error = cj_error_no_memory();
    }
  }
  if (!error) worker->tasks[worker->task_count++] = task;
  pthread_mutex_unlock(&worker->tasks_lock);
  return error;
}

static cj_task *task_find(cj_worker *worker, int group, int32_t partition) {
  for (size_t i = 0; i < worker->task_count; i++)
    if (worker->tasks[i]->group == group && worker->tasks[i]->partition == partition)
      return worker->tasks[i];
  return NULL;
}

static void wake_worker(void *user) {
  cj_io *io = user;
  io->ops->wake(io);
}

/* The store is asked for at once: it opens in the pool. A set without tables needs none. */
static cj_error *store_acquire(cj_worker *worker, cj_task *task) {
  size_t tables = worker->setup.plan->groups[task->group].table_count;
  if (!tables) {
    task->state = CJ_TASK_STATE_POSITIONING;
    return NULL;
  }
  const char **names = cj_alloc(tables * sizeof *names);
  if (!names) return cj_error_no_memory();
  cj_fingerprint fingerprint = cj_task_fingerprint(task, names, tables);
  task->ticket = cj_state_acquire(worker->setup.state, &fingerprint, wake_worker, worker->setup.io);
  cj_free(names);
  return task->ticket ? NULL : cj_error_no_memory();
}
static cj_error *task_open(cj_worker *worker, int group, int32_t partition) {
  cj_task *task;
  cj_error *error = cj_task_new(&worker->env, group, partition, &task);
  if (error) return error;
  error = store_acquire(worker, task);
  if (!error) error = task_add(worker, task);
  if (error) {
    if (task->ticket) cj_ticket_cancel(task->ticket);
    cj_task_destroy(task);
    return error;
  }
  task->dealt = true;
  cj_worker_announce(worker, task, CJ_TASK_ASSIGNED, false);
  return NULL;
}

/* ---- assign ---- */

static void suspend(cj_worker *worker, cj_task *task, bool lost) {
  cj_task_undo(task);
  if (task->store) cj_state_publish(worker->setup.state, task->store, false);
  task->state = CJ_TASK_STATE_SUSPENDED;
  task->announced = false;
  task->reposition = NULL;
  cj_worker_announce(worker, task, CJ_TASK_SUSPENDED, lost);
}

static int anchored_group(const cj_worker *worker, int32_t topic) {
  for (size_t g = 0; g < worker->setup.plan->group_count; g++)
    if (worker->env.anchors[g] == topic) return (int)g;
  return -1;
}

/* A suspended task that comes back is positioned anew: where its store and the group agree there is
 * nothing to restore, where they do not (a commit that did not go through) it starts from its
 * store. */
static cj_error *take(cj_worker *worker, int group, int32_t partition) {
  if (partition >= worker->setup.partition_counts[worker->env.anchors[group]])
    return cj_error_new(CJ_ERR_PARTITIONS_CHANGED,
                        worker->setup.plan->topics[worker->env.anchors[group]].name,
                        "partition %" PRId32 " was dealt, but it had %" PRId32
                        " partitions at the start: stop, bring every joined topic to one count, "
                        "rewrite the tables and start anew",
                        partition, worker->setup.partition_counts[worker->env.anchors[group]]);
  cj_task *task = task_find(worker, group, partition);
  if (!task) return task_open(worker, group, partition);
  if (task->dealt) return NULL;
  task->dealt = true;
  task->state = task->ticket ? CJ_TASK_STATE_OPENING : CJ_TASK_STATE_POSITIONING;
  task->position_at = 0;
  cj_worker_announce(worker, task, CJ_TASK_ASSIGNED, false);
  return NULL;
}

static void close_not_dealt(cj_worker *worker) {
  for (size_t i = worker->task_count; i-- > 0;)
    if (!worker->tasks[i]->dealt) task_remove(worker, i, false);
}

/* Eager: what an assignment does not give is not ours, and a task starts from its store. Tasks are
 * suspended by then, unless no revoke came before it. */
static void begin_generation(cj_worker *worker) {
  cj_worker_positions_forget(worker);
  for (size_t i = 0; i < worker->task_count; i++) {
    cj_task *task = worker->tasks[i];
    task->dealt = false;
    if (task->state == CJ_TASK_STATE_SUSPENDED) continue;
    cj_worker_commit_abandon(worker);
    suspend(worker, task, false);
  }
}

void cj_worker_on_assign(cj_worker *worker, const cj_io_event *event) {
  cj_io *io = worker->setup.io;
  worker->group.incremental = event->incremental;
  cj_error *error = NULL;
  if (worker->phase == CJ_PHASE_WORKING) {
    worker->group.member = true;
    worker->commit.blocked = false;
    if (!event->incremental) begin_generation(worker);
    for (size_t i = 0; i < event->count && !error; i++) {
      int group = anchored_group(worker, event->list[i].topic);
      if (group >= 0) error = take(worker, group, event->list[i].partition);
    }
    close_not_dealt(worker);
  }
  /* The rebalance is answered at once, by nothing: partitions are fetched when their stores are
   * open and their positions known, which must not hold up the group. */
  cj_error *answer =
      event->incremental ? io->ops->assign_add(io, NULL, 0) : io->ops->assign(io, NULL, 0);
  if (error) cj_worker_fail(worker, error, false);
  if (answer)
    cj_worker_fail(worker, answer, false);
  else if (worker->setup.on_assigned && worker->phase == CJ_PHASE_WORKING)
    worker->setup.on_assigned(worker->setup.user, worker->setup.index);
}

/* ---- revoke ---- */

static bool leaves(const cj_task *task) {
  return !task->dealt && task->state != CJ_TASK_STATE_SUSPENDED;
}

/* Cooperative: takes the inputs of the tasks that go out of the assignment, in one call, which
 * answers a revoke: librdkafka goes on with the rebalance at the first. */
static cj_error *unassign(cj_worker *worker, bool (*goes)(const cj_task *task)) {
  cj_io *io = worker->setup.io;
  size_t room = 0, count = 0;
  for (size_t i = 0; i < worker->task_count; i++)
    room += worker->tasks[i]->input_count;
  cj_tp *list = cj_alloc((room + 1) * sizeof *list);
  if (!list) return cj_error_no_memory();
  for (size_t i = 0; i < worker->task_count; i++) {
    cj_task *task = worker->tasks[i];
    if (!task->fetching || !goes(task)) continue;
    for (size_t n = 0; n < task->input_count; n++) {
      cj_record_queue_clear(&task->inputs[n].queue);
      list[count++] = task->inputs[n].tp;
    }
    task->fetching = false;
  }
  cj_error *error = io->ops->assign_remove(io, list, count);
  cj_free(list);
  return error;
}

static void mark_leaving(cj_worker *worker, const cj_io_event *event) {
  for (size_t i = 0; i < worker->task_count; i++) {
    cj_task *task = worker->tasks[i];
    bool named = !event->incremental;
    for (size_t n = 0; n < event->count && !named; n++)
      named = event->list[n].topic == worker->env.anchors[task->group] &&
              event->list[n].partition == task->partition;
    if (named) task->dealt = false;
  }
}

/* Answers the revoke. Eager: every task is suspended, its store stays open until the next
 * assignment says whether it comes back. Cooperative, or lost: what leaves is closed. */
static void finish_revoke(cj_worker *worker, bool lost) {
  cj_io *io = worker->setup.io;
  bool eager = !worker->group.incremental;
  worker->group.revoking = false;
  worker->commit.blocked = worker->commit.blocked || lost;
  cj_worker_commit_abandon(worker);
  cj_error *error = NULL;
  if (!eager) error = unassign(worker, leaves);
  for (size_t i = worker->task_count; i-- > 0;) {
    cj_task *task = worker->tasks[i];
    if (!leaves(task)) continue;
    if (eager && !lost)
      suspend(worker, task, lost);
    else
      task_remove(worker, i, lost);
  }
  if (eager) {
    worker->group.member = false;
    for (size_t i = 0; i < worker->task_count; i++)
      worker->tasks[i]->fetching = false;
    error = io->ops->assign(io, NULL, 0);
  }
  if (error) cj_worker_fail(worker, error, false);
}

static bool leaving_dirty(const cj_worker *worker) {
  for (size_t i = 0; i < worker->task_count; i++)
    if (leaves(worker->tasks[i]) && cj_task_dirty(worker->tasks[i])) return true;
  return false;
}

void cj_worker_on_revoke(cj_worker *worker, const cj_io_event *event) {
  worker->group.incremental = event->incremental;
  mark_leaving(worker, event);
  if (event->lost || worker->phase == CJ_PHASE_LEAVING) {
    finish_revoke(worker, event->lost);
    return;
  }
  worker->group.revoking = true;
  worker->group.revoke_deadline = cj_worker_now(worker) + worker->setup.settings->revoke_timeout_ms;
  worker->commit.now = true;
}

static bool any(const cj_task *task) {
  (void)task;
  return true;
}

void cj_worker_leave_assignment(cj_worker *worker) {
  if (!worker->group.incremental || !worker->task_count) return;
  cj_error_destroy(unassign(worker, any)); /* the group is left anyway */
}

bool cj_worker_revoke_step(cj_worker *worker, int64_t now) {
  if (!worker->group.revoking) return false;
  bool over = now >= worker->group.revoke_deadline;
  bool dirty = worker->txn.on ? cj_worker_dirty(worker) : leaving_dirty(worker);
  bool under_way =
      worker->commit.phase != CJ_COMMIT_IDLE && worker->commit.phase != CJ_COMMIT_RENEWING;
  bool waits = under_way || (dirty && !worker->commit.blocked);
  if (waits && !over) return false;
  if (waits)
    cj_logf(
        &worker->setup.log, CJ_LOG_WARN,
        "worker %d: the last commit took longer than revoke.timeout.ms: uncommitted updates are "
        "dropped, their records are processed again by the next owner",
        worker->setup.index);
  finish_revoke(worker, false);
  return true;
}
