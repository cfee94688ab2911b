/* SPDX-License-Identifier: BSD-2-Clause */
/* librdkafka's mock cluster, in this process: topics, records in, records out. The first member of
 * a group waits 3 s for its assignment there, each later one session.timeout.ms - 1 s. */
#ifndef CJ_TEST_MOCK_CLUSTER_H
#define CJ_TEST_MOCK_CLUSTER_H

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include "lib/unit.h"

typedef struct {
  rd_kafka_t *client; /* carries the cluster, and produces */
  rd_kafka_mock_cluster_t *cluster;
  const char *servers;
} mock_cluster;

static inline rd_kafka_t *mock_client(rd_kafka_type_t type, const char *const *properties) {
  char why[512];
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  for (; *properties; properties += 2)
    if (rd_kafka_conf_set(conf, properties[0], properties[1], why, sizeof why)) fail_msg("%s", why);
  rd_kafka_t *client = rd_kafka_new(type, conf, why, sizeof why);
  if (!client) fail_msg("%s", why);
  return client;
}

static inline void mock_cluster_init(mock_cluster *mock) {
  const char *own[] = {"bootstrap.servers", "127.0.0.1:1", "log_level", "0", NULL};
  rd_kafka_t *carrier = mock_client(RD_KAFKA_PRODUCER, own);
  mock->cluster = rd_kafka_mock_cluster_new(carrier, 1);
  assert_non_null(mock->cluster);
  mock->servers = rd_kafka_mock_cluster_bootstraps(mock->cluster);
  mock->client = carrier;
}

static inline void mock_cluster_free(mock_cluster *mock) {
  rd_kafka_mock_cluster_destroy(mock->cluster);
  rd_kafka_destroy(mock->client);
}

static inline void mock_topic(mock_cluster *mock, const char *name, int partitions) {
  assert_int_equal(rd_kafka_mock_topic_create(mock->cluster, name, partitions, 1), 0);
}

typedef struct {
  const char *topic, *key, *value;
  int64_t timestamp;
} mock_record;

static inline void mock_produce(mock_cluster *mock, const mock_record *records, size_t count) {
  const char *properties[] = {"bootstrap.servers", mock->servers, "partitioner", "murmur2_random",
                              "linger.ms",         "0",           NULL};
  rd_kafka_t *producer = mock_client(RD_KAFKA_PRODUCER, properties);
  for (size_t i = 0; i < count; i++) {
    const mock_record *r = &records[i];
    const rd_kafka_vu_t parts[] = {
        {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = r->topic},
        {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {(void *)(uintptr_t)r->key, strlen(r->key)}},
        {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {(void *)(uintptr_t)r->value, strlen(r->value)}},
        {.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = r->timestamp},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
    };
    rd_kafka_error_t *error = rd_kafka_produceva(producer, parts, sizeof parts / sizeof parts[0]);
    if (error) fail_msg("%s", rd_kafka_error_string(error));
  }
  assert_int_equal(rd_kafka_flush(producer, 30000), 0);
  rd_kafka_destroy(producer);
}

/* All records of a topic, "key=value", in the order of their partitions; how many there are. */
static inline size_t mock_read(mock_cluster *mock, const char *topic, int partitions,
                               char out[][64], size_t max) {
  const char *properties[] = {"bootstrap.servers",    mock->servers, "group.id", "reader",
                              "enable.partition.eof", "true",        NULL};
  rd_kafka_t *reader = mock_client(RD_KAFKA_CONSUMER, properties);
  size_t count = 0;
  for (int p = 0; p < partitions; p++) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, p)->offset = RD_KAFKA_OFFSET_BEGINNING;
    assert_int_equal(rd_kafka_assign(reader, list), 0);
    rd_kafka_topic_partition_list_destroy(list);
    for (bool end = false; !end;) {
      rd_kafka_message_t *m = rd_kafka_consumer_poll(reader, 30000);
      assert_non_null(m);
      end = m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF;
      if (!m->err && count < max)
        snprintf(out[count++], 64, "%.*s=%.*s", (int)m->key_len, (const char *)m->key, (int)m->len,
                 (const char *)m->payload);
      else if (m->err && !end)
        fail_msg("%s", rd_kafka_message_errstr(m));
      rd_kafka_message_destroy(m);
    }
  }
  rd_kafka_consumer_close(reader);
  rd_kafka_destroy(reader);
  return count;
}

static inline bool mock_has_topic(mock_cluster *mock, const char *topic) {
  const char *properties[] = {"bootstrap.servers", mock->servers, NULL};
  rd_kafka_t *client = mock_client(RD_KAFKA_PRODUCER, properties);
  const struct rd_kafka_metadata *metadata;
  assert_int_equal(rd_kafka_metadata(client, 1, NULL, &metadata, 10000), 0);
  bool found = false;
  for (int i = 0; i < metadata->topic_cnt; i++)
    found |= strcmp(metadata->topics[i].topic, topic) == 0;
  rd_kafka_metadata_destroy(metadata);
  rd_kafka_destroy(client);
  return found;
}

#endif
