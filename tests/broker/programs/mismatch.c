/* SPDX-License-Identifier: BSD-2-Clause */
/* Starts a join that a test expects to be refused: "refused CODE" on standard output, the error's
 * text and report on standard error, exit code 2. A record that is processed all the same is said
 * on standard output, and a start that succeeds is exit code 0. */
#include "program.h"

static cj_verdict join(cj_ctx *ctx, const cj_record *record, const cj_row *row, cj_buf *value) {
  (void)ctx, (void)row, (void)value;
  printf("processed %s %" PRId32 " %" PRId64 "\n", record->topic, record->partition,
         record->offset);
  fflush(stdout);
  return CJ_DROP;
}

int main(int argc, char **argv) {
  cj_config *config = program_config(argc, argv);
  cj_plan *plan = program_plan(argv, join, NULL, NULL);
  cj_app_options options = {.on_log = print_log};
  cj_app *app = NULL;
  must(cj_app_new(plan, config, &options, &app));
  cj_error *error = cj_app_start(app);
  if (error) printf("refused %s\n", cj_code_name(cj_error_code(error)));
  must(error);
  cj_app_destroy(app);
  cj_config_destroy(config);
  return 0;
}
