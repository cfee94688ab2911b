/* SPDX-License-Identifier: BSD-2-Clause */
/* A registry of stores on a disk in memory that counts what is opened and closed, and outlives it.
 * One for each program. */
#ifndef CJ_TEST_REGISTRY_FIXTURE_H
#define CJ_TEST_REGISTRY_FIXTURE_H

#include <pthread.h>

#include "lib/task_store_fixture.h"
#include "state/state.h"

typedef struct counting_kv {
  cj_kv kv;
  cj_kv *real;
} counting_kv;

typedef struct {
  cj_kv_source source;
  cj_kv_source *disk;
  int opened, closed;          /* atomic */
  void (*opening)(void *user); /* called in the middle of an open */
  void *user;
} counting_source;

static counting_source counting;

static inline cj_kv_read c_get(cj_kv *kv, cj_bytes key, cj_buf *out, cj_error **error) {
  cj_kv *real = ((counting_kv *)kv)->real;
  return real->ops->get(real, key, out, error);
}
static inline cj_error *c_write(cj_kv *kv, const cj_kv_batch *batch, bool bulk) {
  cj_kv *real = ((counting_kv *)kv)->real;
  return real->ops->write(real, batch, bulk);
}
static inline cj_error *c_scan(cj_kv *kv, cj_bytes prefix, cj_kv_scan_fn *fn, void *user) {
  cj_kv *real = ((counting_kv *)kv)->real;
  return real->ops->scan(real, prefix, fn, user);
}
static inline void c_close(cj_kv *kv) {
  cj_kv *real = ((counting_kv *)kv)->real;
  real->ops->close(real);
  free(kv);
  __atomic_add_fetch(&counting.closed, 1, __ATOMIC_RELAXED);
}

static inline cj_error *c_open(cj_kv_source *source, const char *path, cj_kv **kv) {
  static const cj_kv_ops ops = {.get = c_get, .write = c_write, .scan = c_scan, .close = c_close};
  counting_kv *self = calloc(1, sizeof *self);
  (void)source;
  if (counting.opening) counting.opening(counting.user);
  cj_error *error = counting.disk->ops->open(counting.disk, path, &self->real);
  if (error) {
    free(self);
    return error;
  }
  self->kv.ops = &ops;
  *kv = &self->kv;
  __atomic_add_fetch(&counting.opened, 1, __ATOMIC_RELAXED);
  return NULL;
}

static inline void c_destroy(cj_kv_source *source) {
  (void)source;
}

static inline int opened(void) {
  return __atomic_load_n(&counting.opened, __ATOMIC_RELAXED);
}

static inline int closed(void) {
  return __atomic_load_n(&counting.closed, __ATOMIC_RELAXED);
}

static inline cj_state *start(int threads, int64_t lock_wait_ms, int64_t idle_ms) {
  static const cj_kv_source_ops ops = {.open = c_open, .destroy = c_destroy};
  counting = (counting_source){.source = {.ops = &ops}, .disk = cj_kv_source_memory()};
  const cj_state_options options = {.dir = "dir",
                                    .app_id = "app",
                                    .source = &counting.source,
                                    .pool_threads = threads,
                                    .lock_wait_ms = lock_wait_ms,
                                    .idle_ms = idle_ms,
                                    .in_memory = true};
  cj_state *state;
  assert_no_error(cj_state_open(&options, &state));
  return state;
}

static inline void stop(cj_state *state) {
  cj_state_close(state);
  assert_int_equal(opened(), closed());
  counting.disk->ops->destroy(counting.disk);
}

/* Counts the calls; guarded by its own lock, for the cases with threads. */
typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t called;
  int calls;
} wake_count;

#define WAKE_COUNT_INIT                                                                            \
  { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 }

static inline void wake(void *user) {
  wake_count *count = user;
  pthread_mutex_lock(&count->lock);
  count->calls++;
  pthread_cond_broadcast(&count->called);
  pthread_mutex_unlock(&count->lock);
}

static inline void wait_for_wake(wake_count *count) {
  pthread_mutex_lock(&count->lock);
  while (!count->calls)
    pthread_cond_wait(&count->called, &count->lock);
  pthread_mutex_unlock(&count->lock);
}

static inline cj_store_ticket *ask(cj_state *state, int32_t partition, wake_count *count) {
  cj_fingerprint fingerprint = ts_fingerprint();
  fingerprint.partition = partition;
  cj_store_ticket *ticket = cj_state_acquire(state, &fingerprint, count ? wake : NULL, count);
  assert_non_null(ticket);
  return ticket;
}

static inline cj_task_store *take_now(cj_state *state, int32_t partition) {
  cj_store_ticket *ticket = ask(state, partition, NULL);
  while (cj_state_run_pool(state))
    continue;
  assert_int_equal(cj_ticket_poll(ticket), CJ_TICKET_READY);
  return cj_ticket_take(ticket);
}

static inline void run_all(cj_state *state) {
  while (cj_state_run_pool(state))
    continue;
}

#endif
