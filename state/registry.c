/* SPDX-License-Identifier: BSD-2-Clause */
#include "state/registry.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <time.h>

#include "state/state_dir.h"
#include "state/task_store_internal.h"

/* How soon an open that met another owner's lock is tried again. */
#define RETRY_MS 50

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- entries ---- */

static cj_store_entry **bucket(cj_registry *self, const char *anchor, int32_t partition) {
  uint64_t hash = cj_hash64(anchor, strlen(anchor)) + (uint64_t)partition;
  return &self->buckets[hash % CJ_REGISTRY_BUCKETS];
}

static cj_store_entry *find_entry(cj_registry *self, const char *anchor, int32_t partition) {
  cj_store_entry *entry = *bucket(self, anchor, partition);
  while (entry && (entry->fingerprint->partition != partition ||
                   strcmp(entry->fingerprint->anchor, anchor) != 0))
    entry = entry->next;
  return entry;
}

static void free_entry(cj_store_entry *entry) {
  cj_fingerprint_free(entry->fingerprint);
  cj_free(entry->path);
  cj_free(entry);
}

static char *store_path(const cj_state *state, const cj_fingerprint *fingerprint) {
  cj_buf path = CJ_BUF_INIT;
  cj_buf_append_str(&path, state->path);
  cj_buf_append_str(&path, "/");
  cj_dir_append_name(&path, fingerprint->anchor);
  cj_buf_printf(&path, "-%" PRId32, fingerprint->partition);
  const char *text = cj_dir_text(&path);
  char *copy = text ? cj_strdup(text) : NULL;
  cj_buf_free(&path);
  return copy;
}

static cj_store_entry *add_entry(cj_state *state, const cj_fingerprint *fingerprint) {
  cj_store_entry *entry = cj_alloc(sizeof *entry);
  if (!entry) return NULL;
  entry->fingerprint = cj_fingerprint_copy(fingerprint);
  entry->path = store_path(state, fingerprint);
  if (!entry->fingerprint || !entry->path) {
    free_entry(entry);
    return NULL;
  }
  cj_store_entry **at = bucket(&state->registry, fingerprint->anchor, fingerprint->partition);
  entry->next = *at;
  *at = entry;
  return entry;
}

static void remove_entry(cj_registry *self, cj_store_entry *entry) {
  cj_store_entry **at = bucket(self, entry->fingerprint->anchor, entry->fingerprint->partition);
  while (*at != entry)
    at = &(*at)->next;
  *at = entry->next;
  free_entry(entry);
}

/* ---- jobs: at most one for an entry ---- */

static void enqueue(cj_registry *self, cj_store_entry *entry, int64_t due_ms) {
  /* Who works on it looks again each time it has let go of the lock. */
  if (entry->busy) return;
  if (!entry->queued) {
    cj_store_entry **at = &self->jobs;
    while (*at)
      at = &(*at)->next_job;
    *at = entry;
    entry->next_job = NULL;
    entry->due_ms = due_ms;
    entry->queued = true;
  } else if (due_ms < entry->due_ms) {
    entry->due_ms = due_ms;
  }
  pthread_cond_broadcast(&self->changed);
}

/* Takes the first job that is due off the list; NULL: none, *next_ms is when the next one is. */
static cj_store_entry *dequeue(cj_registry *self, int64_t *next_ms) {
  int64_t now = now_ms();
  *next_ms = INT64_MAX;
  for (cj_store_entry **at = &self->jobs; *at; at = &(*at)->next_job) {
    cj_store_entry *entry = *at;
    if (entry->due_ms <= now) {
      *at = entry->next_job;
      entry->queued = false;
      return entry;
    }
    if (entry->due_ms < *next_ms) *next_ms = entry->due_ms;
  }
  return NULL;
}

/* ---- tickets ---- */

static void leave_line(cj_store_ticket *ticket) {
  cj_store_entry *entry = ticket->entry;
  cj_store_ticket **at = &entry->waiting;
  while (*at && *at != ticket)
    at = &(*at)->next;
  if (*at) *at = ticket->next;
  if (entry->attempt == ticket) entry->attempt = NULL;
}

/* The lock is let go of meanwhile; the ticket's end waits for us. */
static void answer(cj_registry *self, cj_store_ticket *ticket, cj_ticket_state result) {
  leave_line(ticket);
  __atomic_store_n(&ticket->ticket_state, result, __ATOMIC_RELEASE);
  if (!ticket->wake) return;
  ticket->waking = true;
  pthread_mutex_unlock(&self->lock);
  ticket->wake(ticket->user);
  pthread_mutex_lock(&self->lock);
  ticket->waking = false;
  pthread_cond_broadcast(&self->changed);
}

static void give(cj_store_ticket *ticket) {
  cj_store_entry *entry = ticket->entry;
  entry->owned = true;
  ticket->store = entry->store;
}

static void fail(cj_registry *self, cj_store_ticket *ticket, cj_error *error) {
  ticket->error = error;
  answer(self, ticket, CJ_TICKET_FAILED);
}

/* ---- one step of an entry's life; false: nothing more to do now, *due_ms says when ---- */

static bool serve_owned(cj_state *state, cj_store_entry *entry, int64_t *due_ms) {
  for (cj_store_ticket *ticket = entry->waiting; ticket; ticket = ticket->next) {
    if (ticket->deadline_ms <= now_ms()) {
      fail(&state->registry, ticket,
           cj_error_new(CJ_ERR_STORE_LOCKED, entry->path,
                        "%s is still held by another worker of this process after %" PRId64 " ms",
                        entry->path, state->lock_wait_ms));
      return true;
    }
    if (ticket->deadline_ms < *due_ms) *due_ms = ticket->deadline_ms;
  }
  return false;
}

static bool close_store(cj_state *state, cj_store_entry *entry) {
  if (entry->pins) return false; /* the last unpin brings us back */
  cj_task_store *store = entry->store;
  entry->store = NULL;
  pthread_mutex_unlock(&state->registry.lock);
  cj_task_store_close(store);
  cj_logf(&state->log, CJ_LOG_DEBUG, "store %s: closed", entry->path);
  pthread_mutex_lock(&state->registry.lock);
  return true;
}

static bool serve_idle(cj_state *state, cj_store_entry *entry, int64_t *due_ms) {
  cj_store_ticket *ticket = entry->waiting;
  if (ticket && cj_fingerprint_equal(ticket->fingerprint, entry->fingerprint)) {
    give(ticket);
    answer(&state->registry, ticket, CJ_TICKET_READY);
    return true;
  }
  if (!ticket && !state->registry.closing && now_ms() < entry->idle_until_ms) {
    *due_ms = entry->idle_until_ms;
    return false;
  }
  return close_store(state, entry);
}

static cj_error *open_store(cj_state *state, cj_store_entry *entry, cj_task_store **store) {
  cj_kv *kv;
  cj_error *error = state->source->ops->open(state->source, entry->path, &kv);
  if (!error) error = cj_task_store_open(kv, entry->fingerprint, &state->log, store);
  if (!error) (*store)->registered = entry;
  /* The error does not point at kv, whatever may be behind the function pointer: */
  /* cppcheck-suppress returnDanglingLifetime */
  return error;
}

static cj_error *still_locked(const cj_state *state, cj_error *last) {
  cj_error *error =
      cj_error_new(CJ_ERR_STORE_LOCKED, cj_error_subject(last), "%s; waited for %" PRId64 " ms",
                   cj_error_message(last), state->lock_wait_ms);
  cj_error_destroy(last);
  return error;
}

static bool serve_closed(cj_state *state, cj_store_entry *entry, int64_t *due_ms) {
  cj_store_ticket *ticket = entry->waiting;
  if (!ticket) return false;
  cj_registry *self = &state->registry;
  cj_fingerprint *fingerprint = cj_fingerprint_copy(ticket->fingerprint);
  if (!fingerprint) {
    fail(self, ticket, cj_error_no_memory());
    return true;
  }
  cj_fingerprint_free(entry->fingerprint);
  entry->fingerprint = fingerprint;
  entry->attempt = ticket;
  cj_task_store *store = NULL;
  pthread_mutex_unlock(&self->lock);
  cj_error *error = open_store(state, entry, &store);
  pthread_mutex_lock(&self->lock);
  ticket = entry->attempt; /* NULL: given up meanwhile */
  entry->attempt = NULL;
  if (!error) {
    entry->store = store;
    entry->idle_until_ms = 0;
    return true;
  }
  if (!ticket) {
    cj_error_destroy(error);
    return true;
  }
  bool locked = cj_error_code(error) == CJ_ERR_STORE_LOCKED;
  int64_t now = now_ms();
  if (locked && now < ticket->deadline_ms) {
    cj_error_destroy(error);
    *due_ms = now + RETRY_MS < ticket->deadline_ms ? now + RETRY_MS : ticket->deadline_ms;
    return false;
  }
  fail(self, ticket, locked ? still_locked(state, error) : error);
  return true;
}

static bool step(cj_state *state, cj_store_entry *entry, int64_t *due_ms) {
  if (!entry->store) return serve_closed(state, entry, due_ms);
  if (entry->owned) return serve_owned(state, entry, due_ms);
  return serve_idle(state, entry, due_ms);
}

static void run_job(cj_state *state, cj_store_entry *entry) {
  int64_t due_ms = INT64_MAX;
  entry->busy = true;
  while (step(state, entry, &due_ms))
    due_ms = INT64_MAX;
  entry->busy = false;
  if (!entry->store && !entry->waiting)
    remove_entry(&state->registry, entry);
  else if (due_ms != INT64_MAX)
    enqueue(&state->registry, entry, due_ms);
}

/* ---- the pool ---- */

static void wait_until(cj_registry *self, int64_t deadline_ms) {
  if (deadline_ms == INT64_MAX) {
    pthread_cond_wait(&self->changed, &self->lock);
    return;
  }
  const struct timespec until = {.tv_sec = (time_t)(deadline_ms / 1000),
                                 .tv_nsec = (long)(deadline_ms % 1000) * 1000000};
  pthread_cond_timedwait(&self->changed, &self->lock, &until);
}

static void *pool_thread(void *arg) {
  cj_state *state = arg;
  cj_registry *self = &state->registry;
  pthread_mutex_lock(&self->lock);
  for (;;) {
    int64_t next_ms;
    cj_store_entry *entry = dequeue(self, &next_ms);
    if (entry)
      run_job(state, entry);
    else if (self->closing)
      break;
    else
      wait_until(self, next_ms);
  }
  pthread_mutex_unlock(&self->lock);
  return NULL;
}

bool cj_state_run_pool(cj_state *state) {
  cj_registry *self = &state->registry;
  bool any = false;
  int64_t next_ms;
  pthread_mutex_lock(&self->lock);
  for (cj_store_entry *entry; (entry = dequeue(self, &next_ms)); any = true)
    run_job(state, entry);
  pthread_mutex_unlock(&self->lock);
  return any;
}

void cj_registry_init(cj_registry *self) {
  pthread_mutex_init(&self->lock, NULL);
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&self->changed, &attr);
  pthread_condattr_destroy(&attr);
}

cj_error *cj_registry_start(cj_state *state, int threads) {
  cj_registry *self = &state->registry;
  if (!threads) return NULL;
  self->threads = cj_alloc((size_t)threads * sizeof *self->threads);
  if (!self->threads) return cj_error_no_memory();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int errnum = 0;
  while (!errnum && self->thread_count < threads) {
    errnum = pthread_create(&self->threads[self->thread_count], NULL, pool_thread, state);
    if (!errnum) self->thread_count++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return errnum ? cj_error_errno(errnum, state->path, "the threads that open stores do not start")
                : NULL;
}

/* What is left when the pool is gone: stores that a reader still has, and the caller's mistakes. */
static void close_entry(cj_state *state, cj_store_entry *entry) {
  cj_registry *self = &state->registry;
  if (entry->owned)
    cj_logf(&state->log, CJ_LOG_ERROR, "store %s: closed while a worker holds it", entry->path);
  while (entry->pins)
    pthread_cond_wait(&self->changed, &self->lock);
  if (entry->store) cj_task_store_close(entry->store);
  remove_entry(self, entry);
}

void cj_registry_finish(cj_state *state) {
  cj_registry *self = &state->registry;
  pthread_mutex_lock(&self->lock);
  self->closing = true;
  for (size_t b = 0; b < CJ_REGISTRY_BUCKETS; b++)
    for (cj_store_entry *entry = self->buckets[b]; entry; entry = entry->next)
      enqueue(self, entry, 0);
  pthread_cond_broadcast(&self->changed);
  pthread_mutex_unlock(&self->lock);
  for (int i = 0; i < self->thread_count; i++)
    pthread_join(self->threads[i], NULL);
  cj_state_run_pool(state);
  pthread_mutex_lock(&self->lock);
  for (size_t b = 0; b < CJ_REGISTRY_BUCKETS; b++)
    while (self->buckets[b])
      close_entry(state, self->buckets[b]);
  pthread_mutex_unlock(&self->lock);
  cj_free(self->threads);
  pthread_cond_destroy(&self->changed);
  pthread_mutex_destroy(&self->lock);
}

/* ---- the owner's side ---- */

static void join_line(cj_registry *self, cj_store_entry *entry, cj_store_ticket *ticket) {
  cj_store_ticket **at = &entry->waiting;
  while (*at)
    at = &(*at)->next;
  *at = ticket;
  enqueue(self, entry, 0);
}

cj_store_ticket *cj_state_acquire(cj_state *state, const cj_fingerprint *fingerprint,
                                  void (*wake)(void *user), void *user) {
  cj_registry *self = &state->registry;
  cj_store_ticket *ticket = cj_alloc(sizeof *ticket);
  if (!ticket) return NULL;
  ticket->fingerprint = cj_fingerprint_copy(fingerprint);
  ticket->state = state;
  ticket->wake = wake;
  ticket->user = user;
  ticket->deadline_ms = now_ms() + state->lock_wait_ms;
  pthread_mutex_lock(&self->lock);
  cj_store_entry *entry = NULL;
  if (ticket->fingerprint) {
    entry = find_entry(self, fingerprint->anchor, fingerprint->partition);
    if (!entry) entry = add_entry(state, fingerprint);
  }
  ticket->entry = entry;
  if (entry && entry->store && !entry->owned && !entry->waiting &&
      cj_fingerprint_equal(fingerprint, entry->fingerprint)) {
    give(ticket);
    ticket->ticket_state = CJ_TICKET_READY;
  } else if (entry) {
    join_line(self, entry, ticket);
  }
  pthread_mutex_unlock(&self->lock);
  if (entry) return ticket;
  cj_fingerprint_free(ticket->fingerprint);
  cj_free(ticket);
  return NULL;
}

cj_ticket_state cj_ticket_poll(cj_store_ticket *ticket) {
  return __atomic_load_n(&ticket->ticket_state, __ATOMIC_ACQUIRE);
}

/* Waits for a wake under way, so that `user` may go when the ticket has gone. */
static void end_ticket(cj_store_ticket *ticket, cj_task_store **store, cj_error **error) {
  cj_registry *self = &ticket->state->registry;
  pthread_mutex_lock(&self->lock);
  if (cj_ticket_poll(ticket) == CJ_TICKET_WAITING) {
    leave_line(ticket);
    enqueue(self, ticket->entry, 0);
  }
  while (ticket->waking)
    pthread_cond_wait(&self->changed, &self->lock);
  pthread_mutex_unlock(&self->lock);
  *store = ticket->store;
  *error = ticket->error;
  cj_fingerprint_free(ticket->fingerprint);
  cj_free(ticket);
}

cj_task_store *cj_ticket_take(cj_store_ticket *ticket) {
  cj_task_store *store;
  cj_error *error;
  end_ticket(ticket, &store, &error);
  cj_error_destroy(error);
  return store;
}

cj_error *cj_ticket_error(cj_store_ticket *ticket) {
  cj_task_store *store;
  cj_error *error;
  cj_state *state = ticket->state;
  end_ticket(ticket, &store, &error);
  if (store) cj_state_release(state, store);
  return error;
}

void cj_ticket_cancel(cj_store_ticket *ticket) {
  cj_error_destroy(cj_ticket_error(ticket));
}

void cj_state_release(cj_state *state, cj_task_store *store) {
  cj_registry *self = &state->registry;
  cj_store_entry *entry = store->registered;
  cj_task_store_rollback(store);
  pthread_mutex_lock(&self->lock);
  entry->owned = false;
  entry->readable = false;
  entry->idle_until_ms = now_ms() + state->idle_ms;
  enqueue(self, entry, 0);
  pthread_mutex_unlock(&self->lock);
}

/* ---- the readers' side ---- */

void cj_state_publish(cj_state *state, cj_task_store *store, bool readable) {
  cj_store_entry *entry = store->registered;
  pthread_mutex_lock(&state->registry.lock);
  entry->readable = readable;
  pthread_mutex_unlock(&state->registry.lock);
}

cj_task_store *cj_state_pin(cj_state *state, const char *anchor, int32_t partition,
                            bool *restoring) {
  cj_registry *self = &state->registry;
  cj_task_store *store = NULL;
  pthread_mutex_lock(&self->lock);
  cj_store_entry *entry = find_entry(self, anchor, partition);
  if (entry && entry->owned && entry->readable) {
    store = entry->store;
    entry->pins++;
  }
  *restoring = entry && !store && (entry->owned || entry->waiting);
  pthread_mutex_unlock(&self->lock);
  return store;
}

void cj_state_unpin(cj_state *state, cj_task_store *store) {
  cj_registry *self = &state->registry;
  cj_store_entry *entry = store->registered;
  pthread_mutex_lock(&self->lock);
  if (--entry->pins == 0) {
    pthread_cond_broadcast(&self->changed);
    if (!entry->owned) enqueue(self, entry, 0);
  }
  pthread_mutex_unlock(&self->lock);
}
