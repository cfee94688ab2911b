/* SPDX-License-Identifier: BSD-2-Clause */
/* What the benchmark programs share: clocks, their one line of result, and librdkafka settings from
 * the command line. Not part of the library: programs include it, nothing else does. */
#ifndef CJ_BENCH_MEASURE_H
#define CJ_BENCH_MEASURE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <librdkafka/rdkafka.h>

static inline double bench_clock(clockid_t id) {
  struct timespec now;
  clock_gettime(id, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Seconds by the clock, and CPU seconds of the whole process, all threads. */
typedef struct {
  double wall, cpu;
} bench_moment;

static inline bench_moment bench_now(void) {
  return (bench_moment){bench_clock(CLOCK_MONOTONIC), bench_clock(CLOCK_PROCESS_CPUTIME_ID)};
}

/* The result that run.py reads: what lies between the first record processed and the last output
 * acknowledged. CPU seconds and peak memory of the whole process are run.py's, from wait4. */
static inline void bench_result(const char *library, uint64_t records, bench_moment first,
                                bench_moment last) {
  printf("{\"library\":\"%s\",\"records\":%llu,\"wall_s\":%.6f,\"steady_cpu_s\":%.6f}\n", library,
         (unsigned long long)records, last.wall - first.wall, last.cpu - first.cpu);
  fflush(stdout);
}

static inline void bench_die(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static inline void bench_set(rd_kafka_conf_t *conf, const char *name, const char *value) {
  char why[256];
  if (rd_kafka_conf_set(conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK)
    bench_die(name, why);
}

/* NAME=VALUE, as of -X. */
static inline void bench_set_text(rd_kafka_conf_t *conf, const char *text) {
  char name[128];
  const char *equals = strchr(text, '=');
  if (!equals || (size_t)(equals - text) >= sizeof name) bench_die(text, "expected NAME=VALUE");
  memcpy(name, text, (size_t)(equals - text));
  name[equals - text] = '\0';
  bench_set(conf, name, equals + 1);
}

/* How many partitions the topic has; ends the program when it does not exist. */
static inline int32_t bench_partitions(rd_kafka_t *client, const char *name) {
  rd_kafka_topic_t *topic = rd_kafka_topic_new(client, name, NULL);
  if (!topic) bench_die(name, rd_kafka_err2str(rd_kafka_last_error()));
  const struct rd_kafka_metadata *metadata;
  rd_kafka_resp_err_t err = rd_kafka_metadata(client, 0, topic, &metadata, 30000);
  if (err) bench_die(name, rd_kafka_err2str(err));
  int32_t count = metadata->topic_cnt == 1 ? metadata->topics[0].partition_cnt : 0;
  rd_kafka_metadata_destroy(metadata);
  rd_kafka_topic_destroy(topic);
  if (count < 1) bench_die(name, "no such topic");
  return count;
}

/* When the topic came to hold that many records, looked at every few milliseconds: the last
 * output's acknowledgement, for a program that is not told of it. */
static inline bench_moment bench_await_written(const char *brokers, const char *topic,
                                               uint64_t records) {
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  bench_set(conf, "bootstrap.servers", brokers);
  char why[256];
  rd_kafka_t *client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
  if (!client) bench_die("client", why);
  int32_t partitions = bench_partitions(client, topic);
  for (;;) {
    int64_t written = 0, low, high;
    for (int32_t p = 0; p < partitions; p++) {
      rd_kafka_resp_err_t err =
          rd_kafka_query_watermark_offsets(client, topic, p, &low, &high, 10000);
      if (err) bench_die(topic, rd_kafka_err2str(err));
      written += high;
    }
    if ((uint64_t)written >= records) break;
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  }
  bench_moment moment = bench_now();
  rd_kafka_destroy(client);
  return moment;
}

#endif
