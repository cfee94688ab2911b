/* SPDX-License-Identifier: BSD-2-Clause */
/* The worker and events in nasty orders: late answers, assignments told twice, revokes in the
 * middle of anything. Between steps it must never ask to be called again at a moment that has
 * passed: its thread would spin. */
#include "lib/script_io.h"
#include "lib/topologies.h"

#include "runtime/worker.h"

enum { NOTIF, PRICE, ALERTS };

typedef struct {
  int opened, closed;
} task_states;

#define WITH(...)                                                                                  \
  (const char *const[]) {                                                                          \
    __VA_ARGS__, NULL                                                                              \
  }

static void *state_open(void *user, int32_t partition) {
  (void)partition;
  ((task_states *)user)->opened++;
  return user;
}

static void state_close(void *user, void *task_state) {
  (void)task_state;
  ((task_states *)user)->closed++;
}

typedef struct {
  script_io io;
  cj_plan *plan;
  cj_config *config;
  cj_settings settings;
  cj_state *state;
  cj_worker *worker;
  int64_t deadline;
  task_states states;
  char logged[16384];
} fixture;

static void keep_line(void *user, cj_log_level level, const char *line) {
  fixture *f = user;
  (void)level;
  size_t len = strlen(f->logged);
  snprintf(f->logged + len, sizeof f->logged - len, "%s\n", line);
}

/* A value "bad" fails when half of its outputs are made. */
static cj_verdict emit_or_fail(cj_ctx *ctx, const cj_record *record, cj_emitter *out) {
  if (cj_emit(out, record->key, record->value) == CJ_FAIL) return CJ_FAIL;
  return cj_bytes_equal(record->value, cj_bytes_str("bad")) ? cj_ctx_fail(ctx, "bad") : CJ_EMIT;
}

static cj_plan *make_plan(fixture *f) {
  cj_topology *topology = cj_topology_new();
  cj_stream *stream = cj_topology_stream(topology, "notif", NULL);
  cj_table *table = cj_topology_table(topology, "price", NULL);
  const cj_node node = {.user = &f->states, .task_open = state_open, .task_close = state_close};
  cj_stream *mapped = cj_stream_flat_map(stream, emit_or_fail, NULL);
  cj_stream *joined = cj_stream_join(cj_stream_assume_copartitioned(mapped, "keys stay"), table,
                                     value_and_row, &node);
  cj_stream_to(joined, "alerts", NULL);
  cj_plan *plan = NULL;
  assert_no_error(cj_topology_build(topology, &plan));
  assert_int_equal(NOTIF, cj_plan_find_topic(plan, "notif"));
  assert_int_equal(PRICE, cj_plan_find_topic(plan, "price"));
  assert_int_equal(ALERTS, cj_plan_find_topic(plan, "alerts"));
  return plan;
}

static bool exactly_once; /* of the next worker */

static fixture *open_worker(const char *const *properties) {
  static const char *const required[] = {
      "application.id", "test", "bootstrap.servers", "none", "state.dir", "not-used", NULL};
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  script_io_init(&f->io);
  f->plan = make_plan(f);
  f->config = cj_config_new();
  for (size_t i = 0; required[i]; i += 2)
    assert_no_error(cj_config_set(f->config, required[i], required[i + 1]));
  for (size_t i = 0; properties && properties[i]; i += 2)
    assert_no_error(cj_config_set(f->config, properties[i], properties[i + 1]));
  assert_no_error(cj_config_settings(f->config, &f->settings));
  if (exactly_once) f->settings.guarantee = CJ_EXACTLY_ONCE;
  exactly_once = false;
  const cj_log log = {.user = f, .level = CJ_LOG_DEBUG, .line = keep_line};
  const cj_state_options options = {.dir = "not-used",
                                    .app_id = "test",
                                    .source = cj_kv_source_memory(),
                                    .lock_wait_ms = 1000,
                                    .in_memory = true,
                                    .log = log};
  assert_no_error(cj_state_open(&options, &f->state));
  const int32_t counts[] = {SCRIPT_PARTITIONS, SCRIPT_PARTITIONS, SCRIPT_PARTITIONS};
  const cj_worker_setup setup = {.index = 1, /* which leaves watching the topics to worker 0 */
                                 .plan = f->plan,
                                 .settings = &f->settings,
                                 .io = &f->io.io,
                                 .state = f->state,
                                 .cluster_id = "cluster",
                                 .partition_counts = counts,
                                 .log = log};
  assert_no_error(cj_worker_new(&setup, &f->worker));
  return f;
}

static void close_worker(fixture *f) {
  cj_worker_destroy(f->worker);
  cj_state_close(f->state);
  cj_config_destroy(f->config);
  cj_plan_destroy(f->plan);
  assert_int_equal(f->states.opened, f->states.closed);
  free(f);
}

/* Until there is nothing to do at this moment. */
static void settle(fixture *f) {
  for (int steps = 0;; steps++) {
    if (steps > 10000) fail_msg("the worker does not rest:\n%s", f->logged);
    bool pool = cj_state_run_pool(f->state);
    cj_step step = cj_worker_step(f->worker, &f->deadline);
    if (step == CJ_STEP_FINISHED) {
      f->deadline = INT64_MAX;
      return;
    }
    if (pool || step == CJ_STEP_WORKED || f->io.event_count) continue;
    if (script_answer_all(&f->io)) continue;
    if (f->io.output_count && !f->io.outputs_held) continue;
    if (f->deadline <= f->io.clock)
      fail_msg("it rests, and wants to be called again at a moment that has passed:\n%s",
               f->logged);
    return;
  }
}

static void advance(fixture *f, int64_t ms) {
  int64_t target = f->io.clock + ms;
  settle(f);
  while (f->io.clock < target) {
    f->io.clock = f->deadline < target ? f->deadline : target;
    settle(f);
  }
}

static void well(const fixture *f) {
  const cj_error *error = cj_worker_error(f->worker);
  if (error) fail_msg("%s", cj_error_text(error));
}

static bool runs(const fixture *f, int32_t partition) {
  bool running;
  return cj_worker_owns(f->worker, 0, partition, &running) && running;
}

static void assign(fixture *f, int32_t count) {
  script_rebalance(&f->io, CJ_EV_ASSIGN, NOTIF, 0, count, false);
}

static void revoke(fixture *f, int32_t count, bool lost) {
  script_rebalance(&f->io, CJ_EV_REVOKE, NOTIF, 0, count, lost);
}

static int64_t committed(const fixture *f, int32_t topic, int32_t partition) {
  return f->io.logs[topic][partition].committed;
}

static void let_go(fixture *f, cj_io_request_kind kind) {
  f->io.held[kind] = false;
  settle(f);
}

static void one_price_one_notif(fixture *f) {
  script_append(&f->io, PRICE, 0, "X", "1", 1000);
  script_append(&f->io, NOTIF, 0, "X", "n1", 1500);
}

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
  assert_int_equal(3, f->io.removes); /* answered, over its budget */
  assert_true(runs(f, 0));
  script_append(&f->io, NOTIF, 0, "X", "n3", 1600);
  advance(f, 3000);
  assert_int_equal(CJ_OFFSET_NONE, committed(f, NOTIF, 0));
  f->io.outputs_held = false;
  advance(f, 3000);
  assert_int_equal(2, committed(f, NOTIF, 0));
  assert_int_equal(1, committed(f, PRICE, 0));
  well(f);
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
      cmocka_unit_test(a_new_assignment_asks_anew),
      cmocka_unit_test(an_assignment_told_twice_starts_from_the_store),
      cmocka_unit_test(outputs_of_a_commit_given_up_are_waited_for),
      cmocka_unit_test(nodes_start_anew_where_work_is_undone),
      cmocka_unit_test(a_task_positioned_anew_aborts_its_transaction),
      cmocka_unit_test(a_task_about_to_run_waits_for_the_abort),
      cmocka_unit_test(outputs_of_a_record_that_failed_are_not_committed),
      cmocka_unit_test(a_refused_output_is_forgotten_once_its_record_is_behind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
