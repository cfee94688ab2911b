/* SPDX-License-Identifier: BSD-2-Clause */
/* The io over librdkafka where no broker is needed, or one that misbehaves to order: librdkafka's
 * mock cluster, and addresses where nothing answers. */
#include "lib/unit.h"

#include <arpa/inet.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/io.h"

#define PATIENCE_MS  30000
#define LIST_OFFSETS 2 /* the request's number in Kafka's protocol */

typedef struct {
  rd_kafka_t *host;
  rd_kafka_mock_cluster_t *cluster;
  cj_settings settings;
  cj_rd_property rd[8];
  cj_io *io;
  uint64_t last_id;
  int64_t longest_poll; /* ms */
} fixture;

static void fixture_init(fixture *f, int brokers, const char *topic, int partitions) {
  char why[256];
  memset(f, 0, sizeof *f);
  f->settings = (cj_settings){.application_id = "app",
                              .bootstrap_servers = "127.0.0.1:1",
                              .threads = 1,
                              .memory_bytes = 256 << 20,
                              .request_timeout_ms = 5000,
                              .rd = f->rd};
  if (!brokers) return;
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  rd_kafka_conf_set(conf, "log_level", "3", why, sizeof why);
  f->host = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
  assert_non_null(f->host);
  f->cluster = rd_kafka_mock_cluster_new(f->host, brokers);
  assert_non_null(f->cluster);
  assert_int_equal(rd_kafka_mock_topic_create(f->cluster, topic, partitions, 1), 0);
  f->settings.bootstrap_servers = rd_kafka_mock_cluster_bootstraps(f->cluster);
}

static void property(fixture *f, const char *name, const char *value) {
  f->rd[f->settings.rd_count++] = (cj_rd_property){name, value};
}

static void open_io(fixture *f, const char *topic) {
  const cj_io_setup_topic topics[] = {{topic, true}};
  const cj_io_setup setup = {
      .settings = &f->settings, .topics = topics, .topic_count = 1, .client_id = "c"};
  assert_no_error(cj_io_rdkafka_new(&setup, &f->io));
}

static void fixture_end(fixture *f) {
  if (f->io) f->io->ops->destroy(f->io);
  if (f->cluster) rd_kafka_mock_cluster_destroy(f->cluster);
  if (f->host) rd_kafka_destroy(f->host);
}

static int64_t now(fixture *f) {
  return f->io->ops->now(f->io);
}

static bool next_event(fixture *f, cj_io_event *event) {
  int64_t before = now(f);
  bool got = f->io->ops->poll(f->io, event);
  if (now(f) - before > f->longest_poll) f->longest_poll = now(f) - before;
  if (!got) f->io->ops->wait(f->io, 20);
  return got;
}

static void await(fixture *f, cj_io_event_kind kind, cj_io_event *event) {
  for (int64_t until = now(f) + PATIENCE_MS; now(f) < until;)
    if (next_event(f, event) && event->kind == kind) return;
  fail_msg("event %d did not come", (int)kind);
}

static cj_io_code ask(fixture *f, cj_io_request_kind kind, int32_t partition, int64_t timeout_ms,
                      cj_io_event *event) {
  const cj_io_offset list = {.tp = {0, partition}};
  const cj_io_request request = {
      .id = ++f->last_id, .kind = kind, .list = &list, .count = 1, .timeout_ms = timeout_ms};
  assert_no_error(f->io->ops->submit(f->io, &request));
  do
    await(f, CJ_EV_DONE, event);
  while (event->id != request.id);
  return event->code;
}

static void produce(fixture *f, int32_t partition, int count) {
  cj_io_event event;
  int open = 0;
  for (int i = 0; i < count; i++, open++) {
    char text[16];
    snprintf(text, sizeof text, "%d", i);
    const cj_io_output output = {
        .partition = partition, .value = cj_bytes_str(text), .timestamp = 1 + i};
    assert_int_equal(f->io->ops->produce(f->io, &output), CJ_IO_OK);
  }
  while (open) {
    await(f, CJ_EV_DELIVERED, &event);
    for (size_t i = 0; i < event.delivery_count; i++)
      assert_int_equal(event.deliveries[i].code, CJ_IO_OK);
    open -= (int)event.delivery_count;
  }
}

static void assign(fixture *f, int32_t partition, int64_t offset) {
  const cj_io_offset list = {.tp = {0, partition}, .offset = offset};
  assert_no_error(f->io->ops->assign(f->io, &list, 1));
}

/* Reads to `end`, each offset once. */
static void read_to(fixture *f, int32_t partition, int64_t *position, int64_t end) {
  cj_fetched entries[64];
  cj_io_event event;
  int64_t until = now(f) + PATIENCE_MS;
  while (*position < end) {
    if (now(f) > until) fail_msg("no more records after %d", (int)*position);
    while (f->io->ops->poll(f->io, &event))
      continue;
    size_t got = f->io->ops->fetch(f->io, (cj_tp){0, partition}, entries, 64);
    for (size_t i = 0; i < got; i++) {
      if (entries[i].kind != CJ_FETCHED_RECORD) continue;
      assert_int_equal(entries[i].offset, *position);
      ++*position;
    }
    f->io->ops->release(f->io, entries, got);
    if (!got) f->io->ops->wait(f->io, 50);
  }
}

/* ---- waiting ---- */

static void *wake_soon(void *user) {
  cj_io *io = user;
  usleep(50000);
  io->ops->wake(io);
  return NULL;
}

static void settle(fixture *f) {
  cj_io_event event;
  for (int64_t until = now(f) + 200; now(f) < until;)
    next_event(f, &event);
}

static void a_wake_ends_a_wait_also_beforehand(void **state) {
  (void)state;
  fixture f;
  fixture_init(&f, 1, "t", 1);
  open_io(&f, "t");
  settle(&f);
  int64_t before = now(&f);
  f.io->ops->wait(f.io, 300);
  assert_in_range(now(&f) - before, 250, 100000); /* nothing happened */
  f.io->ops->wake(f.io);
  f.io->ops->wake(f.io);
  before = now(&f);
  f.io->ops->wait(f.io, 400);
  assert_in_range(now(&f) - before, 0, 200);
  pthread_t thread;
  before = now(&f);
  assert_int_equal(pthread_create(&thread, NULL, wake_soon, f.io), 0);
  f.io->ops->wait(f.io, 400);
  assert_in_range(now(&f) - before, 20, 300);
  pthread_join(thread, NULL);
  fixture_end(&f);
}

/* Each arrival ends the wait, though a partition's queue is looked into only after it. */
static void a_record_ends_a_wait(void **state) {
  (void)state;
  fixture f, other;
  fixture_init(&f, 1, "t", 1);
  property(&f, "fetch.wait.max.ms", "10");
  open_io(&f, "t");
  other = f;
  open_io(&other, "t");
  produce(&other, 0, 1);
  assign(&f, 0, 0);
  int64_t position = 0;
  for (int round = 1; round <= 20; round++) {
    read_to(&f, 0, &position, round);
    produce(&other, 0, 1);
    int64_t before = now(&f);
    cj_fetched entry;
    cj_io_event event;
    size_t got = 0;
    while (!got && now(&f) - before < 5000) {
      while (f.io->ops->poll(f.io, &event))
        continue;
      got = f.io->ops->fetch(f.io, (cj_tp){0, 0}, &entry, 1);
      if (got && entry.kind == CJ_FETCHED_EOF) got = 0;
      if (!got) f.io->ops->wait(f.io, 5000);
    }
    assert_int_equal(got, 1);
    position = entry.offset + 1;
    f.io->ops->release(f.io, &entry, 1);
    assert_in_range(now(&f) - before, 0, 2000);
  }
  other.io->ops->destroy(other.io);
  fixture_end(&f);
}

/* ---- requests that fail ---- */

/* Case 51: an error is an error, never an offset. */
static void a_failed_answer_is_no_offset(void **state) {
  (void)state;
  fixture f;
  cj_io_event event;
  fixture_init(&f, 1, "t", 1);
  open_io(&f, "t");
  produce(&f, 0, 10);
  assert_int_equal(ask(&f, CJ_REQ_ENDS, 0, 5000, &event), CJ_IO_OK);
  assert_int_equal(event.offsets[0].offset, 10);
  for (int bounds = 0; bounds < 2; bounds++) {
    rd_kafka_mock_push_request_errors(f.cluster, LIST_OFFSETS, 1, RD_KAFKA_RESP_ERR_UNKNOWN);
    assert_int_not_equal(ask(&f, bounds ? CJ_REQ_BOUNDS : CJ_REQ_ENDS, 0, 5000, &event), CJ_IO_OK);
    assert_int_not_equal(event.offsets[0].code, CJ_IO_OK);
  }
  assert_int_equal(ask(&f, CJ_REQ_BOUNDS, 0, 5000, &event), CJ_IO_OK);
  assert_int_equal(event.offsets[0].start, 0);
  assert_int_equal(event.offsets[0].offset, 10);
  fixture_end(&f);
}

/* Cases 56 and 76: the leader moves under a reader, twice, and its broker goes. */
static void a_leader_that_moves_is_followed(void **state) {
  (void)state;
  fixture f;
  cj_io_event event;
  fixture_init(&f, 2, "t", 1);
  property(&f, "fetch.wait.max.ms", "10");
  rd_kafka_mock_partition_set_leader(f.cluster, "t", 0, 1);
  open_io(&f, "t");
  produce(&f, 0, 100);
  assign(&f, 0, 0);
  int64_t position = 0;
  read_to(&f, 0, &position, 100);
  assert_int_equal(ask(&f, CJ_REQ_ENDS, 0, 5000, &event), CJ_IO_OK);
  for (int move = 0; move < 2; move++) {
    rd_kafka_mock_partition_set_leader(f.cluster, "t", 0, move ? 1 : 2);
    /* The brokers share one log. Passing errors are the asker's to see, and pass. */
    int64_t until = now(&f) + PATIENCE_MS;
    while (ask(&f, CJ_REQ_ENDS, 0, 2000, &event) != CJ_IO_OK)
      if (now(&f) > until) fail_msg("the former leader is asked for ever");
    assert_int_equal(event.offsets[0].offset, 100 * (move + 1));
    produce(&f, 0, 100);
    read_to(&f, 0, &position, 100 * (move + 2));
  }
  assert_in_range(f.longest_poll, 0, 1000);
  fixture_end(&f);
}

static void a_dead_leader_holds_up_nobody(void **state) {
  (void)state;
  fixture f;
  cj_io_event event;
  fixture_init(&f, 1, "t", 1);
  property(&f, "reconnect.backoff.max.ms", "200");
  property(&f, "session.timeout.ms", "1500");
  open_io(&f, "t");
  produce(&f, 0, 3);
  assert_int_equal(ask(&f, CJ_REQ_ENDS, 0, 5000, &event), CJ_IO_OK);
  rd_kafka_mock_broker_set_down(f.cluster, 1);
  static const cj_io_request_kind kinds[] = {CJ_REQ_ENDS,      CJ_REQ_BOUNDS, CJ_REQ_METADATA,
                                             CJ_REQ_COMMITTED, CJ_REQ_GROUP,  CJ_REQ_COMMIT};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    int64_t before = now(&f);
    assert_int_not_equal(ask(&f, kinds[i], 0, 500, &event), CJ_IO_OK);
    assert_in_range(now(&f) - before, 0, 1500);
  }
  assert_in_range(f.longest_poll, 0, 1000);
  rd_kafka_mock_broker_set_up(f.cluster, 1);
  int64_t until = now(&f) + PATIENCE_MS;
  while (ask(&f, CJ_REQ_ENDS, 0, 2000, &event) != CJ_IO_OK)
    assert_true(now(&f) < until);
  assert_int_equal(event.offsets[0].offset, 3);
  fixture_end(&f);
}

/* ---- nobody answers ---- */

/* Case 83: told, not fatal; every request has its answer, and the ways out are bounded (64d). */
static void nothing_listens(void **state) {
  (void)state;
  fixture f;
  cj_io_event event;
  fixture_init(&f, 0, NULL, 0);
  f.settings.request_timeout_ms = 1000;
  /* So long does librdkafka hold on to a commit that has no coordinator, destroyed or not. */
  property(&f, "session.timeout.ms", "1500");
  open_io(&f, "t");
  assert_no_error(f.io->ops->subscribe(f.io));
  await(&f, CJ_EV_ERROR, &event);
  assert_int_equal(event.code, CJ_IO_RETRIABLE);
  assert_false(event.fatal);
  assert_true(strlen(event.text) > 0);
  int64_t before = now(&f);
  assert_int_not_equal(ask(&f, CJ_REQ_METADATA, 0, 300, &event), CJ_IO_OK);
  assert_int_not_equal(ask(&f, CJ_REQ_COMMITTED, 0, 300, &event), CJ_IO_OK);
  assert_int_not_equal(ask(&f, CJ_REQ_COMMIT, 0, 300, &event), CJ_IO_OK);
  assert_in_range(now(&f) - before, 0, 3000);
  const cj_io_output output = {.value = cj_bytes_str("v"), .timestamp = 1};
  assert_int_equal(f.io->ops->produce(f.io, &output), CJ_IO_OK);
  before = now(&f);
  f.io->ops->close(f.io);
  await(&f, CJ_EV_CLOSED, &event);
  assert_in_range(now(&f) - before, 0, 5000);
  assert_in_range(f.longest_poll, 0, 1000);
  fixture_end(&f);
}

/* A broker that accepts and says nothing. */
static void nobody_answers(void **state) {
  (void)state;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  assert_true(listener >= 0);
  assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
  assert_int_equal(listen(listener, 16), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
  char where[64];
  snprintf(where, sizeof where, "127.0.0.1:%d", (int)ntohs(address.sin_port));
  fixture f;
  cj_io_event event;
  fixture_init(&f, 0, NULL, 0);
  f.settings.bootstrap_servers = where;
  open_io(&f, "t");
  int64_t before = now(&f);
  /* Several at once: those behind the one that hangs keep their deadlines as well. */
  for (int i = 0; i < 3; i++) {
    const cj_io_request request = {
        .id = 100 + (uint64_t)i, .kind = CJ_REQ_METADATA, .timeout_ms = 400};
    assert_no_error(f.io->ops->submit(f.io, &request));
  }
  bool seen[3] = {false};
  for (int i = 0; i < 3; i++) {
    await(&f, CJ_EV_DONE, &event);
    assert_true(event.code == CJ_IO_TIMED_OUT || event.code == CJ_IO_RETRIABLE);
    assert_in_range(event.id, 100, 102);
    assert_false(seen[event.id - 100]);
    seen[event.id - 100] = true;
  }
  assert_in_range(now(&f) - before, 300, 2000);
  assert_in_range(f.longest_poll, 0, 1000);
  /* An answer that comes too late is nobody's. */
  for (int64_t until = now(&f) + 500; now(&f) < until;)
    if (next_event(&f, &event)) assert_int_not_equal(event.kind, CJ_EV_DONE);
  fixture_end(&f);
  close(listener);
}

/* Case 77: with the broker down the queue fills; nothing of what was taken is lost. */
static void a_full_queue_waits_for_the_broker(void **state) {
  (void)state;
  fixture f;
  cj_io_event event;
  fixture_init(&f, 1, "t", 1);
  property(&f, "queue.buffering.max.messages", "10");
  property(&f, "reconnect.backoff.max.ms", "200");
  open_io(&f, "t");
  produce(&f, 0, 1);
  rd_kafka_mock_broker_set_down(f.cluster, 1);
  const cj_io_output output = {.value = cj_bytes_str("v"), .timestamp = 1};
  int accepted = 0;
  while (f.io->ops->produce(f.io, &output) == CJ_IO_OK)
    accepted++;
  assert_int_equal(f.io->ops->produce(f.io, &output), CJ_IO_QUEUE_FULL);
  assert_int_equal(accepted, 10);
  rd_kafka_mock_broker_set_up(f.cluster, 1);
  while (accepted < 1000) {
    cj_io_code code = f.io->ops->produce(f.io, &output);
    if (code == CJ_IO_OK) {
      accepted++;
      continue;
    }
    assert_int_equal(code, CJ_IO_QUEUE_FULL);
    await(&f, CJ_EV_DELIVERED, &event);
  }
  int64_t position = 0;
  assign(&f, 0, 0);
  read_to(&f, 0, &position, 1001);
  fixture_end(&f);
}

/* ---- a group, as the demo has it ---- */

static void two_members_share_the_mock(void **state) {
  (void)state;
  fixture f, other;
  cj_io_event event;
  fixture_init(&f, 1, "t", 4);
  /* More than the 3 s that the mock's first join takes, or it forgets who is joining. */
  property(&f, "session.timeout.ms", "3500");
  property(&f, "heartbeat.interval.ms", "100");
  open_io(&f, "t");
  other = f;
  open_io(&other, "t");
  assert_no_error(f.io->ops->subscribe(f.io));
  assert_no_error(other.io->ops->subscribe(other.io));
  fixture *members[] = {&f, &other};
  size_t owned[2] = {0};
  for (int64_t until = now(&f) + PATIENCE_MS; owned[0] != 2 || owned[1] != 2;) {
    assert_true(now(&f) < until);
    for (int i = 0; i < 2; i++) {
      if (!next_event(members[i], &event)) continue;
      if (event.kind != CJ_EV_ASSIGN && event.kind != CJ_EV_REVOKE) continue;
      owned[i] = event.kind == CJ_EV_ASSIGN ? event.count : 0;
      assert_no_error(members[i]->io->ops->assign(members[i]->io, NULL, 0));
    }
  }
  const cj_io_offset offset = {.tp = {0, 0}, .offset = 3};
  const cj_io_request request = {
      .id = 77, .kind = CJ_REQ_COMMIT, .list = &offset, .count = 1, .timeout_ms = 5000};
  assert_no_error(f.io->ops->submit(f.io, &request));
  await(&f, CJ_EV_DONE, &event);
  assert_int_equal(event.code, CJ_IO_OK);
  assert_int_equal(ask(&other, CJ_REQ_COMMITTED, 0, 5000, &event), CJ_IO_OK);
  assert_int_equal(event.offsets[0].offset, 3);
  /* The mock describes no groups: that is an answer too, and a quick one. */
  int64_t before = now(&f);
  assert_int_not_equal(ask(&f, CJ_REQ_GROUP, 0, 5000, &event), CJ_IO_TIMED_OUT);
  assert_in_range(now(&f) - before, 0, 2000);
  other.io->ops->destroy(other.io);
  fixture_end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_wake_ends_a_wait_also_beforehand),
      cmocka_unit_test(a_record_ends_a_wait),
      cmocka_unit_test(a_failed_answer_is_no_offset),
      cmocka_unit_test(a_leader_that_moves_is_followed),
      cmocka_unit_test(a_dead_leader_holds_up_nobody),
      cmocka_unit_test(nothing_listens),
      cmocka_unit_test(nobody_answers),
      cmocka_unit_test(a_full_queue_waits_for_the_broker),
      cmocka_unit_test(two_members_share_the_mock),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
