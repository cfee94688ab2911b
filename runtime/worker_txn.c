/* SPDX-License-Identifier: BSD-2-Clause */
/* Exactly once. The outputs since the last commit and the positions are one transaction; the stores
 * are written after it, so that they are never ahead of what was committed and an unclean end needs
 * no wipe (what Kafka Streams does up to KIP-892). While a transaction is being ended nothing is
 * processed: there is one at a time.
 *
 *   commit ─▶ OK                     the frozen updates go into the stores
 *          ─▶ to be aborted          abort; every task goes back to what was committed
 *          ─▶ unclear (timed out)    a new producer, whose start ends what the old one left; then
 *                                    the group is asked which of the two it became
 *          ─▶ fenced                 by the broker, which aborts what is open for longer than
 *                                    transaction.timeout.ms: as unclear. Sooner than that it was
 *                                    another one with our id: the worker ends
 *
 * librdkafka does not speak KIP-890: a commit or abort that timed out can reach the broker late and
 * hit the transaction after it, unless the producer's epoch was raised in between. Hence the new
 * producer. */
#include "runtime/worker_internal.h"

/* ---- back to what was committed ---- */

/* Every task that has worked in the transaction starts anew from its store. */
static void undo(cj_worker *worker) {
  int64_t now = cj_worker_now(worker);
  for (size_t i = 0; i < worker->task_count; i++) {
    cj_task *task = worker->tasks[i];
    if (task->state != CJ_TASK_STATE_RUNNING && task->state != CJ_TASK_STATE_LOADING) continue;
    task->reposition = "its transaction was aborted";
    cj_worker_reposition(worker, task, now);
  }
}

static bool in_cut(const cj_worker *worker) {
  for (size_t i = 0; i < worker->task_count; i++)
    if (worker->tasks[i]->in_cut) return true;
  return false;
}

static void ask(cj_worker *worker, cj_io_request_kind kind, cj_commit_phase phase) {
  worker->commit.phase = phase;
  worker->commit.id = cj_worker_submit(worker, kind, NULL, 0);
}

void cj_worker_txn_abort(cj_worker *worker) {
  undo(worker);
  worker->collector.open = false;
  cj_collector_drop(&worker->collector);
  ask(worker, CJ_REQ_TXN_ABORT, CJ_COMMIT_ABORTING);
}

/* ---- a new producer ---- */

static void renew(cj_worker *worker, int64_t now, bool unclear) {
  worker->txn.ready = false;
  worker->txn.unclear = unclear;
  worker->collector.open = false;
  cj_collector_drop(&worker->collector);
  worker->commit.phase = CJ_COMMIT_RENEWING;
  worker->commit.retry_at = now;
}

static void read_group(cj_worker *worker) {
  worker->txn.unclear = false;
  if (in_cut(worker))
    cj_worker_commit_ask(worker, CJ_REQ_COMMITTED, CJ_COMMIT_READING);
  else
    worker->commit.phase = CJ_COMMIT_IDLE;
}

bool cj_worker_txn_step(cj_worker *worker, int64_t now) {
  if (worker->commit.id || worker->phase == CJ_PHASE_LEAVING) return false;
  if (!worker->txn.ready) {
    if (worker->commit.phase == CJ_COMMIT_RENEWING && now < worker->commit.retry_at) return false;
    ask(worker, CJ_REQ_TXN_INIT, CJ_COMMIT_RENEWING);
    return true;
  }
  bool begun = worker->commit.phase == CJ_COMMIT_IDLE || worker->commit.phase == CJ_COMMIT_SETTLING;
  if (worker->collector.failed && begun) {
    cj_worker_txn_abort(worker);
    return true;
  }
  if (worker->commit.phase != CJ_COMMIT_READING || now < worker->commit.retry_at) return false;
  read_group(worker);
  return true;
}

/* ---- answers ---- */

static void fail(cj_worker *worker, const cj_io_event *event, cj_io_code code, const char *what) {
  cj_code kind = code == CJ_IO_AUTH     ? CJ_ERR_AUTH
                 : code == CJ_IO_FENCED ? CJ_ERR_FENCED
                                        : CJ_ERR_KAFKA;
  worker->commit.phase = CJ_COMMIT_IDLE;
  cj_worker_fail(worker,
                 cj_error_new(kind, worker->setup.settings->application_id, "%s: %s%s%s", what,
                              cj_io_code_name(code), *event->text ? ": " : "", event->text),
                 false);
}

static bool passes(cj_io_code code) {
  return code == CJ_IO_TIMED_OUT || code == CJ_IO_RETRIABLE;
}

/* The producer is fenced: by its own transaction's time-out? Who stood still, or was without
 * brokers for that long, goes on with a new one (what KIP-588 gave to the Java client). */
static bool timed_out(cj_worker *worker, cj_io_code code) {
  int64_t open_ms = cj_worker_now(worker) - worker->collector.opened_at;
  if (code != CJ_IO_FENCED || open_ms < worker->setup.settings->transaction_timeout_ms)
    return false;
  cj_logf(&worker->setup.log, CJ_LOG_WARN,
          "worker %d: its transaction was open for longer than transaction.timeout.ms",
          worker->setup.index);
  return true;
}

static void on_commit(cj_worker *worker, const cj_io_event *event, cj_io_code code) {
  switch (code) {
  case CJ_IO_OK:
    worker->collector.open = false;
    cj_worker_commit_done(worker);
    return;
  case CJ_IO_TIMED_OUT:
    cj_logf(&worker->setup.log, CJ_LOG_WARN,
            "worker %d: unclear whether the transaction was committed: %s", worker->setup.index,
            event->text);
    renew(worker, cj_worker_now(worker), true);
    return;
  case CJ_IO_ILLEGAL_GENERATION:
  case CJ_IO_UNKNOWN_MEMBER:
  case CJ_IO_MAX_POLL:
    worker->commit.blocked = true; /* until the group deals again */
    cj_worker_txn_abort(worker);
    return;
  case CJ_IO_ABORTABLE:
  case CJ_IO_REBALANCE:
  case CJ_IO_RETRIABLE:
    cj_logf(&worker->setup.log, CJ_LOG_INFO, "worker %d: transaction aborted: %s",
            worker->setup.index, event->text);
    cj_worker_txn_abort(worker);
    return;
  default:
    if (timed_out(worker, code))
      renew(worker, cj_worker_now(worker), true);
    else
      fail(worker, event, code, "committing a transaction");
  }
}

static void on_abort(cj_worker *worker, const cj_io_event *event, cj_io_code code) {
  worker->collector.failed = false;
  if (code == CJ_IO_OK)
    worker->commit.phase = CJ_COMMIT_IDLE;
  else if (passes(code) || code == CJ_IO_ABORTABLE || timed_out(worker, code))
    renew(worker, cj_worker_now(worker), false);
  else
    fail(worker, event, code, "aborting a transaction");
}

static void on_renewed(cj_worker *worker, const cj_io_event *event, cj_io_code code) {
  if (code == CJ_IO_OK) {
    worker->txn.ready = true;
    worker->collector.failed = false;
    worker->commit.phase = CJ_COMMIT_IDLE;
    if (worker->txn.unclear) read_group(worker);
  } else if (passes(code)) {
    worker->commit.retry_at = cj_worker_now(worker) + CJ_RETRY_MS;
  } else {
    fail(worker, event, code, "starting a transactional producer");
  }
}

static bool group_has_cut(cj_worker *worker, const cj_io_event *event) {
  for (size_t i = 0; i < event->offset_count; i++) {
    cj_task *task;
    const cj_input *input = cj_worker_input_find(worker, event->offsets[i].tp, &task);
    if (input && task->in_cut && input->cut != event->offsets[i].offset) return false;
  }
  return true;
}

static void on_read(cj_worker *worker, const cj_io_event *event, cj_io_code code) {
  if (cj_worker_ask_again(code)) {
    worker->commit.retry_at = cj_worker_now(worker) + CJ_RETRY_MS;
    return;
  }
  if (code != CJ_IO_OK) {
    fail(worker, event, code, "asking what an unclear transaction became");
    return;
  }
  bool committed = group_has_cut(worker, event);
  cj_logf(&worker->setup.log, CJ_LOG_WARN, "worker %d: the unclear transaction was %s",
          worker->setup.index, committed ? "committed" : "aborted");
  worker->commit.phase = CJ_COMMIT_IDLE;
  if (committed)
    cj_worker_commit_done(worker);
  else
    undo(worker);
}

void cj_worker_txn_on_done(cj_worker *worker, const cj_io_event *event, cj_io_code code) {
  switch (worker->commit.phase) {
  case CJ_COMMIT_ASKING:
    on_commit(worker, event, code);
    return;
  case CJ_COMMIT_ABORTING:
    on_abort(worker, event, code);
    return;
  case CJ_COMMIT_RENEWING:
    on_renewed(worker, event, code);
    return;
  case CJ_COMMIT_READING:
    on_read(worker, event, code);
    return;
  default:
    return;
  }
}
