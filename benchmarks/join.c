/* SPDX-License-Identifier: BSD-2-Clause */
/* cojoin's side of the join benchmark: stops once the given number of records has been joined and
 * the outputs lie on the broker. The output's value is as long as the stream's: its first half, and
 * as much of the row as the other half holds, so that both sides are touched and every system
 * writes as many bytes. */
#include <getopt.h>
#include <semaphore.h>
#include <stdbool.h>

#include <cojoin/cojoin.h>

#include "measure.h"

typedef struct {
  uint64_t seen, expected; /* seen: the one worker's */
  bench_moment first;
  sem_t processed; /* the last record was joined, or the application ended */
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
  if (m->seen == m->expected) sem_post(&m->processed);
  return CJ_EMIT;
}

static void on_state(void *user, cj_app_state from, cj_app_state to) {
  (void)from;
  measured *m = user;
  if (to == CJ_APP_STOPPED || to == CJ_APP_FAILED) sem_post(&m->processed);
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
  const char *brokers, *table, *stream, *out;
  uint64_t records;
  bool left, app_id;
} options;

static cj_plan *plan_of(const options *o, measured *m) {
  cj_topology *topology = cj_topology_new();
  cj_stream *stream = cj_topology_stream(topology, o->stream, NULL);
  cj_table *table = cj_topology_table(topology, o->table, NULL);
  cj_node node = {.name = "join", .user = m};
  cj_stream *joined = o->left ? cj_stream_left_join(stream, table, join_halves, &node)
                              : cj_stream_join(stream, table, join_halves, &node);
  cj_stream_to(joined, o->out, NULL);
  cj_plan *plan = NULL;
  must(cj_topology_build(topology, &plan));
  return plan;
}

static options parse(int argc, char **argv, cj_config *config) {
  static const struct option longs[] = {{"brokers", required_argument, NULL, 'b'},
                                        {"table", required_argument, NULL, 't'},
                                        {"stream", required_argument, NULL, 's'},
                                        {"out", required_argument, NULL, 'o'},
                                        {"records", required_argument, NULL, 'r'},
                                        {"left", no_argument, NULL, 'l'},
                                        {"app-id", required_argument, NULL, 'a'},
                                        {"state-dir", required_argument, NULL, 'd'},
                                        {NULL, 0, NULL, 0}};
  options o = {0};
  int option;
  while ((option = getopt_long(argc, argv, "b:X:", longs, NULL)) != -1) {
    switch (option) {
    case 'b':
      o.brokers = optarg;
      set(config, "bootstrap.servers", optarg);
      break;
    case 't':
      o.table = optarg;
      break;
    case 's':
      o.stream = optarg;
      break;
    case 'o':
      o.out = optarg;
      break;
    case 'r':
      o.records = strtoull(optarg, NULL, 10);
      break;
    case 'l':
      o.left = true;
      break;
    case 'a':
      o.app_id = true;
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
  if (!o.brokers || !o.app_id || !o.table || !o.stream || !o.out || !o.records || optind != argc)
    bench_die("usage",
              "join -b BROKERS --table T --stream S --out O --app-id ID --records N [--left] "
              "[--state-dir DIR] [-X NAME=VALUE]...");
  return o;
}

int main(int argc, char **argv) {
  cj_config *config = cj_config_new();
  if (!config) bench_die("join", "no memory");
  options o = parse(argc, argv, config);
  measured m = {.expected = o.records};
  sem_init(&m.processed, 0, 0);
  cj_plan *plan = plan_of(&o, &m);
  cj_app_options app_options = {.user = &m, .on_log = on_log, .on_state = on_state};
  cj_app *app = NULL;
  must(cj_app_new(plan, config, &app_options, &app));
  must(cj_app_start(app));
  while (sem_wait(&m.processed))
    continue;
  cj_app_state state = cj_app_get_state(app);
  bool running = state != CJ_APP_STOPPED && state != CJ_APP_FAILED;
  bench_moment last = running ? bench_await_written(o.brokers, o.out, o.records) : bench_now();
  cj_app_stop(app);
  must(cj_app_wait(app, -1));
  if (m.seen != o.records) bench_die("join", "the application ended before the last record");
  bench_result(cj_rdkafka_version(), m.seen, m.first, last);
  cj_app_destroy(app);
  cj_config_destroy(config);
  return 0;
}
