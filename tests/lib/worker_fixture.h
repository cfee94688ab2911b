/* SPDX-License-Identifier: BSD-2-Clause */
/* A worker over a scripted io and stores in memory: stream `notif` joined with table `price`, over
 * four partitions. Between steps it must never ask to be called again at a moment that has passed:
 * its thread would spin. */
#ifndef CJ_TEST_WORKER_FIXTURE_H
#define CJ_TEST_WORKER_FIXTURE_H

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

static inline void *state_open(void *user, int32_t partition) {
  (void)partition;
  ((task_states *)user)->opened++;
  return user;
}

static inline void state_close(void *user, void *task_state) {
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

static inline void keep_line(void *user, cj_log_level level, const char *line) {
  fixture *f = user;
  (void)level;
  size_t len = strlen(f->logged);
  snprintf(f->logged + len, sizeof f->logged - len, "%s\n", line);
}

/* A value "bad" fails when half of its outputs are made. */
static inline cj_verdict emit_or_fail(cj_ctx *ctx, const cj_record *record, cj_emitter *out) {
  if (cj_emit(out, record->key, record->value) == CJ_FAIL) return CJ_FAIL;
  return cj_bytes_equal(record->value, cj_bytes_str("bad")) ? cj_ctx_fail(ctx, "bad") : CJ_EMIT;
}

static inline cj_plan *make_plan(fixture *f) {
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

static inline fixture *open_worker(const char *const *properties) {
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

static inline void close_worker(fixture *f) {
  cj_worker_destroy(f->worker);
  cj_state_close(f->state);
  cj_config_destroy(f->config);
  cj_plan_destroy(f->plan);
  assert_int_equal(f->states.opened, f->states.closed);
  free(f);
}

/* Until there is nothing to do at this moment. */
static inline void settle(fixture *f) {
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

static inline void advance(fixture *f, int64_t ms) {
  int64_t target = f->io.clock + ms;
  settle(f);
  while (f->io.clock < target) {
    f->io.clock = f->deadline < target ? f->deadline : target;
    settle(f);
  }
}

static inline void well(const fixture *f) {
  const cj_error *error = cj_worker_error(f->worker);
  if (error) fail_msg("%s", cj_error_text(error));
}

static inline bool runs(const fixture *f, int32_t partition) {
  bool running;
  return cj_worker_owns(f->worker, 0, partition, &running) && running;
}

static inline void assign(fixture *f, int32_t count) {
  script_rebalance(&f->io, CJ_EV_ASSIGN, NOTIF, 0, count, false);
}

static inline void revoke(fixture *f, int32_t count, bool lost) {
  script_rebalance(&f->io, CJ_EV_REVOKE, NOTIF, 0, count, lost);
}

static inline int64_t committed(const fixture *f, int32_t topic, int32_t partition) {
  return f->io.logs[topic][partition].committed;
}

static inline void let_go(fixture *f, cj_io_request_kind kind) {
  f->io.held[kind] = false;
  settle(f);
}

static inline void one_price_one_notif(fixture *f) {
  script_append(&f->io, PRICE, 0, "X", "1", 1000);
  script_append(&f->io, NOTIF, 0, "X", "n1", 1500);
}

#endif
