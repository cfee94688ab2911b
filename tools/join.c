/* SPDX-License-Identifier: BSD-2-Clause */
/* cojoin join: a stream-table join without writing C. */
#include "tools/encode.h"
#include "tools/output.h"
#include "tools/run.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "Usage: cojoin join -b BROKERS --table TOPIC --stream TOPIC [OPTIONS]\n"
    "Joins each record of the stream with the table's row for its key, in timestamp order.\n\n"
    "      --table TOPIC            the topic whose latest value for each key is the row\n"
    "      --stream TOPIC           the topic whose records look a row up\n"
    "      --to TOPIC|-             where the results go; - (default) is standard output\n"
    "      --left                   also records that find no row\n"
    "      --app-id ID              the consumer group and the name of the local state; default\n"
    "                               cojoin-join-STREAM-TABLE. A later run of the same id goes on\n"
    "                               where the last one stopped; `cojoin reset` begins anew\n"
    "      --state-dir DIR          where local state is kept (property state.dir)\n"
    "      --assignment NAME        range (default), spread, sticky or broker\n"
    "      --order ORDER            timestamp (default), or table_first: the whole table is "
    "loaded\n"
    "                               before the first stream record\n"
    "      --partitioner NAME       murmur2 (default), crc32 or fnv1a: of both topics and of --to\n"
    "      --value json|stream|table  with --to TOPIC: the same JSON as with -J (default), or one\n"
    "                               side's bytes as they are; key, timestamp and headers are the\n"
    "                               stream record's\n"
    "      --guarantee NAME         at_least_once (default) or exactly_once (with --to TOPIC)\n"
    "      --exit-at-end            stop at the end offsets that the topics have at the start\n"
    "      --threads N              worker threads, each a member of the group; default 1\n"
    "  -J, --json                   to standard output: one JSON object a line\n\n"
    "JSON: "
    "{\"topic\",\"partition\",\"offset\",\"timestamp\",\"key\",\"stream\",\"table\",\"headers\"}; "
    "what is\n"
    "not UTF-8 is {\"base64\":\"…\"}, what is absent null, headers an array of [name, value].\n"
    "Otherwise topic, partition, offset, timestamp, key, stream and table, tab-separated: \\t \\n "
    "\\r\n"
    "\\\\ and \\xNN stand for control characters and bytes that are not UTF-8, \\N for absent.\n";

enum {
  OPTION_TABLE = TOOL_OPTION_OWN,
  OPTION_STREAM,
  OPTION_TO,
  OPTION_LEFT,
  OPTION_APP_ID,
  OPTION_STATE_DIR,
  OPTION_ASSIGNMENT,
  OPTION_ORDER,
  OPTION_PARTITIONER,
  OPTION_VALUE,
  OPTION_GUARANTEE,
  OPTION_EXIT_AT_END,
  OPTION_THREADS,
};

static const struct option options[] = {
    {"table", required_argument, NULL, OPTION_TABLE},
    {"stream", required_argument, NULL, OPTION_STREAM},
    {"to", required_argument, NULL, OPTION_TO},
    {"left", no_argument, NULL, OPTION_LEFT},
    {"app-id", required_argument, NULL, OPTION_APP_ID},
    {"state-dir", required_argument, NULL, OPTION_STATE_DIR},
    {"assignment", required_argument, NULL, OPTION_ASSIGNMENT},
    {"order", required_argument, NULL, OPTION_ORDER},
    {"partitioner", required_argument, NULL, OPTION_PARTITIONER},
    {"value", required_argument, NULL, OPTION_VALUE},
    {"guarantee", required_argument, NULL, OPTION_GUARANTEE},
    {"exit-at-end", no_argument, NULL, OPTION_EXIT_AT_END},
    {"threads", required_argument, NULL, OPTION_THREADS},
    {"json", no_argument, NULL, 'J'},
    TOOL_COMMON_LONG,
    {0},
};

typedef enum { VALUE_JSON, VALUE_STREAM, VALUE_TABLE } value_kind;

typedef struct {
  tool_common common;
  const char *table, *stream, *to, *app_id, *state_dir, *assignment, *order, *guarantee, *threads;
  const char *value_name;
  const cj_partitioner *partitioner; /* NULL: the default */
  bool left, exit_at_end, json;
  bool to_stdout;
  value_kind value;
  tool_output output;
} join_job;

/* ---- the topology ---- */
static cj_verdict join_records(cj_ctx *ctx, const cj_record *record, const cj_row *row,
                               cj_buf *value) {
  const join_job *job = cj_ctx_user(ctx);
  cj_bytes table = row ? row->value : cj_bytes_null();
  if (job->value == VALUE_STREAM) {
    cj_buf_set(value, record->value);
    return CJ_EMIT;
  }
  if (job->value == VALUE_TABLE) {
    cj_buf_set(value, table);
    return CJ_EMIT;
  }
  tool_joined joined = {
      .topic = record->topic,
      .partition = record->partition,
      .offset = record->offset,
      .timestamp = record->timestamp,
      .key = record->key,
      .stream = record->value,
      .table = table,
  };
  joined.header_count = cj_record_headers(record, &joined.headers);
  if (job->to_stdout && !job->json)
    tool_joined_tsv(&joined, value);
  else if (!tool_joined_json(&joined, value))
    return cj_ctx_fail(ctx, "the result could not be written as JSON: no memory left");
  if (job->to_stdout) cj_buf_append(value, "\n", 1);
  return CJ_EMIT;
}

/* A filter because it can fail: a peek cannot. */
static cj_verdict write_line(cj_ctx *ctx, const cj_record *record) {
  join_job *job = cj_ctx_user(ctx);
  int error = tool_output_write(&job->output, record->value.data, record->value.len);
  if (!error) return CJ_EMIT;
  return cj_ctx_fail(ctx, "standard output: %s", tool_output_reason(error));
}

static cj_error *build(join_job *job, cj_plan **plan) {
  cj_topology *topology = tool_owned(cj_topology_new());
  cj_source_options source = {.partitioner = job->partitioner};
  cj_stream *stream = cj_topology_stream(topology, job->stream, &source);
  cj_table *table = cj_topology_table(topology, job->table, &source);
  cj_node join = {.name = "join", .user = job};
  cj_stream *joined = job->left ? cj_stream_left_join(stream, table, join_records, &join)
                                : cj_stream_join(stream, table, join_records, &join);
  if (job->to_stdout) {
    cj_node writer = {.name = "stdout", .user = job};
    cj_stream_filter(joined, write_line, &writer);
  } else {
    cj_sink_options sink = {.name = "to", .partitioner = job->partitioner};
    cj_stream_to(joined, job->to, &sink);
  }
  cj_error *error = cj_topology_build(topology, plan);
  if (error) cj_topology_destroy(topology);
  return error;
}

/* ---- options ---- */
static bool take_option(join_job *job, int option) {
  switch (option) {
  case OPTION_TABLE:
    job->table = optarg;
    return true;
  case OPTION_STREAM:
    job->stream = optarg;
    return true;
  case OPTION_TO:
    job->to = optarg;
    return true;
  case OPTION_LEFT:
    job->left = true;
    return true;
  case OPTION_APP_ID:
    job->app_id = optarg;
    return true;
  case OPTION_STATE_DIR:
    job->state_dir = optarg;
    return true;
  case OPTION_ASSIGNMENT:
    job->assignment = optarg;
    return true;
  case OPTION_ORDER:
    job->order = optarg;
    return true;
  case OPTION_VALUE:
    job->value_name = optarg;
    return true;
  case OPTION_GUARANTEE:
    job->guarantee = optarg;
    return true;
  case OPTION_EXIT_AT_END:
    job->exit_at_end = true;
    return true;
  case OPTION_THREADS:
    job->threads = optarg;
    return true;
  case 'J':
    job->json = true;
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

static bool check_options(join_job *job, int argc, char **argv) {
  const tool_common *common = &job->common;
  if (optind < argc) return tool_usage(common, "\"%s\" is not expected", argv[optind]), false;
  if (!job->table || !job->stream)
    return tool_usage(common, "--table and --stream are needed"), false;
  if (!job->to) job->to = "-";
  job->to_stdout = strcmp(job->to, "-") == 0;
  const char *value = job->value_name ? job->value_name : "json";
  if (strcmp(value, "json") == 0)
    job->value = VALUE_JSON;
  else if (strcmp(value, "stream") == 0)
    job->value = VALUE_STREAM;
  else if (strcmp(value, "table") == 0)
    job->value = VALUE_TABLE;
  else
    return tool_usage(common, "--value takes json, stream or table, not \"%s\"", value), false;
  if (job->value != VALUE_JSON && job->to_stdout)
    return tool_usage(common, "--value %s needs --to TOPIC", value), false;
  if (job->value != VALUE_JSON && job->json)
    return tool_usage(common, "-J and --value %s exclude each other", value), false;
  return true;
}

static bool configure(join_job *job, cj_config *config) {
  if (!tool_configure(&job->common, config)) return false;
  char *derived = tool_format("cojoin-join-%s-%s", job->stream, job->table);
  const char *configured = cj_config_get(config, "application.id");
  const char *app_id = job->app_id                         ? job->app_id
                       : configured && *configured != '\0' ? configured
                                                           : derived;
  bool ok = tool_set(config, "application.id", app_id, "--app-id");
  free(derived);
  const struct {
    const char *name, *value, *option;
  } settings[] = {
      {"state.dir", job->state_dir, "--state-dir"},
      {"assignment", job->assignment, "--assignment"},
      {"order", job->order, "--order"},
      {"processing.guarantee", job->guarantee, "--guarantee"},
      {"threads", job->threads, "--threads"},
      {"stop.at.end", job->exit_at_end ? "true" : NULL, "--exit-at-end"},
  };
  for (size_t i = 0; ok && i < sizeof settings / sizeof *settings; i++)
    if (settings[i].value)
      ok = tool_set(config, settings[i].name, settings[i].value, settings[i].option);
  if (!ok) return false;
  if (!job->to_stdout) return true;
  /* Skipping a line that could not be written, or writing one that is taken back, would break what
   * is promised of standard output. */
  const char *policy = cj_config_get(config, "errors.process");
  if (policy && strcmp(policy, "fail") != 0)
    return tool_usage(&job->common, "errors.process=%s needs --to TOPIC", policy), false;
  const char *guarantee = cj_config_get(config, "processing.guarantee");
  if (guarantee && strcmp(guarantee, "exactly_once") == 0)
    return tool_usage(&job->common, "--guarantee exactly_once needs --to TOPIC"), false;
  return true;
}

static tool_exit run_join(int argc, char **argv) {
  join_job job = {.common = {.command = "join"}};
  tool_exit code = TOOL_FAILED;
  int option;
  while ((option = getopt_long(argc, argv, TOOL_COMMON_SHORT "J", options, NULL)) != -1) {
    tool_option_result result = tool_common_option(&job.common, option, argv, help, &code);
    if (result == TOOL_OPTION_TAKEN) continue;
    if (result == TOOL_OPTION_EXIT || !take_option(&job, option)) {
      tool_common_free(&job.common);
      return code;
    }
  }
  cj_config *config = tool_owned(cj_config_new());
  cj_plan *plan = NULL;
  cj_error *error = NULL;
  tool_output_init(&job.output, STDOUT_FILENO);
  if (check_options(&job, argc, argv) && configure(&job, config) &&
      tool_need_brokers(&job.common, config)) {
    error = build(&job, &plan);
    code = error ? tool_exit_of(error) : tool_run(plan, config, !(job.to_stdout && isatty(1)));
  }
  if (error) tool_report_error(error);
  tool_output_finish(&job.output);
  cj_config_destroy(config);
  tool_common_free(&job.common);
  return code;
}

const tool_command tool_join = {
    .name = "join",
    .summary = "join a stream with a table and print or produce the results",
    .run = run_join,
};
