/* SPDX-License-Identifier: BSD-2-Clause */
/* Two processes that share a state directory, over RocksDB (case 63): the one that comes second
 * does not block, learns who holds the store, and has it as soon as the other is gone. */
#include <pthread.h>
#include <signal.h>

#include "lib/store_dir.h"
#include "lib/task_store_fixture.h"
#include "state/state.h"

static cj_state *open_state(const char *dir, int64_t lock_wait_ms) {
  const cj_rocksdb_options rocksdb = {
      .cache_bytes = 4 << 20, .write_buffer_bytes = 4 << 20, .max_open_files = 64, .stores = 1};
  cj_state_options options = {
      .dir = dir, .app_id = "app", .pool_threads = 1, .lock_wait_ms = lock_wait_ms};
  cj_state *state = NULL;
  cj_error *error = cj_kv_source_rocksdb(&rocksdb, &options.source);
  if (!error) error = cj_state_open(&options, &state);
  if (!error) return state;
  fprintf(stderr, "%s\n", cj_error_text(error));
  abort();
}

typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t called;
  bool woken;
} waker;

static void wake(void *user) {
  waker *self = user;
  pthread_mutex_lock(&self->lock);
  self->woken = true;
  pthread_cond_signal(&self->called);
  pthread_mutex_unlock(&self->lock);
}

static void wait_for(waker *self) {
  pthread_mutex_lock(&self->lock);
  while (!self->woken)
    pthread_cond_wait(&self->called, &self->lock);
  pthread_mutex_unlock(&self->lock);
}

#define WAKER_INIT                                                                                 \
  { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false }

static cj_task_store *take(cj_state *state) {
  waker waiting = WAKER_INIT;
  const cj_fingerprint fingerprint = ts_fingerprint();
  cj_store_ticket *ticket = cj_state_acquire(state, &fingerprint, wake, &waiting);
  if (!ticket) abort();
  if (cj_ticket_poll(ticket) == CJ_TICKET_WAITING) wait_for(&waiting);
  return cj_ticket_take(ticket);
}

/* The other process: commits one row, says so, and holds on to the store. */
static _Noreturn void hold(const char *dir) {
  cj_task_store *store = take(open_state(dir, 0));
  const cj_position positions[] = {ts_at(7), ts_at(7)};
  cj_error *error =
      cj_task_store_put(store, PRICE, cj_bytes_str("BBCA"), cj_bytes_str("9100"), 1, NULL);
  cj_task_store_freeze(store);
  if (!error) error = cj_task_store_commit(store, positions);
  if (error || write(STDOUT_FILENO, "!", 1) != 1) _exit(1);
  for (;;)
    pause();
}

static store_child start_holder(const char *dir) {
  char *const argv[] = {"test_store_owner", "--hold", (char *)dir, NULL};
  store_child child = store_child_start(argv);
  if (!store_child_tick(&child)) abort();
  return child;
}

static void the_holder_is_named(void **unused) {
  (void)unused;
  if (!CJ_TEST_ROCKSDB) skip();
  char *dir = store_dir_new();
  store_child child = start_holder(dir);
  cj_state *state = open_state(dir, 120); /* some tries */
  waker waiting = WAKER_INIT;
  const cj_fingerprint fingerprint = ts_fingerprint();
  cj_store_ticket *ticket = cj_state_acquire(state, &fingerprint, wake, &waiting);
  wait_for(&waiting);
  cj_error *error = cj_ticket_error(ticket);
  cj_state_close(state);
  char pid[32];
  snprintf(pid, sizeof pid, "process %ld", (long)child.pid);
  kill(child.pid, SIGKILL);
  store_child_end(&child);
  assert_int_equal(cj_error_code(error), CJ_ERR_STORE_LOCKED);
  ASSERT_MENTIONS(cj_error_message(error), dir, "app/notif-3", pid, "120 ms");
  cj_error_destroy(error);
  store_dir_remove(dir);
}

/* What the dead one had committed is there: nothing has to be restored but the tail. */
static void the_store_is_taken_over_as_it_stands(void **unused) {
  (void)unused;
  if (!CJ_TEST_ROCKSDB) skip();
  char *dir = store_dir_new();
  store_child child = start_holder(dir);
  cj_state *state = open_state(dir, 60000);
  waker waiting = WAKER_INIT;
  const cj_fingerprint fingerprint = ts_fingerprint();
  cj_store_ticket *ticket = cj_state_acquire(state, &fingerprint, wake, &waiting);
  assert_int_equal(cj_ticket_poll(ticket), CJ_TICKET_WAITING);
  kill(child.pid, SIGKILL);
  store_child_end(&child);
  wait_for(&waiting);
  assert_int_equal(cj_ticket_poll(ticket), CJ_TICKET_READY);
  ts_fixture f = {.store = cj_ticket_take(ticket)};
  ts_assert_row(&f, PRICE, "BBCA", "9100", 1);
  ts_assert_position(&f, PRICE, 7);
  cj_state_release(state, f.store);
  cj_state_close(state);
  store_dir_remove(dir);
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "--hold") == 0) hold(argv[2]);
  const struct CMUnitTest cases[] = {
      cmocka_unit_test(the_holder_is_named),
      cmocka_unit_test(the_store_is_taken_over_as_it_stands),
  };
  return cmocka_run_group_tests(cases, NULL, NULL);
}
