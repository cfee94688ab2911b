/* SPDX-License-Identifier: BSD-2-Clause */
/* What the system tests' programs share: their arguments, their configuration, and lines on
 * standard output that a test reads. Each takes PROGRAM BROKERS TABLE STREAM APP-ID STATE-DIR
 * [NAME=VALUE]... */
#ifndef CJ_TEST_PROGRAM_H
#define CJ_TEST_PROGRAM_H

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cojoin/cojoin.h>

#define PROGRAM_ARGS 6 /* before the first property */

static inline int64_t wall_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Ends the program with the tool's exit codes when there is an error: 2 for a broken checklist. */
static inline void must(cj_error *error) {
  if (!error) return;
  cj_code code = cj_error_code(error);
  fprintf(stderr, "%s\n", cj_error_text(error));
  const cj_report *report = cj_error_report(error);
  if (report) fprintf(stderr, "%s\n", cj_report_text(report));
  fflush(NULL);
  _Exit(code == CJ_ERR_NOT_COPARTITIONED || code == CJ_ERR_TOPIC_MISSING ||
                code == CJ_ERR_ASSIGNMENT
            ? 2
            : 1);
}

static inline cj_config *program_config(int argc, char **argv) {
  if (argc < PROGRAM_ARGS) {
    fprintf(stderr, "usage: %s BROKERS TABLE STREAM APP-ID STATE-DIR [NAME=VALUE]...\n", argv[0]);
    exit(1);
  }
  cj_config *config = cj_config_new();
  if (!config) exit(1);
  must(cj_config_set(config, "bootstrap.servers", argv[1]));
  must(cj_config_set(config, "application.id", argv[4]));
  must(cj_config_set(config, "state.dir", argv[5]));
  for (int i = PROGRAM_ARGS; i < argc; i++) {
    char *value = strchr(argv[i], '=');
    if (!value) {
      fprintf(stderr, "%s: expected NAME=VALUE\n", argv[i]);
      exit(1);
    }
    *value++ = '\0';
    must(cj_config_set(config, argv[i], value));
  }
  return config;
}

/* The stream joined with the table; the results go to `to`, or nowhere when it is NULL. */
static inline cj_plan *program_plan(char **argv, cj_join_fn *fn, void *user, const char *to) {
  cj_topology *topology = cj_topology_new();
  cj_table *table = cj_topology_table(topology, argv[2], NULL);
  cj_stream *stream = cj_topology_stream(topology, argv[3], NULL);
  cj_node node = {.name = "join", .user = user};
  cj_stream *joined = cj_stream_join(stream, table, fn, &node);
  if (to) cj_stream_to(joined, to, NULL);
  cj_plan *plan = NULL;
  must(cj_topology_build(topology, &plan));
  return plan;
}

/* "log MS LEVEL LINE" on standard output. */
static inline void print_log(void *user, cj_log_level level, const char *line) {
  static const char *const names[] = {"error", "warn", "info", "debug"};
  (void)user;
  printf("log %" PRId64 " %s %s\n", wall_ms(), names[level], line);
  fflush(stdout);
}

static cj_app *_Atomic signalled_app;

static inline void stop_on_signal(int number) {
  (void)number;
  cj_app *app = atomic_load(&signalled_app);
  if (app) cj_app_stop(app);
}

static inline void catch_signals(cj_app *app) {
  atomic_store(&signalled_app, app);
  struct sigaction action = {.sa_handler = stop_on_signal};
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
}

#endif
