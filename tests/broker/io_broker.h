/* SPDX-License-Identifier: BSD-2-Clause */
/* For the tests of the io on a real broker: topics, members, and waiting for what has to come. */
#ifndef CJ_TEST_IO_BROKER_H
#define CJ_TEST_IO_BROKER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <librdkafka/rdkafka.h>

#include "runtime/io.h"

#define PATIENCE_MS 60000

/* ---- names and topics ---- */

static inline const char *test_brokers(void) {
  return getenv("COJOIN_TEST_BROKERS");
}

static inline void test_unique(char *out, size_t size, const char *what) {
  static int serial;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  snprintf(out, size, "io-%s-%lx-%d-%d", what, (long)now.tv_sec, (int)getpid(), serial++);
}

static inline rd_kafka_t *test_client(rd_kafka_type_t type, const char *const *properties) {
  char why[512];
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  assert_int_equal(rd_kafka_conf_set(conf, "bootstrap.servers", test_brokers(), why, sizeof why),
                   0);
  for (; properties && *properties; properties += 2)
    if (rd_kafka_conf_set(conf, properties[0], properties[1], why, sizeof why)) fail_msg("%s", why);
  rd_kafka_t *client = rd_kafka_new(type, conf, why, sizeof why);
  if (!client) fail_msg("%s", why);
  return client;
}

/* A created topic is not seen by every broker at once, and a member that joins before it is seen
 * joins without it. */
static inline void test_await_topic(rd_kafka_t *client, const char *name, int partitions) {
  bool ready = false;
  rd_kafka_topic_t *handle = rd_kafka_topic_new(client, name, NULL);
  for (int i = 0; i < 200 && !ready; i++) {
    const rd_kafka_metadata_t *metadata;
    assert_int_equal(rd_kafka_metadata(client, 0, handle, &metadata, 10000), 0);
    const rd_kafka_metadata_topic_t *topic = &metadata->topics[0];
    ready = !topic->err && topic->partition_cnt == partitions;
    for (int p = 0; ready && p < partitions; p++)
      ready = topic->partitions[p].leader >= 0;
    rd_kafka_metadata_destroy(metadata);
    if (!ready) usleep(50000);
  }
  rd_kafka_topic_destroy(handle);
  assert_true(ready);
}

static inline void test_create_topic(const char *name, int partitions, const char *const *configs) {
  char why[512];
  rd_kafka_t *client = test_client(RD_KAFKA_PRODUCER, NULL);
  rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
  rd_kafka_NewTopic_t *topic = rd_kafka_NewTopic_new(name, partitions, 1, why, sizeof why);
  assert_non_null(topic);
  /* The records' timestamps are of 1970. */
  assert_int_equal(rd_kafka_NewTopic_set_config(topic, "retention.ms", "-1"), 0);
  for (; configs && *configs; configs += 2)
    assert_int_equal(rd_kafka_NewTopic_set_config(topic, configs[0], configs[1]), 0);
  rd_kafka_CreateTopics(client, &topic, 1, NULL, queue);
  rd_kafka_event_t *event = rd_kafka_queue_poll(queue, PATIENCE_MS);
  assert_non_null(event);
  assert_int_equal(rd_kafka_event_error(event), 0);
  size_t count;
  const rd_kafka_topic_result_t **results =
      rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count);
  assert_int_equal(count, 1);
  if (rd_kafka_topic_result_error(results[0]))
    fail_msg("%s: %s", name, rd_kafka_topic_result_error_string(results[0]));
  rd_kafka_event_destroy(event);
  rd_kafka_NewTopic_destroy(topic);
  rd_kafka_queue_destroy(queue);
  test_await_topic(client, name, partitions);
  rd_kafka_destroy(client);
}

/* ---- an io ---- */

typedef struct {
  cj_io *io;
  cj_settings settings;
  cj_rd_property rd[8];
  char log[65536]; /* its lines */
  uint64_t last_id;
  int unexpected_fatal;
} test_io;

static inline void test_log_line(void *user, cj_log_level level, const char *line) {
  test_io *t = user;
  size_t used = strlen(t->log);
  if (getenv("COJOIN_TEST_LOG")) fprintf(stderr, "%d %s\n", (int)level, line);
  snprintf(t->log + used, sizeof t->log - used, "%s\n", line);
}

/* Sets the io's setup up with defaults; the caller changes t->settings before test_open. */
static inline void test_init(test_io *t, const char *group) {
  memset(t, 0, sizeof *t);
  t->settings = (cj_settings){.application_id = group,
                              .bootstrap_servers = test_brokers(),
                              .threads = 1,
                              .memory_bytes = 256 << 20,
                              .request_timeout_ms = 10000,
                              .rd = t->rd};
}

static inline void test_property(test_io *t, const char *name, const char *value) {
  assert_true(t->settings.rd_count < sizeof t->rd / sizeof *t->rd);
  t->rd[t->settings.rd_count++] = (cj_rd_property){name, value};
}

static inline cj_error *test_try_open(test_io *t, const char *const *topics, size_t count,
                                      const char *client_id, bool admin) {
  cj_io_setup_topic list[16];
  for (size_t i = 0; i < count; i++)
    list[i] = (cj_io_setup_topic){topics[i], true};
  const cj_io_setup setup = {.settings = &t->settings,
                             .topics = list,
                             .topic_count = count,
                             .client_id = client_id,
                             .admin = admin,
                             .read_committed = t->settings.read_committed,
                             .log = {.user = t, .level = CJ_LOG_DEBUG, .line = test_log_line}};
  return cj_io_rdkafka_new(&setup, &t->io);
}

static inline void test_ok(cj_error *error) {
  if (!error) return;
  char text[1024];
  snprintf(text, sizeof text, "%s", cj_error_text(error));
  cj_error_destroy(error);
  fail_msg("%s", text);
}

static inline void test_open(test_io *t, const char *const *topics, size_t count,
                             const char *client_id, bool admin) {
  test_ok(test_try_open(t, topics, count, client_id, admin));
}

static inline int64_t test_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The next event of the kind, others (errors of the connection, say) passed over. False when none
 * came in time. */
static inline bool test_await_for(test_io *t, cj_io_event_kind kind, cj_io_event *event,
                                  int64_t ms) {
  int64_t until = test_now() + ms;
  while (test_now() < until) {
    if (!t->io->ops->poll(t->io, event)) {
      t->io->ops->wait(t->io, 50);
      continue;
    }
    if (event->kind == kind) return true;
    if (event->kind == CJ_EV_ERROR && event->fatal) t->unexpected_fatal++;
  }
  return false;
}

static inline void test_await(test_io *t, cj_io_event_kind kind, cj_io_event *event) {
  if (!test_await_for(t, kind, event, PATIENCE_MS)) fail_msg("event %d did not come", (int)kind);
}

static inline uint64_t test_submit(test_io *t, cj_io_request_kind kind, const cj_io_offset *list,
                                   size_t count, int64_t timeout_ms) {
  const cj_io_request request = {
      .id = ++t->last_id, .kind = kind, .list = list, .count = count, .timeout_ms = timeout_ms};
  test_ok(t->io->ops->submit(t->io, &request));
  return request.id;
}

static inline void test_ask_for(test_io *t, cj_io_request_kind kind, const cj_io_offset *list,
                                size_t count, cj_io_event *event, int64_t timeout_ms) {
  uint64_t id = test_submit(t, kind, list, count, timeout_ms);
  do
    test_await(t, CJ_EV_DONE, event);
  while (event->id != id);
  assert_int_equal(event->request, kind);
}

/* Asks until the answer is not a passing one. */
static inline void test_ask(test_io *t, cj_io_request_kind kind, const cj_io_offset *list,
                            size_t count, cj_io_event *event) {
  int64_t until = test_now() + PATIENCE_MS;
  do
    test_ask_for(t, kind, list, count, event, 10000);
  while ((event->code == CJ_IO_RETRIABLE || event->code == CJ_IO_TIMED_OUT) && test_now() < until);
  if (event->code != CJ_IO_OK)
    fail_msg("request %d: %s (%s)", (int)kind, cj_io_code_name(event->code), event->text);
}

static inline void test_produce(test_io *t, const cj_io_output *output) {
  cj_io_event event;
  cj_io_code code;
  while ((code = t->io->ops->produce(t->io, output)) == CJ_IO_QUEUE_FULL)
    if (!t->io->ops->poll(t->io, &event)) t->io->ops->wait(t->io, 100);
  assert_int_equal(code, CJ_IO_OK);
}

/* Waits until `count` more outputs were acknowledged. */
static inline void test_await_delivered(test_io *t, size_t count) {
  while (count) {
    cj_io_event event;
    test_await(t, CJ_EV_DELIVERED, &event);
    for (size_t i = 0; i < event.delivery_count; i++)
      assert_int_equal(event.deliveries[i].code, CJ_IO_OK);
    assert_true(event.delivery_count <= count);
    count -= event.delivery_count;
  }
}

/* `count` records into a partition: key and value are the number from `first` on, in text. */
static inline void test_fill(test_io *t, int32_t topic, int32_t partition, int first, int count) {
  cj_io_event event;
  size_t open = 0;
  for (int i = 0; i < count; i++) {
    char text[16];
    snprintf(text, sizeof text, "%d", first + i);
    const cj_io_output output = {.topic = topic,
                                 .partition = partition,
                                 .key = cj_bytes_str(text),
                                 .value = cj_bytes_str(text),
                                 .timestamp = 1000 + first + i};
    cj_io_code code;
    while ((code = t->io->ops->produce(t->io, &output)) == CJ_IO_QUEUE_FULL) {
      test_await(t, CJ_EV_DELIVERED, &event);
      open -= event.delivery_count;
    }
    assert_int_equal(code, CJ_IO_OK);
    open++;
  }
  test_await_delivered(t, open);
}

/* Joins and answers the first assignment by nothing; what was dealt is in the event. */
static inline void test_join(test_io *t, cj_io_event *event) {
  test_ok(t->io->ops->subscribe(t->io));
  test_await(t, CJ_EV_ASSIGN, event);
}

static inline void test_answer(test_io *t) {
  test_ok(t->io->ops->assign(t->io, NULL, 0));
}

/* Leaves, answering the last revoke; returns how long it took. */
static inline int64_t test_close(test_io *t) {
  int64_t start = test_now();
  cj_io_event event;
  t->io->ops->close(t->io);
  for (;;) {
    if (test_now() - start > PATIENCE_MS) fail_msg("the io does not close");
    if (!t->io->ops->poll(t->io, &event)) {
      t->io->ops->wait(t->io, 50);
      continue;
    }
    if (event.kind == CJ_EV_REVOKE || event.kind == CJ_EV_ASSIGN) test_answer(t);
    if (event.kind == CJ_EV_CLOSED) break;
  }
  return test_now() - start;
}

static inline void test_destroy(test_io *t) {
  t->io->ops->destroy(t->io);
  t->io = NULL;
}

static inline void test_end(test_io *t) {
  test_close(t);
  test_destroy(t);
}

/* Fetches from one partition until `count` entries came (records, marks and errors), for a minute
 * at most; the events on the way are passed over. */
static inline size_t test_fetch(test_io *t, cj_tp tp, cj_fetched *out, size_t count) {
  size_t have = 0;
  int64_t until = test_now() + PATIENCE_MS;
  while (have < count && test_now() < until) {
    cj_io_event event;
    while (t->io->ops->poll(t->io, &event))
      continue;
    size_t got = t->io->ops->fetch(t->io, tp, out + have, count - have);
    have += got;
    if (!got) t->io->ops->wait(t->io, 100);
  }
  return have;
}

static inline int test_number(cj_bytes bytes) {
  char text[16] = "";
  assert_true(bytes.data && bytes.len < sizeof text);
  memcpy(text, bytes.data, bytes.len);
  return atoi(text);
}

static inline int test_main_on_broker(const struct CMUnitTest *tests, size_t count,
                                      const char *name) {
  if (!test_brokers()) {
    printf("SKIPPED: %s needs a broker: set COJOIN_TEST_BROKERS to its address\n", name);
    return 77; /* "skipped", to ctest */
  }
  return _cmocka_run_group_tests(name, tests, count, NULL, NULL);
}

#endif
