/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the demo runs: librdkafka's mock cluster, or a real one that is left as it was found. */
#include "tools/demo.h"

#include <librdkafka/rdkafka_mock.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/admin.h"

int64_t demo_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t demo_tick_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void demo_sleep_ms(int ms) {
  nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* ---- waiting ---- */
static volatile sig_atomic_t signals;

static void on_signal(int number) {
  (void)number;
  if (signals++ > 0) _exit(TOOL_FAILED);
}

void demo_catch_signals(void) {
  struct sigaction action = {.sa_handler = on_signal};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

bool demo_give_up(int64_t end_ms, const char *format, ...) {
  if (signals) {
    tool_error("interrupted");
    return true;
  }
  if (demo_tick_ms() < end_ms) return false;
  char what[256];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  tool_error("%s within %d s", what, DEMO_TIMEOUT_MS / 1000);
  return true;
}

/* ---- open and close ---- */
static bool open_mock(demo_cluster *cluster) {
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  rd_kafka_conf_set_log_cb(conf, tool_rd_log);
  cluster->mock_host = tool_client_new(RD_KAFKA_PRODUCER, conf);
  if (!cluster->mock_host) return false;
  cluster->mock = rd_kafka_mock_cluster_new(cluster->mock_host, 1);
  if (!cluster->mock) {
    tool_error("librdkafka's mock cluster could not be made");
    return false;
  }
  return tool_set(cluster->config, "bootstrap.servers",
                  rd_kafka_mock_cluster_bootstraps(cluster->mock), "demo");
}

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
  (void)rk;
  demo_cluster *cluster = opaque;
  if (!message->err) return;
  if (cluster->failed_deliveries++ == 0)
    tool_error("a record was not delivered: %s", rd_kafka_err2str(message->err));
}

static bool open_producer(demo_cluster *cluster) {
  rd_kafka_conf_t *conf = tool_client_conf(cluster->common, cluster->config);
  if (!conf) return false;
  if (!tool_client_set(conf, "partitioner", "murmur2_random") ||
      !tool_client_set(conf, "linger.ms", "1") ||
      !tool_client_set(conf, "message.timeout.ms", "20000")) {
    rd_kafka_conf_destroy(conf);
    return false;
  }
  rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
  rd_kafka_conf_set_opaque(conf, cluster);
  cluster->producer = tool_client_new(RD_KAFKA_PRODUCER, conf);
  return cluster->producer != NULL;
}

bool demo_open(demo_cluster *cluster) {
  const char *brokers = cj_config_get(cluster->config, "bootstrap.servers");
  bool real = brokers && *brokers != '\0';
  if ((real || open_mock(cluster)) && open_producer(cluster)) {
    printf("cojoin %s, librdkafka %s, %s%s\n\n", cj_version(), cj_rdkafka_version(),
           real ? "brokers " : "on the cluster that librdkafka simulates", real ? brokers : "");
    fflush(stdout);
    return true;
  }
  demo_close(cluster);
  return false;
}

/* By a client that has written to none of them: one that has asks for their leaders once more when
 * they are gone, and a broker that creates topics by itself would make them anew. */
static void clean_up(demo_cluster *cluster) {
  rd_kafka_destroy(cluster->producer);
  cluster->producer = NULL;
  if (!open_producer(cluster)) return;
  if (cluster->groups.count) tool_delete_groups(cluster->producer, &cluster->groups);
  if (cluster->created.count) tool_delete_topics(cluster->producer, &cluster->created);
}

void demo_close(demo_cluster *cluster) {
  if (!cluster->keep && cluster->producer && (cluster->created.count || cluster->groups.count))
    clean_up(cluster);
  tool_strings_free(&cluster->created);
  tool_strings_free(&cluster->groups);
  if (cluster->producer) rd_kafka_destroy(cluster->producer);
  if (cluster->mock) rd_kafka_mock_cluster_destroy(cluster->mock);
  if (cluster->mock_host) rd_kafka_destroy(cluster->mock_host);
  cluster->producer = cluster->mock_host = NULL;
  cluster->mock = NULL;
}

/* ---- topics and groups ---- */
static bool make_real_topic(demo_cluster *cluster, const char *topic) {
  int partitions;
  if (!tool_partition_count(cluster->producer, topic, &partitions)) return false;
  if (partitions == 0) {
    if (!tool_create_topic(cluster->producer, topic, DEMO_PARTITIONS)) return false;
    tool_strings_add(&cluster->created, topic);
    return true;
  }
  if (partitions != DEMO_PARTITIONS) {
    tool_error("topic %s exists with %d partitions, and the demo needs %d: choose other names with "
               "--prefix",
               topic, partitions, DEMO_PARTITIONS);
    return false;
  }
  bool empty;
  if (!tool_topic_is_empty(cluster->producer, topic, partitions, &empty)) return false;
  if (!empty)
    tool_error("topic %s exists and holds records, which the demo would count as its own: choose "
               "other names with --prefix",
               topic);
  return empty;
}

char *demo_topic(demo_cluster *cluster, const char *name) {
  char *topic = tool_format("%s%s", cluster->prefix, name);
  if (!cluster->mock) {
    if (make_real_topic(cluster, topic)) return topic;
  } else {
    rd_kafka_resp_err_t err = rd_kafka_mock_topic_create(cluster->mock, topic, DEMO_PARTITIONS, 1);
    if (!err) return topic;
    tool_error("topic %s could not be made: %s", topic, rd_kafka_err2str(err));
  }
  free(topic);
  return NULL;
}

char *demo_group(demo_cluster *cluster, const char *name) {
  char *group = tool_format("cojoin-demo-%s-%lx%lx", name, (unsigned long)demo_now_ms(),
                            (unsigned long)getpid());
  if (!cluster->mock) tool_strings_add(&cluster->groups, group);
  return group;
}

/* ---- records ---- */
bool demo_send(demo_cluster *cluster, const char *topic, const char *key, const char *value,
               int64_t timestamp) {
  const rd_kafka_vu_t parts[] = {
      {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = topic},
      {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {.ptr = (void *)(uintptr_t)key, .size = strlen(key)}},
      {.vtype = RD_KAFKA_VTYPE_VALUE,
       .u.mem = {.ptr = (void *)(uintptr_t)value, .size = strlen(value)}},
      {.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = timestamp},
      {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
  };
  rd_kafka_error_t *error =
      rd_kafka_produceva(cluster->producer, parts, sizeof parts / sizeof *parts);
  if (!error) return true;
  tool_error("a record could not be produced to %s: %s", topic, rd_kafka_error_string(error));
  rd_kafka_error_destroy(error);
  return false;
}

bool demo_flush(demo_cluster *cluster) {
  rd_kafka_resp_err_t err = rd_kafka_flush(cluster->producer, DEMO_TIMEOUT_MS);
  if (err) tool_error("records are not acknowledged: %s", rd_kafka_err2str(err));
  return !err && cluster->failed_deliveries == 0;
}

/* ---- speed ---- */
/* The mock cluster gathers a group's first members for 3 s, and forgets those whose session ends
 * meanwhile; members that come later wait session.timeout - 1 s. An empty fetch waits the whole
 * fetch.wait.max.ms. On real brokers, a member that asks for a topic which was made a moment ago
 * may join without it, and would look again in five minutes. */
static const struct {
  const char *name, *value;
  bool mock_only;
} quick[] = {
    {"session.timeout.ms", "4000", true},
    {"heartbeat.interval.ms", "300", true},
    {"fetch.wait.max.ms", "20", true},
    {"topic.metadata.refresh.interval.ms", "500", false},
};
#define QUICK (sizeof quick / sizeof *quick)

bool demo_tune_client(const demo_cluster *cluster, rd_kafka_conf_t *conf) {
  for (size_t i = 0; i < QUICK; i++)
    if ((cluster->mock || !quick[i].mock_only) &&
        !tool_client_set(conf, quick[i].name, quick[i].value))
      return false;
  return true;
}

bool demo_tune_app(const demo_cluster *cluster, cj_config *config) {
  bool ok = true;
  for (size_t i = 0; ok && i < QUICK; i++) {
    if (quick[i].mock_only && !cluster->mock) continue;
    char *name = tool_format("rd.%s", quick[i].name);
    ok = tool_set(config, name, quick[i].value, "demo");
    free(name);
  }
  return ok;
}
