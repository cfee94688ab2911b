/* SPDX-License-Identifier: BSD-2-Clause */
/* The bare loop: the physical limit of a join. One thread consumes a topic through per-partition
 * queues and produces each record with its key, value, timestamp and headers to the partition that
 * the partitioner gives, commits what was acknowledged each interval, and does nothing else.
 *
 * Its shape is that of the fastest loop found on librdkafka 2.0.2: queues not forwarded to the
 * consumer's, batches of messages taken from one queue, producev with a topic handle and a copy of
 * the bytes, delivery reports as events, all messages of a batch destroyed together at its end. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <pthread.h>

#include "measure.h"

#define BATCH          1024
#define PARTITIONS_MAX 256

typedef struct {
  const char *brokers, *in, *out, *group;
  uint64_t records;
  int commit_ms, nudge_ms;
} options;

typedef struct {
  rd_kafka_t *consumer, *producer;
  rd_kafka_topic_t *out;
  rd_kafka_queue_t *in[PARTITIONS_MAX], *deliveries;
  int32_t partitions, out_partitions;
  int wake; /* eventfd: a queue that was empty has something */
  uint64_t consumed, acknowledged;
  int64_t position[PARTITIONS_MAX];
  uint64_t sent[PARTITIONS_MAX], acked[PARTITIONS_MAX]; /* by output partition */
  struct {
    bool pending;
    int64_t position[PARTITIONS_MAX];
    uint64_t sent[PARTITIONS_MAX];
  } commit;
  rd_kafka_vu_t parts[7];
  const options *o;
  atomic_bool stop_nudging;
} loop;

static void commit_done(rd_kafka_t *consumer, rd_kafka_resp_err_t err,
                        rd_kafka_topic_partition_list_t *offsets, void *opaque) {
  (void)consumer, (void)offsets, (void)opaque;
  if (err && err != RD_KAFKA_RESP_ERR__NO_OFFSET) bench_die("cannot commit", rd_kafka_err2str(err));
}

static void commit_positions(loop *l, const int64_t *position, bool wait) {
  rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(l->partitions);
  for (int32_t p = 0; p < l->partitions; p++) {
    if (position[p] >= 0)
      rd_kafka_topic_partition_list_add(list, l->o->in, p)->offset = position[p];
  }
  rd_kafka_resp_err_t err = rd_kafka_commit(l->consumer, list, !wait);
  commit_done(NULL, err, NULL, NULL);
  rd_kafka_topic_partition_list_destroy(list);
}

/* The offsets that are committed are those of records whose outputs have been acknowledged: the
 * positions at the time of asking, once every output up to then is acknowledged. */
static void commit_ask(loop *l) {
  if (l->commit.pending) return;
  l->commit.pending = true;
  memcpy(l->commit.position, l->position, sizeof l->position);
  memcpy(l->commit.sent, l->sent, sizeof l->sent);
}

static void commit_try(loop *l) {
  if (!l->commit.pending) return;
  for (int32_t p = 0; p < l->out_partitions; p++)
    if (l->acked[p] < l->commit.sent[p]) return;
  l->commit.pending = false;
  commit_positions(l, l->commit.position, false);
}

static void take_deliveries(loop *l, int timeout_ms) {
  rd_kafka_event_t *event = rd_kafka_queue_poll(l->deliveries, timeout_ms);
  for (; event; event = rd_kafka_queue_poll(l->deliveries, 0)) {
    if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_DR) {
      const rd_kafka_message_t *message;
      while ((message = rd_kafka_event_message_next(event))) {
        if (message->err) bench_die("not delivered", rd_kafka_err2str(message->err));
        l->acked[message->partition]++;
        l->acknowledged++;
      }
    }
    rd_kafka_event_destroy(event);
  }
}

/* What of an output is the same for every record is filled in once (start_producing). */
enum { TOPIC, FLAGS, PARTITION, KEY, VALUE, TIMESTAMP, HEADERS, PARTS };

static void forward(loop *l, const rd_kafka_message_t *message) {
  rd_kafka_vu_t *parts = l->parts;
  int32_t to = rd_kafka_msg_partitioner_murmur2(l->out, message->key, message->key_len,
                                                l->out_partitions, NULL, NULL);
  parts[PARTITION].u.i32 = to;
  parts[KEY].u.mem.ptr = message->key;
  parts[KEY].u.mem.size = message->key_len;
  parts[VALUE].u.mem.ptr = message->payload;
  parts[VALUE].u.mem.size = message->len;
  parts[TIMESTAMP].u.i64 = rd_kafka_message_timestamp(message, NULL);
  rd_kafka_headers_t *headers;
  bool has_headers = !rd_kafka_message_headers(message, &headers);
  if (has_headers) parts[HEADERS].u.headers = rd_kafka_headers_copy(headers);
  rd_kafka_error_t *error;
  while ((error = rd_kafka_produceva(l->producer, parts, has_headers ? PARTS : HEADERS))) {
    rd_kafka_resp_err_t code = rd_kafka_error_code(error);
    rd_kafka_error_destroy(error);
    if (code != RD_KAFKA_RESP_ERR__QUEUE_FULL) bench_die("cannot produce", rd_kafka_err2str(code));
    take_deliveries(l, 10);
  }
  l->sent[to]++;
}

/* Returns how many records the queue had. */
static size_t drain(loop *l, int32_t p, bench_moment *first) {
  rd_kafka_message_t *batch[BATCH];
  size_t waiting = rd_kafka_queue_length(l->in[p]);
  if (!waiting) return 0;
  /* Asking for more than there is would end in a wait of no time, which is a system call. */
  ssize_t count =
      rd_kafka_consume_batch_queue(l->in[p], 0, batch, waiting < BATCH ? waiting : BATCH);
  if (count < 0) bench_die("cannot consume", rd_kafka_err2str(rd_kafka_last_error()));
  if (count > 0 && l->consumed == 0) *first = bench_now();
  for (ssize_t i = 0; i < count; i++) {
    if (batch[i]->err) bench_die("cannot consume", rd_kafka_message_errstr(batch[i]));
    forward(l, batch[i]);
    l->position[p] = batch[i]->offset + 1;
  }
  for (ssize_t i = 0; i < count; i++)
    rd_kafka_message_destroy(batch[i]);
  l->consumed += (uint64_t)count;
  return (size_t)count;
}

static void sleep_until_work(loop *l, int timeout_ms) {
  struct pollfd fd = {.fd = l->wake, .events = POLLIN};
  if (poll(&fd, 1, timeout_ms) > 0) {
    uint64_t ignored;
    if (read(l->wake, &ignored, sizeof ignored) < 0 && errno != EAGAIN)
      bench_die("eventfd", strerror(errno));
  }
}

static void run(loop *l) {
  bench_moment first = bench_now();
  double next_commit = first.wall + l->o->commit_ms / 1e3;
  while (l->consumed < l->o->records) {
    size_t got = 0;
    for (int32_t p = 0; p < l->partitions; p++) {
      got += drain(l, p, &first);
      take_deliveries(l, 0);
    }
    if (!got) sleep_until_work(l, 10);
    double now = bench_clock(CLOCK_MONOTONIC);
    if (now >= next_commit) {
      commit_ask(l);
      next_commit = now + l->o->commit_ms / 1e3;
    }
    commit_try(l);
    rd_kafka_poll(l->consumer, 0);
  }
  while (l->acknowledged < l->consumed)
    take_deliveries(l, 10);
  bench_moment last = bench_now();
  commit_positions(l, l->position, true);
  bench_result(rd_kafka_version_str(), l->consumed, first, last);
}

/* Below librdkafka 2.2.0 a broker thread whose queues are all full sleeps for up to a second; any
 * request to it wakes it up, so that queues need not be deep. */
static void *nudge(void *arg) {
  loop *l = arg;
  struct timespec pause = {.tv_nsec = l->o->nudge_ms * 1000000L};
  while (!atomic_load(&l->stop_nudging)) {
    int64_t low, high;
    rd_kafka_query_watermark_offsets(l->consumer, l->o->in, 0, &low, &high, 1000);
    nanosleep(&pause, NULL);
  }
  return NULL;
}

static void start_consuming(loop *l) {
  rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(l->partitions);
  for (int32_t p = 0; p < l->partitions; p++) {
    l->position[p] = -1;
    l->in[p] = rd_kafka_queue_get_partition(l->consumer, l->o->in, p);
    if (!l->in[p]) bench_die("no queue", l->o->in);
    rd_kafka_queue_forward(l->in[p], NULL);
    static const uint64_t one = 1;
    rd_kafka_queue_io_event_enable(l->in[p], l->wake, &one, sizeof one);
    rd_kafka_topic_partition_list_add(list, l->o->in, p)->offset = RD_KAFKA_OFFSET_BEGINNING;
  }
  rd_kafka_resp_err_t err = rd_kafka_assign(l->consumer, list);
  if (err) bench_die("cannot assign", rd_kafka_err2str(err));
  rd_kafka_topic_partition_list_destroy(list);
}

static void start_producing(loop *l) {
  l->out = rd_kafka_topic_new(l->producer, l->o->out, NULL);
  if (!l->out) bench_die(l->o->out, rd_kafka_err2str(rd_kafka_last_error()));
  l->deliveries = rd_kafka_queue_get_main(l->producer);
  static const rd_kafka_vu_t parts[PARTS] = {
      [TOPIC] = {.vtype = RD_KAFKA_VTYPE_RKT},
      [FLAGS] = {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
      [PARTITION] = {.vtype = RD_KAFKA_VTYPE_PARTITION},
      [KEY] = {.vtype = RD_KAFKA_VTYPE_KEY},
      [VALUE] = {.vtype = RD_KAFKA_VTYPE_VALUE},
      [TIMESTAMP] = {.vtype = RD_KAFKA_VTYPE_TIMESTAMP},
      [HEADERS] = {.vtype = RD_KAFKA_VTYPE_HEADERS},
  };
  memcpy(l->parts, parts, sizeof parts);
  l->parts[TOPIC].u.rkt = l->out;
}

static void finish(loop *l) {
  for (int32_t p = 0; p < l->partitions; p++) {
    rd_kafka_queue_io_event_enable(l->in[p], -1, NULL, 0);
    rd_kafka_queue_destroy(l->in[p]);
  }
  rd_kafka_consumer_close(l->consumer);
  rd_kafka_queue_destroy(l->deliveries);
  rd_kafka_topic_destroy(l->out);
  rd_kafka_destroy(l->consumer);
  rd_kafka_destroy(l->producer);
  close(l->wake);
}

static options parse(int argc, char **argv, rd_kafka_conf_t *consumer, rd_kafka_conf_t *producer) {
  static const struct option longs[] = {
      {"brokers", required_argument, NULL, 'b'},  {"in", required_argument, NULL, 'i'},
      {"out", required_argument, NULL, 'o'},      {"group", required_argument, NULL, 'g'},
      {"records", required_argument, NULL, 'r'},  {"commit-ms", required_argument, NULL, 'm'},
      {"nudge-ms", required_argument, NULL, 'n'}, {"consumer", required_argument, NULL, 'C'},
      {"producer", required_argument, NULL, 'P'}, {NULL, 0, NULL, 0}};
  options o = {.commit_ms = 1000};
  int option;
  while ((option = getopt_long(argc, argv, "b:C:P:", longs, NULL)) != -1) {
    switch (option) {
    case 'b':
      o.brokers = optarg;
      break;
    case 'i':
      o.in = optarg;
      break;
    case 'o':
      o.out = optarg;
      break;
    case 'g':
      o.group = optarg;
      break;
    case 'r':
      o.records = strtoull(optarg, NULL, 10);
      break;
    case 'm':
      o.commit_ms = atoi(optarg);
      break;
    case 'n':
      o.nudge_ms = atoi(optarg);
      break;
    case 'C':
      bench_set_text(consumer, optarg);
      break;
    case 'P':
      bench_set_text(producer, optarg);
      break;
    default:
      exit(1);
    }
  }
  if (!o.brokers || !o.in || !o.out || !o.group || !o.records || optind != argc)
    bench_die("usage", "loop -b BROKERS --in TOPIC --out TOPIC --group ID --records N "
                       "[--commit-ms N] [--nudge-ms N] [-C NAME=VALUE]... [-P NAME=VALUE]...");
  return o;
}

int main(int argc, char **argv) {
  rd_kafka_conf_t *consumer = rd_kafka_conf_new(), *producer = rd_kafka_conf_new();
  options o = parse(argc, argv, consumer, producer);
  static loop l;
  l.o = &o;
  bench_set(consumer, "bootstrap.servers", o.brokers);
  bench_set(consumer, "group.id", o.group);
  bench_set(consumer, "enable.auto.commit", "false");
  bench_set(consumer, "enable.auto.offset.store", "false");
  bench_set(producer, "bootstrap.servers", o.brokers);
  rd_kafka_conf_set_offset_commit_cb(consumer, commit_done);
  rd_kafka_conf_set_events(producer, RD_KAFKA_EVENT_DR);
  char why[512];
  l.consumer = rd_kafka_new(RD_KAFKA_CONSUMER, consumer, why, sizeof why);
  if (!l.consumer) bench_die("consumer", why);
  l.producer = rd_kafka_new(RD_KAFKA_PRODUCER, producer, why, sizeof why);
  if (!l.producer) bench_die("producer", why);
  rd_kafka_poll_set_consumer(l.consumer);
  l.partitions = bench_partitions(l.consumer, o.in);
  l.out_partitions = bench_partitions(l.producer, o.out);
  if (l.partitions > PARTITIONS_MAX || l.out_partitions > PARTITIONS_MAX)
    bench_die(o.in, "more partitions than this program is made for");
  l.wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (l.wake < 0) bench_die("eventfd", strerror(errno));

  start_producing(&l);
  start_consuming(&l);
  pthread_t nudger;
  if (o.nudge_ms && pthread_create(&nudger, NULL, nudge, &l)) bench_die("loop", "no thread");
  run(&l);
  if (o.nudge_ms) {
    atomic_store(&l.stop_nudging, true);
    pthread_join(nudger, NULL);
  }
  finish(&l);
  return 0;
}
