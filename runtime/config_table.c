/* SPDX-License-Identifier: BSD-2-Clause */
#include "runtime/config_table.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char *const assignments[] = {"range", "spread", "sticky", "broker", NULL};
static const char *const orders[] = {"timestamp", "table_first", NULL};
static const char *const guarantees[] = {"at_least_once", "exactly_once", NULL};
static const char *const resets[] = {"earliest", "latest", "error", NULL};
static const char *const isolations[] = {"read_uncommitted", "read_committed", NULL};
static const char *const policies[] = {"fail", "skip", "dead_letter", NULL};
static const char *const check_policies[] = {"enforce", "warn", NULL};
static const char *const stores[] = {"rocksdb", "memory", NULL};
static const char *const booleans[] = {"false", "true", NULL};
static const char *const levels[] = {"error", "warn", "info", "debug", NULL};

const char *cj_assignment_name(cj_assignment assignment) {
  return assignments[assignment];
}

/* ---- what texts have to be ---- */

static bool plain_name(const char *value, size_t longest) {
  size_t len = strlen(value);
  if (len == 0 || len > longest || strcmp(value, ".") == 0 || strcmp(value, "..") == 0)
    return false;
  return strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == len;
}

/* A directory is named after it, so it is held to what Kafka allows for a topic. */
static const char *application_id(const char *value) {
  return plain_name(value, 200) ? NULL
                                : "1 to 200 of the characters A-Z a-z 0-9 . _ -, as it is the name "
                                  "of the group and of a directory, and not . or ..";
}

static const char *topic_or_nothing(const char *value) {
  return !value[0] || plain_name(value, 249) ? NULL : "the name of a topic";
}

static const char *client_name(const char *value) {
  return !value[0] || plain_name(value, 100)
             ? NULL
             : "at most 100 of the characters A-Z a-z 0-9 . _ -, and not . or ..";
}

static const char *not_empty(const char *value) {
  return value[0] ? NULL : "a text that is not empty";
}

/* ---- the table ---- */

#define KIB INT64_C(1024)
#define MIB (KIB * 1024)
#define DAY (INT64_C(24) * 3600 * 1000)

#define FIELD(f) offsetof(cj_settings, f)

const cj_property cj_properties[] = {
    {.name = "application.id",
     .type = CJ_PROPERTY_TEXT,
     .field = FIELD(application_id),
     .why_not = application_id,
     .otherwise = "required",
     .text = "Name of the application: the consumer group, and a directory under `state.dir`. All "
             "members of one application use the same."},
    {.name = "bootstrap.servers",
     .type = CJ_PROPERTY_TEXT,
     .field = FIELD(bootstrap_servers),
     .why_not = not_empty,
     .otherwise = "required",
     .text = "Brokers to begin with: `host:port`, separated by commas."},
    {.name = "state.dir",
     .type = CJ_PROPERTY_TEXT,
     .field = FIELD(state_dir),
     .why_not = not_empty,
     .otherwise = "`$XDG_STATE_HOME/cojoin`, else `$HOME/.local/state/cojoin`",
     .text = "Where the stores are kept. Not a place that is cleaned, such as `/tmp`: what is lost "
             "is restored from the topics, which takes its time."},
    {.name = "client.id",
     .type = CJ_PROPERTY_TEXT,
     .field = FIELD(client_id),
     .why_not = client_name,
     .value = "",
     .text = "A name to recognise the members by. A stable id of the process is put before it, "
             "and the stamp that members know each other by after it."},
    {.name = "threads",
     .type = CJ_PROPERTY_INT,
     .field = FIELD(threads),
     .min = 1,
     .max = 256,
     .value = "1",
     .text = "Worker threads; each is a member of the group."},
    {.name = "assignment",
     .type = CJ_PROPERTY_WORD,
     .field = FIELD(assignment),
     .words = assignments,
     .value = "range",
     .text =
         "How partitions are dealt to members: `range`, `spread` (round robin, made co-locating "
         "by the anchor). `sticky` and `broker` are not supported yet."},
    {.name = "anchor",
     .type = CJ_PROPERTY_TEXT,
     .field = FIELD(anchor),
     .why_not = topic_or_nothing,
     .value = "",
     .otherwise = "the first topic by name",
     .text = "The topic whose partitions decide who owns a task. Pin it before a rolling deploy "
             "adds a topic that sorts before it."},
    {.name = "order",
     .type = CJ_PROPERTY_WORD,
     .field = FIELD(order),
     .words = orders,
     .value = "timestamp",
     .text =
         "`timestamp`: the record with the smallest timestamp goes first, a table's before a "
         "stream's. `table_first`: the stream waits until the table was read to the end that it "
         "had when it was assigned."},
    {.name = "max.task.idle.ms",
     .type = CJ_PROPERTY_MS,
     .field = FIELD(max_task_idle_ms),
     .min = -1,
     .max = DAY,
     .value = "0",
     .text = "How long a task that lacks records of one input waits for them beyond being caught "
             "up. -1 does not wait for anything, and may join out of order."},
    {.name = "processing.guarantee",
     .type = CJ_PROPERTY_WORD,
     .field = FIELD(guarantee),
     .words = guarantees,
     .value = "at_least_once",
     .text = "After a failure a record may be processed, and its output produced, again "
             "(`at_least_once`). `exactly_once`: outputs and positions are one transaction, which "
             "readers see under `isolation.level=read_committed`."},
    {.name = "commit.interval.ms",
     .type = CJ_PROPERTY_MS,
     .field = FIELD(commit_interval_ms),
     .max = DAY,
     .otherwise = "1000; 100 with `exactly_once`",
     .text = "How often positions and stores are committed."},
    {.name = "auto.offset.reset",
     .type = CJ_PROPERTY_WORD,
     .field = FIELD(auto_offset_reset),
     .words = resets,
     .value = "earliest",
     .text = "Where a stream without a committed offset begins. Tables always begin at the "
             "beginning."},
    {.name = "isolation.level",
     .type = CJ_PROPERTY_FLAG,
     .field = FIELD(read_committed),
     .words = isolations,
     .otherwise = "`read_uncommitted`; `read_committed` with `exactly_once`",
     .text = "Whether records of open and aborted transactions are read."},
    {.name = "memory.bytes",
     .type = CJ_PROPERTY_BYTES,
     .field = FIELD(memory_bytes),
     .min = 16 * MIB,
     .max = INT64_MAX / 2,
     .value = "256m",
     .text = "Budget of the process: half for the block cache of the stores, a quarter for their "
             "write buffers, a quarter for the queues of fetched records of all workers."},
    {.name = "overlay.bytes",
     .type = CJ_PROPERTY_BYTES,
     .field = FIELD(overlay_bytes),
     .min = 64 * KIB,
     .max = INT64_MAX / 2,
     .value = "32m",
     .text = "A worker's table updates that are not committed yet; at this size a commit is made "
             "before its time. Not part of `memory.bytes`."},
    {.name = "open.files.max",
     .type = CJ_PROPERTY_INT,
     .field = FIELD(open_files_max),
     .max = INT_MAX,
     .value = "0",
     .text = "Files that all stores together keep open; 0: what the process's limit allows."},
    {.name = "check.partition.count",
     .type = CJ_PROPERTY_WORD,
     .field = FIELD(check[CJ_POINT_PARTITION_COUNT]),
     .words = check_policies,
     .value = "enforce",
     .text =
         "Point 1 of the checklist, the same partition count on all joined topics: a broken one "
         "refuses the start, or is only logged. A topic that does not exist always refuses it."},
    {.name = "check.keys",
     .type = CJ_PROPERTY_WORD,
     .field = FIELD(check[CJ_POINT_KEYS]),
     .words = check_policies,
     .value = "enforce",
     .text = "Point 2, the same key bytes on both sides: likewise."},
    {.name = "check.partitioner",
     .type = CJ_PROPERTY_WORD,
     .field = FIELD(check[CJ_POINT_PARTITIONER]),
     .words = check_policies,
     .value = "enforce",
     .text = "Point 3, the same partitioner in every producer: likewise."},
    {.name = "check.assignment",
     .type = CJ_PROPERTY_WORD,
     .field = FIELD(check[CJ_POINT_ASSIGNMENT]),
     .words = check_policies,
     .value = "enforce",
     .text = "Point 4, an assignment that co-locates, and no member that uses another: likewise."},
    {.name = "check.timeout.ms",
     .type = CJ_PROPERTY_MS,
     .field = FIELD(check_timeout_ms),
     .min = 100,
     .max = DAY,
     .value = "30000",
     .text = "How long the checklist tries to reach the brokers."},
    {.name = "errors.deserialize",
     .type = CJ_PROPERTY_WORD,
     .field = FIELD(on_deserialize),
     .words = policies,
     .value = "fail",
     .text =
         "A record whose bytes cannot be decoded stops the application (`fail`), is dropped and "
         "counted (`skip`), or goes to `errors.dead.letter.topic` (`dead_letter`)."},
    {.name = "errors.process",
     .type = CJ_PROPERTY_WORD,
     .field = FIELD(on_process),
     .words = policies,
     .value = "fail",
     .text = "The same for a record on which a callback failed."},
    {.name = "errors.produce",
     .type = CJ_PROPERTY_WORD,
     .field = FIELD(on_produce),
     .words = policies,
     .value = "fail",
     .text = "The same for an output that the broker does not take."},
    {.name = "errors.dead.letter.topic",
     .type = CJ_PROPERTY_TEXT,
     .field = FIELD(dead_letter_topic),
     .why_not = topic_or_nothing,
     .value = "",
     .text = "Where `dead_letter` sends records; it must exist."},
    {.name = "shutdown.timeout.ms",
     .type = CJ_PROPERTY_MS,
     .field = FIELD(shutdown_timeout_ms),
     .min = 100,
     .max = DAY,
     .value = "30000",
     .text = "How long a stop may take to drain and commit; to leave the group it has ten seconds "
             "more. A worker that is late by then, held up in a callback, is given up: the "
             "application fails."},
    {.name = "revoke.timeout.ms",
     .type = CJ_PROPERTY_MS,
     .field = FIELD(revoke_timeout_ms),
     .min = 100,
     .max = DAY,
     .value = "10000",
     .text = "How long the group waits for this member's last commit in a rebalance; past it the "
             "uncommitted work is dropped and done again. Less than `rd.max.poll.interval.ms`."},
    {.name = "request.timeout.ms",
     .type = CJ_PROPERTY_MS,
     .field = FIELD(request_timeout_ms),
     .min = 100,
     .max = DAY,
     .value = "10000",
     .text = "Bound of one request to a broker; it is then tried again."},
    {.name = "store.lock.wait.ms",
     .type = CJ_PROPERTY_MS,
     .field = FIELD(store_lock_wait_ms),
     .max = DAY,
     .value = "60000",
     .text = "How long a task waits for a store that another owner has not let go of."},
    {.name = "store",
     .type = CJ_PROPERTY_FLAG,
     .field = FIELD(store_in_memory),
     .words = stores,
     .value = "rocksdb",
     .text = "`memory` keeps tables in memory only: they are restored at each start."},
    {.name = "stop.at.end",
     .type = CJ_PROPERTY_FLAG,
     .field = FIELD(stop_at_end),
     .words = booleans,
     .value = "false",
     .text = "Stop once every input was read and committed to the end that it had at the start."},
    {.name = "log.level",
     .type = CJ_PROPERTY_WORD,
     .field = FIELD(log_level),
     .words = levels,
     .value = "info",
     .text = "Log lines up to this level are made."},
};
const size_t cj_property_count = sizeof cj_properties / sizeof cj_properties[0];

/* ---- reading values ---- */

/* Digits and a minus, nothing before or after them; strtoll alone would take more. */
static bool whole_number(const char *value, int64_t *number, const char **end) {
  const char *digits = value[0] == '-' ? value + 1 : value;
  if (digits[0] < '0' || digits[0] > '9') return false;
  static_assert(sizeof(long long) == sizeof(int64_t), "strtoll reads an int64_t");
  char *after;
  errno = 0;
  *number = strtoll(value, &after, 10);
  *end = after;
  return errno == 0;
}

static bool unit(const char *suffix, int64_t *factor) {
  static const char units[] = "kmg";
  *factor = 1;
  if (!suffix[0]) return true;
  const char *at = strchr(units, suffix[0] | 0x20);
  if (!at || suffix[1]) return false;
  for (const char *u = units; u <= at; u++)
    *factor *= 1024;
  return true;
}

static cj_error *read_number(const cj_property *p, const char *value, int64_t *number) {
  const char *rest = "";
  int64_t factor = 1;
  bool ok = whole_number(value, number, &rest);
  if (ok && p->type == CJ_PROPERTY_BYTES) {
    ok = unit(rest, &factor);
    if (ok) ok = !__builtin_mul_overflow(*number, factor, number);
  } else if (ok) {
    ok = rest[0] == '\0';
  }
  if (ok && *number >= p->min && *number <= p->max) return NULL;
  return cj_error_new(CJ_ERR_CONFIG, p->name, "\"%s\" is not %s from %lld to %lld%s", value,
                      p->type == CJ_PROPERTY_MS ? "a number of milliseconds" : "a whole number",
                      (long long)p->min, (long long)p->max,
                      p->type == CJ_PROPERTY_BYTES ? " bytes; k, m or g after it multiply by 1024"
                                                   : "");
}

static cj_error *read_word(const cj_property *p, const char *value, unsigned *index) {
  for (*index = 0; p->words[*index]; (*index)++)
    if (strcmp(p->words[*index], value) == 0) return NULL;
  cj_buf words = CJ_BUF_INIT;
  for (size_t i = 0; p->words[i]; i++)
    cj_buf_printf(&words, "%s%s", i ? ", " : "", p->words[i]);
  cj_buf_append(&words, "", 1);
  cj_error *error = words.failed ? cj_error_no_memory()
                                 : cj_error_new(CJ_ERR_CONFIG, p->name, "\"%s\" is not one of: %s",
                                                value, (const char *)words.data);
  cj_buf_free(&words);
  return error;
}

static cj_error *read_text(const cj_property *p, const char *value) {
  const char *must = p->why_not ? p->why_not(value) : NULL;
  if (!must) return NULL;
  return cj_error_new(CJ_ERR_CONFIG, p->name, "\"%s\" is not what it takes: %s", value, must);
}

/* Fields are written by their offset; memcpy because an enum's type is not unsigned everywhere. */
static_assert(sizeof(cj_assignment) == sizeof(unsigned), "enums are as large as int");

static void store(const cj_property *p, cj_settings *settings, const void *value, size_t size) {
  memcpy((char *)settings + p->field, value, size);
}

cj_error *cj_property_read(const cj_property *p, const char *value, cj_settings *settings) {
  int64_t number = 0;
  unsigned word = 0;
  cj_error *error = NULL;
  switch (p->type) {
  case CJ_PROPERTY_TEXT:
    error = read_text(p, value);
    if (!error && settings) store(p, settings, &value, sizeof value);
    break;
  case CJ_PROPERTY_INT:
    error = read_number(p, value, &number);
    if (!error && settings) store(p, settings, &(int){(int)number}, sizeof(int));
    break;
  case CJ_PROPERTY_MS:
  case CJ_PROPERTY_BYTES:
    error = read_number(p, value, &number);
    if (!error && settings) store(p, settings, &number, sizeof number);
    break;
  case CJ_PROPERTY_WORD:
    error = read_word(p, value, &word);
    if (!error && settings) store(p, settings, &word, sizeof word);
    break;
  case CJ_PROPERTY_FLAG:
    error = read_word(p, value, &word);
    if (!error && settings) store(p, settings, &(bool){word == 1}, sizeof(bool));
    break;
  }
  return error;
}

/* ---- documentation ---- */

static void describe_range(cj_buf *out, const cj_property *p) {
  switch (p->type) {
  case CJ_PROPERTY_TEXT:
    cj_buf_append_str(out, "text | ");
    break;
  case CJ_PROPERTY_INT:
  case CJ_PROPERTY_MS:
  case CJ_PROPERTY_BYTES:
    cj_buf_printf(out, "%s | %lld to ",
                  p->type == CJ_PROPERTY_INT  ? "number"
                  : p->type == CJ_PROPERTY_MS ? "milliseconds"
                                              : "bytes (k, m, g)",
                  (long long)p->min);
    if (p->max < INT64_MAX / 2) cj_buf_printf(out, "%lld", (long long)p->max);
    break;
  case CJ_PROPERTY_WORD:
  case CJ_PROPERTY_FLAG:
    cj_buf_append_str(out, "word | ");
    for (size_t i = 0; p->words[i]; i++)
      cj_buf_printf(out, "%s`%s`", i ? ", " : "", p->words[i]);
    break;
  }
}

char *cj_config_documentation(void) {
  cj_buf out = CJ_BUF_INIT;
  cj_buf_append_str(&out, "| name | type | range | default | meaning |\n|---|---|---|---|---|\n");
  for (size_t i = 0; i < cj_property_count; i++) {
    const cj_property *p = &cj_properties[i];
    cj_buf_printf(&out, "| `%s` | ", p->name);
    describe_range(&out, p);
    if (p->otherwise)
      cj_buf_printf(&out, " | %s", p->otherwise);
    else
      cj_buf_printf(&out, p->value[0] ? " | `%s`" : " | %s", p->value);
    cj_buf_printf(&out, " | %s |\n", p->text);
  }
  cj_buf_append_str(&out, "| `rd.NAME` | text | as librdkafka takes it | librdkafka's | Any "
                          "property NAME of librdkafka, for the consumer, the producer and the "
                          "admin calls. Those that would break an invariant are refused. |\n");
  cj_buf_append(&out, "", 1);
  if (!out.failed) return (char *)out.data;
  cj_buf_free(&out);
  return NULL;
}
