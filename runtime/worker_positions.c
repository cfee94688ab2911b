/* SPDX-License-Identifier: BSD-2-Clause */
/* From an open store to a fetched partition. One round asks the group's committed offsets, then the
 * logs' bounds (in this order: an end asked for earlier could lie before the committed offset), for
 * all tasks that wait; then everything is fetched from explicit offsets, in one assignment. */
#include <inttypes.h>

#include "runtime/worker_internal.h"

/* Under an eager protocol each assignment begins all fetching anew, so tasks that are ready wait a
 * little for those that are about to be. */
#define GATHER_MS       500
#define ENDS_REFRESH_MS 5000
#define ENDS_RETRY_MS   50

/* ---- stores ---- */

static bool take_stores(cj_worker *worker) {
  bool any = false;
  for (size_t i = 0; i < worker->task_count; i++) {
    cj_task *task = worker->tasks[i];
    cj_ticket_state state = task->ticket ? cj_ticket_poll(task->ticket) : CJ_TICKET_WAITING;
    if (state == CJ_TICKET_WAITING) continue;
    cj_store_ticket *ticket = task->ticket;
    task->ticket = NULL;
    any = true;
    if (state == CJ_TICKET_FAILED) {
      cj_worker_fail(worker, cj_ticket_error(ticket), true);
      return any;
    }
    task->store = cj_ticket_take(ticket);
    cj_state_publish(worker->setup.state, task->store, false);
    if (task->state == CJ_TASK_STATE_OPENING) task->state = CJ_TASK_STATE_POSITIONING;
  }
  return any;
}

/* ---- the round ---- */

static bool in_round(const cj_worker *worker, const cj_task *task) {
  return task->state == CJ_TASK_STATE_POSITIONING &&
         task->positions_round == worker->positions.round;
}

/* The inputs of the round's tasks; 0 entries when it has none. NULL without memory. */
static cj_io_offset *round_list(const cj_worker *worker, size_t *count) {
  size_t room = 0;
  *count = 0;
  for (size_t i = 0; i < worker->task_count; i++)
    room += worker->tasks[i]->input_count;
  cj_io_offset *list = cj_alloc((room + 1) * sizeof *list);
  if (!list) return NULL;
  for (size_t i = 0; i < worker->task_count; i++) {
    const cj_task *task = worker->tasks[i];
    for (size_t n = 0; in_round(worker, task) && n < task->input_count; n++)
      list[(*count)++] = (cj_io_offset){.tp = task->inputs[n].tp, .offset = CJ_OFFSET_NONE};
  }
  return list;
}

static uint64_t round_submit(cj_worker *worker, cj_io_request_kind kind) {
  size_t count;
  cj_io_offset *list = round_list(worker, &count);
  if (!list) {
    cj_worker_fail(worker, cj_error_no_memory(), false);
    return 0;
  }
  uint64_t id = count ? cj_worker_submit(worker, kind, list, count) : 0;
  cj_free(list);
  if (!id) worker->positions.round = 0;
  return id;
}

/* A commit under way could be answered after the group's offsets were read. */
static bool may_begin_round(const cj_worker *worker) {
  return !worker->positions.round && worker->commit.phase == CJ_COMMIT_IDLE &&
         (!worker->txn.on || worker->txn.ready);
}

static bool round_begin(cj_worker *worker, int64_t now) {
  if (!may_begin_round(worker)) return false;
  bool any = false;
  for (size_t i = 0; i < worker->task_count; i++) {
    cj_task *task = worker->tasks[i];
    if (task->state != CJ_TASK_STATE_POSITIONING || now < task->position_at) continue;
    task->positions_round = worker->positions.rounds + 1;
    any = true;
  }
  if (!any) return false;
  worker->positions.round = ++worker->positions.rounds;
  worker->positions.bounds_id = 0;
  worker->positions.committed_id = round_submit(worker, CJ_REQ_COMMITTED);
  return true;
}

/* Answers come in the order of the question, or sorted: the next entry is mostly near the last. */
cj_input *cj_worker_input_find(cj_worker *worker, cj_tp tp, cj_task **owner) {
  for (size_t i = 0; i < worker->task_count; i++) {
    size_t at = (worker->positions.found + i) % worker->task_count;
    cj_task *task = worker->tasks[at];
    for (size_t n = 0; n < task->input_count; n++) {
      if (task->inputs[n].tp.topic != tp.topic || task->inputs[n].tp.partition != tp.partition)
        continue;
      worker->positions.found = at;
      *owner = task;
      return &task->inputs[n];
    }
  }
  return NULL;
}

bool cj_worker_ask_again(cj_io_code code) {
  return code == CJ_IO_RETRIABLE || code == CJ_IO_TIMED_OUT || code == CJ_IO_REBALANCE ||
         code == CJ_IO_ILLEGAL_GENERATION || code == CJ_IO_UNKNOWN_MEMBER;
}

/* A failed answer is asked for again; it never passes for "none" or "empty" (KAFKA-20416). */
static void round_failed(cj_worker *worker, const cj_io_event *event, cj_io_code code,
                         const char *subject) {
  int64_t now = cj_worker_now(worker);
  if (!cj_worker_ask_again(code)) {
    cj_worker_fail(worker,
                   cj_error_new(code == CJ_IO_AUTH            ? CJ_ERR_AUTH
                                : code == CJ_IO_UNKNOWN_TOPIC ? CJ_ERR_TOPIC_MISSING
                                                              : CJ_ERR_KAFKA,
                                subject, "asking for its offsets: %s%s%s", cj_io_code_name(code),
                                *event->text ? ": " : "", event->text),
                   false);
  }
  for (size_t i = 0; i < worker->task_count; i++)
    if (in_round(worker, worker->tasks[i])) worker->tasks[i]->position_at = now + CJ_RETRY_MS;
  worker->positions.round = 0;
}

/* The first entry that failed; NULL when all are there. */
static const cj_io_offset *failed_entry(const cj_io_event *event) {
  for (size_t i = 0; i < event->offset_count; i++)
    if (event->offsets[i].code != CJ_IO_OK) return &event->offsets[i];
  return NULL;
}

static void position_tasks(cj_worker *worker) {
  for (size_t i = 0; i < worker->task_count; i++) {
    cj_task *task = worker->tasks[i];
    if (!in_round(worker, task)) continue;
    cj_error *error = cj_task_position(task);
    if (error) {
      cj_worker_fail(worker, error, false);
      return;
    }
    cj_task_show(task);
    if (!worker->group.assign) worker->group.assign_since = cj_worker_now(worker);
    worker->group.assign = true;
  }
}

void cj_worker_on_positions(cj_worker *worker, const cj_io_event *event) {
  bool committed = event->id == worker->positions.committed_id;
  bool bounds = event->id == worker->positions.bounds_id;
  if (!worker->positions.round || (!committed && !bounds)) return;
  const cj_io_offset *failed = failed_entry(event);
  if (event->code != CJ_IO_OK || failed) {
    const char *subject = failed ? worker->setup.plan->topics[failed->tp.topic].name
                                 : worker->setup.settings->application_id;
    round_failed(worker, event, event->code != CJ_IO_OK ? event->code : failed->code, subject);
    return;
  }
  for (size_t i = 0; i < event->offset_count; i++) {
    cj_task *task;
    cj_input *input = cj_worker_input_find(worker, event->offsets[i].tp, &task);
    if (!input || !in_round(worker, task)) continue;
    if (committed) {
      input->committed = event->offsets[i].offset;
    } else {
      input->log_start = event->offsets[i].start;
      input->log_end = event->offsets[i].offset;
    }
  }
  if (committed) {
    worker->positions.committed_id = 0;
    worker->positions.bounds_id = round_submit(worker, CJ_REQ_BOUNDS);
    return;
  }
  position_tasks(worker);
  worker->positions.round = 0;
}

void cj_worker_positions_forget(cj_worker *worker) {
  worker->positions.round = 0;
  worker->positions.committed_id = worker->positions.bounds_id = 0;
  worker->group.assign = false;
}

/* ---- fetching ---- */

static bool fetched(const cj_task *task) {
  return task->dealt &&
         (task->state == CJ_TASK_STATE_POSITIONED || task->state == CJ_TASK_STATE_RESTORING ||
          task->state == CJ_TASK_STATE_LOADING || task->state == CJ_TASK_STATE_RUNNING);
}

static bool others_are_near(const cj_worker *worker, int64_t now) {
  if (now - worker->group.assign_since >= GATHER_MS) return false;
  for (size_t i = 0; i < worker->task_count; i++) {
    const cj_task *task = worker->tasks[i];
    if (task->dealt && !fetched(task)) return true;
  }
  return false;
}

static cj_error *fetch(cj_worker *worker) {
  cj_io *io = worker->setup.io;
  bool whole = !worker->group.incremental;
  size_t room = 0, count = 0;
  for (size_t i = 0; i < worker->task_count; i++)
    room += worker->tasks[i]->input_count;
  cj_io_offset *list = cj_alloc((room + 1) * sizeof *list);
  if (!list) return cj_error_no_memory();
  cj_error *error = NULL;
  for (size_t i = 0; i < worker->task_count; i++) {
    cj_task *task = worker->tasks[i];
    if (!fetched(task) || (!whole && task->state != CJ_TASK_STATE_POSITIONED)) continue;
    for (size_t n = 0; n < task->input_count && !error; n++) {
      cj_input *input = &task->inputs[n];
      int64_t from = cj_input_fetch_from(input);
      if (!whole && task->fetching) error = io->ops->assign_remove(io, &input->tp, 1);
      list[count++] = (cj_io_offset){.tp = input->tp, .offset = from};
    }
    task->fetching = true;
    cj_task_fetching(task);
  }
  if (!error) error = (whole ? io->ops->assign : io->ops->assign_add)(io, list, count);
  cj_free(list);
  return error;
}

static bool fetch_step(cj_worker *worker, int64_t now) {
  if (!worker->group.assign || !worker->group.member || worker->group.revoking) return false;
  if (others_are_near(worker, now)) return false;
  worker->group.assign = false;
  cj_error *error = fetch(worker);
  if (error) cj_worker_fail(worker, error, false);
  return true;
}

bool cj_worker_positions_step(cj_worker *worker, int64_t now) {
  bool any = take_stores(worker);
  if (!worker->group.member || worker->group.revoking) return any;
  any = round_begin(worker, now) || any;
  return fetch_step(worker, now) || any;
}

void cj_worker_reposition(cj_worker *worker, cj_task *task, int64_t now) {
  char name[300];
  cj_task_name(task, name, sizeof name);
  cj_logf(&worker->setup.log, CJ_LOG_WARN, "worker %d: task %s is positioned anew: %s",
          worker->setup.index, name, task->reposition);
  cj_task_undo(task);
  task->reposition = NULL;
  task->announced = false;
  if (task->store) cj_state_publish(worker->setup.state, task->store, false);
  task->state = CJ_TASK_STATE_POSITIONING;
  task->position_at = now + CJ_RETRY_MS;
}

/* ---- ends ---- */

static uint64_t ends_submit(cj_worker *worker, bool all) {
  size_t room = 0, count = 0;
  for (size_t i = 0; i < worker->task_count; i++)
    room += worker->tasks[i]->input_count;
  cj_io_offset *list = cj_alloc((room + 1) * sizeof *list);
  if (!list) {
    cj_worker_fail(worker, cj_error_no_memory(), false);
    return 0;
  }
  for (size_t i = 0; i < worker->task_count; i++) {
    cj_task *task = worker->tasks[i];
    for (size_t n = 0; fetched(task) && n < task->input_count; n++) {
      if (!all && !task->inputs[n].want_end) continue;
      task->inputs[n].want_end = false;
      list[count++] = (cj_io_offset){.tp = task->inputs[n].tp};
    }
  }
  uint64_t id = count ? cj_worker_submit(worker, CJ_REQ_ENDS, list, count) : 0;
  cj_free(list);
  return id;
}

bool cj_worker_ends_step(cj_worker *worker, int64_t now) {
  if (!worker->group.member || worker->group.revoking || worker->ends.id ||
      now < worker->ends.retry_at)
    return false;
  bool all = now >= worker->ends.refresh_at;
  if (all) worker->ends.refresh_at = now + ENDS_REFRESH_MS;
  bool wanted = all;
  for (size_t i = 0; i < worker->task_count && !wanted; i++)
    for (size_t n = 0; n < worker->tasks[i]->input_count && !wanted; n++)
      wanted = worker->tasks[i]->inputs[n].want_end && fetched(worker->tasks[i]);
  if (!wanted) return false;
  worker->ends.clock = worker->env.fetch_clock;
  worker->ends.id = ends_submit(worker, all);
  return worker->ends.id != 0;
}

void cj_worker_on_ends(cj_worker *worker, const cj_io_event *event) {
  worker->ends.id = 0;
  bool failed = event->code != CJ_IO_OK;
  for (size_t i = 0; i < event->offset_count; i++) {
    cj_task *task;
    cj_input *input = cj_worker_input_find(worker, event->offsets[i].tp, &task);
    if (!input) continue;
    if (failed || event->offsets[i].code != CJ_IO_OK) {
      input->want_end = true;
      failed = true;
      continue;
    }
    input->end = event->offsets[i].offset;
    input->end_clock = worker->ends.clock;
  }
  /* An unknown end is waited for; what asked for it asks again. */
  if (failed) worker->ends.retry_at = cj_worker_now(worker) + ENDS_RETRY_MS;
}

static bool wants_end(const cj_task *task) {
  for (size_t n = 0; n < task->input_count; n++)
    if (task->inputs[n].want_end) return fetched(task);
  return false;
}

int64_t cj_worker_positions_deadline(const cj_worker *worker) {
  int64_t deadline = INT64_MAX;
  if (!worker->group.member || worker->group.revoking) return deadline;
  if (worker->group.assign) deadline = worker->group.assign_since + GATHER_MS;
  int64_t ends_at = worker->task_count ? worker->ends.refresh_at : INT64_MAX;
  bool rounds = may_begin_round(worker);
  for (size_t i = 0; i < worker->task_count; i++) {
    const cj_task *task = worker->tasks[i];
    if (rounds && task->state == CJ_TASK_STATE_POSITIONING)
      deadline = cj_earlier(deadline, task->position_at);
    if (wants_end(task)) ends_at = cj_earlier(ends_at, worker->ends.retry_at);
  }
  if (worker->ends.id) return deadline;
  return cj_earlier(deadline, ends_at > worker->ends.retry_at ? ends_at : worker->ends.retry_at);
}
