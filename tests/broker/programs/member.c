/* SPDX-License-Identifier: BSD-2-Clause */
/* One member of a group, for tests of rebalances: joins the stream with the table into a topic, and
 * says what happens to it, each line with the wall clock in milliseconds:
 *   task MS assigned|running|suspended|closed PARTITION [lost]
 *   state MS NAME
 *   log MS LEVEL LINE
 * An output's value is "MEMBER MS ROW EVENT": who made it and when, the table's row and the
 * stream's value.
 * Environment: MEMBER_NAME, MEMBER_TO (the output's topic). SIGTERM ends it. */
#include "program.h"

static cj_verdict join(cj_ctx *ctx, const cj_record *record, const cj_row *row, cj_buf *value) {
  cj_buf_printf(value, "%s %" PRId64 " %.*s %.*s", (const char *)cj_ctx_user(ctx), wall_ms(),
                (int)row->value.len, (const char *)row->value.data, (int)record->value.len,
                (const char *)record->value.data);
  return CJ_EMIT;
}

static void on_rebalance(void *user, const cj_rebalance *event) {
  static const char *const names[] = {[CJ_TASK_ASSIGNED] = "assigned",
                                      [CJ_TASK_RUNNING] = "running",
                                      [CJ_TASK_SUSPENDED] = "suspended",
                                      [CJ_TASK_CLOSED] = "closed"};
  (void)user;
  printf("task %" PRId64 " %s %" PRId32 "%s\n", wall_ms(), names[event->event], event->partition,
         event->lost ? " lost" : "");
  fflush(stdout);
}

static void on_state(void *user, cj_app_state from, cj_app_state to) {
  (void)user, (void)from;
  printf("state %" PRId64 " %s\n", wall_ms(), cj_app_state_name(to));
  fflush(stdout);
}

int main(int argc, char **argv) {
  char *name = getenv("MEMBER_NAME");
  const char *to = getenv("MEMBER_TO");
  if (!name || !to) {
    fprintf(stderr, "MEMBER_NAME and MEMBER_TO must be set\n");
    return 1;
  }
  cj_config *config = program_config(argc, argv);
  cj_plan *plan = program_plan(argv, join, name, to);
  cj_app_options options = {
      .on_log = print_log, .on_state = on_state, .on_rebalance = on_rebalance};
  cj_app *app = NULL;
  must(cj_app_new(plan, config, &options, &app));
  catch_signals(app);
  must(cj_app_start(app));
  must(cj_app_wait(app, -1));
  atomic_store(&signalled_app, NULL);
  cj_app_destroy(app);
  cj_config_destroy(config);
  return 0;
}
