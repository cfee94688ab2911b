/* SPDX-License-Identifier: BSD-2-Clause */
/* librdkafka's configuration: what the runtime stands on, defaults that suit it, and the user's
 * `rd.` properties. Names, and which of consumer and producer each is for, are read from librdkafka
 * itself, so that they are those of the version that is loaded. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdkafka/io_internal.h"
#include "runtime/nearest.h"

/* ---- refused names ---- */

#define OFFSETS  "offsets are committed by the runtime, together with the outputs and the stores"
#define CALLBACK "it is a pointer for C code, and the runtime sets those that it needs"
#define OWN      "set cojoin's own property of that name, without `rd.`"
#define CREATES  "no topic is ever created by a misspelt name"

static const struct {
  const char *name, *reason;
} refused[] = {
    {"enable.auto.commit", OFFSETS},
    {"auto.commit.enable", OFFSETS},
    {"enable.auto.offset.store", OFFSETS},
    {"auto.offset.reset", "a position that is gone must be seen by the runtime; the property "
                          "auto.offset.reset, without `rd.`, says where streams start"},
    {"enable.partition.eof", "restoring ends by the end-of-partition marks"},
    {"group.id", "the group is application.id"},
    {"client.id", OWN},
    {"bootstrap.servers", OWN},
    {"metadata.broker.list", "set cojoin's own bootstrap.servers"},
    {"partition.assignment.strategy", "co-location depends on it; `assignment` chooses"},
    {"group.protocol", "co-location depends on it; `assignment` chooses"},
    {"group.remote.assignor", "co-location depends on it; `assignment` chooses"},
    {"group.protocol.type", "the group is one of consumers"},
    {"enable.idempotence", "outputs are produced idempotently, so that a retry neither doubles nor "
                           "reorders them"},
    {"transactional.id", "it belongs to processing.guarantee and is derived for each worker"},
    {"isolation.level", OWN},
    {"partitioner", "a sink partitions by the partitioner that the topology declares"},
    {"allow.auto.create.topics", CREATES},
    {"delivery.report.only.error", "what was delivered decides what is committed"},
    {"queuing.strategy", "it would reorder outputs"},
    {"log.queue", "librdkafka's log lines come through it"},
    {"enabled_events", "the runtime sets the events that it serves"},
    {"test.mock.num.brokers", "each of the runtime's clients would get a cluster of its own; start "
                              "one and name it in bootstrap.servers"},
    {"acks", "idempotent producing needs `all`, which is set"},
    {"request.required.acks", "idempotent producing needs `all`, which is set"},
    {"opaque", CALLBACK},
    {"default_topic_conf", CALLBACK},
    {"interceptors", CALLBACK},
    {"msg_order_cmp", CALLBACK},
};

static const char *refusal(const char *name) {
  size_t len = strlen(name);
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (strcmp(name, refused[i].name) == 0) return refused[i].reason;
  if (len > 3 && strcmp(name + len - 3, "_cb") == 0) return CALLBACK;
  return NULL;
}

/* ---- librdkafka's own table ---- */

typedef struct {
  char *name;
  int scope; /* of cj_rd_scope */
} property;

static property *properties;
static size_t property_count;
static pthread_once_t properties_once = PTHREAD_ONCE_INIT;

/* A row is "name | C/P | range | …", C/P one of C, P and *. */
static bool parse_row(const char *row, property *out) {
  const char *bar = strchr(row, '|');
  if (!bar || bar == row || !islower((unsigned char)*row)) return false;
  size_t len = strcspn(row, " |");
  const char *scope = bar + 1 + strspn(bar + 1, " ");
  if (*scope != 'C' && *scope != 'P' && *scope != '*') return false;
  char *name = cj_asprintf("%.*s", (int)len, row);
  *out = (property){.name = name,
                    .scope = *scope == 'C'   ? CJ_RD_CONSUMER
                             : *scope == 'P' ? CJ_RD_PRODUCER
                                             : CJ_RD_CONSUMER | CJ_RD_PRODUCER};
  return name != NULL;
}

static void load_properties(void) {
  char *text = NULL;
  size_t len = 0, room = 0;
  FILE *out = open_memstream(&text, &len);
  if (!out) return;
  rd_kafka_conf_properties_show(out);
  if (fclose(out) != 0) {
    free(text);
    return;
  }
  char *rest = text, *row;
  while ((row = strsep(&rest, "\n"))) {
    property parsed;
    if (!parse_row(row, &parsed)) continue;
    if (!cj_rd_grow((void **)&properties, &room, property_count + 1, sizeof *properties)) {
      cj_free(parsed.name);
      break;
    }
    properties[property_count++] = parsed;
  }
  free(text);
}

/* Hidden ones are not in the table: for both. */
static int scope_of(const char *name) {
  pthread_once(&properties_once, load_properties);
  for (size_t i = 0; i < property_count; i++)
    if (strcmp(properties[i].name, name) == 0) return properties[i].scope;
  return CJ_RD_CONSUMER | CJ_RD_PRODUCER;
}

/* ---- checking ---- */

static cj_error *property_error(const char *name, const char *format, const char *a,
                                const char *b) {
  char *subject = cj_asprintf("rd.%s", name);
  cj_error *error = cj_error_new(CJ_ERR_CONFIG, subject ? subject : name, format, a, b);
  cj_free(subject);
  return error;
}

static cj_error *unknown(const char *name) {
  pthread_once(&properties_once, load_properties);
  cj_nearest nearest = {.wanted = name};
  for (size_t i = 0; i < property_count; i++)
    if (!refusal(properties[i].name)) cj_nearest_consider(&nearest, properties[i].name);
  return property_error(name,
                        nearest.count ? "librdkafka %s has no such property; the nearest is rd.%s"
                                      : "librdkafka %s has no such property%s",
                        rd_kafka_version_str(), nearest.count ? nearest.name[0] : "");
}

cj_error *cj_io_rdkafka_check_property(const char *name, const char *value) {
  const char *reason = refusal(name);
  if (reason) return property_error(name, "refused: %s%s", reason, "");
  char why[512];
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  rd_kafka_conf_res_t result = rd_kafka_conf_set(conf, name, value, why, sizeof why);
  rd_kafka_conf_destroy(conf);
  if (result == RD_KAFKA_CONF_UNKNOWN) return unknown(name);
  if (result == RD_KAFKA_CONF_INVALID) return property_error(name, "%s%s", why, "");
  return NULL;
}

/* ---- a client's configuration ---- */

typedef struct {
  rd_kafka_conf_t *conf;
  cj_error *error; /* the first */
} builder;

static void set(builder *b, const char *name, const char *value) {
  char why[512];
  if (b->error) return;
  if (rd_kafka_conf_set(b->conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK)
    b->error = property_error(name, "%s%s", why, "");
}

static void set_number(builder *b, const char *name, int64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%" PRId64, value);
  set(b, name, text);
}

static const char *given(const cj_settings *settings, const char *name) {
  for (size_t i = 0; i < settings->rd_count; i++)
    if (strcmp(settings->rd[i].name, name) == 0) return settings->rd[i].value;
  return NULL;
}

static int64_t between(int64_t low, int64_t value, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

/* Queues hold a tenth of a second's work and the fetcher is woken when they run low (consumer.c):
 * measured on 2.0.2, 10,000 messages give 620,000-850,000 a second and 80-95 MB, a million give no
 * more and 400 MB. Also caps fetch.max.bytes, whose buffers live as long as any record in them.
 *
 * fetch.wait.max.ms: a new assignment has to wait for the fetch that is out. */
static void consumer_defaults(builder *b, const cj_settings *settings) {
  set_number(b, "queued.min.messages", 10000);
  set_number(b, "queued.max.messages.kbytes",
             between(2048, settings->memory_bytes / 32 / 1024, 8192));
  set_number(b, "fetch.wait.max.ms", 100);
  if (rd_kafka_version() >= CJ_RD_VERSION(2, 2, 0)) set_number(b, "fetch.queue.backoff.ms", 10);
}

static void consumer_invariants(builder *b, const cj_settings *settings) {
  set(b, "group.id", settings->application_id);
  set(b, "enable.auto.commit", "false");
  set(b, "enable.auto.offset.store", "false");
  set(b, "auto.offset.reset", "error");
  set(b, "enable.partition.eof", "true");
  set(b, "partition.assignment.strategy",
      settings->assignment == CJ_ASSIGN_SPREAD ? "roundrobin" : "range");
}

static void producer_defaults(builder *b, const cj_settings *settings) {
  int threads = settings->threads > 0 ? settings->threads : 1;
  set_number(b, "queue.buffering.max.kbytes",
             between(8192, settings->memory_bytes / 4 / threads / 1024, 1048576));
}

static void producer_invariants(builder *b, const cj_io_setup *setup) {
  set(b, "enable.idempotence", "true");
  if (!setup->transactional_id) return;
  set(b, "transactional.id", setup->transactional_id);
  /* Readers of the output wait so long for what a crashed member left open. */
  if (!given(setup->settings, "transaction.timeout.ms")) set(b, "transaction.timeout.ms", "10000");
}

static void common(builder *b, const cj_io_setup *setup) {
  if (setup->settings->bootstrap_servers)
    set(b, "bootstrap.servers", setup->settings->bootstrap_servers);
  if (setup->client_id) set(b, "client.id", setup->client_id);
  set(b, "allow.auto.create.topics", "false");
  /* The producer asks for ends: those that a reader of its isolation level can reach. */
  set(b, "isolation.level", setup->read_committed ? "read_committed" : "read_uncommitted");
  set(b, "log.queue", "true");
  set(b, "socket.nagle.disable", "true");
}

static cj_error *check_instance_id(const cj_settings *settings) {
  if (!given(settings, "group.instance.id") || settings->threads <= 1) return NULL;
  return cj_error_new(CJ_ERR_CONFIG, "rd.group.instance.id",
                      "refused with threads=%d: each worker is a member of its own, and members of "
                      "one name fence each other; use threads=1",
                      settings->threads);
}

cj_error *cj_rd_conf(const cj_io_setup *setup, cj_rd_scope scope, rd_kafka_conf_t **conf) {
  const cj_settings *settings = setup->settings;
  *conf = NULL;
  builder b = {.conf = rd_kafka_conf_new(), .error = check_instance_id(settings)};
  if (scope == CJ_RD_CONSUMER)
    consumer_defaults(&b, settings);
  else
    producer_defaults(&b, settings);
  for (size_t i = 0; i < settings->rd_count && !b.error; i++) {
    const char *name = settings->rd[i].name;
    const char *reason = refusal(name);
    if (reason) b.error = property_error(name, "refused: %s%s", reason, "");
    /* An admin client is no member: it must not fence the one that is. */
    if (setup->admin && strcmp(name, "group.instance.id") == 0) continue;
    if (scope_of(name) & (int)scope) set(&b, name, settings->rd[i].value);
  }
  if (scope == CJ_RD_CONSUMER)
    consumer_invariants(&b, settings);
  else
    producer_invariants(&b, setup);
  common(&b, setup);
  rd_kafka_conf_set_events(b.conf, RD_KAFKA_EVENT_REBALANCE | RD_KAFKA_EVENT_OFFSET_COMMIT |
                                       RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR |
                                       RD_KAFKA_EVENT_LOG);
  if (b.error) {
    rd_kafka_conf_destroy(b.conf);
    return b.error;
  }
  *conf = b.conf;
  return NULL;
}

bool cj_rd_log_line_is_ours(const char *text) {
  return strstr(text, "will be ignored by this producer instance") &&
         (strstr(text, "isolation.level") || strstr(text, "allow.auto.create.topics"));
}
