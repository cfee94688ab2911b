/* SPDX-License-Identifier: BSD-2-Clause */
/* Exactly once: outputs, the positions of all inputs and, after them, the stores.
 *
 * Every notification of these tests meets a price, and their partition has no holes. So there is
 * one thing that has to hold after every single step, whatever happens: a reader under
 * read_committed sees as many outputs as the group has committed notifications, and no store is
 * ahead of what the group has committed of its table. Both are watched throughout. */
#include "lib/alerts.h"

#include "testing/driver.h"

enum { MEMBERS = 3 };
static const char *const members[MEMBERS] = {"a", "b", "c"};

typedef struct {
  alerts a;
  bool dropping;         /* a policy drops outputs: they are fewer */
  bool started[MEMBERS]; /* ever */
  char violation[256];   /* the first one */
} exact;

static int64_t at_least_zero(int64_t n) {
  return n < 0 ? 0 : n;
}

/* Only notes: a failed assertion would jump out of the driver. */
static void look(void *user, cj_test *t) {
  exact *e = user;
  int64_t seen = (int64_t)cj_test_count(t, "alerts", 0);
  int64_t done = at_least_zero(cj_test_committed(t, "notif", 0));
  int64_t table = at_least_zero(cj_test_committed(t, "price", 0));
  if (e->violation[0]) return;
  if (e->dropping ? seen > done : seen != done)
    snprintf(e->violation, sizeof e->violation, "%d outputs of %d notifications are to be seen",
             (int)seen, (int)done);
  for (size_t m = 0; m < MEMBERS; m++) {
    int64_t stored = e->started[m] ? cj_test_stored(t, members[m], "price", 0) : -1;
    if (stored > table)
      snprintf(e->violation, sizeof e->violation, "the store of %s is at %d, the group at %d",
               members[m], (int)stored, (int)table);
  }
}

static void start(exact *e, const char *member) {
  for (size_t m = 0; m < MEMBERS; m++)
    if (strcmp(members[m], member) == 0) e->started[m] = true;
  alerts_start(&e->a, member);
}

/* One partition, a price of 1 at the beginning, and member a. `properties` may be NULL. */
static void begin(exact *e, const char *const *properties) {
  memset(e, 0, sizeof *e);
  const char *all[32] = {"processing.guarantee", "exactly_once", "log.level", "debug"};
  for (size_t i = 0; properties && properties[i]; i++)
    all[4 + i] = properties[i];
  e->a = alerts_open(INNER, 1, all);
  alerts_price(&e->a, "X", "1", 0);
  start(e, "a");
  cj_test_settle(e->a.t);
  cj_test_watch(e->a.t, look, e);
}

static void end(exact *e) {
  if (e->violation[0]) fail_msg("%s", e->violation);
  alerts_close(&e->a);
}

static void notif(exact *e, const char *value) {
  alerts_notif(&e->a, "X", value, 1000);
}

#define assert_outputs(e, expected) assert_alerts(&(e)->a, expected)

/* A transaction that is open: `value` was processed, its output is in the log, not to be seen. */
static void leave_open(exact *e, const char *value) {
  size_t before = cj_test_count(e->a.t, "alerts", 0);
  int64_t end_before = cj_test_end(e->a.t, "alerts", 0);
  notif(e, value);
  cj_test_settle(e->a.t);
  assert_true(cj_test_end(e->a.t, "alerts", 0) > end_before);
  assert_int_equal(before, cj_test_count(e->a.t, "alerts", 0));
}

/* A commit is asked for and waits for the output of `value`, until `let_commit`. */
static void commit_waits(exact *e, const char *value) {
  cj_test_hold(e->a.t, "alerts", 0, true);
  notif(e, value);
  cj_test_settle(e->a.t);
  cj_test_commit(e->a.t);
}

static void let_commit(exact *e) {
  cj_test_hold(e->a.t, "alerts", 0, false);
}

/* ---- without trouble ---- */

static void outputs_are_seen_with_their_positions_only(void **state) {
  (void)state;
  exact e;
  begin(&e, NULL);
  leave_open(&e, "n1");
  assert_int_equal(-1, cj_test_committed(e.a.t, "notif", 0));
  cj_test_advance(e.a.t, 100); /* commit.interval.ms */
  assert_outputs(&e, "n1+1");
  assert_int_equal(1, cj_test_committed(e.a.t, "notif", 0));
  assert_int_equal(1, cj_test_committed(e.a.t, "price", 0));
  assert_int_equal(1, cj_test_stored(e.a.t, "a", "price", 0));
  for (int i = 0; i < 50; i++) {
    notif(&e, "n");
    cj_test_advance(e.a.t, 10);
  }
  cj_test_advance(e.a.t, 100);
  assert_int_equal(51, cj_test_count(e.a.t, "alerts", 0));
  assert_int_equal(0, cj_test_logged(e.a.t, "transaction was aborted"));
  end(&e);
}

static void stopping_commits_and_leaves_nothing_open(void **state) {
  (void)state;
  exact e;
  begin(&e, NULL);
  leave_open(&e, "n1");
  cj_test_stop_member(e.a.t, "a");
  assert_outputs(&e, "n1+1");
  int64_t stopped = cj_test_end(e.a.t, "alerts", 0);
  cj_test_advance(e.a.t, 60000);
  assert_int_equal(stopped, cj_test_end(e.a.t, "alerts", 0)); /* nothing had to time out */
  end(&e);
}

/* The inputs are read_committed: what was taken back never happened, what is open waits. */
static void inputs_are_what_was_committed(void **state) {
  (void)state;
  exact e;
  begin(&e, NULL);
  cj_test_watch(e.a.t, NULL, NULL); /* markers make holes */
  cj_test_transaction(e.a.t);
  alerts_price(&e.a, "X", "wrong", 500);
  notif(&e, "wrong");
  cj_test_transaction_end(e.a.t, false);
  notif(&e, "n1");
  cj_test_transaction(e.a.t);
  alerts_price(&e.a, "X", "2", 2000);
  cj_test_advance(e.a.t, 1000);
  assert_outputs(&e, "n1+1");
  assert_string_equal("1", alerts_row(&e.a, "X"));
  cj_test_transaction_end(e.a.t, true);
  cj_test_advance(e.a.t, 1000);
  assert_string_equal("2", alerts_row(&e.a, "X"));
  assert_int_equal(cj_test_end(e.a.t, "price", 0), cj_test_committed(e.a.t, "price", 0));
  end(&e);
}

/* ---- crashes ---- */

/* The successor has the same transactional id: its start aborts what was left open, at once. */
static void a_restart_aborts_what_the_crash_left_open(void **state) {
  (void)state;
  exact e;
  begin(&e, NULL);
  leave_open(&e, "n1");
  cj_test_crash_member(e.a.t, "a");
  start(&e, "a");
  cj_test_advance(e.a.t, 50000); /* the old member's session */
  assert_outputs(&e, "n1+1");
  end(&e);
}

/* Another process has another id: the broker aborts after transaction.timeout.ms. */
static void a_crashed_members_transaction_times_out(void **state) {
  (void)state;
  exact e;
  begin(&e, NULL);
  leave_open(&e, "n1");
  cj_test_crash_member(e.a.t, "a");
  int64_t open_end = cj_test_end(e.a.t, "alerts", 0);
  cj_test_advance(e.a.t, 9999);
  assert_int_equal(open_end, cj_test_end(e.a.t, "alerts", 0));
  cj_test_advance(e.a.t, 1);
  assert_int_equal(open_end + 1, cj_test_end(e.a.t, "alerts", 0)); /* the marker */
  start(&e, "b");
  cj_test_advance(e.a.t, 60000);
  assert_outputs(&e, "n1+1");
  end(&e);
}

/* The store is behind by one commit then: it restores forward, and is not wiped. */
static void a_crash_between_the_commit_and_the_store(void **state) {
  (void)state;
  exact e;
  begin(&e, NULL);
  cj_test_advance(e.a.t, 100);
  alerts_price(&e.a, "X", "2", 500);
  commit_waits(&e, "n1");
  cj_test_freeze_member(e.a.t, "a", true); /* the client goes on, the worker does not */
  let_commit(&e);
  cj_test_settle(e.a.t);
  assert_int_equal(1, cj_test_committed(e.a.t, "notif", 0));
  assert_int_equal(1, cj_test_stored(e.a.t, "a", "price", 0));
  assert_int_equal(2, cj_test_committed(e.a.t, "price", 0));
  cj_test_crash_member(e.a.t, "a");
  start(&e, "a");
  cj_test_advance(e.a.t, 50000);
  assert_int_equal(2, cj_test_stored(e.a.t, "a", "price", 0));
  assert_string_equal("2", alerts_row(&e.a, "X"));
  assert_int_equal(1, cj_test_logged(e.a.t, "resumes at 1, up to 2"));
  assert_int_equal(0, cj_test_logged(e.a.t, "rebuilt"));
  notif(&e, "n2");
  cj_test_advance(e.a.t, 1000);
  assert_outputs(&e, "n1+2 n2+2");
  end(&e);
}

/* ---- rebalances ---- */

static void a_rebalance_with_a_commit_under_way(void **state) {
  (void)state;
  exact e;
  begin(&e, NULL);
  commit_waits(&e, "n1");
  start(&e, "b");
  cj_test_settle(e.a.t);
  assert_int_equal(-1, cj_test_committed(e.a.t, "notif", 0)); /* the revoke waits for it */
  let_commit(&e);
  cj_test_settle(e.a.t);
  notif(&e, "n2");
  cj_test_advance(e.a.t, 1000);
  assert_outputs(&e, "n1+1 n2+1");
  assert_int_equal(0, cj_test_logged(e.a.t, "positioned anew"));
  end(&e);
}

static void a_rebalance_commits_what_is_open(void **state) {
  (void)state;
  exact e;
  begin(&e, NULL);
  leave_open(&e, "n1");
  start(&e, "b");
  cj_test_settle(e.a.t);
  assert_outputs(&e, "n1+1");
  end(&e);
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
  begin(&e, WITH("revoke.timeout.ms", "1000", "rd.queue.buffering.max.messages", "1"));
  cj_test_advance(e.a.t, 100);
  cj_test_hold(e.a.t, "alerts", 0, true);
  for (int i = 0; i < 3; i++)
    notif(&e, "n");
  cj_test_settle(e.a.t);
  start(&e, "b");
  cj_test_advance(e.a.t, 2000);
  assert_int_equal(1, cj_test_logged(e.a.t, "longer than revoke.timeout.ms"));
  let_commit(&e);
  cj_test_advance(e.a.t, 5000);
  assert_outputs(&e, "n+1 n+1 n+1");
  end(&e);
}

/* `stop` ends the member's membership while it has a transaction open, another one does the work
 * again; then it goes on, after `still_ms`. */
static void zombie(void (*stop)(cj_test *, const char *, bool), bool handed_over,
                   int64_t still_ms) {
  exact e;
  begin(&e, WITH("rd.session.timeout.ms", "6000", "rd.max.poll.interval.ms", "7000",
                 "revoke.timeout.ms", "1000"));
  cj_test_advance(e.a.t, 100);
  if (handed_over)
    leave_open(&e, "n1");
  else
    commit_waits(&e, "n1");
  stop(e.a.t, "a", true);
  let_commit(&e);
  start(&e, "b");
  cj_test_advance(e.a.t, still_ms);
  assert_string_equal("b", cj_test_owner(e.a.t, 0));
  stop(e.a.t, "a", false);
  cj_test_advance(e.a.t, 60000);
  notif(&e, "n2");
  cj_test_advance(e.a.t, 60000);
  assert_outputs(&e, "n1+1 n2+1");
  alerts_well(&e.a, "a");
  alerts_well(&e.a, "b");
  end(&e);
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
  begin(&e, WITH("errors.produce", "skip"));
  cj_test_advance(e.a.t, 100);
  leave_open(&e, "n1");
  cj_test_stall_member(e.a.t, "a", true);
  cj_test_advance(e.a.t, 20000); /* its session goes on for 45 s */
  notif(&e, "n2");
  cj_test_stall_member(e.a.t, "a", false);
  cj_test_advance(e.a.t, 2000);
  assert_outputs(&e, "n1+1 n2+1");
  assert_int_equal(0, cj_test_metric(e.a.t, "dropped", "produce"));
  assert_int_equal(1, cj_test_logged(e.a.t, "open for longer than transaction.timeout.ms"));
  alerts_well(&e.a, "a");
  end(&e);
}

/* A copy of the state directory, say: two that take the id from each other would go on for ever. */
static void another_one_with_our_id_ends_the_worker(void **state) {
  (void)state;
  exact e;
  begin(&e, NULL);
  cj_test_advance(e.a.t, 20000);
  assert_int_equal(1, e.a.t->world->producer_count);
  cj_txn_init(e.a.t->world->producers[0]);
  notif(&e, "n1");
  cj_test_advance(e.a.t, 1000);
  assert_int_equal(CJ_ERR_FENCED, cj_error_code(cj_test_member_error(e.a.t, "a")));
  assert_outputs(&e, "");
  end(&e);
}

/* ---- commits that fail, and those of which nobody knows ---- */

static void a_commit_that_has_to_be_aborted(void **state) {
  (void)state;
  exact e;
  begin(&e, NULL);
  cj_test_advance(e.a.t, 100);
  cj_test_fail_request(e.a.t, CJ_TEST_TXN_COMMIT, CJ_TEST_REFUSED, 2);
  alerts_price(&e.a, "X", "2", 500);
  leave_open(&e, "n1");
  cj_test_advance(e.a.t, 1000);
  assert_outputs(&e, "n1+2");
  assert_int_equal(2, cj_test_logged(e.a.t, "its transaction was aborted"));
  assert_int_equal(0, cj_test_logged(e.a.t, "rebuilt"));
  assert_string_equal("2", alerts_row(&e.a, "X"));
  alerts_well(&e.a, "a");
  end(&e);
}

static void unclear(cj_test_fault fault, bool committed) {
  exact e;
  begin(&e, NULL);
  cj_test_advance(e.a.t, 100);
  cj_test_fail_request(e.a.t, CJ_TEST_TXN_COMMIT, fault, 1);
  leave_open(&e, "n1");
  cj_test_advance(e.a.t, 30000);
  assert_outputs(&e, "n1+1");
  assert_int_equal(committed, cj_test_logged(e.a.t, "unclear transaction was committed"));
  assert_int_equal(!committed, cj_test_logged(e.a.t, "unclear transaction was aborted"));
  /* What was committed is not done again. */
  assert_int_equal(!committed, cj_test_logged(e.a.t, "positioned anew"));
  notif(&e, "n2");
  cj_test_advance(e.a.t, 1000);
  assert_outputs(&e, "n1+1 n2+1");
  end(&e);
}

static void a_commit_of_which_nobody_knows(void **state) {
  (void)state;
  unclear(CJ_TEST_DONE_UNTOLD, true);
  unclear(CJ_TEST_UNANSWERED, false);
  unclear(CJ_TEST_DONE_LATE, false);
  unclear(CJ_TEST_DECIDED, true);
}

/* KIP-890: the end of one transaction reaches the broker when the next is open. */
static void a_late_end_hits_nothing_of_the_next(void **state) {
  (void)state;
  static const cj_test_request ends[] = {CJ_TEST_TXN_COMMIT, CJ_TEST_TXN_ABORT};
  for (size_t i = 0; i < 2; i++) {
    exact e;
    begin(&e, WITH("commit.interval.ms", "2000"));
    cj_test_advance(e.a.t, 2000);
    cj_test_fail_request(e.a.t, ends[i], CJ_TEST_DONE_LATE, 1);
    if (ends[i] == CJ_TEST_TXN_ABORT)
      cj_test_fail_request(e.a.t, CJ_TEST_TXN_COMMIT, CJ_TEST_REFUSED, 1);
    leave_open(&e, "n1");
    cj_test_commit(e.a.t);
    cj_test_advance(e.a.t, 200);
    leave_open(&e, "n2"); /* with n1 done again */
    cj_test_advance(e.a.t, 500);
    assert_outputs(&e, ""); /* it has arrived, and found its epoch over */
    cj_test_advance(e.a.t, 5000);
    assert_outputs(&e, "n1+1 n2+1");
    end(&e);
  }
}

static void a_producer_that_cannot_be_started_is_tried_again(void **state) {
  (void)state;
  exact e;
  begin(&e, NULL);
  cj_test_fail_request(e.a.t, CJ_TEST_TXN_INIT, CJ_TEST_UNANSWERED, 2);
  cj_test_fail_request(e.a.t, CJ_TEST_TXN_INIT, CJ_TEST_REFUSED, 2);
  cj_test_fail_request(e.a.t, CJ_TEST_TXN_COMMIT, CJ_TEST_DONE_UNTOLD, 1);
  leave_open(&e, "n1");
  cj_test_advance(e.a.t, 40000);
  assert_outputs(&e, "n1+1");
  notif(&e, "n2");
  cj_test_advance(e.a.t, 1000);
  assert_outputs(&e, "n1+1 n2+1");
  end(&e);
}

static void an_abort_of_which_nobody_knows(void **state) {
  (void)state;
  for (cj_test_fault fault = CJ_TEST_REFUSED; fault <= CJ_TEST_DONE_LATE; fault++) {
    exact e;
    begin(&e, NULL);
    cj_test_advance(e.a.t, 100);
    cj_test_fail_request(e.a.t, CJ_TEST_TXN_COMMIT, CJ_TEST_REFUSED, 1);
    cj_test_fail_request(e.a.t, CJ_TEST_TXN_ABORT, fault, 1);
    leave_open(&e, "n1");
    cj_test_advance(e.a.t, 30000);
    assert_outputs(&e, "n1+1");
    end(&e);
  }
}

static void brokers_gone_for_a_while(void **state) {
  (void)state;
  for (int open = 0; open < 2; open++) {
    exact e;
    begin(&e, NULL);
    cj_test_advance(e.a.t, 100);
    if (open) leave_open(&e, "n1");
    cj_test_broker_up(e.a.t, false);
    if (!open) notif(&e, "n1");
    cj_test_advance(e.a.t, 40000);
    cj_test_broker_up(e.a.t, true);
    cj_test_advance(e.a.t, 40000);
    alerts_well(&e.a, "a");
    assert_outputs(&e, "n1+1");
    end(&e);
  }
}

/* ---- outputs that cannot be produced ---- */

static void a_failed_output_ends_the_member(void **state) {
  (void)state;
  exact e;
  begin(&e, NULL);
  cj_test_advance(e.a.t, 100);
  cj_test_fail_delivery(e.a.t, "alerts", 1);
  notif(&e, "n1");
  notif(&e, "n2");
  cj_test_advance(e.a.t, 1000);
  assert_int_equal(CJ_ERR_PRODUCE, cj_error_code(cj_test_member_error(e.a.t, "a")));
  assert_outputs(&e, "");
  assert_int_equal(0, cj_test_committed(e.a.t, "notif", 0));
  start(&e, "a");
  cj_test_advance(e.a.t, 60000);
  assert_outputs(&e, "n1+1 n2+1");
  end(&e);
}

static void a_failed_output_is_skipped(void **state) {
  (void)state;
  exact e;
  begin(&e, WITH("errors.produce", "skip"));
  e.dropping = true;
  cj_test_advance(e.a.t, 100);
  notif(&e, "n1");
  cj_test_settle(e.a.t);
  cj_test_fail_delivery(e.a.t, "alerts", 1);
  notif(&e, "n2");
  cj_test_settle(e.a.t);
  assert_int_equal(1, cj_test_logged(e.a.t, "its transaction was aborted")); /* at once */
  notif(&e, "n3");
  cj_test_advance(e.a.t, 1000);
  assert_outputs(&e, "n1+1 n3+1");
  assert_int_equal(1, cj_test_metric(e.a.t, "dropped", "produce"));
  assert_int_equal(3, cj_test_committed(e.a.t, "notif", 0));
  end(&e);
}

static void a_failed_output_goes_to_the_dead_letter_topic(void **state) {
  (void)state;
  exact e;
  begin(&e, WITH("errors.produce", "dead_letter", "errors.dead.letter.topic", "dead"));
  e.dropping = true;
  cj_test_advance(e.a.t, 100);
  notif(&e, "n1");
  cj_test_settle(e.a.t);
  cj_test_fail_delivery(e.a.t, "alerts", 1);
  notif(&e, "n2");
  cj_test_settle(e.a.t);
  notif(&e, "n3");
  cj_test_advance(e.a.t, 1000);
  assert_outputs(&e, "n1+1 n3+1");
  assert_int_equal(1, cj_test_count(e.a.t, "dead", 0));
  alerts_well(&e.a, "a");
  end(&e);
}

/* There is no further topic for it. */
static void a_dead_letter_that_fails_ends_the_member(void **state) {
  (void)state;
  exact e;
  begin(&e, WITH("errors.process", "dead_letter", "errors.dead.letter.topic", "dead",
                 "errors.produce", "dead_letter"));
  cj_test_advance(e.a.t, 100);
  cj_test_fail_delivery(e.a.t, "dead", 1);
  notif(&e, "fail");
  cj_test_advance(e.a.t, 1000);
  assert_int_equal(CJ_ERR_PRODUCE, cj_error_code(cj_test_member_error(e.a.t, "a")));
  assert_int_equal(0, cj_test_committed(e.a.t, "notif", 0));
  end(&e);
}

/* The transaction in which a record failed holds outputs of it, maybe: it is not committed. */
static void a_record_that_fails_takes_its_transaction_with_it(void **state) {
  (void)state;
  exact e;
  begin(&e, NULL);
  cj_test_advance(e.a.t, 100);
  leave_open(&e, "n1");
  notif(&e, "fail");
  cj_test_advance(e.a.t, 1000);
  assert_int_equal(CJ_ERR_PROCESS, cj_error_code(cj_test_member_error(e.a.t, "a")));
  assert_outputs(&e, "");
  assert_int_equal(0, cj_test_committed(e.a.t, "notif", 0));
  end(&e);
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
      cmocka_unit_test(a_commit_that_has_to_be_aborted),
      cmocka_unit_test(a_commit_of_which_nobody_knows),
      cmocka_unit_test(a_late_end_hits_nothing_of_the_next),
      cmocka_unit_test(a_producer_that_cannot_be_started_is_tried_again),
      cmocka_unit_test(an_abort_of_which_nobody_knows),
      cmocka_unit_test(brokers_gone_for_a_while),
      cmocka_unit_test(a_failed_output_ends_the_member),
      cmocka_unit_test(a_failed_output_is_skipped),
      cmocka_unit_test(a_failed_output_goes_to_the_dead_letter_topic),
      cmocka_unit_test(a_dead_letter_that_fails_ends_the_member),
      cmocka_unit_test(a_record_that_fails_takes_its_transaction_with_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
