/* SPDX-License-Identifier: BSD-2-Clause */
/* cojoin's side of the join benchmark: reads both topics to the ends that they have at the start,
 * then stops. The output's value is as long as the stream's: its first half, and as much of the
 * row as the other half holds, so that both sides are touched and every system writes as many
 * bytes. */
#include <getopt.h>
#include <stdbool.h>

#include <cojoin/cojoin.h>

#include "measure.h"

typedef struct {
  uint64_t seen;
  bench_moment first, last;
  bool ended;
} measured;

static cj_verdict join_halves(cj_ctx *ctx, const cj_record *record, const cj_row *row,
                              cj_buf *value) {
  measured *m = cj_ctx_user(ctx);
  if (m->seen++ == 0) m->first = bench_now();
  size_t len = record->value.len, half = len / 2;
  unsigned char *out = cj_buf_reserve(value, len);
  if (!out) return CJ_EMIT; /* the buffer has failed: the library reports it */
  memcpy(out, record->value.data, len);
  if (row) {
    size_t copied = len - half < row->value.len ? len - half : row->value.len;
    memcpy(out + half, row->value.data, copied);
  }
  value->len += len;
  return CJ_EMIT;
}

/* With stop.at.end the application stops once everything was acknowledged and committed; closing
 * what is open is not part of the join. */
static void on_state(void *user, cj_app_state from, cj_app_state to) {
  (void)from;
  measured *m = user;
  if (to < CJ_APP_STOPPING || m->ended) return;
  m->ended = true;
  m->last = bench_now();
}

static void on_rebalance(void *user, const cj_rebalance *event) {
  if (event->event == CJ_TASK_CLOSED) on_state(user, CJ_APP_RUNNING, CJ_APP_STOPPING);
}

static void on_log(void *user, cj_log_level level, const char *line) {
  (void)user;
  if (level <= CJ_LOG_WARN) fprintf(stderr, "%s\n", line);
}

static void must(cj_error *error) {
  if (error) bench_die("join", cj_error_text(error));
}

static void set(cj_config *config, const char *name, const char *value) {
  must(cj_config_set(config, name, value));
}

/* NAME=VALUE, as of -X. */
static void set_text(cj_config *config, char *text) {
  char *equals = strchr(text, '=');
  if (!equals) bench_die(text, "expected NAME=VALUE");
  *equals = '\0';
  set(config, text, equals + 1);
}

typedef struct {
  const char *table, *stream, *out;
  bool left;
} topics;

static cj_plan *plan_of(const topics *t, measured *m) {
  cj_topology *topology = cj_topology_new();
  cj_stream *stream = cj_topology_stream(topology, t->stream, NULL);
  cj_table *table = cj_topology_table(topology, t->table, NULL);
  cj_node node = {.name = "join", .user = m};
  cj_stream *joined = t->left ? cj_stream_left_join(stream, table, join_halves, &node)
                              : cj_stream_join(stream, table, join_halves, &node);
  cj_stream_to(joined, t->out, NULL);
  cj_plan *plan = NULL;
  must(cj_topology_build(topology, &plan));
  return plan;
}

static topics parse(int argc, char **argv, cj_config *config) {
  static const struct option longs[] = {{"brokers", required_argument, NULL, 'b'},
                                        {"table", required_argument, NULL, 't'},
                                        {"stream", required_argument, NULL, 's'},
                                        {"out", required_argument, NULL, 'o'},
                                        {"left", no_argument, NULL, 'l'},
                                        {"app-id", required_argument, NULL, 'a'},
                                        {"state-dir", required_argument, NULL, 'd'},
                                        {NULL, 0, NULL, 0}};
  topics t = {0};
  bool brokers = false, app_id = false;
  int option;
  while ((option = getopt_long(argc, argv, "b:X:", longs, NULL)) != -1) {
    switch (option) {
    case 'b':
      brokers = true;
      set(config, "bootstrap.servers", optarg);
      break;
    case 't':
      t.table = optarg;
      break;
    case 's':
      t.stream = optarg;
      break;
    case 'o':
      t.out = optarg;
      break;
    case 'l':
      t.left = true;
      break;
    case 'a':
      app_id = true;
      set(config, "application.id", optarg);
      break;
    case 'd':
      set(config, "state.dir", optarg);
      break;
    case 'X':
      set_text(config, optarg);
      break;
    default:
      exit(1);
    }
  }
  if (!brokers || !app_id || !t.table || !t.stream || !t.out || optind != argc)
    bench_die("usage", "join -b BROKERS --table T --stream S --out O --app-id ID [--left] "
                       "[--state-dir DIR] [-X NAME=VALUE]...");
  return t;
}

int main(int argc, char **argv) {
  cj_config *config = cj_config_new();
  if (!config) bench_die("join", "no memory");
  set(config, "stop.at.end", "true");
  topics t = parse(argc, argv, config);
  measured m = {0};
  cj_plan *plan = plan_of(&t, &m);
  cj_app_options options = {
      .user = &m, .on_log = on_log, .on_state = on_state, .on_rebalance = on_rebalance};
  cj_app *app = NULL;
  must(cj_app_new(plan, config, &options, &app));
  must(cj_app_start(app));
  must(cj_app_wait(app, -1));
  if (!m.seen) bench_die("join", "no record was joined");
  if (!m.ended) m.last = bench_now();
  bench_result(cj_rdkafka_version(), m.seen, m.first, m.last);
  cj_app_destroy(app);
  cj_config_destroy(config);
  return 0;
}
