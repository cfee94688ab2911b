/* SPDX-License-Identifier: BSD-2-Clause */
/* What both runs of the co-location experiment share, and the run with cojoin. */
#include "tools/demo.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const demo_quote demo_market[DEMO_SYMBOLS] = {
    {"BBCA", "9100"}, {"BBRI", "4850"}, {"TLKM", "3890"},  {"BMRI", "6125"}, {"BBNI", "5350"},
    {"UNVR", "2510"}, {"GOTO", "64"},   {"ICBP", "10800"}, {"ADRO", "2650"}, {"ASII", "5075"},
};

int demo_notification_index(const void *value, size_t len, char run) {
  const char *text = value;
  if (len != 2 || text[0] != run) return -1;
  int n = text[1] - '1';
  return n >= 0 && n < DEMO_NOTIFICATIONS ? n : -1;
}

int demo_symbol_index(const void *key, size_t len) {
  for (int i = 0; i < DEMO_SYMBOLS; i++)
    if (cj_bytes_equal(cj_bytes_of(key, len), cj_bytes_str(demo_market[i].symbol))) return i;
  return -1;
}

void demo_owners_clear(demo_owners *owners) {
  memset(owners->updates, -1, sizeof owners->updates);
  memset(owners->notifications, -1, sizeof owners->notifications);
}

/* "0 4": the partitions that the member owns. */
static void list_partitions(char *text, size_t size, const int *owner, int member) {
  size_t len = 0;
  *text = '\0';
  for (int p = 0; p < DEMO_PARTITIONS; p++)
    if (owner[p] == member && len < size)
      len += (size_t)snprintf(text + len, size - len, "%s%d", len ? " " : "", p);
  if (len == 0) snprintf(text, size, "-");
}

void demo_print_owners(const demo_topics *topics, const demo_owners *owners) {
  int width = (int)strlen(topics->updates);
  printf("  member  %-*s  %s\n", width, topics->updates, topics->notifications);
  for (int m = 0; m < DEMO_MEMBERS; m++) {
    char updates[64], notifications[64];
    list_partitions(updates, sizeof updates, owners->updates, m);
    list_partitions(notifications, sizeof notifications, owners->notifications, m);
    printf("  %-6d  %-*s  %s\n", m + 1, width, updates, notifications);
  }
  fflush(stdout);
}

bool demo_produce(demo_cluster *cluster, const demo_topics *topics, char run) {
  int64_t now = demo_now_ms();
  bool ok = true;
  for (int s = 0; ok && s < DEMO_SYMBOLS; s++)
    ok = demo_send(cluster, topics->updates, demo_market[s].symbol, demo_market[s].price, now);
  /* A join can only meet what is in the log when the notification is read. */
  ok = ok && demo_flush(cluster);
  for (int n = 0; ok && n < DEMO_NOTIFICATIONS; n++)
    for (int s = 0; ok && s < DEMO_SYMBOLS; s++) {
      char value[] = {run, (char)('1' + n), '\0'};
      ok = demo_send(cluster, topics->notifications, demo_market[s].symbol, value, now + 1 + n);
    }
  return ok && demo_flush(cluster);
}

/* ---- cojoin ---- */
typedef struct {
  pthread_mutex_t lock; /* the workers' callbacks against the main thread */
  int owner[DEMO_PARTITIONS];
  bool seen[DEMO_SYMBOLS][DEMO_NOTIFICATIONS];
  int joined, local;
} cojoin_run;

static void on_rebalance(void *user, const cj_rebalance *event) {
  cojoin_run *run = user;
  if (event->partition < 0 || event->partition >= DEMO_PARTITIONS) return;
  int *owner = &run->owner[event->partition];
  pthread_mutex_lock(&run->lock);
  if (event->event == CJ_TASK_RUNNING)
    *owner = event->worker;
  else if (*owner == event->worker)
    *owner = -1;
  pthread_mutex_unlock(&run->lock);
}

/* The row is looked up in the store of the task that received the notification: there is nowhere
 * else to look. So a row that is there, with the right price, was local. */
static cj_verdict join_price(cj_ctx *ctx, const cj_record *record, const cj_row *row,
                             cj_buf *value) {
  cojoin_run *run = cj_ctx_user(ctx);
  int symbol = demo_symbol_index(record->key.data, record->key.len);
  int n = demo_notification_index(record->value.data, record->value.len, DEMO_RUN_COJOIN);
  if (symbol < 0 || n < 0) return CJ_DROP;
  bool local = row && cj_bytes_equal(row->value, cj_bytes_str(demo_market[symbol].price));
  pthread_mutex_lock(&run->lock);
  if (!run->seen[symbol][n]) {
    run->seen[symbol][n] = true;
    run->joined++;
    run->local += local;
  }
  pthread_mutex_unlock(&run->lock);
  if (row) cj_buf_set(value, row->value);
  return CJ_EMIT;
}

static cj_error *build(const demo_topics *topics, cojoin_run *run, cj_plan **plan) {
  cj_topology *topology = tool_owned(cj_topology_new());
  cj_stream *stream = cj_topology_stream(topology, topics->notifications, &(cj_source_options){0});
  cj_table *table = cj_topology_table(topology, topics->updates, &(cj_source_options){0});
  cj_node node = {.name = "price-of-notification", .user = run};
  cj_stream_left_join(stream, table, join_price, &node);
  cj_error *error = cj_topology_build(topology, plan);
  if (error) cj_topology_destroy(topology);
  return error;
}

/* Every index has an owner, and every member one index at least. */
static bool settled(cojoin_run *run, demo_owners *owners) {
  int owned[DEMO_MEMBERS] = {0};
  bool ok = true;
  pthread_mutex_lock(&run->lock);
  for (int p = 0; p < DEMO_PARTITIONS; p++) {
    int member = run->owner[p];
    owners->updates[p] = owners->notifications[p] = member;
    if (member < 0 || member >= DEMO_MEMBERS)
      ok = false;
    else
      owned[member]++;
  }
  pthread_mutex_unlock(&run->lock);
  for (int m = 0; m < DEMO_MEMBERS; m++)
    if (owned[m] == 0) ok = false;
  return ok;
}

static int joined(cojoin_run *run) {
  pthread_mutex_lock(&run->lock);
  int count = run->joined;
  pthread_mutex_unlock(&run->lock);
  return count;
}

static bool run_app(demo_app *app, cojoin_run *run, demo_cluster *cluster,
                    const demo_topics *topics) {
  demo_owners owners;
  int64_t end = demo_tick_ms() + DEMO_TIMEOUT_MS;
  while (!settled(run, &owners)) {
    if (!demo_app_runs(app) || demo_give_up(end, "cojoin's group did not settle")) return false;
    demo_sleep_ms(10);
  }
  demo_print_owners(topics, &owners);
  if (!demo_produce(cluster, topics, DEMO_RUN_COJOIN)) return false;
  end = demo_tick_ms() + DEMO_TIMEOUT_MS;
  while (joined(run) < DEMO_LOOKUPS) {
    if (!demo_app_runs(app) ||
        demo_give_up(end, "cojoin joined %d of %d notifications", joined(run), DEMO_LOOKUPS))
      return false;
    demo_sleep_ms(10);
  }
  return true;
}

bool demo_run_cojoin(demo_cluster *cluster, const demo_topics *topics, int *local) {
  cojoin_run run = {.lock = PTHREAD_MUTEX_INITIALIZER};
  memset(run.owner, -1, sizeof run.owner);
  cj_plan *plan = NULL;
  cj_error *error = build(topics, &run, &plan);
  if (error) {
    tool_report_error(error);
    return false;
  }
  cj_app_options options = {.user = &run, .on_rebalance = on_rebalance, .on_log = demo_on_log};
  demo_app app;
  bool ok = demo_app_start(&app, cluster, plan, "cojoin", DEMO_MEMBERS, &options) &&
            run_app(&app, &run, cluster, topics);
  ok = demo_app_stop(&app) && ok;
  *local = run.local;
  return ok;
}
