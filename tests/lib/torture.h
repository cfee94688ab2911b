/* SPDX-License-Identifier: BSD-2-Clause */
/* What the torture runs: a stream joined with two tables, the records that are written to them by
 * chance, and the oracle over what was written. */
#ifndef CJ_TEST_TORTURE_H
#define CJ_TEST_TORTURE_H

#include <inttypes.h>
#include <stdlib.h>

#include "lib/alerts.h"

#include "runtime/config.h"

enum {
  PARTITIONS = 3,
  MEMBERS = 4,
  KEYS = 8,
  TABLES = 2,
  RECORDS = 1500, /* of one partition, and stream records in all */
  OPERATIONS = 70,
  STREAM = TABLES, /* logs: the tables', then the stream's */
  LOGS = TABLES + 1,
  NONE = -1,
};

static const char *const topics[LOGS] = {"price", "rate", "notif"};
static const char *const names[MEMBERS] = {"a", "b", "c", "d"};

typedef struct {
  int key;   /* or NONE */
  int value; /* or NONE: null */
  int met[TABLES];
  int64_t timestamp;
} entry;

typedef struct {
  entry entries[RECORDS];
  size_t count, loaded; /* loaded: what was there before the first member */
} log_of;

typedef enum { STRICT, TABLE_FIRST, NO_WAIT } ordering;

typedef struct {
  uint32_t seed;
  uint64_t random;
  cj_plan *plan;
  cj_config *config;
  cj_test *t;
  /* drawn */
  int32_t partitions;
  bool exact, left, fat;
  bool wreck; /* logs are cut and made anew, offsets lost: see test_torture.c */
  ordering order;
  cj_error_policy on_produce;
  /* what was written */
  log_of logs[LOGS][PARTITIONS];
  int64_t burst;
  int next_value;
  entry *stream[RECORDS];
  int outputs[RECORDS], letters[RECORDS];
  bool poison[RECORDS];
  /* what is the case */
  bool running[MEMBERS], frozen[MEMBERS], stalled[MEMBERS], down;
  int64_t committed[LOGS][PARTITIONS];
  int states, states_wrong;
} run;

static uint32_t from = 1, to = 1000; /* seeds */
static run *now_running;             /* what the callbacks belong to */

/* ---- chance ---- */

static inline uint32_t draw(run *r, uint32_t below) {
  r->random = r->random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(r->random >> 33) % below;
}

static inline bool one_in(run *r, uint32_t n) {
  return draw(r, n) == 0;
}

#define WRONG(r, ...)                                                                              \
  do {                                                                                             \
    fprintf(stderr, "seed %u: ", (r)->seed);                                                       \
    fail_msg(__VA_ARGS__);                                                                         \
  } while (0)

/* ---- the topology: peek, map, two joins ---- */

typedef struct {
  int64_t last; /* offset */
} task_state;

static inline void *state_open(void *user, int32_t partition) {
  (void)user;
  (void)partition;
  task_state *state = malloc(sizeof *state);
  if (!state) abort();
  state->last = NONE;
  now_running->states++;
  return state;
}

static inline void state_close(void *user, void *state) {
  (void)user;
  now_running->states--;
  free(state);
}

static inline void look(cj_ctx *ctx, const cj_record *record) {
  task_state *state = cj_ctx_task_state(ctx);
  if (record->offset <= state->last) now_running->states_wrong++;
  state->last = record->offset;
}

static inline cj_verdict fail_poison(cj_ctx *ctx, const cj_record *record, cj_buf *value) {
  if (record->value.len >= 4 && memcmp(record->value.data, "fail", 4) == 0)
    return cj_ctx_fail(ctx, "asked to");
  cj_buf_set(value, record->value);
  return CJ_EMIT;
}

/* "VALUE+ROW", the row without its padding; "VALUE+-" where there is none. */
static inline cj_verdict pair(cj_ctx *ctx, const cj_record *record, const cj_row *row,
                              cj_buf *value) {
  (void)ctx;
  cj_buf_append(value, record->value.data, record->value.len);
  cj_buf_append_str(value, "+");
  const char *text = row ? row->value.data : "-";
  size_t len = 0;
  while (len < (row ? row->value.len : 1) && text[len] != ' ')
    len++;
  cj_buf_append(value, text, len);
  return CJ_EMIT;
}

static inline cj_plan *make_plan(bool left) {
  cj_topology *topology = cj_topology_new();
  const cj_node node = {.task_open = state_open, .task_close = state_close};
  cj_stream *stream = cj_topology_stream(topology, topics[STREAM], NULL);
  stream = cj_stream_map_values(cj_stream_peek(stream, look, &node), fail_poison, NULL);
  for (int i = 0; i < TABLES; i++) {
    cj_table *table = cj_topology_table(topology, topics[i], NULL);
    stream = left ? cj_stream_left_join(stream, table, pair, NULL)
                  : cj_stream_join(stream, table, pair, NULL);
  }
  cj_stream_to(stream, "alerts", NULL);
  cj_plan *plan = NULL;
  cj_error *error = cj_topology_build(topology, &plan);
  if (error) fail_msg("%s", cj_error_text(error));
  return plan;
}

/* ---- data ---- */

static inline void key_text(int key, char *out, size_t size) {
  snprintf(out, size, "key-%d", key);
}

static inline int32_t partition_for(const run *r, int key) {
  char text[16];
  if (key == NONE) return 0;
  key_text(key, text, sizeof text);
  const cj_partitioner *murmur2 = cj_partitioner_murmur2();
  return murmur2->partition(murmur2->user, cj_bytes_str(text), r->partitions);
}

static inline void pipe_entry(run *r, int log, int32_t p, const entry *e, bool poison) {
  char key[16], value[4096];
  key_text(e->key, key, sizeof key);
  int len = snprintf(value, sizeof value, "%s%d", poison ? "fail" : "", e->value);
  if (log != STREAM && r->fat) snprintf(value + len, sizeof value - (size_t)len, "%*s", 3000, "");
  cj_test_pipe_to(r->t, topics[log], p, cj_bytes_str(e->key == NONE ? NULL : key),
                  cj_bytes_str(e->value == NONE ? NULL : value), e->timestamp, NULL, 0);
}

/* `seen` false: in a transaction that is aborted. */
static inline void append(run *r, bool seen) {
  static entry nothing;
  int log = one_in(r, 2) ? STREAM : (int)draw(r, TABLES);
  int key = one_in(r, 20) ? NONE : (int)draw(r, KEYS);
  int32_t p = partition_for(r, key);
  log_of *of = &r->logs[log][p];
  if (of->count == RECORDS || r->next_value == RECORDS) return;
  entry *e = seen ? &of->entries[of->count++] : &nothing;
  int64_t timestamp = r->burst * 1000 + (int64_t)draw(r, 1000);
  *e = (entry){.key = key, .value = 100000, .timestamp = timestamp, .met = {NONE, NONE}};
  bool poison = log == STREAM && one_in(r, 25);
  if (log != STREAM && one_in(r, 6)) {
    e->value = NONE;
  } else if (seen) {
    e->value = r->next_value++;
    if (log == STREAM) {
      r->stream[e->value] = e;
      r->poison[e->value] = poison;
    }
  }
  pipe_entry(r, log, p, e, poison);
}

static inline void burst(run *r) {
  r->burst++;
  bool transaction = r->exact && one_in(r, 4), commit = one_in(r, 2);
  if (transaction) cj_test_transaction(r->t);
  for (uint32_t n = 1 + draw(r, 25); n > 0; n--)
    append(r, !transaction || commit);
  if (transaction) cj_test_transaction_end(r->t, commit);
  if (one_in(r, 4)) {
    int log = (int)draw(r, LOGS);
    int32_t p = (int32_t)draw(r, (uint32_t)r->partitions);
    cj_test_gap(r->t, topics[log], p, 1 + draw(r, 4));
  }
}

/* ---- the oracle ---- */

/* What each table holds for the key at its place `at` of the log. */
static inline int row_at(const log_of *log, int key, size_t at) {
  int row = NONE;
  for (size_t i = 0; i < at; i++)
    if (log->entries[i].key == key) row = log->entries[i].value;
  return row;
}

/* The smallest timestamp goes first, a table's among equals, then the order of the topics. */
static inline void join_in_order(run *r, int32_t p) {
  size_t at[LOGS] = {0};
  for (;;) {
    int best = NONE;
    for (int log = 0; log < LOGS; log++) {
      if (at[log] == r->logs[log][p].count) continue;
      int64_t time = r->logs[log][p].entries[at[log]].timestamp;
      if (best == NONE || time < r->logs[best][p].entries[at[best]].timestamp) best = log;
    }
    if (best == NONE) return;
    entry *e = &r->logs[best][p].entries[at[best]++];
    for (int i = 0; best == STREAM && i < TABLES; i++)
      e->met[i] = e->key == NONE ? NONE : row_at(&r->logs[i][p], e->key, at[i]);
  }
}

static inline bool allowed(run *r, const entry *e, int table, int met) {
  if (r->order == STRICT) return e->met[table] == met;
  if (e->key == NONE) return met == NONE;
  const log_of *log = &r->logs[table][partition_for(r, e->key)];
  size_t first = r->order == TABLE_FIRST ? log->loaded : 0;
  if (row_at(log, e->key, first) == met) return true;
  for (size_t i = first; i < log->count; i++)
    if (log->entries[i].key == e->key && log->entries[i].value == met) return true;
  return false;
}

static inline int number(const char **at) {
  if (**at == '+') (*at)++;
  if (**at == '-') {
    (*at)++;
    return NONE;
  }
  return (int)strtol(*at, (char **)(uintptr_t)at, 10);
}

static inline void check_output(run *r, const cj_record *record) {
  char text[64];
  snprintf(text, sizeof text, "%.*s", (int)record->value.len, (const char *)record->value.data);
  const char *at = text;
  int value = number(&at);
  const entry *e = value >= 0 && value < r->next_value ? r->stream[value] : NULL;
  if (!e || r->poison[value]) WRONG(r, "an output of nothing: %s", text);
  if (record->timestamp != e->timestamp) WRONG(r, "the timestamp of %s", text);
  for (int i = 0; i < TABLES; i++) {
    int met = number(&at);
    if (!allowed(r, e, i, met))
      WRONG(r, "%s met %d of %s, not %d", text, met, topics[i], e->met[i]);
  }
  r->outputs[value]++;
}

/* Dead letters of outputs say where their record lies. */
static inline void count_letter(run *r, const cj_record *letter) {
  const cj_header *headers;
  size_t count = letter->headers->read(letter->headers, &headers);
  int64_t offset = NONE;
  int32_t partition = NONE;
  for (size_t i = 0; i < count; i++) {
    char text[32];
    snprintf(text, sizeof text, "%.*s", (int)headers[i].value.len,
             (const char *)headers[i].value.data);
    if (strcmp(headers[i].name, "cojoin.offset") == 0) offset = strtoll(text, NULL, 10);
    if (strcmp(headers[i].name, "cojoin.partition") == 0) partition = (int32_t)atoi(text);
  }
  cj_record source;
  for (size_t i = 0; cj_test_read(r->t, topics[STREAM], partition, i, &source); i++) {
    if (source.offset != offset) continue;
    char text[32];
    snprintf(text, sizeof text, "%.*s", (int)source.value.len, (const char *)source.value.data);
    r->letters[atoi(text)]++;
    return;
  }
  WRONG(r, "a dead letter of nothing: %d@%" PRId64, (int)partition, offset);
}

static inline void check_outputs(run *r) {
  cj_record record;
  for (int32_t p = 0; p < r->partitions; p++) {
    for (size_t i = 0; cj_test_read(r->t, "alerts", p, i, &record); i++)
      check_output(r, &record);
    for (size_t i = 0; cj_test_read(r->t, "dead", p, i, &record); i++)
      count_letter(r, &record);
  }
  for (int value = 0; value < r->next_value; value++) {
    const entry *e = r->stream[value];
    if (!e || r->poison[value]) continue;
    bool never = e->key == NONE && !r->left;
    bool certain = r->left || (r->order == STRICT && e->met[0] != NONE && e->met[1] != NONE);
    int times = r->outputs[value] + r->letters[value];
    int most = r->exact ? 1 : INT32_MAX;
    int least = never || !certain || r->on_produce == CJ_POLICY_SKIP ? 0 : 1;
    if (never) most = 0;
    if (times < least || times > most)
      WRONG(r, "the output of %d came %d times (%d dead letters)", value, times, r->letters[value]);
  }
}

static inline void check_tables(run *r) {
  for (int i = 0; i < TABLES; i++)
    for (int key = 0; key < KEYS; key++) {
      char k[16];
      key_text(key, k, sizeof k);
      const log_of *log = &r->logs[i][partition_for(r, key)];
      int expected = row_at(log, key, log->count);
      cj_buf copy = CJ_BUF_INIT;
      cj_read read = cj_test_get(r->t, topics[i], cj_bytes_str(k), &copy);
      char text[16];
      snprintf(text, sizeof text, "%.*s", (int)copy.len, copy.data ? (const char *)copy.data : "");
      int row = read == CJ_READ_FOUND ? atoi(text) : NONE;
      cj_buf_free(&copy);
      if ((read != CJ_READ_FOUND && read != CJ_READ_ABSENT) || row != expected)
        WRONG(r, "%s of %s: expected %d, got %d (read %d)", k, topics[i], expected, row, (int)read);
    }
}

#endif
