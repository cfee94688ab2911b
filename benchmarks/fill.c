/* SPDX-License-Identifier: BSD-2-Clause */
/* Fills a table topic and a stream topic with records that follow from their number alone, so that
 * whoever reads them can compute what every join has to be.
 *
 *   table record u   key number u while u < KEYS, then mix(u) % KEYS
 *   stream record i  key number mix(~i) % KEYS, timestamp BASE + KEYS + i
 *
 * The first KEYS table records are older than every stream record. The UPDATES that follow are
 * spread evenly: number j (u = KEYS + j) has the timestamp of stream record j * RECORDS / UPDATES,
 * so that a join in timestamp order sees it from that record on (equal timestamps: table first).
 *
 * A key is "key-0000123", a value "0000000042:" (its number), padded with letters. Placement is
 * murmur2's, as the Java client's. */
#include <getopt.h>

#include "measure.h"

#define BASE_MS INT64_C(1700000000000)

typedef struct {
  const char *brokers, *table, *stream;
  uint64_t keys, records, updates;
  size_t value_bytes;
} options;

typedef struct {
  rd_kafka_t *producer;
  rd_kafka_topic_t *table, *stream;
  size_t value_bytes;
  uint64_t failed;
  char value[4096];
} filler;

/* splitmix64 (Vigna): a permutation of 64 bits without structure. */
static uint64_t mix(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static void delivered(rd_kafka_t *producer, const rd_kafka_message_t *message, void *opaque) {
  (void)producer;
  filler *f = opaque;
  if (!message->err) return;
  if (!f->failed++) fprintf(stderr, "not delivered: %s\n", rd_kafka_err2str(message->err));
}

static void put(filler *f, rd_kafka_topic_t *topic, uint64_t key_number, uint64_t number,
                int64_t timestamp) {
  char key[24], head[16];
  int key_len = snprintf(key, sizeof key, "key-%07llu", (unsigned long long)key_number);
  int head_len = snprintf(head, sizeof head, "%010llu:", (unsigned long long)number);
  size_t copy = (size_t)head_len < f->value_bytes ? (size_t)head_len : f->value_bytes;
  memcpy(f->value, head, copy);
  rd_kafka_vu_t parts[] = {
      {.vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = topic},
      {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {.ptr = key, .size = (size_t)key_len}},
      {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {.ptr = f->value, .size = f->value_bytes}},
      {.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = timestamp},
      {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
  };
  for (;;) {
    rd_kafka_error_t *error = rd_kafka_produceva(f->producer, parts, sizeof parts / sizeof *parts);
    if (!error) return;
    rd_kafka_resp_err_t code = rd_kafka_error_code(error);
    rd_kafka_error_destroy(error);
    if (code != RD_KAFKA_RESP_ERR__QUEUE_FULL) bench_die("cannot produce", rd_kafka_err2str(code));
    rd_kafka_poll(f->producer, 100);
  }
}

static void fill(filler *f, const options *o) {
  int64_t stream_start = BASE_MS + (int64_t)o->keys;
  for (uint64_t u = 0; u < o->keys; u++) {
    put(f, f->table, u, u, BASE_MS + (int64_t)u);
    if (u % 1024 == 0) rd_kafka_poll(f->producer, 0);
  }
  uint64_t update = 0;
  for (uint64_t i = 0; i < o->records; i++) {
    for (; update < o->updates && update * o->records / o->updates <= i; update++) {
      uint64_t u = o->keys + update;
      put(f, f->table, mix(u) % o->keys, u, stream_start + (int64_t)i);
    }
    put(f, f->stream, mix(~i) % o->keys, i, stream_start + (int64_t)i);
    if (i % 1024 == 0) rd_kafka_poll(f->producer, 0);
  }
}

static uint64_t number(const char *name, const char *text) {
  char *end;
  unsigned long long value = strtoull(text, &end, 10);
  if (end == text || *end || *text == '-') bench_die(name, "expected a number");
  return value;
}

static options parse(int argc, char **argv) {
  static const struct option longs[] = {
      {"brokers", required_argument, NULL, 'b'},     {"table", required_argument, NULL, 't'},
      {"stream", required_argument, NULL, 's'},      {"keys", required_argument, NULL, 'k'},
      {"records", required_argument, NULL, 'r'},     {"updates", required_argument, NULL, 'u'},
      {"value-bytes", required_argument, NULL, 'v'}, {NULL, 0, NULL, 0}};
  options o = {.keys = 100000, .records = 1000000, .value_bytes = 64};
  int option;
  while ((option = getopt_long(argc, argv, "b:", longs, NULL)) != -1) {
    switch (option) {
    case 'b':
      o.brokers = optarg;
      break;
    case 't':
      o.table = optarg;
      break;
    case 's':
      o.stream = optarg;
      break;
    case 'k':
      o.keys = number("--keys", optarg);
      break;
    case 'r':
      o.records = number("--records", optarg);
      break;
    case 'u':
      o.updates = number("--updates", optarg);
      break;
    case 'v':
      o.value_bytes = number("--value-bytes", optarg);
      break;
    default:
      exit(1);
    }
  }
  if (!o.brokers || !o.table || !o.stream || optind != argc)
    bench_die("usage", "fill -b BROKERS --table T --stream S [--keys N] [--records N] "
                       "[--updates N] [--value-bytes N]");
  if (!o.keys || o.value_bytes < 11 || o.value_bytes > sizeof((filler *)0)->value)
    bench_die("fill", "at least one key, and values of 11 to 4096 bytes");
  return o;
}

int main(int argc, char **argv) {
  options o = parse(argc, argv);
  filler f = {.value_bytes = o.value_bytes};
  for (size_t i = 0; i < sizeof f.value; i++)
    f.value[i] = (char)('a' + i % 26);

  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  bench_set(conf, "bootstrap.servers", o.brokers);
  bench_set(conf, "partitioner", "murmur2_random");
  bench_set(conf, "linger.ms", "20");
  bench_set(conf, "log_level", "3"); /* a young broker makes it wait for its producer id: no news */
  bench_set(conf, "queue.buffering.max.messages", "500000");
  bench_set(conf, "enable.idempotence", "true"); /* else a retry could reorder a key's updates */
  rd_kafka_conf_set_dr_msg_cb(conf, delivered);
  rd_kafka_conf_set_opaque(conf, &f);
  char why[512];
  f.producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
  if (!f.producer) bench_die("fill", why);
  bench_partitions(f.producer, o.table);
  bench_partitions(f.producer, o.stream);
  f.table = rd_kafka_topic_new(f.producer, o.table, NULL);
  f.stream = rd_kafka_topic_new(f.producer, o.stream, NULL);
  if (!f.table || !f.stream) bench_die("fill", rd_kafka_err2str(rd_kafka_last_error()));

  fill(&f, &o);
  rd_kafka_resp_err_t err = rd_kafka_flush(f.producer, 120000);
  if (err) bench_die("cannot flush", rd_kafka_err2str(err));
  rd_kafka_topic_destroy(f.table);
  rd_kafka_topic_destroy(f.stream);
  rd_kafka_destroy(f.producer);
  return f.failed ? 1 : 0;
}
