/* SPDX-License-Identifier: BSD-2-Clause */
/* The registry of stores with its pool's threads, workers and readers at the same time. */
#include <sched.h>

#include "lib/registry_fixture.h"

static cj_task_store *take_waiting(cj_state *state, int32_t partition) {
  wake_count count = WAKE_COUNT_INIT;
  cj_store_ticket *ticket = ask(state, partition, &count);
  if (cj_ticket_poll(ticket) == CJ_TICKET_WAITING) wait_for_wake(&count);
  return cj_ticket_take(ticket);
}

/* Case 62: the holder goes while we wait. */
static void a_lock_that_goes_is_waited_for(void **unused) {
  (void)unused;
  cj_state *state = start(2, 60000, 0);
  cj_kv *holder;
  assert_no_error(counting.disk->ops->open(counting.disk, "dir/app/notif-3", &holder));
  wake_count count = WAKE_COUNT_INIT;
  cj_store_ticket *ticket = ask(state, 3, &count);
  assert_int_equal(cj_ticket_poll(ticket), CJ_TICKET_WAITING);
  holder->ops->close(holder);
  wait_for_wake(&count);
  assert_int_equal(cj_ticket_poll(ticket), CJ_TICKET_READY);
  cj_state_release(state, cj_ticket_take(ticket));
  stop(state);
}

/* Case 62: revoked during restore and assigned again at once, ten times, with a reader beside it.
 */
static void a_store_goes_back_and_forth(void **unused) {
  (void)unused;
  cj_state *state = start(2, 60000, 0);
  for (int i = 0; i < 10; i++) {
    cj_task_store *store = take_waiting(state, 3);
    assert_non_null(store);
    cj_state_publish(state, store, true);
    bool restoring;
    cj_task_store *pinned = cj_state_pin(state, "notif", 3, &restoring);
    assert_ptr_equal(pinned, store);
    assert_no_error(cj_task_store_restore(store, PRICE, cj_bytes_str("k"), cj_bytes_str("v"), 1));
    cj_state_release(state, store);
    cj_ticket_cancel(ask(state, 3, NULL));
    cj_state_unpin(state, pinned);
  }
  stop(state);
}

enum { WORKERS = 4, PARTITIONS = 3, ROUNDS = 150 };

typedef struct {
  cj_state *state;
  unsigned random;
  int *owners; /* of each partition, shared, atomic: one at most */
  int wrong, done;
} worker;

static unsigned draw(worker *w, unsigned n) {
  w->random = w->random * 1103515245u + 12345u;
  return (w->random >> 16) % n;
}

static void own_for_a_while(worker *w, cj_task_store *store, int32_t p) {
  if (__atomic_add_fetch(&w->owners[p], 1, __ATOMIC_SEQ_CST) != 1) w->wrong++;
  cj_state_publish(w->state, store, true);
  int64_t next = cj_task_store_position(store, PRICE).offset + 1;
  cj_error *error = cj_task_store_put(store, PRICE, cj_bytes_str("k"),
                                      cj_bytes_of(&next, sizeof next), next, NULL);
  const cj_position positions[] = {ts_at(next), ts_at(next)};
  cj_task_store_freeze(store);
  if (!error) error = cj_task_store_commit(store, positions);
  if (error) w->wrong++;
  cj_error_destroy(error);
  __atomic_sub_fetch(&w->owners[p], 1, __ATOMIC_SEQ_CST);
  cj_state_release(w->state, store);
  w->done++;
}

static void read_for_a_while(worker *w, int32_t p) {
  bool restoring;
  cj_task_store *store = cj_state_pin(w->state, "notif", p, &restoring);
  if (!store) return;
  cj_buf copy = CJ_BUF_INIT;
  cj_error *error;
  int64_t timestamp, value;
  if (cj_task_store_read_committed(store, PRICE, cj_bytes_str("k"), &copy, &timestamp, &error) ==
      CJ_KV_FOUND) {
    memcpy(&value, copy.data, sizeof value);
    if (value != timestamp) w->wrong++;
  } else if (error) {
    w->wrong++;
  }
  cj_error_destroy(error);
  cj_buf_free(&copy);
  cj_state_unpin(w->state, store);
}

static void *work(void *arg) {
  worker *w = arg;
  for (int round = 0; round < ROUNDS; round++) {
    wake_count count = WAKE_COUNT_INIT; /* dies with this round: no wake may come later */
    int32_t p = (int32_t)draw(w, PARTITIONS);
    cj_fingerprint fingerprint = ts_fingerprint();
    fingerprint.partition = p;
    cj_store_ticket *ticket = cj_state_acquire(w->state, &fingerprint, wake, &count);
    if (draw(w, 4) == 0) {
      cj_ticket_cancel(ticket);
    } else {
      if (cj_ticket_poll(ticket) == CJ_TICKET_WAITING) wait_for_wake(&count);
      if (cj_ticket_poll(ticket) == CJ_TICKET_READY)
        own_for_a_while(w, cj_ticket_take(ticket), p);
      else
        w->wrong += cj_error_code(cj_ticket_error(ticket)) != CJ_OK;
    }
    read_for_a_while(w, (int32_t)draw(w, PARTITIONS));
  }
  return NULL;
}

static void workers_and_readers_share_the_stores(void **unused) {
  (void)unused;
  cj_state *state = start(2, 60000, 0);
  int owners[PARTITIONS] = {0};
  worker workers[WORKERS];
  pthread_t threads[WORKERS];
  for (int i = 0; i < WORKERS; i++) {
    workers[i] = (worker){.state = state, .random = (unsigned)i + 1, .owners = owners};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  int done = 0, wrong = 0;
  for (int i = 0; i < WORKERS; i++) {
    pthread_join(threads[i], NULL);
    done += workers[i].done;
    wrong += workers[i].wrong;
  }
  assert_int_equal(wrong, 0);
  /* Each turn of ownership has moved a store's position by one: none was lost or doubled. */
  int64_t moved = 0;
  for (int32_t p = 0; p < PARTITIONS; p++) {
    cj_task_store *store = take_waiting(state, p);
    moved += cj_task_store_position(store, PRICE).offset + 1;
    cj_state_release(state, store);
  }
  assert_int_equal(moved, done);
  stop(state);
}

/* Whoever ends a ticket may free what its wake is called with. */
typedef struct {
  wake_count entered;
  int ending, left; /* atomic */
} slow_wake;

static void wake_slowly(void *user) {
  slow_wake *slow = user;
  wake(&slow->entered);
  while (!__atomic_load_n(&slow->ending, __ATOMIC_ACQUIRE))
    sched_yield();
  for (int i = 0; i < 2000; i++)
    sched_yield();
  __atomic_store_n(&slow->left, 1, __ATOMIC_RELEASE);
}

static void a_ticket_ends_after_its_wake(void **unused) {
  (void)unused;
  cj_state *state = start(1, 60000, 0);
  slow_wake slow = {.entered = WAKE_COUNT_INIT};
  const cj_fingerprint fingerprint = ts_fingerprint();
  cj_store_ticket *ticket = cj_state_acquire(state, &fingerprint, wake_slowly, &slow);
  wait_for_wake(&slow.entered);
  __atomic_store_n(&slow.ending, 1, __ATOMIC_RELEASE);
  cj_task_store *store = cj_ticket_take(ticket);
  assert_true(__atomic_load_n(&slow.left, __ATOMIC_ACQUIRE));
  cj_state_release(state, store);
  stop(state);
}

int main(void) {
  const struct CMUnitTest cases[] = {
      cmocka_unit_test(a_lock_that_goes_is_waited_for),
      cmocka_unit_test(a_store_goes_back_and_forth),
      cmocka_unit_test(a_ticket_ends_after_its_wake),
      cmocka_unit_test(workers_and_readers_share_the_stores),
  };
  return cmocka_run_group_tests(cases, NULL, NULL);
}
