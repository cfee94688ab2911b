/* SPDX-License-Identifier: BSD-2-Clause */
/* cojoin check: the four-point checklist for topics that may never have met a cojoin application.
 * It joins no group, commits nothing and keeps no state. */
#include "tools/report.h"
#include "tools/run.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: cojoin check -b BROKERS --stream TOPIC --table TOPIC... [OPTIONS]\n"
    "       cojoin check -b BROKERS [OPTIONS] TOPIC TOPIC...\n"
    "Checks whether topics can be joined: the same partition count (1), the same key and\n"
    "serialization (2), the same partitioner on every producer (3), a co-locating assignment (4).\n"
    "Reads only: joins no group, commits nothing, keeps no state.\n\n"
    "      --stream TOPIC           a topic of the join\n"
    "      --table TOPIC            another; repeatable\n"
    "      --format text|json       json: "
    "{\"verdict\",\"points\":[{\"point\",\"name\",\"verdict\",\n"
    "                               \"evidence\",\"remedy\"}…]}\n"
    "      --assignment NAME        range (default), spread, sticky or broker\n"
    "      --partitioner NAME       the one that the producers are said to use: murmur2 "
    "(default),\n"
    "                               crc32 or fnv1a\n"
    "      --group ID, --app-id ID  the group whose members are looked at\n\n"
    "Exit codes: 0 all points hold; 2 one is broken; 3 none is broken, one is unverified; 1 the\n"
    "check could not be run.\n";

enum {
  OPTION_TABLE = TOOL_OPTION_OWN,
  OPTION_STREAM,
  OPTION_FORMAT,
  OPTION_ASSIGNMENT,
  OPTION_PARTITIONER,
  OPTION_GROUP,
};

static const struct option options[] = {
    {"table", required_argument, NULL, OPTION_TABLE},
    {"stream", required_argument, NULL, OPTION_STREAM},
    {"format", required_argument, NULL, OPTION_FORMAT},
    {"assignment", required_argument, NULL, OPTION_ASSIGNMENT},
    {"partitioner", required_argument, NULL, OPTION_PARTITIONER},
    {"group", required_argument, NULL, OPTION_GROUP},
    {"app-id", required_argument, NULL, OPTION_GROUP},
    TOOL_COMMON_LONG,
    {0},
};

typedef struct {
  tool_common common;
  const char *stream, *assignment, *group;
  const cj_partitioner *partitioner;
  tool_strings topics; /* in the order in which they were named, the stream's among them */
  bool json;
} check_job;

/* Every other topic is a table that the stream is joined with: that puts all into one
 * co-partitioned set, which is what is to be checked. Nothing is ever joined. */
static cj_verdict join_nothing(cj_ctx *ctx, const cj_record *record, const cj_row *row,
                               cj_buf *value) {
  (void)ctx;
  (void)record;
  (void)row;
  (void)value;
  return CJ_DROP;
}

static cj_error *build(const check_job *job, cj_plan **plan) {
  cj_topology *topology = tool_owned(cj_topology_new());
  cj_source_options source = {.partitioner = job->partitioner};
  cj_stream *stream = cj_topology_stream(topology, job->stream, &source);
  for (size_t i = 0; i < job->topics.count; i++) {
    if (strcmp(job->topics.items[i], job->stream) == 0) continue;
    cj_table *table = cj_topology_table(topology, job->topics.items[i], &source);
    stream = cj_stream_join(stream, table, join_nothing, &(cj_node){0});
  }
  cj_error *error = cj_topology_build(topology, plan);
  if (error) cj_topology_destroy(topology);
  return error;
}

/* ---- options ---- */
static bool add_topic(check_job *job, const char *topic) {
  if (tool_strings_has(&job->topics, topic)) {
    tool_usage(&job->common, "topic \"%s\" is named twice", topic);
    return false;
  }
  tool_strings_add(&job->topics, topic);
  return true;
}

static bool take_option(check_job *job, int option) {
  switch (option) {
  case OPTION_TABLE:
    return add_topic(job, optarg);
  case OPTION_STREAM:
    if (!job->stream) job->stream = optarg;
    return add_topic(job, optarg);
  case OPTION_FORMAT:
    job->json = strcmp(optarg, "json") == 0;
    if (job->json || strcmp(optarg, "text") == 0) return true;
    tool_usage(&job->common, "--format takes text or json, not \"%s\"", optarg);
    return false;
  case OPTION_ASSIGNMENT:
    job->assignment = optarg;
    return true;
  case OPTION_GROUP:
    job->group = optarg;
    return true;
  case OPTION_PARTITIONER:
    job->partitioner = cj_partitioner_named(optarg);
    if (job->partitioner) return true;
    tool_usage(&job->common, "--partitioner takes murmur2, crc32 or fnv1a, not \"%s\"", optarg);
    return false;
  default:
    return false;
  }
}

static bool take_arguments(check_job *job, int argc, char **argv) {
  for (int i = optind; i < argc; i++)
    if (!add_topic(job, argv[i])) return false;
  if (job->topics.count < 2) {
    tool_usage(&job->common, "two topics or more are needed");
    return false;
  }
  if (!job->stream) job->stream = job->topics.items[0];
  return true;
}

static bool configure(check_job *job, cj_config *config) {
  if (!tool_configure(&job->common, config) || !tool_need_brokers(&job->common, config))
    return false;
  const char *configured = cj_config_get(config, "application.id");
  if (job->group) {
    if (!tool_set(config, "application.id", job->group, "--group")) return false;
  } else if (!configured || *configured == '\0') {
    if (!tool_set(config, "application.id", "cojoin-check", "--group")) return false;
  }
  if (job->assignment && !tool_set(config, "assignment", job->assignment, "--assignment"))
    return false;
  return tool_set(config, "store", "memory", "check");
}

/* ---- checking ---- */
static tool_exit show(const check_job *job, const cj_report *report) {
  if (!job->json)
    tool_report_print(stdout, report, tool_colour(stdout));
  else if (!tool_report_json(stdout, report)) {
    tool_error("the report could not be written as JSON");
    return TOOL_FAILED;
  }
  switch (cj_report_verdict(report)) {
  case CJ_HOLDS:
    return TOOL_DONE;
  case CJ_UNVERIFIED:
    return TOOL_UNVERIFIED;
  case CJ_BROKEN:
    return TOOL_BROKEN;
  }
  return TOOL_FAILED;
}

static tool_exit check(const check_job *job, const cj_config *config) {
  cj_plan *plan = NULL;
  cj_app *app = NULL;
  cj_report *report = NULL;
  cj_app_options app_options = {.on_log = tool_on_log};
  cj_error *error = build(job, &plan);
  if (!error) error = cj_app_new(plan, config, &app_options, &app);
  if (error)
    cj_plan_destroy(plan);
  else
    error = cj_app_check(app, &report);
  tool_exit code = error ? TOOL_FAILED : show(job, report);
  if (error) tool_report_error(error);
  cj_report_destroy(report);
  cj_app_destroy(app);
  return code;
}

static tool_exit run_check(int argc, char **argv) {
  check_job job = {.common = {.command = "check"}};
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
  cj_config *config = tool_owned(cj_config_new());
  if (ok && take_arguments(&job, argc, argv) && configure(&job, config)) code = check(&job, config);
  cj_config_destroy(config);
  tool_strings_free(&job.topics);
  tool_common_free(&job.common);
  return code;
}

const tool_command tool_check = {
    .name = "check",
    .summary = "prove whether topics can be joined, point by point",
    .run = run_check,
};
