/* SPDX-License-Identifier: BSD-2-Clause */
/* cojoin reset: puts an application back, its group's offsets and its local state. */
#include "tools/admin.h"
#include "tools/reset_plan.h"
#include "tools/run.h"
#include "tools/timestamp.h"
#include "tools/tool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: cojoin reset -b BROKERS --app-id ID [OPTIONS]\n"
    "Puts the offsets of the application's group to another place and removes its local state. "
    "The\n"
    "application must not be running. Try --dry-run first.\n\n"
    "      --app-id ID              the application, which is its consumer group's id\n"
    "      --topic, --stream TOPIC  only this topic's offsets; repeatable\n"
    "      --table TOPIC            a table: its offsets are deleted, so that it is read anew\n"
    "                               Without any of them: every topic that the group has offsets "
    "of\n"
    "      --to-earliest            the start of the log (default)\n"
    "      --to-latest              its end\n"
    "      --to-timestamp TIME      the first record not older: milliseconds since the epoch, or\n"
    "                               2024-05-01[T12:00[:00[.000]][Z|+07:00]] (UTC if not said)\n"
    "      --state-dir DIR          where the local state is kept (property state.dir)\n"
    "      --dry-run                say what would be done, and do nothing\n";

enum {
  OPTION_APP_ID = TOOL_OPTION_OWN,
  OPTION_TOPIC,
  OPTION_TABLE,
  OPTION_EARLIEST,
  OPTION_LATEST,
  OPTION_TIMESTAMP,
  OPTION_STATE_DIR,
  OPTION_DRY_RUN,
};

static const struct option options[] = {
    {"app-id", required_argument, NULL, OPTION_APP_ID},
    {"topic", required_argument, NULL, OPTION_TOPIC},
    {"stream", required_argument, NULL, OPTION_TOPIC},
    {"table", required_argument, NULL, OPTION_TABLE},
    {"to-earliest", no_argument, NULL, OPTION_EARLIEST},
    {"to-latest", no_argument, NULL, OPTION_LATEST},
    {"to-timestamp", required_argument, NULL, OPTION_TIMESTAMP},
    {"state-dir", required_argument, NULL, OPTION_STATE_DIR},
    {"dry-run", no_argument, NULL, OPTION_DRY_RUN},
    TOOL_COMMON_LONG,
    {0},
};

typedef struct {
  tool_common common;
  reset_wish wish;
  const char *app_id, *state_dir;
  bool dry_run, target_given;
} reset_job;

static bool set_target(reset_job *job, reset_target target) {
  if (job->target_given) {
    tool_usage(&job->common, "--to-earliest, --to-latest and --to-timestamp exclude each other");
    return false;
  }
  job->target_given = true;
  job->wish.target = target;
  return true;
}

static bool take_option(reset_job *job, int option) {
  switch (option) {
  case OPTION_APP_ID:
    job->app_id = optarg;
    return true;
  case OPTION_TOPIC:
    tool_strings_add(&job->wish.topics, optarg);
    return true;
  case OPTION_TABLE:
    tool_strings_add(&job->wish.tables, optarg);
    return true;
  case OPTION_EARLIEST:
    return set_target(job, RESET_EARLIEST);
  case OPTION_LATEST:
    return set_target(job, RESET_LATEST);
  case OPTION_TIMESTAMP:
    if (!tool_parse_timestamp(optarg, &job->wish.timestamp)) {
      tool_usage(&job->common, "--to-timestamp: \"%s\" is no time", optarg);
      return false;
    }
    return set_target(job, RESET_TIMESTAMP);
  case OPTION_STATE_DIR:
    job->state_dir = optarg;
    return true;
  case OPTION_DRY_RUN:
    job->dry_run = true;
    return true;
  default:
    return false;
  }
}

static bool configure(reset_job *job, cj_config *config) {
  if (!tool_configure(&job->common, config) || !tool_need_brokers(&job->common, config))
    return false;
  if (job->state_dir && !tool_set(config, "state.dir", job->state_dir, "--state-dir")) return false;
  if (job->app_id && !tool_set(config, "application.id", job->app_id, "--app-id")) return false;
  job->app_id = cj_config_get(config, "application.id");
  job->state_dir = cj_config_get(config, "state.dir");
  if (!job->app_id || *job->app_id == '\0')
    return tool_usage(&job->common, "--app-id is needed"), false;
  if (!job->state_dir || *job->state_dir == '\0')
    return tool_usage(&job->common, "no state directory is known: give --state-dir"), false;
  for (size_t i = 0; i < job->wish.tables.count; i++)
    if (tool_strings_has(&job->wish.topics, job->wish.tables.items[i]))
      return tool_usage(&job->common, "%s is named as a table and as a stream",
                        job->wish.tables.items[i]),
             false;
  return true;
}

/* ---- doing it ---- */
/* A group with members would commit over what is set; brokers refuse it, but do not say who. */
static bool group_is_empty(rd_kafka_t *rk, const char *group) {
  tool_strings members = {0};
  bool ok = tool_group_members(rk, group, &members);
  if (members.count) {
    tool_error("group %s has %zu member%s; stop the application first:", group, members.count,
               members.count == 1 ? "" : "s");
    for (size_t i = 0; i < members.count; i++)
      tool_error("  %s", members.items[i]);
    ok = false;
  }
  tool_strings_free(&members);
  return ok;
}

static void print_offsets(const reset_plan *plan, bool dry_run) {
  for (size_t i = 0; i < plan->count; i++) {
    const reset_change *change = &plan->changes[i];
    char was[48] = "none before";
    if (change->before >= 0) snprintf(was, sizeof was, "was %" PRId64, change->before);
    if (change->after < 0)
      printf("%s%s the offset of %s [%d] (%s)\n", dry_run ? "would " : "",
             dry_run ? "delete" : "deleted", change->topic, change->partition, was);
    else
      printf("%sset the offset of %s [%d] to %" PRId64 " (%s)\n", dry_run ? "would " : "",
             change->topic, change->partition, change->after, was);
  }
}

typedef struct {
  bool dry_run, silent;
  size_t count;
} path_printer;

static void print_path(void *user, const char *path) {
  path_printer *printer = user;
  printer->count++;
  if (!printer->silent) printf("%s %s\n", printer->dry_run ? "would remove" : "removed", path);
}

static bool remove_state(const reset_job *job, path_printer *printer) {
  cj_error *error =
      cj_app_reset_state(job->state_dir, job->app_id, printer->dry_run, print_path, printer);
  if (error) tool_report_error(error);
  return !error;
}

static bool apply(const reset_job *job, rd_kafka_t *rk, const reset_plan *plan) {
  /* First a look: a process that runs on this state is a reason to change nothing at all. */
  if (!remove_state(job, &(path_printer){.dry_run = true, .silent = true})) return false;
  if (!job->dry_run && !reset_plan_apply(plan, rk, job->app_id)) return false;
  print_offsets(plan, job->dry_run);
  path_printer printer = {.dry_run = job->dry_run};
  if (!remove_state(job, &printer)) return false;
  if (plan->count == 0 && printer.count == 0)
    tool_note("nothing to reset: group %s has no offsets, and %s has no state of it", job->app_id,
              job->state_dir);
  return true;
}

static tool_exit reset(const reset_job *job, const cj_config *config) {
  rd_kafka_conf_t *conf = tool_client_conf(&job->common, config);
  rd_kafka_t *rk = conf ? tool_client_new(RD_KAFKA_PRODUCER, conf) : NULL;
  if (!rk) return TOOL_FAILED;
  reset_plan plan = {0};
  bool ok = group_is_empty(rk, job->app_id) &&
            reset_plan_make(&plan, rk, job->app_id, &job->wish) && apply(job, rk, &plan);
  reset_plan_free(&plan);
  rd_kafka_destroy(rk);
  return ok ? TOOL_DONE : TOOL_FAILED;
}

static tool_exit run_reset(int argc, char **argv) {
  reset_job job = {.common = {.command = "reset"}};
  tool_exit code = TOOL_FAILED;
  bool ok = true;
  int option;
  while (ok && (option = getopt_long(argc, argv, TOOL_COMMON_SHORT, options, NULL)) != -1) {
    tool_option_result result = tool_common_option(&job.common, option, argv, help, &code);
    if (result == TOOL_OPTION_OTHER)
      ok = take_option(&job, option);
    else
      ok = result == TOOL_OPTION_TAKEN;
  }
  if (ok && optind < argc) {
    tool_usage(&job.common, "\"%s\" is not expected", argv[optind]);
    ok = false;
  }
  cj_config *config = tool_owned(cj_config_new());
  if (ok && configure(&job, config)) code = reset(&job, config);
  cj_config_destroy(config);
  tool_strings_free(&job.wish.topics);
  tool_strings_free(&job.wish.tables);
  tool_common_free(&job.common);
  return code;
}

const tool_command tool_reset = {
    .name = "reset",
    .summary = "put an application's offsets and local state back",
    .run = run_reset,
};
