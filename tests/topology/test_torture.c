/* SPDX-License-Identifier: BSD-2-Clause */
/* Seeded torture: one stream joined with two tables, several members, and whatever may go wrong at
 * any step. test_oracle asks whether the outputs are right; here the configuration is drawn too,
 * the worker is looked into between its steps, and what it may never do is checked there:
 *
 *   - a store's position is ahead of the group's; a frozen overlay without a cut, or the reverse
 *   - the group's position goes back, or an index has two owners
 *   - a worker that rests names a moment that has passed
 *   - the state that a node keeps for a task sees a record twice
 *
 * At the end every output is there (as often as the guarantee says) and is one that the order
 * allows, the stores are equal to the topics, everything is committed, nothing was rebuilt. Some
 * runs are wrecked besides: logs are cut or made anew, offsets are lost or moved. Of them it is
 * only asked that no member ends and that everything comes to an end.
 *
 * One run with its log lines: COJOIN_TEST_LOG=1 test_torture SEED; more of them: test_torture FROM
 * TO. ctest: timeout=300 */
#include "lib/torture.h"

#include "runtime/worker_internal.h"
#include "testing/driver.h"

/* ---- what may never be ---- */

static void look_at_input(run *r, const cj_worker *worker, const cj_task *task,
                          const cj_input *input) {
  int64_t group = cj_test_committed(r->t, input->topic->name, task->partition);
  if (r->wreck) return;
  if (task->state == CJ_TASK_STATE_RUNNING && input->committed > cj_input_position(input))
    WRONG(r, "%s[%d]: committed %" PRId64 ", and it stands at %" PRId64, input->topic->name,
          (int)task->partition, input->committed, cj_input_position(input));
  if (input->table < 0 || !task->store) return;
  int64_t store = cj_task_store_position(task->store, input->table).offset;
  if (store > group)
    WRONG(r, "%s[%d]: the store of worker %d is at %" PRId64 ", the group at %" PRId64,
          input->topic->name, (int)task->partition, worker->setup.index, store, group);
}

static void look_at_worker(run *r, const cj_worker *worker) {
  for (size_t i = 0; i < worker->task_count; i++) {
    const cj_task *task = worker->tasks[i];
    if (task->in_cut && worker->commit.phase == CJ_COMMIT_IDLE && !worker->error)
      WRONG(r, "task %d is in a cut and no commit is under way", (int)task->partition);
    if (task->store && cj_task_store_frozen(task->store) != task->in_cut)
      WRONG(r, "task %d: frozen %d, in a cut %d", (int)task->partition,
            cj_task_store_frozen(task->store), task->in_cut);
    for (size_t n = 0; n < task->input_count; n++)
      look_at_input(r, worker, task, &task->inputs[n]);
  }
}

static void owners(run *r) {
  for (int32_t p = 0; p < r->partitions; p++) {
    int count = 0;
    for (size_t i = 0; i < r->t->member_count; i++)
      if (r->t->members[i]->running && cj_driver_owner(r->t->members[i], 0, p)) count++;
    if (count > 1) WRONG(r, "index %d has %d owners", (int)p, count);
  }
}

static void positions_grow(run *r) {
  if (r->wreck) return;
  for (int log = 0; log < LOGS; log++)
    for (int32_t p = 0; p < r->partitions; p++) {
      int64_t at = cj_test_committed(r->t, topics[log], p);
      if (at < r->committed[log][p] || at > cj_test_end(r->t, topics[log], p))
        WRONG(r, "%s[%d]: committed %" PRId64 " after %" PRId64 ", the log ends at %" PRId64,
              topics[log], (int)p, at, r->committed[log][p], cj_test_end(r->t, topics[log], p));
      r->committed[log][p] = at;
    }
}

static void look_around(run *r) {
  for (size_t i = 0; i < r->t->member_count; i++) {
    const cj_test_member *member = r->t->members[i];
    for (size_t w = 0; member->running && w < member->worker_count; w++)
      if (!member->workers[w].finished) look_at_worker(r, member->workers[w].worker);
  }
  owners(r);
  positions_grow(r);
  if (r->states_wrong && !r->wreck) WRONG(r, "the state of a task has seen a record twice");
}

static void nobody_spins(run *r) {
  int64_t now = cj_world_monotonic(r->t->world);
  for (size_t i = 0; i < r->t->member_count; i++) {
    const cj_test_member *member = r->t->members[i];
    bool still = !member->running || member->frozen || member->stalled;
    for (size_t w = 0; !still && w < member->worker_count; w++)
      if (!member->workers[w].finished && member->workers[w].deadline <= now)
        WRONG(r, "member %s rests, and wants to go on at a moment that has passed", member->name);
  }
}

/* A member may end by itself where that is what the fault is to lead to. */
static void members_live(run *r) {
  for (size_t m = 0; m < MEMBERS; m++) {
    const cj_error *error = r->running[m] ? cj_test_member_error(r->t, names[m]) : NULL;
    if (!error) continue;
    cj_code code = cj_error_code(error);
    bool fenced = code == CJ_ERR_FENCED && r->exact;
    bool refused = code == CJ_ERR_PRODUCE && r->on_produce == CJ_POLICY_FAIL;
    if (!fenced && !refused) WRONG(r, "%s: %s", names[m], cj_error_text(error));
    if (!cj_driver_member(r->t, names[m])->running) r->running[m] = false;
  }
}

static void steps(run *r, uint32_t most) {
  for (uint32_t n = 0; n < most; n++) {
    if (!cj_test_step(r->t)) {
      nobody_spins(r);
      return;
    }
    look_around(r);
  }
}

/* ---- what happens ---- */

static void start(run *r, uint32_t m) {
  if (r->running[m] || r->down) return;
  cj_error *error = cj_test_start_member(r->t, names[m]);
  if (error && cj_error_class(error) != CJ_CLASS_RETRIABLE) WRONG(r, "%s", cj_error_text(error));
  r->running[m] = !error;
  r->frozen[m] = r->stalled[m] = false;
  cj_error_destroy(error);
}

static void stop(run *r, uint32_t m) {
  if (!r->running[m] || r->frozen[m] || r->stalled[m]) return;
  if (r->down && !one_in(r, 4)) return;
  cj_test_stop_member(r->t, names[m]);
  members_live(r);
  r->running[m] = false;
}

static void crash(run *r, uint32_t m) {
  if (!r->running[m]) return;
  cj_test_crash_member(r->t, names[m]);
  r->running[m] = false;
  if (one_in(r, 3)) cj_test_wipe_member(r->t, names[m]);
}

static void freeze(run *r, uint32_t m, bool frozen) {
  if (!r->running[m]) return;
  cj_test_freeze_member(r->t, names[m], frozen);
  r->frozen[m] = frozen;
}

static void stall(run *r, uint32_t m, bool stalled) {
  if (!r->running[m]) return;
  cj_test_stall_member(r->t, names[m], stalled);
  r->stalled[m] = stalled;
}

static void brokers(run *r, bool up) {
  cj_test_broker_up(r->t, up);
  r->down = !up;
}

static void fail_some_request(run *r) {
  static const cj_test_request requests[] = {
      CJ_TEST_COMMIT, CJ_TEST_COMMITTED,  CJ_TEST_BOUNDS,     CJ_TEST_ENDS,      CJ_TEST_METADATA,
      CJ_TEST_GROUP,  CJ_TEST_TXN_COMMIT, CJ_TEST_TXN_COMMIT, CJ_TEST_TXN_ABORT, CJ_TEST_TXN_INIT};
  cj_test_request request = requests[draw(r, r->exact ? 10 : 6)];
  bool ends = request == CJ_TEST_TXN_COMMIT || request == CJ_TEST_TXN_ABORT;
  uint32_t faults = ends ? 4 : 3;
  cj_test_fault fault = (cj_test_fault)draw(r, faults);
  cj_test_fail_request(r->t, request, fault, 1 + draw(r, 3));
}

static void hold(run *r) {
  static const char *const held[] = {"price", "rate", "notif", "alerts"};
  const char *topic = held[draw(r, 4)];
  int32_t p = (int32_t)draw(r, (uint32_t)r->partitions);
  cj_test_hold(r->t, topic, p, one_in(r, 2));
}

/* Retention: what is behind every position may go. */
static void retention(run *r) {
  int32_t p = (int32_t)draw(r, (uint32_t)r->partitions);
  int64_t committed = cj_test_committed(r->t, topics[STREAM], p);
  if (committed > cj_test_end(r->t, topics[STREAM], p)) return; /* of a wreck */
  if (committed > 0) cj_test_delete_records(r->t, topics[STREAM], p, committed);
}

static void fail_some_fetch(run *r) {
  int log = (int)draw(r, LOGS);
  cj_test_fail_fetch(r->t, topics[log], (int32_t)draw(r, (uint32_t)r->partitions));
}

/* What happens to logs and offsets behind the members' backs. */
static void damage(run *r) {
  int log = (int)draw(r, LOGS);
  int32_t p = (int32_t)draw(r, (uint32_t)r->partitions);
  int64_t end = cj_test_end(r->t, topics[log], p);
  int64_t place = (int64_t)draw(r, (uint32_t)end + 1);
  switch (draw(r, 6)) {
  case 0:
    cj_test_truncate(r->t, topics[log], p, place);
    break;
  case 1:
    cj_test_delete_records(r->t, topics[log], p, place);
    break;
  case 2:
    cj_test_recreate_topic(r->t, topics[log]);
    break;
  case 3:
    cj_test_set_committed(r->t, topics[log], p, NONE);
    break;
  case 4:
    cj_test_set_committed(r->t, topics[log], p, place);
    break;
  default:
    cj_test_compact(r->t, topics[log], p);
  }
}

static void often(run *r) {
  uint32_t m = draw(r, MEMBERS);
  switch (draw(r, 9)) {
  case 0:
  case 1:
    burst(r);
    break;
  case 2:
    cj_test_advance(r->t, draw(r, 1500));
    break;
  case 3:
    start(r, m);
    break;
  case 4:
    stop(r, m);
    break;
  case 5:
    cj_test_rebalance(r->t);
    break;
  case 6:
    fail_some_request(r);
    break;
  case 7:
    hold(r);
    break;
  default:
    for (size_t i = 0; i < r->t->member_count; i++)
      if (r->t->members[i]->running) cj_worker_commit(r->t->members[i]->workers[0].worker);
  }
}

static void seldom(run *r) {
  uint32_t m = draw(r, MEMBERS), ms = draw(r, 60000);
  bool yes = one_in(r, 2);
  if (r->wreck && one_in(r, 2)) {
    damage(r);
    return;
  }
  switch (draw(r, 9)) {
  case 0:
    crash(r, m);
    break;
  case 1:
    freeze(r, m, yes);
    break;
  case 2:
    stall(r, m, yes);
    break;
  case 3:
    brokers(r, draw(r, 3) > 0);
    break;
  case 4:
    cj_test_advance(r->t, ms);
    break;
  case 5:
    fail_some_fetch(r);
    break;
  case 6:
    cj_test_fail_delivery(r->t, "alerts", 1 + draw(r, 2));
    break;
  case 7:
    retention(r);
    break;
  default:
    fail_some_request(r);
  }
}

/* ---- a run ---- */

static void set(run *r, const char *name, const char *value) {
  cj_error *error = cj_config_set(r->config, name, value);
  if (error) fail_msg("%s", cj_error_text(error));
}

static const char *one_of(run *r, const char *const *words, uint32_t count) {
  return words[draw(r, count)];
}
#define ONE_OF(r, ...)                                                                             \
  one_of((r), (const char *const[]){__VA_ARGS__},                                                  \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void configure(run *r) {
  static const char *const policies[] = {[CJ_POLICY_FAIL] = "fail",
                                         [CJ_POLICY_SKIP] = "skip",
                                         [CJ_POLICY_DEAD_LETTER] = "dead_letter"};
  static const ordering orders[] = {STRICT, STRICT, STRICT, STRICT, TABLE_FIRST, NO_WAIT};
  r->config = cj_config_new();
  r->wreck = one_in(r, 5);
  r->left = draw(r, 2);
  r->exact = draw(r, 2);
  r->fat = one_in(r, 8);
  r->partitions = 1 + (int32_t)draw(r, PARTITIONS);
  r->order = orders[draw(r, 6)];
  r->on_produce = (cj_error_policy)draw(r, 3);
  set(r, "processing.guarantee", r->exact ? "exactly_once" : "at_least_once");
  set(r, "order", r->order == TABLE_FIRST ? "table_first" : "timestamp");
  set(r, "max.task.idle.ms", r->order == NO_WAIT ? "-1" : ONE_OF(r, "0", "0", "70"));
  set(r, "assignment", ONE_OF(r, "range", "spread"));
  set(r, "threads", ONE_OF(r, "1", "1", "2"));
  set(r, "commit.interval.ms", ONE_OF(r, "0", "100", "1000", r->exact ? "5000" : "20000"));
  set(r, "errors.process", "skip");
  if (from == to) set(r, "log.level", "debug");
  set(r, "errors.produce", policies[r->on_produce]);
  set(r, "errors.dead.letter.topic", "dead");
  set(r, "revoke.timeout.ms", ONE_OF(r, "300", "10000"));
  set(r, "shutdown.timeout.ms", ONE_OF(r, "300", "30000"));
  set(r, "request.timeout.ms", ONE_OF(r, "1000", "10000"));
  set(r, "rd.max.poll.interval.ms", "60000");
  set(r, "rd.heartbeat.interval.ms", ONE_OF(r, "1", "3000"));
  set(r, "rd.queue.buffering.max.messages", ONE_OF(r, "3", "100000"));
  if (r->fat) set(r, "overlay.bytes", "64k");
}

static void begin(run *r, uint32_t seed) {
  memset(r, 0, sizeof *r);
  now_running = r;
  r->seed = seed;
  r->random = seed * 2654435761u + 7;
  configure(r);
  r->plan = make_plan(r->left);
  r->t = cj_test_new(r->plan, r->config);
  for (int log = 0; log < LOGS; log++) {
    cj_test_topic(r->t, topics[log], r->partitions);
    for (int32_t p = 0; p < r->partitions; p++)
      r->committed[log][p] = NONE;
  }
  cj_test_topic(r->t, "alerts", r->partitions);
  cj_test_topic(r->t, "dead", r->partitions);
  for (uint32_t n = draw(r, 4); n > 0; n--)
    burst(r);
  for (int log = 0; log < TABLES; log++)
    for (int32_t p = 0; p < r->partitions; p++)
      r->logs[log][p].loaded = r->logs[log][p].count;
}

/* Everything is let go, and has time to come to an end. */
static void finish(run *r) {
  brokers(r, true);
  for (int32_t p = 0; p < r->partitions; p++) {
    for (int log = 0; log < LOGS; log++)
      cj_test_hold(r->t, topics[log], p, false);
    cj_test_hold(r->t, "alerts", p, false);
  }
  cj_test_fail_delivery(r->t, "alerts", 0);
  for (uint32_t m = 0; m < MEMBERS; m++) {
    freeze(r, m, false);
    stall(r, m, false);
  }
  /* Requests that are still to go unanswered take request.timeout.ms each, and may end a member. */
  for (int i = 0; i < 5; i++) {
    members_live(r);
    start(r, draw(r, MEMBERS));
    cj_test_advance(r->t, 100000);
    look_around(r);
  }
  members_live(r);
  if (r->wreck) cj_test_advance(r->t, 61 * 60 * 1000); /* offsets lost are committed again */
  cj_test_commit(r->t);
  nobody_spins(r);
}

static void all_is_committed(run *r) {
  for (int log = 0; log < LOGS; log++)
    for (int32_t p = 0; p < r->partitions; p++) {
      int64_t at = cj_test_committed(r->t, topics[log], p);
      int64_t end = cj_test_end(r->t, topics[log], p);
      if (at != end)
        WRONG(r, "%s[%d]: committed %" PRId64 ", the log ends at %" PRId64, topics[log], (int)p, at,
              end);
    }
}

static void one_run(run *r, uint32_t seed) {
  begin(r, seed);
  for (int i = 0; i < OPERATIONS; i++) {
    if (one_in(r, 3))
      seldom(r);
    else
      often(r);
    members_live(r);
    look_around(r);
    steps(r, draw(r, 25));
    members_live(r);
  }
  finish(r);
  all_is_committed(r);
  for (int32_t p = 0; p < r->partitions; p++)
    join_in_order(r, p);
  if (!r->wreck) {
    check_outputs(r);
    check_tables(r);
    if (cj_test_logged(r->t, "rebuilt")) WRONG(r, "a store was rebuilt");
  }
  cj_test_destroy(r->t);
  cj_config_destroy(r->config);
  cj_plan_destroy(r->plan);
  if (r->states) WRONG(r, "%d states of tasks were not closed", r->states);
}

static void whatever_happens(void **state) {
  (void)state;
  static run r;
  for (uint32_t seed = from; seed <= to; seed++)
    one_run(&r, seed);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(whatever_happens)};
  if (argc > 1) from = to = (uint32_t)strtoul(argv[1], NULL, 10);
  if (argc > 2) to = (uint32_t)strtoul(argv[2], NULL, 10);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
