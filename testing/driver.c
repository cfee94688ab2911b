/* SPDX-License-Identifier: BSD-2-Clause */
#include "testing/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/stamp.h"

/* More steps than that at one moment, and something goes round in circles. */
#define STEPS_AT_ONCE 20000000

/* ---- life ---- */

void cj_driver_log(cj_test *t, const char *member, cj_log_level level, const char *line) {
  static const char letters[] = "EWID";
  if (t->print_log)
    fprintf(stderr, "%10lld %c %s: %s\n", (long long)t->world->clock, letters[level], member, line);
  t->lines = cj_world_grow(t->lines, &t->line_cap, t->line_count + 1, sizeof(char *));
  t->lines[t->line_count++] = cj_world_strdup(line);
}

/* What an application has to set, and a test need not. */
static void config_complete(cj_config *config) {
  static const char *const required[][2] = {
      {"application.id", "test"}, {"bootstrap.servers", "memory"}, {"state.dir", "memory"}};
  for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
    if (cj_config_get(config, required[i][0])) continue;
    cj_error *error = cj_config_set(config, required[i][0], required[i][1]);
    if (error) cj_world_misuse("%s", cj_error_text(error));
  }
}

cj_test *cj_test_new(const cj_plan *plan, const cj_config *config) {
  if (!plan) cj_world_misuse("cj_test_new without a plan");
  cj_test *t = cj_world_alloc(sizeof *t);
  t->plan = plan;
  t->config = config ? cj_config_copy(config) : cj_config_new();
  if (!t->config) cj_world_misuse("no memory for the configuration");
  config_complete(t->config);
  cj_error *error = cj_config_settings(t->config, &t->settings);
  if (error) cj_world_misuse("%s", cj_error_text(error));
  t->print_log = getenv("COJOIN_TEST_LOG") != NULL;
  t->world = cj_world_new();
  return t;
}

void cj_test_destroy(cj_test *t) {
  if (!t) return;
  for (size_t i = 0; i < t->member_count; i++)
    cj_driver_member_free(t->members[i]);
  for (size_t i = 0; i < t->line_count; i++)
    cj_world_free(t->lines[i]);
  cj_world_destroy(t->world);
  cj_config_destroy(t->config);
  cj_world_free(t->members);
  cj_world_free(t->lines);
  cj_world_free(t);
}

/* ---- time ---- */

bool cj_test_step(cj_test *t) {
  for (size_t n = 0; n < t->member_count; n++) {
    size_t at = (t->turn + n) % t->member_count;
    if (!cj_driver_member_step(t->members[at])) continue;
    t->turn = (at + 1) % t->member_count;
    if (t->watch) t->watch(t->watch_user, t);
    return true;
  }
  return false;
}

void cj_test_watch(cj_test *t, cj_test_watch_fn *fn, void *user) {
  t->watch = fn;
  t->watch_user = user;
}

void cj_test_settle(cj_test *t) {
  size_t steps = 0;
  while (cj_test_step(t))
    if (++steps > STEPS_AT_ONCE) cj_world_misuse("it does not settle: the members never rest");
}

static int64_t next_deadline(const cj_test *t) {
  int64_t next = cj_world_deadline(t->world);
  for (size_t i = 0; i < t->member_count; i++) {
    int64_t at = cj_driver_member_deadline(t->members[i]);
    if (at < next) next = at;
  }
  return next;
}

void cj_test_advance(cj_test *t, int64_t ms) {
  if (ms < 0) cj_world_misuse("the clock cannot go back");
  int64_t target = cj_world_monotonic(t->world) + ms;
  cj_test_settle(t);
  for (int64_t now; (now = cj_world_monotonic(t->world)) < target;) {
    int64_t next = next_deadline(t);
    if (next <= now) next = now + 1; /* due, and waiting for something else */
    cj_world_advance(t->world, (next < target ? next : target) - now);
    cj_test_settle(t);
  }
}

int64_t cj_test_now(const cj_test *t) {
  return cj_world_wall(t->world);
}

void cj_test_commit(cj_test *t) {
  for (size_t i = 0; i < t->member_count; i++)
    for (size_t w = 0; t->members[i]->running && w < t->members[i]->worker_count; w++)
      cj_worker_commit(t->members[i]->workers[w].worker);
  cj_test_settle(t);
}

/* ---- looking ---- */

static const cj_test_member *owner_of(const cj_test *t, int group, int32_t partition) {
  for (size_t i = 0; i < t->member_count; i++)
    if (cj_driver_owner(t->members[i], group, partition)) return t->members[i];
  return NULL;
}

const char *cj_test_owner(cj_test *t, int32_t partition) {
  const cj_test_member *owner = owner_of(t, 0, partition);
  return owner ? owner->name : NULL;
}

const cj_plan_topic *cj_driver_table(cj_test *t, const char *name) {
  int topic = cj_plan_find_topic(t->plan, name);
  if (topic < 0 || t->plan->topics[topic].kind != CJ_TOPIC_TABLE)
    cj_world_misuse("%s is no table of the topology", name);
  return &t->plan->topics[topic];
}

cj_read cj_test_get(cj_test *t, const char *table, cj_bytes key, cj_buf *copy) {
  const cj_plan_topic *topic = cj_driver_table(t, table);
  int group = topic->group;
  int32_t partition = cj_driver_partition_for(t, table, key);
  const cj_test_member *owner = owner_of(t, group, partition);
  if (!owner) return CJ_READ_NOT_LOCAL;
  int anchor = cj_stamp_anchor(t->plan, (size_t)group, &t->settings);
  bool restoring = false;
  cj_task_store *store =
      cj_state_pin(owner->state, t->plan->topics[anchor].name, partition, &restoring);
  if (!store) return restoring ? CJ_READ_RESTORING : CJ_READ_NOT_LOCAL;
  int64_t timestamp;
  cj_error *error = NULL;
  cj_kv_read read =
      restoring ? CJ_KV_ABSENT
                : cj_task_store_read_committed(store, topic->table, key, copy, &timestamp, &error);
  cj_state_unpin(owner->state, store);
  cj_error_destroy(error);
  if (restoring) return CJ_READ_RESTORING;
  return read == CJ_KV_FOUND    ? CJ_READ_FOUND
         : read == CJ_KV_ABSENT ? CJ_READ_ABSENT
                                : CJ_READ_FAILED;
}

typedef struct {
  const char *name, *reason;
  int64_t sum;
} metric_sum;

static bool metric_add(void *user, const cj_metric *metric) {
  metric_sum *sum = user;
  bool named = strcmp(metric->name, sum->name) == 0;
  bool reasoned = !sum->reason || (metric->reason && strcmp(metric->reason, sum->reason) == 0);
  if (named && reasoned) sum->sum += metric->value;
  return true;
}

int64_t cj_test_metric(cj_test *t, const char *name, const char *reason) {
  metric_sum sum = {.name = name, .reason = reason};
  for (size_t i = 0; i < t->member_count; i++)
    for (size_t w = 0; w < t->members[i]->worker_count; w++)
      cj_worker_metrics(t->members[i]->workers[w].worker, metric_add, &sum);
  return sum.sum;
}

size_t cj_test_logged(const cj_test *t, const char *text) {
  size_t count = 0;
  for (size_t i = 0; i < t->line_count; i++)
    count += strstr(t->lines[i], text) != NULL;
  return count;
}
