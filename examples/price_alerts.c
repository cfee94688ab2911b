/* SPDX-License-Identifier: BSD-2-Clause */
/* Price alerts: each notification (key: symbol, value: threshold) meets the latest price of its
 * symbol; where the price has reached the threshold, an alert goes out.
 *
 *   price_alerts BROKERS [NAME=VALUE]...
 *
 * Topics: market-updates (the table), notifications, alerts; all must exist, the first two with the
 * same partition count. Values are numbers as text. Try it with kcat:
 *   echo BBCA:9200 | kcat -P -b BROKERS -t market-updates -K : -X topic.partitioner=murmur2_random
 *   echo BBCA:9000 | kcat -P -b BROKERS -t notifications  -K : -X topic.partitioner=murmur2_random
 * Ends with SIGINT or SIGTERM. */
#define _POSIX_C_SOURCE 200809L /* sigaction */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cojoin/cojoin.h>

/* Both values were decoded by the string serde: NUL-terminated text. */
static cj_verdict alert_when_reached(cj_ctx *ctx, const cj_record *notification, const cj_row *row,
                                     cj_buf *out) {
  char *end;
  const char *threshold_text = notification->value_object, *price_text = row->object;
  double threshold = strtod(threshold_text, &end);
  if (*end) return cj_ctx_fail(ctx, "the threshold is no number: %s", threshold_text);
  double price = strtod(price_text, &end);
  if (*end) return cj_ctx_fail(ctx, "the price is no number: %s", price_text);
  if (price < threshold) return CJ_DROP;
  cj_buf_printf(out, "reached %s: now %s", threshold_text, price_text);
  return CJ_EMIT;
}

static cj_error *build_plan(cj_plan **plan) {
  const cj_source_options text = {.key_serde = cj_serde_string(), .value_serde = cj_serde_string()};
  cj_topology *topology = cj_topology_new();
  cj_table *prices = cj_topology_table(topology, "market-updates", &text);
  cj_stream *notifications = cj_topology_stream(topology, "notifications", &text);
  cj_stream *alerts = cj_stream_join(notifications, prices, alert_when_reached,
                                     &(cj_node){.name = "alert-when-reached"});
  cj_stream_to(alerts, "alerts", NULL);
  /* The chain needs no check on its way: the first mistake comes back here, with the node's name.
   */
  cj_error *error = cj_topology_build(topology, plan);
  if (error) cj_topology_destroy(topology);
  return error;
}

static cj_error *configure(cj_config *config, int argc, char **argv) {
  cj_error *error = cj_config_set(config, "application.id", "price-alerts");
  if (!error) error = cj_config_set(config, "bootstrap.servers", argv[1]);
  for (int i = 2; i < argc && !error; i++) {
    char *value = strchr(argv[i], '=');
    if (value) *value++ = '\0';
    error = cj_config_set(config, argv[i], value ? value : "");
  }
  return error;
}

static void print_log(void *user, cj_log_level level, const char *line) {
  static const char *const names[] = {"error", "warning", "info", "debug"};
  (void)user;
  fprintf(stderr, "%s: %s\n", names[level], line);
}

/* Set before the handler is installed, and not changed while it is. */
static cj_app *running;

static void on_signal(int number) {
  (void)number;
  cj_app_stop(running);
}

static void handle_signals(void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

/* Starts (the checklist runs first) and works until it is stopped. */
static cj_error *run(cj_plan *plan, const cj_config *config) {
  cj_error *error = cj_app_new(plan, config, &(cj_app_options){.on_log = print_log}, &running);
  if (error) {
    cj_plan_destroy(plan);
    return error;
  }
  handle_signals(on_signal);
  error = cj_app_start(running);
  if (!error) error = cj_app_wait(running, -1);
  handle_signals(SIG_DFL);
  fprintf(stderr, "%lld notifications met a price, %lld did not\n",
          (long long)cj_app_metric(running, "joined", NULL),
          (long long)cj_app_metric(running, "missed", NULL));
  cj_app_destroy(running);
  return error;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s BROKERS [NAME=VALUE]...\n", argv[0]);
    return 1;
  }
  cj_config *config = cj_config_new();
  if (!config) {
    fprintf(stderr, "no memory\n");
    return 1;
  }
  cj_plan *plan = NULL;
  cj_error *error = configure(config, argc, argv);
  if (!error) error = build_plan(&plan);
  if (!error) error = run(plan, config);
  cj_config_destroy(config);
  if (!error) return 0;

  fprintf(stderr, "%s\n", cj_error_text(error));
  /* A broken checklist carries its evidence. */
  const cj_report *report = cj_error_report(error);
  if (report) fputs(cj_report_text(report), stderr);
  int status = report ? 2 : 1;
  cj_error_destroy(error);
  return status;
}
