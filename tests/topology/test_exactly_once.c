/* SPDX-License-Identifier: BSD-2-Clause */
/* Exactly once while members come, go, stand still and crash. */
#include "lib/exact.h"

/* ---- without trouble ---- */

static void outputs_are_seen_with_their_positions_only(void **state) {
  (void)state;
  exact e;
  exact_begin(&e, NULL);
  exact_leave_open(&e, "n1");
  assert_int_equal(-1, cj_test_committed(e.a.t, "notif", 0));
  cj_test_advance(e.a.t, 100); /* commit.interval.ms */
  assert_outputs(&e, "n1+1");
  assert_int_equal(1, cj_test_committed(e.a.t, "notif", 0));
  assert_int_equal(1, cj_test_committed(e.a.t, "price", 0));
  assert_int_equal(1, cj_test_stored(e.a.t, "a", "price", 0));
  for (int i = 0; i < 50; i++) {
    exact_notif(&e, "n");
    cj_test_advance(e.a.t, 10);
  }
  cj_test_advance(e.a.t, 100);
  assert_int_equal(51, cj_test_count(e.a.t, "alerts", 0));
  assert_int_equal(0, cj_test_logged(e.a.t, "transaction was aborted"));
  exact_end(&e);
}

static void stopping_commits_and_leaves_nothing_open(void **state) {
  (void)state;
  exact e;
  exact_begin(&e, NULL);
  exact_leave_open(&e, "n1");
  cj_test_stop_member(e.a.t, "a");
  assert_outputs(&e, "n1+1");
  int64_t stopped = cj_test_end(e.a.t, "alerts", 0);
  cj_test_advance(e.a.t, 60000);
  assert_int_equal(stopped, cj_test_end(e.a.t, "alerts", 0)); /* nothing had to time out */
  exact_end(&e);
}

/* The inputs are read_committed: what was taken back never happened, what is open waits. */
static void inputs_are_what_was_committed(void **state) {
  (void)state;
  exact e;
  exact_begin(&e, NULL);
  cj_test_watch(e.a.t, NULL, NULL); /* markers make holes */
  cj_test_transaction(e.a.t);
  alerts_price(&e.a, "X", "wrong", 500);
  exact_notif(&e, "wrong");
  cj_test_transaction_end(e.a.t, false);
  exact_notif(&e, "n1");
  cj_test_transaction(e.a.t);
  alerts_price(&e.a, "X", "2", 2000);
  cj_test_advance(e.a.t, 1000);
  assert_outputs(&e, "n1+1");
  assert_string_equal("1", alerts_row(&e.a, "X"));
  cj_test_transaction_end(e.a.t, true);
  cj_test_advance(e.a.t, 1000);
  assert_string_equal("2", alerts_row(&e.a, "X"));
  assert_int_equal(cj_test_end(e.a.t, "price", 0), cj_test_committed(e.a.t, "price", 0));
  exact_end(&e);
}

/* ---- crashes ---- */

/* The successor has the same transactional id: its start aborts what was left open, at once. */
static void a_restart_aborts_what_the_crash_left_open(void **state) {
  (void)state;
  exact e;
  exact_begin(&e, NULL);
  exact_leave_open(&e, "n1");
  cj_test_crash_member(e.a.t, "a");
  exact_start(&e, "a");
  cj_test_advance(e.a.t, 50000); /* the old member's session */
  assert_outputs(&e, "n1+1");
  exact_end(&e);
}

/* Another process has another id: the broker aborts after transaction.timeout.ms. */
static void a_crashed_members_transaction_times_out(void **state) {
  (void)state;
  exact e;
  exact_begin(&e, NULL);
  exact_leave_open(&e, "n1");
  cj_test_crash_member(e.a.t, "a");
  int64_t open_end = cj_test_end(e.a.t, "alerts", 0);
  cj_test_advance(e.a.t, 9999);
  assert_int_equal(open_end, cj_test_end(e.a.t, "alerts", 0));
  cj_test_advance(e.a.t, 1);
  assert_int_equal(open_end + 1, cj_test_end(e.a.t, "alerts", 0)); /* the marker */
  exact_start(&e, "b");
  cj_test_advance(e.a.t, 60000);
  assert_outputs(&e, "n1+1");
  exact_end(&e);
}

/* The store is behind by one commit then: it restores forward, and is not wiped. */
static void a_crash_between_the_commit_and_the_store(void **state) {
  (void)state;
  exact e;
  exact_begin(&e, NULL);
  cj_test_advance(e.a.t, 100);
  alerts_price(&e.a, "X", "2", 500);
  exact_commit_waits(&e, "n1");
  cj_test_freeze_member(e.a.t, "a", true); /* the client goes on, the worker does not */
  exact_let_commit(&e);
  cj_test_settle(e.a.t);
  assert_int_equal(1, cj_test_committed(e.a.t, "notif", 0));
  assert_int_equal(1, cj_test_stored(e.a.t, "a", "price", 0));
  assert_int_equal(2, cj_test_committed(e.a.t, "price", 0));
  cj_test_crash_member(e.a.t, "a");
  exact_start(&e, "a");
  cj_test_advance(e.a.t, 50000);
  assert_int_equal(2, cj_test_stored(e.a.t, "a", "price", 0));
  assert_string_equal("2", alerts_row(&e.a, "X"));
  assert_int_equal(1, cj_test_logged(e.a.t, "resumes at 1, up to 2"));
  assert_int_equal(0, cj_test_logged(e.a.t, "rebuilt"));
  exact_notif(&e, "n2");
  cj_test_advance(e.a.t, 1000);
  assert_outputs(&e, "n1+2 n2+2");
  exact_end(&e);
}

/* ---- rebalances ---- */

static void a_rebalance_with_a_commit_under_way(void **state) {
  (void)state;
  exact e;
  exact_begin(&e, NULL);
  exact_commit_waits(&e, "n1");
  exact_start(&e, "b");
  cj_test_settle(e.a.t);
  assert_int_equal(-1, cj_test_committed(e.a.t, "notif", 0)); /* the revoke waits for it */
  exact_let_commit(&e);
  cj_test_settle(e.a.t);
  exact_notif(&e, "n2");
  cj_test_advance(e.a.t, 1000);
  assert_outputs(&e, "n1+1 n2+1");
  assert_int_equal(0, cj_test_logged(e.a.t, "positioned anew"));
  exact_end(&e);
}

static void a_rebalance_commits_what_is_open(void **state) {
  (void)state;
  exact e;
  exact_begin(&e, NULL);
  exact_leave_open(&e, "n1");
  exact_start(&e, "b");
  cj_test_settle(e.a.t);
  assert_outputs(&e, "n1+1");
  exact_end(&e);
}

/* The revoke is answered without the commit, which is still under way when another member owns the
 * partition and this one is in the next generation. Either its offsets are with the broker, then
 * the other waits for what becomes of them; or they come too late, and are of a generation that is
 * over. */
static void revoked_before_the_commit(bool offsets_are_late) {
  const cj_world_fault slow = {
      .kind = CJ_REQ_TXN_COMMIT, .effect = CJ_FAULT_HANG, .delay_ms = 2000, .times = 1};
  alerts a = alerts_open(LEFT, 2,
                         WITH("processing.guarantee", "exactly_once", "log.level", "debug",
                              "revoke.timeout.ms", "1000", "request.timeout.ms", "8000"));
  alerts_run(&a);
  cj_test_advance(a.t, 100);
  if (offsets_are_late) cj_world_fault_add(a.t->world, &slow);
  for (int32_t p = 0; p < 2; p++)
    cj_test_hold(a.t, "alerts", p, !offsets_are_late);
  cj_test_pipe_to(a.t, "notif", 1, cj_bytes_str("X"), cj_bytes_str("n1"), 1000, NULL, 0);
  cj_test_settle(a.t);
  cj_test_commit(a.t);
  alerts_start(&a, "b");
  cj_test_advance(a.t, 1500);
  assert_string_equal("b", cj_test_owner(a.t, 1));
  assert_int_equal(offsets_are_late, cj_test_committed(a.t, "notif", 1)); /* by b, or not yet */
  for (int32_t p = 0; p < 2; p++)
    cj_test_hold(a.t, "alerts", p, false);
  cj_test_advance(a.t, 60000);
  assert_int_equal(1, cj_test_count(a.t, "alerts", 0) + cj_test_count(a.t, "alerts", 1));
  assert_int_equal(1, cj_test_committed(a.t, "notif", 1));
  alerts_close(&a);
}

static void a_commit_outlives_its_revocation(void **state) {
  (void)state;
  revoked_before_the_commit(false);
  revoked_before_the_commit(true);
}

/* The producer's queue is full, so that the commit was not even asked for when the budget ended. */
static void a_revocation_outlives_the_commit(void **state) {
  (void)state;
  exact e;
  exact_begin(&e, WITH("revoke.timeout.ms", "1000", "rd.queue.buffering.max.messages", "1"));
  cj_test_advance(e.a.t, 100);
  cj_test_hold(e.a.t, "alerts", 0, true);
  for (int i = 0; i < 3; i++)
    exact_notif(&e, "n");
  cj_test_settle(e.a.t);
  exact_start(&e, "b");
  cj_test_advance(e.a.t, 2000);
  assert_int_equal(1, cj_test_logged(e.a.t, "longer than revoke.timeout.ms"));
  exact_let_commit(&e);
  cj_test_advance(e.a.t, 5000);
  assert_outputs(&e, "n+1 n+1 n+1");
  exact_end(&e);
}

/* `stop` ends the member's membership while it has a transaction open, another one does the work
 * again; then it goes on, after `still_ms`. */
static void zombie(void (*stop)(cj_test *, const char *, bool), bool handed_over,
                   int64_t still_ms) {
  exact e;
  exact_begin(&e, WITH("rd.session.timeout.ms", "6000", "rd.max.poll.interval.ms", "7000",
                       "revoke.timeout.ms", "1000"));
  cj_test_advance(e.a.t, 100);
  if (handed_over)
    exact_leave_open(&e, "n1");
  else
    exact_commit_waits(&e, "n1");
  stop(e.a.t, "a", true);
  exact_let_commit(&e);
  exact_start(&e, "b");
  cj_test_advance(e.a.t, still_ms);
  assert_string_equal("b", cj_test_owner(e.a.t, 0));
  stop(e.a.t, "a", false);
  cj_test_advance(e.a.t, 60000);
  exact_notif(&e, "n2");
  cj_test_advance(e.a.t, 60000);
  assert_outputs(&e, "n1+1 n2+1");
  alerts_well(&e.a, "a");
  alerts_well(&e.a, "b");
  exact_end(&e);
}

static void a_zombie_is_fenced(void **state) {
  (void)state;
  static const int64_t still_ms[] = {9000, 400000}; /* before and after transaction.timeout.ms */
  for (size_t i = 0; i < 2; i++) {
    zombie(cj_test_stall_member, true, still_ms[i]);
    zombie(cj_test_stall_member, false, still_ms[i]);
    zombie(cj_test_freeze_member, true, still_ms[i]);
    zombie(cj_test_freeze_member, false, still_ms[i]);
  }
}

/* That its transaction timed out says nothing of the outputs: no policy takes them. */
static void a_zombies_outputs_are_not_skipped(void **state) {
  (void)state;
  exact e;
  exact_begin(&e, WITH("errors.produce", "skip"));
  cj_test_advance(e.a.t, 100);
  exact_leave_open(&e, "n1");
  cj_test_stall_member(e.a.t, "a", true);
  cj_test_advance(e.a.t, 20000); /* its session goes on for 45 s */
  exact_notif(&e, "n2");
  cj_test_stall_member(e.a.t, "a", false);
  cj_test_advance(e.a.t, 2000);
  assert_outputs(&e, "n1+1 n2+1");
  assert_int_equal(0, cj_test_metric(e.a.t, "dropped", "produce"));
  assert_int_equal(1, cj_test_logged(e.a.t, "open for longer than transaction.timeout.ms"));
  alerts_well(&e.a, "a");
  exact_end(&e);
}

/* A copy of the state directory, say: two that take the id from each other would go on for ever. */
static void another_one_with_our_id_ends_the_worker(void **state) {
  (void)state;
  exact e;
  exact_begin(&e, NULL);
  cj_test_advance(e.a.t, 20000);
  assert_int_equal(1, e.a.t->world->producer_count);
  cj_txn_init(e.a.t->world->producers[0]);
  exact_notif(&e, "n1");
  cj_test_advance(e.a.t, 1000);
  assert_int_equal(CJ_ERR_FENCED, cj_error_code(cj_test_member_error(e.a.t, "a")));
  assert_outputs(&e, "");
  exact_end(&e);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(outputs_are_seen_with_their_positions_only),
      cmocka_unit_test(stopping_commits_and_leaves_nothing_open),
      cmocka_unit_test(inputs_are_what_was_committed),
      cmocka_unit_test(a_restart_aborts_what_the_crash_left_open),
      cmocka_unit_test(a_crashed_members_transaction_times_out),
      cmocka_unit_test(a_crash_between_the_commit_and_the_store),
      cmocka_unit_test(a_rebalance_with_a_commit_under_way),
      cmocka_unit_test(a_rebalance_commits_what_is_open),
      cmocka_unit_test(a_commit_outlives_its_revocation),
      cmocka_unit_test(a_revocation_outlives_the_commit),
      cmocka_unit_test(a_zombie_is_fenced),
      cmocka_unit_test(a_zombies_outputs_are_not_skipped),
      cmocka_unit_test(another_one_with_our_id_ends_the_worker),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
