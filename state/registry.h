/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside the state: who has which store, who waits for it, and the pool that opens and closes.
 *
 * Everything is under one lock, which is not held while the pool opens or closes a store, calls a
 * ticket's wake or logs. Each store of the process that is open, wanted or on its way has an entry;
 * a pool thread that works on one marks it busy, so that no two do. */
#ifndef CJ_REGISTRY_H
#define CJ_REGISTRY_H

#include <pthread.h>

#include "state/state.h"

/* A ticket that waits, or one that has its answer and was not collected yet. */
struct cj_store_ticket {
  cj_store_ticket *next; /* in the entry's line */
  struct cj_store_entry *entry;
  cj_state *state;
  cj_fingerprint *fingerprint;
  int64_t deadline_ms;
  void (*wake)(void *user);
  void *user;
  cj_task_store *store;
  cj_error *error;
  bool waking;                  /* the pool calls wake just now */
  cj_ticket_state ticket_state; /* atomic: poll takes no lock */
};

typedef struct cj_store_entry {
  struct cj_store_entry *next; /* of the same bucket */
  struct cj_store_entry *next_job;
  char *path;
  cj_fingerprint *fingerprint; /* that the store was, or is being, opened with */
  cj_task_store *store;        /* open, or NULL */
  cj_store_ticket *waiting;    /* first come, first served */
  cj_store_ticket *attempt;    /* the one that the open under way is for */
  int64_t due_ms;              /* of the job */
  int64_t idle_until_ms;
  int pins;
  bool owned, readable;
  bool queued, busy;
} cj_store_entry;

#define CJ_REGISTRY_BUCKETS 256

typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t changed; /* a job, the end, a pin or a wake that is done */
  cj_store_entry *buckets[CJ_REGISTRY_BUCKETS];
  cj_store_entry *jobs; /* in the order they came */
  pthread_t *threads;
  int thread_count;
  bool closing;
} cj_registry;

void cj_registry_init(cj_registry *registry);
CJ_MUST_CHECK cj_error *cj_registry_start(cj_state *state, int threads);
/* Ends the threads and closes every store. */
void cj_registry_finish(cj_state *state);

/* Deep copies. NULL without memory. */
cj_fingerprint *cj_fingerprint_copy(const cj_fingerprint *fingerprint);
void cj_fingerprint_free(cj_fingerprint *fingerprint);
bool cj_fingerprint_equal(const cj_fingerprint *a, const cj_fingerprint *b);

struct cj_state {
  cj_kv_source *source;
  cj_log log;
  char *path; /* STATE_DIR/APP_ID */
  int64_t lock_wait_ms, idle_ms;
  int dir_fd, slot_fd; /* -1 in memory */
  char process_id[9];
  cj_registry registry;
};

#endif
