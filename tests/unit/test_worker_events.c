/* SPDX-License-Identifier: BSD-2-Clause */
/* The worker and events in nasty orders: late answers, assignments told twice, revokes in the
 * middle of anything. */
#include "lib/worker_fixture.h"

/* ---- spinning ---- */

static void it_rests_while_a_commit_holds_up_a_task(void **state) {
  (void)state;
  fixture *f = open_worker(NULL);
  one_price_one_notif(f);
  assign(f, 1);
  f->io.held[CJ_REQ_COMMIT] = true;
  advance(f, 1000);
  assert_int_equal(1, f->io.submitted[CJ_REQ_COMMIT]);
  f->io.logs[PRICE][0].error = CJ_IO_RETRIABLE; /* positioned anew, which waits for the commit */
  advance(f, 1000);
  assert_false(runs(f, 0));
  let_go(f, CJ_REQ_COMMIT);
  assert_true(runs(f, 0));
  well(f);
  close_worker(f);
}

static void it_rests_while_ends_are_not_answered(void **state) {
  (void)state;
  fixture *f = open_worker(NULL);
  assign(f, 1);
  settle(f);
  f->io.held[CJ_REQ_ENDS] = true;
  advance(f, 20000);
  let_go(f, CJ_REQ_ENDS);
  f->io.code[CJ_REQ_ENDS] = CJ_IO_RETRIABLE;
  one_price_one_notif(f);
  advance(f, 20000);
  assert_int_equal(0, f->io.produced); /* an end that cannot be learnt is waited for */
  f->io.held[CJ_REQ_COMMITTED] = true;
  f->io.logs[PRICE][0].error = CJ_IO_RETRIABLE; /* and wanted no more by a task without positions */
  advance(f, 20000);
  f->io.code[CJ_REQ_ENDS] = CJ_IO_OK;
  let_go(f, CJ_REQ_COMMITTED);
  advance(f, 1000);
  assert_int_equal(1, f->io.produced);
  well(f);
  close_worker(f);
}

/* Revoked with a task that is to be fetched, one that idles, and a commit that does not come. */
static void it_rests_while_a_revoke_waits_for_its_commit(void **state) {
  (void)state;
  fixture *f = open_worker(WITH("max.task.idle.ms", "2000", "commit.interval.ms", "60000"));
  one_price_one_notif(f);
  assign(f, 3);
  advance(f, 100);
  f->io.logs[NOTIF][1].error = CJ_IO_RETRIABLE;
  advance(f, 50);
  f->io.logs[NOTIF][2].error = CJ_IO_RETRIABLE;
  advance(f, 60); /* the one is positioned, the other will be in 40 ms: they are fetched together */
  f->io.held[CJ_REQ_COMMIT] = true;
  assert_int_equal(0, f->io.produced);
  revoke(f, 3, false);
  advance(f, 9000);
  assert_int_equal(2, f->io.assigns); /* not answered yet */
  let_go(f, CJ_REQ_COMMIT);
  assert_int_equal(3, f->io.assigns);
  well(f);
  close_worker(f);
}

static void it_rests_while_it_drains(void **state) {
  (void)state;
  fixture *f = open_worker(NULL);
  one_price_one_notif(f);
  assign(f, 1);
  f->io.held[CJ_REQ_COMMIT] = true;
  advance(f, 1000);
  cj_worker_stop(f->worker);
  advance(f, 20000);
  assert_false(f->io.closed);
  let_go(f, CJ_REQ_COMMIT);
  assert_true(f->io.closed);
  assert_int_equal(1, committed(f, NOTIF, 0));
  well(f);
  close_worker(f);
}

/* With nothing to be committed there is nothing to wait for. */
static void a_record_that_fails_a_transaction_ends_the_worker_at_once(void **state) {
  (void)state;
  exactly_once = true;
  fixture *f = open_worker(NULL);
  f->io.held[CJ_REQ_ENDS] = true;
  assign(f, 1);
  settle(f);
  script_append(&f->io, NOTIF, 0, "X", "bad", 1500);
  script_append(&f->io, PRICE, 0, "X", "2", 2000); /* nothing has to be asked for before it */
  settle(f);
  assert_true(f->io.closed);
  assert_int_equal(CJ_ERR_PROCESS, cj_error_code(cj_worker_error(f->worker)));
  close_worker(f);
}

/* ---- late, twice ---- */

/* The question of a generation that is over: its answer is none any more, and it holds up nothing.
 */
static void a_new_assignment_asks_anew(void **state) {
  (void)state;
  fixture *f = open_worker(NULL);
  f->io.logs[NOTIF][0].committed = 0;
  one_price_one_notif(f);
  f->io.held[CJ_REQ_COMMITTED] = true;
  assign(f, 1);
  settle(f);
  const script_request before = f->io.last[CJ_REQ_COMMITTED];
  revoke(f, 1, false);
  settle(f);
  assign(f, 1);
  settle(f);
  assert_int_equal(2, f->io.submitted[CJ_REQ_COMMITTED]);
  script_answer(&f->io, &before, CJ_IO_OK); /* read before the rebalance */
  settle(f);
  assert_int_equal(0, f->io.submitted[CJ_REQ_BOUNDS]);
  f->io.logs[NOTIF][0].committed = f->io.logs[PRICE][0].committed = 1;
  let_go(f, CJ_REQ_COMMITTED);
  assert_true(runs(f, 0));
  assert_int_equal(0, f->io.produced);
  well(f);
  close_worker(f);
}

/* No protocol does this, but a worker that took the second assignment for a resumption would join
 * what is read again with what was not committed. */
static void an_assignment_told_twice_starts_from_the_store(void **state) {
  (void)state;
  fixture *f = open_worker(NULL);
  one_price_one_notif(f);
  script_append(&f->io, PRICE, 0, "X", "2", 2000);
  assign(f, 1);
  f->io.held[CJ_REQ_COMMIT] = true;
  advance(f, 1500);
  assign(f, 1);
  advance(f, 1000);
  assert_int_equal(2, f->io.produced);
  assert_string_equal("n1+1", f->io.values[0]);
  assert_string_equal("n1+1", f->io.values[1]);
  let_go(f, CJ_REQ_COMMIT);
  advance(f, 2000);
  assert_int_equal(2, committed(f, PRICE, 0));
  well(f);
  close_worker(f);
}

/* Cooperative: a commit is given up for the sake of those that leave. Those that stay have outputs
 * of it on their way, which the next commit waits for. */
static void outputs_of_a_commit_given_up_are_waited_for(void **state) {
  (void)state;
  fixture *f = open_worker(WITH("revoke.timeout.ms", "1000"));
  f->io.incremental = true;
  one_price_one_notif(f);
  script_append(&f->io, NOTIF, 1, "Y", "n2", 1500);
  assign(f, 2);
  f->io.outputs_held = true;
  advance(f, 1500); /* the cut is made */
  script_rebalance(&f->io, CJ_EV_REVOKE, NOTIF, 1, 1, false);
  advance(f, 1100);
  assert_int_equal(1, f->io.removes); /* answered, over its budget, in one call */
  assert_false(f->io.logs[NOTIF][1].assigned || f->io.logs[PRICE][1].assigned);
  assert_true(runs(f, 0));
  script_append(&f->io, NOTIF, 0, "X", "n3", 1600);
  advance(f, 3000);
  assert_int_equal(CJ_OFFSET_NONE, committed(f, NOTIF, 0));
  f->io.outputs_held = false;
  advance(f, 3000);
  assert_int_equal(2, committed(f, NOTIF, 0));
  assert_int_equal(1, committed(f, PRICE, 0));
  cj_worker_stop(f->worker);
  settle(f);
  assert_true(f->io.closed);
  assert_false(f->io.logs[NOTIF][0].assigned || f->io.logs[PRICE][0].assigned);
  well(f);
  close_worker(f);
}

/* Lost in the middle of a commit: its answer is nobody's. The store stands behind the group, and is
 * restored up to it when the task comes back. */
static void a_commit_answered_after_the_loss_is_read_from_the_group(void **state) {
  (void)state;
  fixture *f = open_worker(NULL);
  one_price_one_notif(f);
  assign(f, 1);
  f->io.held[CJ_REQ_COMMIT] = true;
  advance(f, 1000);
  revoke(f, 1, true);
  settle(f);
  assert_int_equal(f->states.opened, f->states.closed); /* the task is gone */
  let_go(f, CJ_REQ_COMMIT);
  assert_int_equal(1, committed(f, PRICE, 0));
  assign(f, 1);
  settle(f);
  assert_non_null(strstr(f->logged, "restore price[0]: done, 1 records from 0 to 1"));
  assert_int_equal(1, f->io.produced);
  well(f);
  close_worker(f);
}

static void a_failure_in_a_revoke_answers_it(void **state) {
  (void)state;
  fixture *f = open_worker(NULL);
  one_price_one_notif(f);
  assign(f, 1);
  f->io.held[CJ_REQ_COMMIT] = true;
  f->io.close_held = true;
  settle(f);
  revoke(f, 1, false);
  settle(f);
  int before = f->io.assigns;
  script_event *error = script_push(&f->io, CJ_EV_ERROR);
  error->event.fatal = true;
  error->event.code = CJ_IO_OTHER;
  settle(f);
  assert_int_equal(before + 1, f->io.assigns);
  assert_true(f->io.closed);
  script_push(&f->io, CJ_EV_CLOSED);
  settle(f);
  assert_int_equal(CJ_ERR_KAFKA, cj_error_code(cj_worker_error(f->worker)));
  close_worker(f);
}

/* ---- the state of nodes ---- */

/* What the nodes keep for the task has seen records that will come again. */
static void nodes_start_anew_where_work_is_undone(void **state) {
  (void)state;
  fixture *f = open_worker(WITH("commit.interval.ms", "60000"));
  one_price_one_notif(f);
  assign(f, 1);
  settle(f);
  assert_int_equal(1, f->states.opened);
  f->io.logs[PRICE][0].error = CJ_IO_RETRIABLE;
  advance(f, 1000);
  assert_int_equal(2, f->io.produced);
  assert_int_equal(2, f->states.opened);
  cj_worker_commit(f->worker);
  settle(f);
  f->io.logs[PRICE][0].error = CJ_IO_RETRIABLE; /* nothing is undone: they go on */
  advance(f, 1000);
  assert_int_equal(2, f->io.produced);
  assert_int_equal(2, f->states.opened);
  well(f);
  close_worker(f);
}

/* ---- transactions ---- */

/* Outputs of a task that is positioned anew are in the open transaction, and would come twice. */
static void a_task_positioned_anew_aborts_its_transaction(void **state) {
  (void)state;
  exactly_once = true;
  fixture *f = open_worker(NULL);
  one_price_one_notif(f);
  assign(f, 1);
  settle(f);
  assert_int_equal(1, f->io.produced);
  f->io.logs[PRICE][0].error = CJ_IO_RETRIABLE;
  settle(f);
  assert_int_equal(1, f->io.submitted[CJ_REQ_TXN_ABORT]);
  advance(f, 1000);
  assert_int_equal(2, f->io.produced);
  assert_int_equal(1, f->io.submitted[CJ_REQ_TXN_ABORT]);
  assert_int_equal(1, committed(f, NOTIF, 0));
  well(f);
  close_worker(f);
}

/* Nor does another task go on in the step in which a transaction ends. The tasks take turns: an odd
 * number of steps more lets the other one begin. */
static void a_task_about_to_run_waits_for_the_abort(void **state) {
  (void)state;
  for (int more = 0; more < 2; more++) {
    exactly_once = true;
    fixture *f = open_worker(WITH("commit.interval.ms", "9000"));
    one_price_one_notif(f);
    script_append(&f->io, PRICE, 1, "Y", "1", 1000);
    script_append(&f->io, NOTIF, 1, "Y", "n2", 1500);
    script_append(&f->io, PRICE, 1, "Z", "1", 2000); /* nothing has to be asked for before it */
    f->io.logs[NOTIF][1].error = CJ_IO_RETRIABLE;
    assign(f, 2);
    settle(f);
    f->io.held[CJ_REQ_BOUNDS] = true;
    advance(f, 200);
    assert_int_equal(1, f->io.produced);
    if (more) cj_worker_step(f->worker, &f->deadline);
    f->io.logs[PRICE][0].error = CJ_IO_RETRIABLE;
    let_go(f, CJ_REQ_BOUNDS);
    assert_int_equal(1, f->io.submitted[CJ_REQ_TXN_ABORT]);
    advance(f, 1000);
    assert_true(f->io.produced >= 3);
    well(f);
    close_worker(f);
  }
}

static void outputs_of_a_record_that_failed_are_not_committed(void **state) {
  (void)state;
  exactly_once = true;
  fixture *f = open_worker(NULL);
  one_price_one_notif(f);
  script_append(&f->io, NOTIF, 0, "X", "bad", 1600);
  assign(f, 1);
  advance(f, 1000);
  assert_int_equal(2, f->io.produced);
  assert_int_equal(0, f->io.submitted[CJ_REQ_TXN_COMMIT]);
  assert_int_equal(CJ_ERR_PROCESS, cj_error_code(cj_worker_error(f->worker)));
  close_worker(f);
}

/* The io aborts what is open when it is closed; the revoke that comes then does not do it again. */
static void leaving_in_the_middle_of_a_commit_asks_for_nothing_more(void **state) {
  (void)state;
  exactly_once = true;
  fixture *f = open_worker(WITH("shutdown.timeout.ms", "300"));
  one_price_one_notif(f);
  assign(f, 1);
  f->io.held[CJ_REQ_TXN_COMMIT] = true;
  f->io.close_held = true;
  settle(f);
  cj_worker_stop(f->worker);
  advance(f, 300);
  assert_true(f->io.closed);
  revoke(f, 1, false);
  settle(f);
  assert_int_equal(0, f->io.submitted[CJ_REQ_TXN_ABORT]);
  script_push(&f->io, CJ_EV_CLOSED);
  settle(f);
  well(f);
  close_worker(f);
}

/* An output that failed its transaction is left to the policy when its record comes again, and only
 * until that is committed. */
static void a_refused_output_is_forgotten_once_its_record_is_behind(void **state) {
  (void)state;
  exactly_once = true;
  fixture *f = open_worker(WITH("errors.produce", "skip"));
  one_price_one_notif(f);
  assign(f, 1);
  f->io.outputs_held = true;
  settle(f);
  f->io.code[CJ_REQ_TXN_COMMIT] = CJ_IO_ABORTABLE;
  script_deliver(&f->io, 1, CJ_IO_TOO_LARGE);
  cj_worker_commit(f->worker);
  settle(f);
  f->io.code[CJ_REQ_TXN_COMMIT] = CJ_IO_OK;
  advance(f, 1000);
  assert_int_equal(1, f->io.produced);
  assert_int_equal(1, committed(f, NOTIF, 0));
  f->io.logs[NOTIF][0].committed = 0; /* an operator's reset */
  revoke(f, 1, false);
  settle(f);
  assign(f, 1);
  settle(f);
  assert_int_equal(2, f->io.produced);
  well(f);
  close_worker(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_rests_while_a_commit_holds_up_a_task),
      cmocka_unit_test(it_rests_while_ends_are_not_answered),
      cmocka_unit_test(it_rests_while_a_revoke_waits_for_its_commit),
      cmocka_unit_test(it_rests_while_it_drains),
      cmocka_unit_test(a_record_that_fails_a_transaction_ends_the_worker_at_once),
      cmocka_unit_test(a_new_assignment_asks_anew),
      cmocka_unit_test(an_assignment_told_twice_starts_from_the_store),
      cmocka_unit_test(outputs_of_a_commit_given_up_are_waited_for),
      cmocka_unit_test(a_commit_answered_after_the_loss_is_read_from_the_group),
      cmocka_unit_test(a_failure_in_a_revoke_answers_it),
      cmocka_unit_test(nodes_start_anew_where_work_is_undone),
      cmocka_unit_test(a_task_positioned_anew_aborts_its_transaction),
      cmocka_unit_test(a_task_about_to_run_waits_for_the_abort),
      cmocka_unit_test(outputs_of_a_record_that_failed_are_not_committed),
      cmocka_unit_test(leaving_in_the_middle_of_a_commit_asks_for_nothing_more),
      cmocka_unit_test(a_refused_output_is_forgotten_once_its_record_is_behind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
