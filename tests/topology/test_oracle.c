/* SPDX-License-Identifier: BSD-2-Clause */
/* Seeded random runs against a naive join. Each run draws a join, partitions, members and data,
 * then lets things happen: records arrive in bursts, partitions are held, members come and go.
 *
 * A calm run has no crash, no stall and no broker that is gone: every output exactly once, in
 * order. A stormy one has them all: every output at least once, and never another one. An exact one
 * has them too, under exactly-once: for a reader under read_committed every output exactly once.
 *
 * Timestamps are in any order within a burst, and grow from burst to burst, so that there is one
 * right answer however often work is done again.
 *
 * To replay a run with its log lines: COJOIN_TEST_LOG=1 test_oracle calm|stormy SEED; to make more
 * of them: test_oracle calm|stormy FROM TO. */
#include <stdlib.h>

#include "lib/alerts.h"
#include "lib/naive_join.h"
#include "runtime/config.h"

enum { MAX_PARTITIONS = 4, MEMBERS = 3, MAX_RECORDS = 4096, OPERATIONS = 60 };

typedef enum { CALM, STORMY, EXACT } mode;
static const char *const mode_names[] = {"calm", "stormy", "exact"};

typedef struct {
  uint64_t random;
  uint32_t seed;
  mode mode;
  alerts a;
  alerts_join join;
  int32_t partitions;
  naive_record stream[MAX_PARTITIONS][MAX_RECORDS], prices[MAX_PARTITIONS][MAX_RECORDS];
  naive_log streams[MAX_PARTITIONS], tables[MAX_PARTITIONS];
  int next_value, burst;
  bool started[MEMBERS], ahead;
  bool running[MEMBERS], frozen[MEMBERS], stalled[MEMBERS], down;
  int64_t committed[2][MAX_PARTITIONS];
  int outputs[2 * MAX_RECORDS]; /* how often the output of each stream value was seen */
} run;

static bool replaying;
static const char *const members[MEMBERS] = {"a", "b", "c"};
static const char *const inputs[2] = {"notif", "price"};

static uint32_t draw(run *r, uint32_t below) {
  r->random = r->random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(r->random >> 33) % below;
}

static void wrong(const run *r, const char *what, const char *of, int number, int expected,
                  int got) {
  fail_msg("seed %u (%s): %s %s %d: expected %d, got %d", r->seed, mode_names[r->mode], what, of,
           number, expected, got);
}

/* One draw a statement: the order of evaluation within one is the compiler's. */
static int32_t any_partition(run *r) {
  return (int32_t)draw(r, (uint32_t)r->partitions);
}

static const char *any_input(run *r) {
  return inputs[draw(r, 2)];
}

/* ---- data ---- */

static void key_text(int key, char *out, size_t size) {
  snprintf(out, size, "key-%d", key);
}

static int32_t partition_for(const run *r, int key) {
  const cj_partitioner *murmur2 = cj_partitioner_murmur2();
  char text[16];
  if (key == NAIVE_NULL) return 0;
  key_text(key, text, sizeof text);
  return murmur2->partition(murmur2->user, cj_bytes_str(text), r->partitions);
}

static void append(run *r, bool table) {
  int key = draw(r, 20) == 0 ? NAIVE_NULL : (int)draw(r, NAIVE_KEYS);
  int32_t p = partition_for(r, key);
  naive_log *log = table ? &r->tables[p] : &r->streams[p];
  if (log->count == MAX_RECORDS || r->next_value == 2 * MAX_RECORDS) return;
  int value = table && draw(r, 6) == 0 ? NAIVE_NULL : r->next_value++;
  int64_t timestamp = r->burst * (int64_t)1000 + (int64_t)draw(r, 1000);
  log->records[log->count++] = (naive_record){.key = key, .value = value, .timestamp = timestamp};
  char k[16], v[16];
  key_text(key, k, sizeof k);
  snprintf(v, sizeof v, "%d", value);
  cj_test_pipe_to(r->a.t, inputs[table], p, cj_bytes_str(key == NAIVE_NULL ? NULL : k),
                  cj_bytes_str(value == NAIVE_NULL ? NULL : v), timestamp, NULL, 0);
}

static void burst(run *r) {
  r->burst++;
  for (uint32_t n = 1 + draw(r, 30); n > 0; n--)
    append(r, draw(r, 2));
  if (draw(r, 4) > 0) return;
  const char *topic = any_input(r);
  int32_t p = any_partition(r);
  cj_test_gap(r->a.t, topic, p, draw(r, 4));
}

/* ---- what happens ---- */

static void start(run *r, uint32_t m) {
  if (r->running[m] || r->down) return;
  alerts_start(&r->a, members[m]);
  r->running[m] = r->started[m] = true;
  r->frozen[m] = r->stalled[m] = false;
}

static void stop(run *r, uint32_t m) {
  if (!r->running[m] || r->frozen[m] || r->stalled[m] || r->down) return;
  cj_test_stop_member(r->a.t, members[m]);
  r->running[m] = false;
}

static void freeze(run *r, uint32_t m, bool frozen) {
  if (!r->running[m]) return;
  cj_test_freeze_member(r->a.t, members[m], frozen);
  r->frozen[m] = frozen;
}

static void crash(run *r, uint32_t m) {
  if (!r->running[m]) return;
  cj_test_crash_member(r->a.t, members[m]);
  r->running[m] = false;
  if (draw(r, 4) == 0) cj_test_wipe_member(r->a.t, members[m]);
}

static void brokers(run *r, bool up) {
  cj_test_broker_up(r->a.t, up);
  r->down = !up;
}

static void fail_some_request(run *r) {
  static const cj_test_request requests[] = {CJ_TEST_COMMIT,  CJ_TEST_COMMITTED,  CJ_TEST_BOUNDS,
                                             CJ_TEST_ENDS,    CJ_TEST_TXN_COMMIT, CJ_TEST_TXN_ABORT,
                                             CJ_TEST_TXN_INIT};
  cj_test_request request = requests[draw(r, r->mode == EXACT ? 7 : 4)];
  uint32_t faults = request == CJ_TEST_TXN_COMMIT ? 5 : request == CJ_TEST_TXN_ABORT ? 4 : 3;
  cj_test_fault fault = r->mode == CALM ? CJ_TEST_REFUSED : (cj_test_fault)draw(r, faults);
  cj_test_fail_request(r->a.t, request, fault, 1 + draw(r, 2));
}

static void hold(run *r, const char *topic) {
  int32_t p = any_partition(r);
  cj_test_hold(r->a.t, topic, p, draw(r, 2));
}

static void stall(run *r, uint32_t m, bool stalled) {
  if (!r->running[m]) return;
  cj_test_stall_member(r->a.t, members[m], stalled);
  r->stalled[m] = stalled;
}

static void stop_or_go_on(run *r) {
  uint32_t m = draw(r, MEMBERS);
  bool whole = draw(r, 2), still = draw(r, 2);
  if (whole)
    stall(r, m, still);
  else
    freeze(r, m, still);
}

static void calm_thing(run *r) {
  switch (draw(r, 9)) {
  case 0:
    hold(r, any_input(r));
    break;
  case 1:
    for (uint32_t n = draw(r, 40); n > 0; n--)
      cj_test_step(r->a.t);
    break;
  case 2:
    cj_test_advance(r->a.t, draw(r, 2000));
    break;
  case 3:
    cj_test_commit(r->a.t);
    break;
  case 4:
    start(r, draw(r, MEMBERS));
    break;
  case 5:
    stop(r, draw(r, MEMBERS));
    break;
  case 6:
    cj_test_rebalance(r->a.t);
    break;
  case 7:
    fail_some_request(r);
    break;
  default:
    burst(r);
  }
}

static void stormy_thing(run *r) {
  switch (draw(r, 6)) {
  case 0:
    crash(r, draw(r, MEMBERS));
    break;
  case 1:
    stop_or_go_on(r);
    break;
  case 2:
    brokers(r, draw(r, 3) > 0);
    break;
  case 3:
    hold(r, "alerts");
    break;
  case 4:
    cj_test_advance(r->a.t, draw(r, 60000));
    break;
  default:
    fail_some_request(r);
  }
}

/* ---- what has to hold ---- */

/* After each step; only notes it, for an assertion would jump out of the driver. */
static void look_at_stores(void *user, cj_test *t) {
  run *r = user;
  for (size_t m = 0; m < MEMBERS; m++)
    for (int32_t p = 0; r->started[m] && p < r->partitions; p++) {
      int64_t stored = cj_test_stored(t, members[m], "price", p);
      if (stored >= 0 && stored > cj_test_committed(t, "price", p)) r->ahead = true;
    }
}

/* Outputs do not wait for brokers longer than message.timeout.ms: that alone may end a member. */
static void no_member_failed(run *r) {
  if (r->ahead)
    fail_msg("seed %u (%s): a store is ahead of the group", r->seed, mode_names[r->mode]);
  for (size_t m = 0; m < MEMBERS; m++) {
    const cj_error *error = r->running[m] ? cj_test_member_error(r->a.t, members[m]) : NULL;
    if (!error) continue;
    bool timed_out = r->mode == STORMY && cj_error_code(error) == CJ_ERR_PRODUCE &&
                     strstr(cj_error_text(error), "timed out");
    if (!timed_out)
      fail_msg("seed %u (%s): %s: %s", r->seed, mode_names[r->mode], members[m],
               cj_error_text(error));
    r->running[m] = r->frozen[m] = r->stalled[m] = false;
  }
}

static void committed_never_goes_back(run *r) {
  for (size_t i = 0; i < 2; i++)
    for (int32_t p = 0; p < r->partitions; p++) {
      int64_t now = cj_test_committed(r->a.t, inputs[i], p);
      if (now < r->committed[i][p])
        wrong(r, "the committed offset went back:", inputs[i], p, (int)r->committed[i][p],
              (int)now);
      if (now > cj_test_end(r->a.t, inputs[i], p))
        wrong(r, "committed past the end:", inputs[i], p, (int)cj_test_end(r->a.t, inputs[i], p),
              (int)now);
      r->committed[i][p] = now;
    }
}

static naive_record *stream_record(run *r, int value) {
  for (int32_t p = 0; p < r->partitions; p++)
    for (size_t i = 0; i < r->streams[p].count; i++)
      if (r->streams[p].records[i].value == value) return &r->streams[p].records[i];
  return NULL;
}

static void check_outputs(run *r) {
  for (int32_t p = 0; p < r->partitions; p++) {
    int last = -1;
    cj_record record;
    for (size_t i = 0; cj_test_read(r->a.t, "alerts", p, i, &record); i++) {
      char text[64];
      snprintf(text, sizeof text, "%.*s", (int)record.value.len, (const char *)record.value.data);
      char *plus;
      int value = (int)strtol(text, &plus, 10);
      int met = strcmp(plus, "+NULL") == 0 ? NAIVE_NULL : atoi(plus + 1);
      const naive_record *from = stream_record(r, value);
      if (!from) wrong(r, "an output of nothing:", "value", value, 0, 1);
      if (from->met != met) wrong(r, "the row met by", "value", value, from->met, met);
      if (r->mode != STORMY && from->key != NAIVE_NULL && value < last)
        wrong(r, "the order in", "partition", p, last, value);
      if (from->key != NAIVE_NULL) last = value;
      r->outputs[value]++;
    }
  }
  for (int32_t p = 0; p < r->partitions; p++)
    for (size_t i = 0; i < r->streams[p].count; i++) {
      const naive_record *from = &r->streams[p].records[i];
      bool emitted = from->met != NAIVE_NULL || r->join == LEFT;
      int times = r->outputs[from->value];
      bool right = r->mode == STORMY ? (emitted ? times >= 1 : times == 0) : times == emitted;
      if (!right) wrong(r, "how often", "value", from->value, emitted, times);
    }
}

static void check_tables(run *r, int tables[][NAIVE_KEYS]) {
  for (int key = 0; key < NAIVE_KEYS; key++) {
    char k[16], expected[16];
    key_text(key, k, sizeof k);
    int row = tables[partition_for(r, key)][key];
    snprintf(expected, sizeof expected, "%d", row);
    const char *got = alerts_row(&r->a, k);
    if (strcmp(row == NAIVE_NULL ? "NULL" : expected, got) != 0)
      fail_msg("seed %u (%s): row %s: expected %s, got %s", r->seed, mode_names[r->mode], k,
               expected, got);
  }
}

/* ---- a run ---- */

static void begin(run *r, uint32_t seed, mode m) {
  memset(r, 0, sizeof *r);
  r->seed = seed;
  r->mode = m;
  r->random = seed * 2654435761u + 1;
  r->join = draw(r, 2) ? LEFT : INNER;
  r->partitions = 1 + (int32_t)draw(r, MAX_PARTITIONS);
  for (int32_t p = 0; p < MAX_PARTITIONS; p++) {
    r->streams[p].records = r->stream[p];
    r->tables[p].records = r->prices[p];
    r->committed[0][p] = r->committed[1][p] = -1;
  }
  const char *assignment = draw(r, 2) ? "range" : "spread";
  const char *threads = draw(r, 3) ? "1" : "2";
  const char *heartbeat_ms = draw(r, 2) ? "1" : "3000";
  const char *idle_ms = draw(r, 4) ? "0" : "50";
  const char *session_ms = draw(r, 2) ? "45000" : "6000"; /* a transaction's life is 10 s */
  r->a = alerts_open(r->join, r->partitions,
                     WITH("processing.guarantee", m == EXACT ? "exactly_once" : "at_least_once",
                          "assignment", assignment, "threads", threads, "max.task.idle.ms", idle_ms,
                          "rd.max.poll.interval.ms", "60000", "rd.heartbeat.interval.ms",
                          heartbeat_ms, "rd.session.timeout.ms", session_ms, "log.level",
                          replaying ? "debug" : "info"));
  for (int32_t p = 0; p < r->partitions; p++) {
    int64_t hole = draw(r, 100);
    const char *topic = any_input(r);
    if (draw(r, 3) == 0) cj_test_gap(r->a.t, topic, p, hole);
  }
  cj_test_watch(r->a.t, look_at_stores, r);
  burst(r);
  start(r, draw(r, MEMBERS));
}

/* Everything is let go, and has time to come to an end. */
static void finish(run *r) {
  brokers(r, true);
  for (int32_t p = 0; p < r->partitions; p++) {
    cj_test_hold(r->a.t, "notif", p, false);
    cj_test_hold(r->a.t, "price", p, false);
    cj_test_hold(r->a.t, "alerts", p, false);
  }
  for (uint32_t m = 0; m < MEMBERS; m++) {
    freeze(r, m, false);
    stall(r, m, false);
  }
  start(r, draw(r, MEMBERS));
  /* Requests that are still to go unanswered take request.timeout.ms each. */
  cj_test_advance(r->a.t, 400000);
  cj_test_commit(r->a.t);
}

static void one_run(run *r, uint32_t seed, mode m) {
  begin(r, seed, m);
  for (int i = 0; i < OPERATIONS; i++) {
    if (m != CALM && draw(r, 3) == 0)
      stormy_thing(r);
    else
      calm_thing(r);
    no_member_failed(r);
    committed_never_goes_back(r);
  }
  finish(r);
  no_member_failed(r);
  committed_never_goes_back(r);
  int tables[MAX_PARTITIONS][NAIVE_KEYS];
  for (int32_t p = 0; p < r->partitions; p++)
    naive_join(&r->streams[p], &r->tables[p], tables[p]);
  check_outputs(r);
  check_tables(r, tables);
  for (int32_t p = 0; p < r->partitions; p++)
    for (size_t i = 0; i < 2; i++)
      if (cj_test_committed(r->a.t, inputs[i], p) != cj_test_end(r->a.t, inputs[i], p))
        wrong(r, "not all was committed:", inputs[i], p, (int)cj_test_end(r->a.t, inputs[i], p),
              (int)cj_test_committed(r->a.t, inputs[i], p));
  alerts_close(&r->a);
}

static void several(mode m, uint32_t from, uint32_t to) {
  static run r;
  for (uint32_t seed = from; seed <= to; seed++)
    one_run(&r, seed, m);
}

static void calm_runs_give_every_output_once(void **state) {
  (void)state;
  several(CALM, 1, 200);
}

static void stormy_runs_lose_nothing(void **state) {
  (void)state;
  several(STORMY, 1, 200);
}

static bool exactly_once_is_supported(void) {
  cj_config *config =
      alerts_config(WITH("application.id", "x", "processing.guarantee", "exactly_once"));
  cj_settings settings;
  cj_error *error = cj_config_settings(config, &settings);
  bool supported = cj_error_code(error) != CJ_ERR_UNSUPPORTED;
  cj_error_destroy(error);
  cj_config_destroy(config);
  return supported;
}

static void exact_runs_give_every_output_once(void **state) {
  (void)state;
  if (!exactly_once_is_supported()) skip();
  several(EXACT, 1, 200);
}

static struct {
  mode mode;
  uint32_t from, to;
} asked;

static void runs_asked_for(void **state) {
  (void)state;
  several(asked.mode, asked.from, asked.to);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calm_runs_give_every_output_once),
      cmocka_unit_test(stormy_runs_lose_nothing),
      cmocka_unit_test(exact_runs_give_every_output_once),
  };
  const struct CMUnitTest more[] = {cmocka_unit_test(runs_asked_for)};
  if (argc < 3) return cmocka_run_group_tests(tests, NULL, NULL);
  while (asked.mode < EXACT && strcmp(argv[1], mode_names[asked.mode]) != 0)
    asked.mode++;
  asked.from = asked.to = (uint32_t)strtoul(argv[2], NULL, 10);
  if (argc > 3) asked.to = (uint32_t)strtoul(argv[3], NULL, 10);
  replaying = asked.from == asked.to;
  return cmocka_run_group_tests(more, NULL, NULL);
}
