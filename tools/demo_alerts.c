/* SPDX-License-Identifier: BSD-2-Clause */
/* Part 2: alerts with a threshold, joined to the latest price. An alert service asks about each of
 * its alerts once a tick; the join meets the question with the price in force at that moment, and a
 * node with state of its own lets through only those whose answer has changed:
 *
 *   prices (table):   t=1 GOTO 64      t=2 GOTO 65      t=3 GOTO 66
 *   alerts (stream):      GOTO above 65    GOTO above 65    GOTO above 65
 *   crossings:                                              GOTO 66 is above 65
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tools/demo.h"

#define TICKS    8
#define TICK_MS  1000
#define PAUSE_MS 150 /* so that it can be watched */

static const struct {
  const char *symbol;
  int price[TICKS];
} series[] = {
    {"BBCA", {9100, 9125, 9150, 9200, 9175, 9150, 9125, 9100}},
    {"TLKM", {3890, 3880, 3870, 3860, 3840, 3850, 3860, 3870}},
    {"GOTO", {64, 65, 66, 67, 66, 65, 64, 63}},
};
#define SERIES (sizeof series / sizeof *series)

static const struct {
  const char *symbol;
  bool above;
  int threshold;
} alerts[] = {
    {"BBCA", true, 9180}, {"BBCA", false, 9130}, {"TLKM", false, 3850},
    {"GOTO", true, 65},   {"GOTO", false, 64},
};
#define ALERTS (sizeof alerts / sizeof *alerts)

/* Has the alert's condition come true from one tick to the next? */
static bool crosses(size_t alert, int before, int now) {
  int threshold = alerts[alert].threshold;
  return alerts[alert].above ? before <= threshold && now > threshold
                             : before >= threshold && now < threshold;
}

static int price_at(const char *symbol, int64_t tick) {
  for (size_t s = 0; s < SERIES && tick >= 0 && tick < TICKS; s++)
    if (strcmp(symbol, series[s].symbol) == 0) return series[s].price[tick];
  return -1;
}

/* What must come out, from the series alone. */
static int expected_crossings(void) {
  int count = 0;
  for (size_t a = 0; a < ALERTS; a++)
    for (int t = 1; t < TICKS; t++)
      count += crosses(a, price_at(alerts[a].symbol, t - 1), price_at(alerts[a].symbol, t));
  return count;
}

/* ---- the topology ---- */
typedef struct {
  pthread_mutex_t lock; /* the worker's callbacks against the main thread */
  int64_t start_ms;
  int answered; /* questions that the join has met with a price */
  int crossings;
  int stale; /* answers with another price than that of the question's tick */
} alert_run;

/* The state of one task: the price at which each alert was asked about last; 0: never. */
typedef struct {
  int last[ALERTS];
} alert_state;

static void *open_task(void *user, int32_t partition) {
  (void)user;
  (void)partition;
  return calloc(1, sizeof(alert_state));
}

static void close_task(void *user, void *task_state) {
  (void)user;
  free(task_state);
}

/* The value of an alert is its number. The output is "NUMBER PRICE". */
static cj_verdict join_price(cj_ctx *ctx, const cj_record *record, const cj_row *row,
                             cj_buf *value) {
  (void)ctx;
  cj_buf_append(value, record->value.data, record->value.len);
  cj_buf_append(value, " ", 1);
  cj_buf_append(value, row->value.data, row->value.len);
  return CJ_EMIT;
}

static cj_verdict keep_crossings(cj_ctx *ctx, const cj_record *record) {
  alert_run *run = cj_ctx_user(ctx);
  alert_state *state = cj_ctx_task_state(ctx);
  char text[32], *end;
  if (!state) return cj_ctx_fail(ctx, "no memory left");
  if (record->value.len >= sizeof text) return cj_ctx_fail(ctx, "not an alert of the demo");
  memcpy(text, record->value.data, record->value.len);
  text[record->value.len] = '\0';
  unsigned long alert = strtoul(text, &end, 10);
  int price = (int)strtol(end, NULL, 10);
  if (end == text || alert >= ALERTS)
    return cj_ctx_fail(ctx, "not an alert of the demo: \"%s\"", text);
  int before = state->last[alert];
  state->last[alert] = price;
  bool crossing = before != 0 && crosses(alert, before, price);
  int64_t tick = (record->timestamp - run->start_ms) / TICK_MS;
  pthread_mutex_lock(&run->lock);
  run->answered++;
  if (price != price_at(alerts[alert].symbol, tick)) run->stale++;
  if (crossing) {
    run->crossings++;
    printf("  tick %" PRId64 "  %s %d is %s %d\n", tick + 1, alerts[alert].symbol, price,
           alerts[alert].above ? "above" : "below", alerts[alert].threshold);
    fflush(stdout);
  }
  pthread_mutex_unlock(&run->lock);
  return crossing ? CJ_EMIT : CJ_DROP;
}

static cj_error *build(const char *prices, const char *alert_topic, alert_run *run,
                       cj_plan **plan) {
  cj_topology *topology = tool_owned(cj_topology_new());
  cj_stream *stream = cj_topology_stream(topology, alert_topic, &(cj_source_options){0});
  cj_table *table = cj_topology_table(topology, prices, &(cj_source_options){0});
  cj_stream *priced = cj_stream_join(stream, table, join_price, &(cj_node){.name = "latest-price"});
  cj_node node = {
      .name = "crossings", .user = run, .task_open = open_task, .task_close = close_task};
  cj_stream_filter(priced, keep_crossings, &node);
  cj_error *error = cj_topology_build(topology, plan);
  if (error) cj_topology_destroy(topology);
  return error;
}

/* ---- running ---- */
static int answered(alert_run *run) {
  pthread_mutex_lock(&run->lock);
  int count = run->answered;
  pthread_mutex_unlock(&run->lock);
  return count;
}

static bool send_tick(demo_cluster *cluster, const char *prices, const char *alert_topic, int tick,
                      int64_t at) {
  bool ok = true;
  for (size_t s = 0; ok && s < SERIES; s++) {
    char price[16];
    snprintf(price, sizeof price, "%d", series[s].price[tick]);
    ok = demo_send(cluster, prices, series[s].symbol, price, at);
  }
  /* An alert is asked about once the price is in the log: it would meet the one before. */
  ok = ok && demo_flush(cluster);
  for (size_t a = 0; ok && a < ALERTS; a++) {
    char number[8];
    snprintf(number, sizeof number, "%zu", a);
    ok = demo_send(cluster, alert_topic, alerts[a].symbol, number, at + TICK_MS / 2);
  }
  return ok && demo_flush(cluster);
}

static bool run_ticks(demo_app *app, alert_run *run, demo_cluster *cluster, const char *prices,
                      const char *alert_topic) {
  int64_t end = demo_tick_ms() + DEMO_TIMEOUT_MS;
  for (int tick = 0; tick < TICKS; tick++) {
    if (!send_tick(cluster, prices, alert_topic, tick, run->start_ms + (int64_t)tick * TICK_MS))
      return false;
    while (answered(run) < (tick + 1) * (int)ALERTS) {
      if (!demo_app_runs(app) || demo_give_up(end, "cojoin answered %d alerts", answered(run)))
        return false;
      demo_sleep_ms(5);
    }
    demo_sleep_ms(PAUSE_MS);
  }
  return true;
}

static bool run_join(demo_cluster *cluster, const char *prices, const char *alert_topic) {
  alert_run run = {.lock = PTHREAD_MUTEX_INITIALIZER,
                   .start_ms = demo_now_ms() - (int64_t)TICKS * TICK_MS};
  cj_plan *plan = NULL;
  cj_error *error = build(prices, alert_topic, &run, &plan);
  if (error) {
    tool_report_error(error);
    return false;
  }
  cj_app_options options = {.on_log = demo_on_log};
  demo_app app;
  bool ok = demo_app_start(&app, cluster, plan, "alerts", 1, &options) &&
            run_ticks(&app, &run, cluster, prices, alert_topic);
  ok = demo_app_stop(&app) && ok;
  if (!ok) return false;
  printf("alerts: %d crossings in %d ticks, expected %d\n", run.crossings, TICKS,
         expected_crossings());
  if (run.crossings == expected_crossings() && run.stale == 0) return true;
  tool_error("the crossings are not those of the prices; %d alerts met a stale price", run.stale);
  return false;
}

bool demo_run_alerts(demo_cluster *cluster) {
  printf("2. Price alerts, joined to the latest price\n   %zu alerts on %zu symbols, %d ticks.\n\n",
         ALERTS, SERIES, TICKS);
  fflush(stdout);
  char *prices = demo_topic(cluster, "prices");
  char *alert_topic = prices ? demo_topic(cluster, "price-alerts") : NULL;
  bool ok = alert_topic && run_join(cluster, prices, alert_topic);
  free(prices);
  free(alert_topic);
  return ok;
}
