/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of an application in this process: its directory, its open stores, and the pool that
 * opens and closes them off the workers' threads.
 *
 *   STATE_DIR/APP_ID/                 held shared by each process that uses it
 *   STATE_DIR/APP_ID/process-N.lock   lock, stable id and pid of the Nth process that shares it
 *   STATE_DIR/APP_ID/ANCHOR-P/        store of the task with index P of the set with that anchor
 *
 * A store's directory always ends in its partition, so that no topic's name can meet a slot's file.
 * In both names, what is not safe in a path is written as %XX.
 *
 * A store has one owner at a time. One that is released stays open in the registry until the pool
 * gets to close it (or for idle_ms), so that another worker of the process, or the same one after a
 * rebalance, takes it as it stands.
 *
 * Threads: any, except where a call says otherwise. */
#ifndef CJ_STATE_H
#define CJ_STATE_H

#include "state/task_store.h"

typedef struct cj_state cj_state;

typedef struct {
  const char *dir;      /* state.dir; made if it is missing. NULL is fine in_memory */
  const char *app_id;   /* application.id */
  cj_kv_source *source; /* taken, also when cj_state_open fails: destroyed with the state */
  int pool_threads;     /* 0: jobs run inside cj_state_run_pool, for tests */
  int64_t lock_wait_ms; /* how long an open waits for another owner's lock */
  int64_t idle_ms;      /* how long a released store stays open; 0: until the pool gets to it */
  bool in_memory; /* no directory, no locks: paths are only names. The process id is chance, or,
                     with pool_threads 0, made from dir and app_id, the same each time */
  cj_log log;     /* called from the pool's threads too */
} cj_state_options;

/* Makes the directory, takes a process slot. CJ_ERR_SYSTEM names path and errno;
 * CJ_ERR_STORE_LOCKED: the directory is being removed by another process. */
CJ_MUST_CHECK cj_error *cj_state_open(const cj_state_options *options, cj_state **state);
/* Closes every store; all must have been released, and all tickets be gone. NULL is fine. */
void cj_state_close(cj_state *state);
/* The id that is stable for this process slot of this directory: 8 hex digits. Valid as long as the
 * state. */
const char *cj_state_process_id(const cj_state *state);

typedef struct cj_store_ticket cj_store_ticket;
typedef enum { CJ_TICKET_WAITING, CJ_TICKET_READY, CJ_TICKET_FAILED } cj_ticket_state;

/* Begins to take the store of a task. It may be ready at once. Otherwise `wake(user)` is called
 * from the pool when the ticket changes, never inside this call and never after the call that ends
 * the ticket has returned; it must not call into the state. NULL without memory. */
CJ_MUST_CHECK cj_store_ticket *cj_state_acquire(cj_state *state, const cj_fingerprint *fingerprint,
                                                void (*wake)(void *user), void *user);
cj_ticket_state cj_ticket_poll(cj_store_ticket *ticket);
/* READY: the store, owned by the caller until cj_state_release; the ticket is gone. */
cj_task_store *cj_ticket_take(cj_store_ticket *ticket);
/* FAILED: the error, the caller's; the ticket is gone. CJ_ERR_STORE_LOCKED after lock_wait_ms names
 * the path, and the process that holds it where that is known. */
cj_error *cj_ticket_error(cj_store_ticket *ticket);
/* Gives up: if the open has succeeded or still does, the store is released. The ticket is gone. */
void cj_ticket_cancel(cj_store_ticket *ticket);

/* Gives a store back. The overlays must be gone (committed or rolled back); uncommitted ones are
 * rolled back. It is closed in the pool, after the last reader, unless it is taken again before. */
void cj_state_release(cj_state *state, cj_task_store *store);

/* Readers: pins the open store of a task, if this process has it open and it was published. */
void cj_state_publish(cj_state *state, cj_task_store *store, bool readable);
cj_task_store *cj_state_pin(cj_state *state, const char *anchor, int32_t partition,
                            bool *restoring);
void cj_state_unpin(cj_state *state, cj_task_store *store);

/* With pool_threads 0: runs the jobs that are due; true if there was any. */
bool cj_state_run_pool(cj_state *state);

/* How many files the process needs for `stores` open stores beside the network's and what is open
 * already. Raises the soft limit where that is not enough. *granted is what cj_rocksdb_options may
 * get as max_open_files: at most `max_open_files` (0: no bound of the user's), but no less than
 * RocksDB takes. CJ_ERR_LIMIT carries the number needed. */
CJ_MUST_CHECK cj_error *cj_state_check_files(int stores, int max_open_files, int *granted);

/* Removes an application's directory, for `cojoin reset`. CJ_ERR_STORE_LOCKED, with dry_run too,
 * while a process uses it. Each path directly under it, then itself, is handed to fn before it
 * goes; `dry_run` does only that. A missing directory is fine: nothing is handed over. */
CJ_MUST_CHECK cj_error *cj_state_remove(const char *dir, const char *app_id, bool dry_run,
                                        void (*fn)(void *user, const char *path), void *user);

#endif
