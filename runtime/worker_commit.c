/* SPDX-License-Identifier: BSD-2-Clause */
/* The commit: a cut through all tasks, then three things in this order, while processing goes on
 * behind the cut:
 *
 *   1. every output before the cut is acknowledged
 *   2. the group has the positions at the cut, of all inputs, in one commit
 *   3. each store gets its updates before the cut and those positions, in one batch
 *
 * A crash between any two of them leaves a store that is behind the group: it restores forward. */
#include <inttypes.h>

#include "runtime/worker_internal.h"

/* Offsets of topics that nobody commits expire even in a live group (KIP-211). */
#define REFRESH_MS (60 * 60 * 1000)

static size_t overlay_bytes(const cj_worker *worker) {
  size_t bytes = 0;
  for (size_t i = 0; i < worker->task_count; i++)
    if (worker->tasks[i]->store) bytes += cj_task_store_overlay_bytes(worker->tasks[i]->store);
  return bytes;
}

bool cj_worker_dirty(const cj_worker *worker) {
  for (size_t i = 0; i < worker->task_count; i++)
    if (cj_task_dirty(worker->tasks[i])) return true;
  return false;
}

static bool takes_part(const cj_worker *worker, const cj_task *task) {
  return cj_task_dirty(task) || (worker->commit.refresh && (task->state == CJ_TASK_STATE_RUNNING ||
                                                            task->state == CJ_TASK_STATE_LOADING));
}

/* ---- the cut ---- */

static bool begin(cj_worker *worker, int64_t now) {
  bool any = false;
  for (size_t i = 0; i < worker->task_count; i++) {
    if (!takes_part(worker, worker->tasks[i])) continue;
    cj_task_cut(worker->tasks[i]);
    any = true;
  }
  /* Other tasks' commits do not put off the refresh of those that have nothing to commit. */
  if (worker->commit.refresh || worker->commit.refresh_at == INT64_MAX)
    worker->commit.refresh_at = now + REFRESH_MS;
  worker->commit.now = false;
  worker->commit.refresh = false;
  worker->commit.due_at = now + worker->setup.settings->commit_interval_ms;
  if (!any) return false;
  cj_collector_cut(&worker->collector);
  worker->commit.phase = CJ_COMMIT_SETTLING;
  return true;
}

void cj_worker_commit_ask(cj_worker *worker, cj_io_request_kind kind, cj_commit_phase phase) {
  size_t room = 0, count = 0;
  for (size_t i = 0; i < worker->task_count; i++)
    room += worker->tasks[i]->input_count;
  cj_io_offset *list = cj_alloc((room + 1) * sizeof *list);
  if (!list) {
    cj_worker_fail(worker, cj_error_no_memory(), false);
    return;
  }
  for (size_t i = 0; i < worker->task_count; i++) {
    const cj_task *task = worker->tasks[i];
    for (size_t n = 0; task->in_cut && n < task->input_count; n++)
      list[count++] = (cj_io_offset){.tp = task->inputs[n].tp, .offset = task->inputs[n].cut};
  }
  if (!worker->collector.open) worker->collector.opened_at = cj_worker_now(worker);
  worker->commit.phase = count ? phase : CJ_COMMIT_IDLE;
  if (count) worker->commit.id = cj_worker_submit(worker, kind, list, count);
  cj_free(list);
}

/* A transaction's commit waits for its own outputs: only those that have not been handed over are
 * waited for here. */
static bool settled(const cj_worker *worker) {
  return worker->txn.on ? !cj_collector_blocked(&worker->collector)
                        : cj_collector_settled(&worker->collector);
}

/* A commit that was given up leaves outputs behind its cut. They may be of tasks that went on, and
 * would be nobody's if another cut was made. */
static bool may_cut(const cj_worker *worker) {
  return worker->txn.on ? worker->txn.ready : cj_collector_settled(&worker->collector);
}

bool cj_worker_commit_step(cj_worker *worker, int64_t now) {
  if (worker->txn.on && cj_worker_txn_step(worker, now)) return true;
  switch (worker->commit.phase) {
  case CJ_COMMIT_IDLE:
    if (!worker->group.member || worker->commit.blocked) return false;
    if (!may_cut(worker)) return false;
    if (worker->phase == CJ_PHASE_DRAINING && !worker->commit_on_exit) return false;
    if (now >= worker->commit.refresh_at) worker->commit.refresh = true;
    if (worker->commit.now || worker->commit.refresh || now >= worker->commit.due_at ||
        worker->group.revoking || worker->phase == CJ_PHASE_DRAINING ||
        (int64_t)overlay_bytes(worker) > worker->setup.settings->overlay_bytes)
      return begin(worker, now);
    return false;
  case CJ_COMMIT_SETTLING:
    if (!settled(worker)) return false;
    cj_worker_commit_ask(worker, worker->txn.on ? CJ_REQ_TXN_COMMIT : CJ_REQ_COMMIT,
                         CJ_COMMIT_ASKING);
    return true;
  case CJ_COMMIT_RETRYING:
    if (now < worker->commit.retry_at) return false;
    cj_worker_commit_ask(worker, CJ_REQ_COMMIT, CJ_COMMIT_ASKING);
    return true;
  default:
    return false;
  }
  return false;
}

/* ---- the answer ---- */

static cj_io_code answer_code(const cj_io_event *event) {
  if (event->code != CJ_IO_OK) return event->code;
  for (size_t i = 0; i < event->offset_count; i++)
    if (event->offsets[i].code != CJ_IO_OK) return event->offsets[i].code;
  return CJ_IO_OK;
}

void cj_worker_commit_done(cj_worker *worker) {
  worker->commit.phase = CJ_COMMIT_IDLE;
  for (size_t i = 0; i < worker->task_count; i++) {
    cj_task *task = worker->tasks[i];
    if (!task->in_cut) continue;
    for (size_t n = 0; n < task->input_count && worker->collector.refused_count; n++)
      cj_collector_forget(&worker->collector, task->inputs[n].tp, task->inputs[n].cut);
    cj_error *error = cj_task_committed(task);
    if (error) {
      cj_worker_fail(worker, error, false);
      return;
    }
  }
}

/* Not in this generation any more. The updates stay uncommitted in the overlays, and are dropped
 * when the tasks are revoked; whatever the group has in the end is read from it then. */
static void not_done(cj_worker *worker, cj_io_code code) {
  cj_logf(&worker->setup.log, CJ_LOG_INFO, "worker %d: not committed: %s", worker->setup.index,
          cj_io_code_name(code));
  worker->commit.phase = CJ_COMMIT_IDLE;
  worker->commit.blocked = true;
  for (size_t i = 0; i < worker->task_count; i++) {
    if (!worker->tasks[i]->in_cut) continue;
    cj_error *error = cj_task_not_committed(worker->tasks[i]);
    if (error) {
      cj_worker_fail(worker, error, false);
      return;
    }
  }
}

void cj_worker_on_committed(cj_worker *worker, const cj_io_event *event) {
  worker->commit.id = 0;
  cj_io_code code = answer_code(event);
  if (worker->txn.on) {
    cj_worker_txn_on_done(worker, event, code);
    return;
  }
  if (worker->commit.phase != CJ_COMMIT_ASKING) return;
  switch (code) {
  case CJ_IO_OK:
    cj_worker_commit_done(worker);
    return;
  case CJ_IO_TIMED_OUT: /* the same offsets again: once more or once, it is the same commit */
  case CJ_IO_RETRIABLE:
  case CJ_IO_REBALANCE:
    worker->commit.phase = CJ_COMMIT_RETRYING;
    worker->commit.retry_at = cj_worker_now(worker) + CJ_RETRY_MS;
    return;
  case CJ_IO_ILLEGAL_GENERATION:
  case CJ_IO_UNKNOWN_MEMBER:
  case CJ_IO_MAX_POLL:
    not_done(worker, code);
    return;
  default:
    worker->commit.phase = CJ_COMMIT_IDLE;
    cj_worker_fail(worker,
                   cj_error_new(code == CJ_IO_AUTH     ? CJ_ERR_AUTH
                                : code == CJ_IO_FENCED ? CJ_ERR_FENCED
                                                       : CJ_ERR_KAFKA,
                                worker->setup.settings->application_id,
                                "committing offsets: %s%s%s", cj_io_code_name(code),
                                *event->text ? ": " : "", event->text),
                   false);
  }
}

void cj_worker_commit_abandon(cj_worker *worker) {
  if (worker->txn.on) {
    /* What is under way is waited for, whatever comes of it; its tasks are not in the cut any more.
     * What was produced and is not being committed must be aborted. */
    if (worker->commit.phase == CJ_COMMIT_SETTLING) worker->commit.phase = CJ_COMMIT_IDLE;
    if (worker->commit.phase == CJ_COMMIT_IDLE && worker->collector.open)
      cj_worker_txn_abort(worker);
    return;
  }
  worker->commit.phase = CJ_COMMIT_IDLE;
  worker->commit.id = 0;
  for (size_t i = 0; i < worker->task_count; i++) {
    if (!worker->tasks[i]->in_cut) continue;
    cj_error *error = cj_task_not_committed(worker->tasks[i]);
    if (error) cj_worker_fail(worker, error, false);
  }
}

int64_t cj_worker_commit_deadline(const cj_worker *worker) {
  if (worker->commit.phase == CJ_COMMIT_RETRYING) return worker->commit.retry_at;
  if (worker->commit.phase == CJ_COMMIT_READING && !worker->commit.id)
    return worker->commit.retry_at;
  if (worker->txn.on && !worker->txn.ready && !worker->commit.id) return worker->commit.retry_at;
  if (worker->commit.phase != CJ_COMMIT_IDLE || !worker->group.member || worker->commit.blocked ||
      !may_cut(worker))
    return INT64_MAX;
  int64_t deadline = worker->task_count ? worker->commit.refresh_at : INT64_MAX;
  return cj_worker_dirty(worker) ? cj_earlier(deadline, worker->commit.due_at) : deadline;
}
