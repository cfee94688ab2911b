/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints the committed rows of a table: reads keys, one a line, from standard input, and writes
 * "KEY\tVALUE" for each, or "KEY" alone where the table has no row. For text without tabs and line
 * ends. The application is that of the arguments; a stream record that comes is joined to nowhere.
 */
#include "program.h"

#define READY_SECONDS 60

static cj_verdict join(cj_ctx *ctx, const cj_record *record, const cj_row *row, cj_buf *value) {
  (void)ctx, (void)record, (void)row, (void)value;
  return CJ_DROP;
}

/* Owned partitions come when the group has dealt them and their stores are restored. */
static cj_read get(cj_app *app, const char *table, cj_bytes key, cj_buf *value, int64_t deadline) {
  for (;;) {
    cj_read read = cj_app_get(app, table, key, value);
    bool not_yet = read == CJ_READ_NOT_LOCAL || read == CJ_READ_RESTORING;
    if (!not_yet || wall_ms() >= deadline) return read;
    cj_app_state state = cj_app_get_state(app);
    if (state == CJ_APP_FAILED || state == CJ_APP_STOPPED) return read;
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  }
}

static bool dump(cj_app *app, const char *table) {
  int64_t deadline = wall_ms() + READY_SECONDS * 1000;
  char *line = NULL;
  size_t cap = 0;
  ssize_t len;
  cj_buf value = CJ_BUF_INIT;
  bool ok = true;
  while (ok && (len = getline(&line, &cap, stdin)) > 0) {
    size_t key_len = line[len - 1] == '\n' ? (size_t)len - 1 : (size_t)len;
    cj_read read = get(app, table, cj_bytes_of(line, key_len), &value, deadline);
    ok = read == CJ_READ_FOUND || read == CJ_READ_ABSENT;
    if (!ok) fprintf(stderr, "%.*s: cannot be read: %d\n", (int)key_len, line, (int)read);
    if (read == CJ_READ_FOUND)
      printf("%.*s\t%.*s\n", (int)key_len, line, (int)value.len, (char *)value.data);
    else if (ok)
      printf("%.*s\n", (int)key_len, line);
  }
  cj_buf_free(&value);
  free(line);
  return ok;
}

static void print_to_stderr(void *user, cj_log_level level, const char *line) {
  (void)user, (void)level;
  fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv) {
  cj_config *config = program_config(argc, argv);
  cj_plan *plan = program_plan(argv, join, NULL, NULL);
  cj_app_options options = {.on_log = print_to_stderr};
  cj_app *app = NULL;
  must(cj_app_new(plan, config, &options, &app));
  must(cj_app_start(app));
  bool ok = dump(app, argv[2]);
  cj_app_stop(app);
  must(cj_app_wait(app, READY_SECONDS * 1000));
  cj_app_destroy(app);
  cj_config_destroy(config);
  return ok ? 0 : 1;
}
