/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the worker share. worker.c steps; worker_group.c answers the group;
 * worker_positions.c brings tasks from their store to being fetched; worker_commit.c commits;
 * worker_metrics.c shows. */
#ifndef CJ_WORKER_INTERNAL_H
#define CJ_WORKER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/task.h"

typedef enum {
  CJ_PHASE_WORKING,
  CJ_PHASE_DRAINING, /* nothing new is processed; what was is committed */
  CJ_PHASE_LEAVING,  /* the io is closing */
  CJ_PHASE_FINISHED,
} cj_phase;

typedef enum {
  CJ_COMMIT_IDLE,
  CJ_COMMIT_SETTLING, /* waits until the outputs before the cut are acknowledged */
  CJ_COMMIT_ASKING,   /* the group is asked */
  CJ_COMMIT_RETRYING, /* the same cut again, at retry_at */
  /* Exactly once (worker_txn.c): */
  CJ_COMMIT_ABORTING, /* the transaction is being aborted */
  CJ_COMMIT_RENEWING, /* a new producer is being made */
  CJ_COMMIT_READING,  /* an unclear commit: the group is asked what it has */
} cj_commit_phase;

struct cj_worker {
  cj_worker_setup setup; /* strings and counts are copies */
  cj_task_env env;
  cj_collector collector;
  cj_counters counters;

  /* The list is changed by the worker under the lock, and read by others under it. */
  pthread_mutex_t tasks_lock;
  cj_task **tasks;
  size_t task_count, task_room;
  size_t turn; /* the task that works first in the next step */

  cj_phase phase;
  int64_t phase_deadline;
  bool commit_on_exit;
  cj_error *error;
  atomic_bool stop;
  uint64_t next_id; /* of requests */

  struct {
    bool member;      /* dealt to, and not revoked since */
    bool incremental; /* the protocol is cooperative */
    bool revoking;
    int64_t revoke_deadline;
    bool assign;          /* a task waits to be fetched */
    int64_t assign_since; /* since when */
  } group;

  struct {
    uint64_t round; /* of the requests under way; 0: none */
    uint64_t committed_id, bounds_id;
    uint64_t rounds;
    size_t found; /* the task that an answer's last entry was of */
  } positions;

  struct {
    uint64_t id; /* 0: none under way */
    uint64_t clock;
    int64_t retry_at, refresh_at;
  } ends;

  struct {
    uint64_t id;
    int64_t due_at;
  } metadata;

  struct {
    cj_commit_phase phase;
    uint64_t id;
    int64_t due_at, retry_at, refresh_at;
    bool now, refresh;
    bool blocked; /* not in this generation any more */
  } commit;

  struct {
    bool on;      /* processing.guarantee = exactly_once */
    bool ready;   /* the producer is made */
    bool unclear; /* whether the cut was committed has to be read from the group */
  } txn;
};

#define CJ_RETRY_MS 100

/* ---- worker.c ---- */
/* The worker ends with this error (consumed). `commit`: what was processed before it still counts.
 */
void cj_worker_fail(cj_worker *worker, cj_error *error, bool commit);
/* Adds a request's list entry by entry, then submits it. Returns its id, or 0 after a failure. */
uint64_t cj_worker_submit(cj_worker *worker, cj_io_request_kind kind, const cj_io_offset *list,
                          size_t count);
static inline int64_t cj_worker_now(cj_worker *worker) {
  return worker->setup.io->ops->now(worker->setup.io);
}

/* ---- worker_group.c ---- */
void cj_worker_on_assign(cj_worker *worker, const cj_io_event *event);
void cj_worker_on_revoke(cj_worker *worker, const cj_io_event *event);
/* Answers a revoke whose commit has ended, or whose budget has. True if it did. */
bool cj_worker_revoke_step(cj_worker *worker, int64_t now);
/* Before the group is left: a cooperative protocol asks for what is assigned one by one. */
void cj_worker_leave_assignment(cj_worker *worker);
/* Gives every store back and forgets the tasks. */
void cj_worker_release_tasks(cj_worker *worker, bool lost);
void cj_worker_announce(cj_worker *worker, const cj_task *task, cj_task_event event, bool lost);

/* ---- worker_positions.c ---- */
bool cj_worker_positions_step(cj_worker *worker, int64_t now);
void cj_worker_on_positions(cj_worker *worker, const cj_io_event *event);
/* The input of that partition and its task; NULL: of none. */
cj_input *cj_worker_input_find(cj_worker *worker, cj_tp tp, cj_task **owner);
/* Does a question that failed so get its answer another time? */
bool cj_worker_ask_again(cj_io_code code);
/* The round under way is of a generation that is over: its answers come too late, and what was to
 * be fetched because of it is not. */
void cj_worker_positions_forget(cj_worker *worker);
bool cj_worker_ends_step(cj_worker *worker, int64_t now);
void cj_worker_on_ends(cj_worker *worker, const cj_io_event *event);
void cj_worker_reposition(cj_worker *worker, cj_task *task, int64_t now);
int64_t cj_worker_positions_deadline(const cj_worker *worker);

/* ---- worker_commit.c ---- */
bool cj_worker_commit_step(cj_worker *worker, int64_t now);
void cj_worker_on_committed(cj_worker *worker, const cj_io_event *event);
/* Is there anything that a commit would change? */
bool cj_worker_dirty(const cj_worker *worker);
/* Forgets the commit under way: whether it goes through is read from the group later. */
void cj_worker_commit_abandon(cj_worker *worker);
int64_t cj_worker_commit_deadline(const cj_worker *worker);
/* The group has the cut: into the stores. */
void cj_worker_commit_done(cj_worker *worker);
/* The inputs of the cut with their positions, for a request. */
void cj_worker_commit_ask(cj_worker *worker, cj_io_request_kind kind, cj_commit_phase phase);

/* ---- worker_txn.c: exactly once ---- */
bool cj_worker_txn_step(cj_worker *worker, int64_t now);
/* The answer to a request of the phases that are its. */
void cj_worker_txn_on_done(cj_worker *worker, const cj_io_event *event, cj_io_code code);
/* What was processed since the last commit is dropped with its transaction. */
void cj_worker_txn_abort(cj_worker *worker);

static inline int64_t cj_earlier(int64_t a, int64_t b) {
  return a < b ? a : b;
}

#endif
