/* SPDX-License-Identifier: BSD-2-Clause */
/* Who has which store: hand-over, waiting, readers, the order of closing. The pool is run by hand;
 * with its threads it is in test_registry_threads.c. */
#include "lib/registry_fixture.h"

/* ---- taking and giving back ---- */

static void a_store_is_opened_in_the_pool(void **unused) {
  (void)unused;
  cj_state *state = start(0, 1000, 0);
  wake_count count = WAKE_COUNT_INIT;
  cj_store_ticket *ticket = ask(state, 3, &count);
  assert_int_equal(cj_ticket_poll(ticket), CJ_TICKET_WAITING);
  assert_int_equal(opened(), 0);
  assert_true(cj_state_run_pool(state));
  assert_false(cj_state_run_pool(state));
  assert_int_equal(cj_ticket_poll(ticket), CJ_TICKET_READY);
  assert_int_equal(count.calls, 1);
  assert_int_equal(opened(), 1);
  cj_task_store *store = cj_ticket_take(ticket);
  assert_int_equal(cj_task_store_position(store, PRICE).offset, -1);
  cj_state_release(state, store);
  assert_int_equal(closed(), 0); /* not in the thread that gives it back */
  assert_true(cj_state_run_pool(state));
  assert_int_equal(closed(), 1);
  stop(state);
}

static void a_store_that_is_taken_again_stays_open(void **unused) {
  (void)unused;
  cj_state *state = start(0, 1000, 0);
  cj_task_store *store = take_now(state, 3);
  cj_state_release(state, store);
  wake_count count = WAKE_COUNT_INIT;
  cj_store_ticket *ticket = ask(state, 3, &count);
  assert_int_equal(cj_ticket_poll(ticket), CJ_TICKET_READY); /* at once, without the pool */
  assert_ptr_equal(cj_ticket_take(ticket), store);
  run_all(state); /* the close that was due must not happen */
  assert_int_equal(opened(), 1);
  assert_int_equal(closed(), 0);
  assert_int_equal(count.calls, 0);
  cj_state_release(state, store);
  stop(state);
}

static void what_was_committed_is_found_again(void **unused) {
  (void)unused;
  cj_state *state = start(0, 1000, 0);
  for (int round = 0; round < 3; round++) {
    cj_task_store *store = take_now(state, 3);
    assert_int_equal(cj_task_store_position(store, PRICE).offset, round ? round : -1);
    const cj_position positions[] = {ts_at(round + 1), ts_at(1)};
    cj_task_store_freeze(store);
    assert_no_error(cj_task_store_commit(store, positions));
    assert_no_error(
        cj_task_store_put(store, PRICE, cj_bytes_str("k"), cj_bytes_str("lost"), 1, NULL));
    cj_state_release(state, store); /* rolls back */
    if (round == 1) continue;       /* handed over open */
    run_all(state);
  }
  assert_int_equal(opened(), 2);
  cj_task_store *store = take_now(state, 3);
  cj_row row;
  cj_error *error;
  assert_int_equal(cj_task_store_get(store, PRICE, cj_bytes_str("k"), &row, &error), CJ_KV_ABSENT);
  cj_state_release(state, store);
  stop(state);
}

static void stores_are_apart(void **unused) {
  (void)unused;
  cj_state *state = start(0, 1000, 0);
  cj_task_store *three = take_now(state, 3), *four = take_now(state, 4);
  assert_ptr_not_equal(three, four);
  /* A topic's name may look like another one's store, or like a slot. */
  cj_fingerprint fingerprint = ts_fingerprint();
  fingerprint.anchor = "notif-3";
  fingerprint.partition = 3;
  cj_store_ticket *ticket = cj_state_acquire(state, &fingerprint, NULL, NULL);
  run_all(state);
  cj_task_store *other = cj_ticket_take(ticket);
  assert_non_null(other);
  assert_int_equal(opened(), 3);
  cj_state_release(state, three);
  cj_state_release(state, four);
  cj_state_release(state, other);
  stop(state);
}

/* A store is handed from worker to worker without being closed, in the order they asked. */
static void a_held_store_is_waited_for(void **unused) {
  (void)unused;
  cj_state *state = start(0, 60000, 0);
  cj_task_store *store = take_now(state, 3);
  wake_count first = WAKE_COUNT_INIT, second = WAKE_COUNT_INIT;
  cj_store_ticket *one = ask(state, 3, &first), *two = ask(state, 3, &second);
  run_all(state);
  assert_int_equal(cj_ticket_poll(one), CJ_TICKET_WAITING);
  cj_state_release(state, store);
  assert_int_equal(first.calls, 0); /* the releasing thread wakes nobody */
  run_all(state);
  assert_int_equal(first.calls, 1);
  assert_int_equal(second.calls, 0);
  assert_int_equal(cj_ticket_poll(two), CJ_TICKET_WAITING);
  assert_ptr_equal(cj_ticket_take(one), store);
  cj_state_release(state, store);
  run_all(state);
  assert_int_equal(second.calls, 1);
  assert_ptr_equal(cj_ticket_take(two), store);
  assert_int_equal(opened(), 1);
  cj_state_release(state, store);
  stop(state);
}

static void a_store_that_is_not_given_back_is_told(void **unused) {
  (void)unused;
  cj_state *state = start(0, 0, 0);
  cj_task_store *store = take_now(state, 3);
  wake_count count = WAKE_COUNT_INIT;
  cj_store_ticket *ticket = ask(state, 3, &count);
  run_all(state);
  assert_int_equal(cj_ticket_poll(ticket), CJ_TICKET_FAILED);
  assert_int_equal(count.calls, 1);
  cj_error *error = cj_ticket_error(ticket);
  assert_int_equal(cj_error_code(error), CJ_ERR_STORE_LOCKED);
  ASSERT_MENTIONS(cj_error_message(error), "dir/app/notif-3", "another worker");
  cj_error_destroy(error);
  cj_state_release(state, store);
  stop(state);
}

/* Case 62: the lock of another owner is waited for, within its bound. */
static void a_lock_that_stays_is_told(void **unused) {
  (void)unused;
  cj_state *state = start(0, 1, 0);
  cj_kv *holder;
  assert_no_error(counting.disk->ops->open(counting.disk, "dir/app/notif-3", &holder));
  cj_store_ticket *ticket = ask(state, 3, NULL);
  while (cj_ticket_poll(ticket) == CJ_TICKET_WAITING)
    cj_state_run_pool(state);
  cj_error *error = cj_ticket_error(ticket);
  assert_int_equal(cj_error_code(error), CJ_ERR_STORE_LOCKED);
  ASSERT_MENTIONS(cj_error_message(error), "dir/app/notif-3", "1 ms");
  cj_error_destroy(error);
  holder->ops->close(holder);
  cj_state_release(state, take_now(state, 3));
  stop(state);
}

static void a_store_that_does_not_fit_is_told(void **unused) {
  (void)unused;
  cj_state *state = start(0, 1000, 0);
  cj_state_release(state, take_now(state, 3));
  run_all(state);
  cj_fingerprint fingerprint = ts_fingerprint();
  fingerprint.cluster_id = "another cluster";
  cj_store_ticket *ticket = cj_state_acquire(state, &fingerprint, NULL, NULL);
  run_all(state);
  assert_int_equal(cj_ticket_poll(ticket), CJ_TICKET_FAILED);
  ts_assert_code(cj_ticket_error(ticket), CJ_ERR_STORE_MISMATCH);
  cj_state_release(state, take_now(state, 3));
  stop(state);
}

/* An idle store of other tables is not what was asked for: it is closed, and opened as asked. */
static void an_idle_store_is_taken_only_as_it_was_opened(void **unused) {
  (void)unused;
  cj_state *state = start(0, 1000, 0);
  cj_state_release(state, take_now(state, 3));
  static const char *const more[] = {"price", "fx", "alerts"};
  cj_fingerprint fingerprint = ts_fingerprint();
  fingerprint.tables = more;
  fingerprint.table_count = 3;
  cj_store_ticket *ticket = cj_state_acquire(state, &fingerprint, NULL, NULL);
  assert_int_equal(cj_ticket_poll(ticket), CJ_TICKET_WAITING);
  run_all(state);
  assert_int_equal(opened(), 2);
  assert_int_equal(closed(), 1);
  cj_task_store *store = cj_ticket_take(ticket);
  assert_int_equal(cj_task_store_position(store, 2).offset, -1);
  cj_state_release(state, store);
  stop(state);
}

static void an_idle_store_waits_its_time(void **unused) {
  (void)unused;
  cj_state *state = start(0, 1000, 3600000);
  cj_task_store *store = take_now(state, 3);
  cj_state_release(state, store);
  run_all(state);
  assert_int_equal(closed(), 0);
  assert_ptr_equal(take_now(state, 3), store);
  cj_state_release(state, store);
  run_all(state);
  stop(state); /* closes it all the same */
}

/* ---- giving up ---- */

static void a_ticket_may_be_given_up_at_any_time(void **unused) {
  (void)unused;
  cj_state *state = start(0, 0, 0);
  wake_count count = WAKE_COUNT_INIT;
  cj_ticket_cancel(ask(state, 3, &count)); /* before it is opened */
  run_all(state);
  assert_int_equal(opened(), 0);

  cj_store_ticket *ticket = ask(state, 3, &count); /* when it is open */
  run_all(state);
  cj_ticket_cancel(ticket);
  run_all(state);
  assert_int_equal(opened(), 1);
  assert_int_equal(closed(), 1);

  cj_task_store *store = take_now(state, 3);
  ticket = ask(state, 3, &count); /* while another has it */
  cj_ticket_cancel(ticket);
  run_all(state);
  ticket = ask(state, 3, &count); /* when it has failed */
  run_all(state);
  assert_int_equal(cj_ticket_poll(ticket), CJ_TICKET_FAILED);
  cj_ticket_cancel(ticket);
  cj_state_release(state, store);
  stop(state);
}

typedef struct {
  cj_state *state;
  cj_store_ticket *first, *second;
} change_of_mind;

static void change_mind(void *user) {
  change_of_mind *change = user;
  counting.opening = NULL;
  cj_ticket_cancel(change->first);
  change->second = ask(change->state, 3, NULL);
}

/* The open under way is for nobody then, whether it succeeds or fails. */
static void a_ticket_may_be_given_up_while_it_is_opened(void **unused) {
  (void)unused;
  for (int locked = 0; locked < 2; locked++) {
    cj_state *state = start(0, 0, 0);
    cj_kv *holder = NULL;
    if (locked)
      assert_no_error(counting.disk->ops->open(counting.disk, "dir/app/notif-3", &holder));
    change_of_mind change = {.state = state, .first = ask(state, 3, NULL)};
    counting.opening = change_mind;
    counting.user = &change;
    run_all(state);
    if (locked) {
      ts_assert_code(cj_ticket_error(change.second), CJ_ERR_STORE_LOCKED);
      holder->ops->close(holder);
    } else {
      assert_int_equal(cj_ticket_poll(change.second), CJ_TICKET_READY);
      cj_state_release(state, cj_ticket_take(change.second));
    }
    stop(state);
  }
}

static void the_next_in_line_goes_on(void **unused) {
  (void)unused;
  cj_state *state = start(0, 1000, 0);
  cj_store_ticket *one = ask(state, 3, NULL), *two = ask(state, 3, NULL),
                  *three = ask(state, 3, NULL);
  cj_ticket_cancel(two);
  run_all(state);
  assert_int_equal(cj_ticket_poll(one), CJ_TICKET_READY);
  cj_ticket_cancel(one);
  run_all(state);
  assert_int_equal(cj_ticket_poll(three), CJ_TICKET_READY);
  cj_state_release(state, cj_ticket_take(three));
  stop(state);
}

/* ---- readers ---- */

static void only_a_published_store_is_pinned(void **unused) {
  (void)unused;
  cj_state *state = start(0, 1000, 0);
  bool restoring = true;
  assert_null(cj_state_pin(state, "notif", 3, &restoring));
  assert_false(restoring);
  cj_store_ticket *ticket = ask(state, 3, NULL);
  assert_null(cj_state_pin(state, "notif", 3, &restoring));
  assert_true(restoring);
  run_all(state);
  cj_task_store *store = cj_ticket_take(ticket);
  assert_null(cj_state_pin(state, "notif", 3, &restoring));
  assert_true(restoring);
  cj_state_publish(state, store, true);
  assert_ptr_equal(cj_state_pin(state, "notif", 3, &restoring), store);
  assert_false(restoring);
  cj_state_unpin(state, store);
  assert_null(cj_state_pin(state, "notif", 4, &restoring));
  assert_null(cj_state_pin(state, "price", 3, &restoring));
  assert_false(restoring);
  cj_state_publish(state, store, false);
  assert_null(cj_state_pin(state, "notif", 3, &restoring));
  cj_state_publish(state, store, true);
  cj_state_release(state, store); /* not its owner any more: not to be read */
  assert_null(cj_state_pin(state, "notif", 3, &restoring));
  assert_false(restoring);
  assert_ptr_equal(take_now(state, 3), store); /* to the next owner it is new */
  assert_null(cj_state_pin(state, "notif", 3, &restoring));
  cj_state_release(state, store);
  stop(state);
}

/* A reader delays the close and nothing else: the release and the pool go on. */
static void a_store_closes_after_its_last_reader(void **unused) {
  (void)unused;
  cj_state *state = start(0, 1000, 0);
  bool restoring;
  cj_task_store *store = take_now(state, 3);
  cj_state_publish(state, store, true);
  assert_non_null(cj_state_pin(state, "notif", 3, &restoring));
  assert_non_null(cj_state_pin(state, "notif", 3, &restoring));
  cj_state_release(state, store);
  run_all(state);
  assert_int_equal(closed(), 0);
  cj_state_unpin(state, store);
  run_all(state);
  assert_int_equal(closed(), 0);
  cj_buf copy = CJ_BUF_INIT;
  int64_t timestamp;
  cj_error *error;
  assert_int_equal(
      cj_task_store_read_committed(store, PRICE, cj_bytes_str("k"), &copy, &timestamp, &error),
      CJ_KV_ABSENT);
  cj_state_unpin(state, store);
  assert_int_equal(closed(), 0); /* not in the reader's thread */
  assert_true(cj_state_run_pool(state));
  assert_int_equal(closed(), 1);
  stop(state);
}

static void a_store_with_a_reader_is_handed_over(void **unused) {
  (void)unused;
  cj_state *state = start(0, 1000, 0);
  bool restoring;
  cj_task_store *store = take_now(state, 3);
  cj_state_publish(state, store, true);
  assert_non_null(cj_state_pin(state, "notif", 3, &restoring));
  cj_state_release(state, store);
  run_all(state);
  assert_ptr_equal(take_now(state, 3), store);
  cj_state_unpin(state, store);
  run_all(state);
  assert_int_equal(closed(), 0);
  cj_state_release(state, store);
  stop(state);
}

/* ---- without memory ---- */

static void no_allocation_is_trusted(void **unused) {
  (void)unused;
  cj_state *state = start(0, 1000, 0);
  const cj_fingerprint fingerprint = ts_fingerprint();
  bool done = false;
  for (long n = 0; !done; n++) {
    assert_true(n < 10000);
    cj_alloc_fail_after(n);
    cj_store_ticket *ticket = cj_state_acquire(state, &fingerprint, NULL, NULL);
    if (ticket) run_all(state);
    cj_alloc_fail_after(-1);
    if (!ticket) continue;
    if (cj_ticket_poll(ticket) == CJ_TICKET_FAILED) {
      ts_assert_code(cj_ticket_error(ticket), CJ_ERR_NO_MEMORY);
    } else {
      cj_state_release(state, cj_ticket_take(ticket));
      done = true;
    }
    run_all(state);
  }
  stop(state);
}

static void a_state_without_memory_is_not_opened(void **unused) {
  (void)unused;
  for (long n = 0;; n++) {
    const cj_state_options options = {.dir = "dir",
                                      .app_id = "app",
                                      .source = cj_kv_source_memory(),
                                      .pool_threads = n % 2 ? 1 : 0,
                                      .in_memory = true};
    cj_state *state;
    cj_alloc_fail_after(n);
    cj_error *error = cj_state_open(&options, &state);
    cj_alloc_fail_after(-1);
    if (!error) {
      cj_state_close(state);
      assert_true(n > 2);
      return;
    }
    ts_assert_code(error, CJ_ERR_NO_MEMORY);
  }
}

int main(void) {
  const struct CMUnitTest cases[] = {
      cmocka_unit_test(a_store_is_opened_in_the_pool),
      cmocka_unit_test(a_store_that_is_taken_again_stays_open),
      cmocka_unit_test(what_was_committed_is_found_again),
      cmocka_unit_test(stores_are_apart),
      cmocka_unit_test(a_held_store_is_waited_for),
      cmocka_unit_test(a_store_that_is_not_given_back_is_told),
      cmocka_unit_test(a_lock_that_stays_is_told),
      cmocka_unit_test(a_store_that_does_not_fit_is_told),
      cmocka_unit_test(an_idle_store_is_taken_only_as_it_was_opened),
      cmocka_unit_test(an_idle_store_waits_its_time),
      cmocka_unit_test(a_ticket_may_be_given_up_at_any_time),
      cmocka_unit_test(a_ticket_may_be_given_up_while_it_is_opened),
      cmocka_unit_test(the_next_in_line_goes_on),
      cmocka_unit_test(only_a_published_store_is_pinned),
      cmocka_unit_test(a_store_closes_after_its_last_reader),
      cmocka_unit_test(a_store_with_a_reader_is_handed_over),
      cmocka_unit_test(no_allocation_is_trusted),
      cmocka_unit_test(a_state_without_memory_is_not_opened),
  };
  return cmocka_run_group_tests(cases, NULL, NULL);
}
