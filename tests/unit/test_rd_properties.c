/* SPDX-License-Identifier: BSD-2-Clause */
/* The `rd.` properties: what is refused, with which words, and what goes through. */
#include "lib/unit.h"

#include <librdkafka/rdkafka.h>

#include "runtime/io.h"

static void refused_with(const char *name, const char *value, const char *const *words) {
  cj_error *error = cj_io_rdkafka_check_property(name, value);
  if (!error) fail_msg("rd.%s=%s is taken", name, value);
  assert_int_equal(cj_error_code(error), CJ_ERR_CONFIG);
  char subject[128];
  snprintf(subject, sizeof subject, "rd.%s", name);
  assert_string_equal(cj_error_subject(error), subject);
  assert_mentions(cj_error_message(error), words);
  cj_error_destroy(error);
}
#define REFUSED_WITH(name, value, ...)                                                             \
  refused_with(name, value, (const char *const[]){__VA_ARGS__, NULL})

static void known_properties_are_taken(void **state) {
  (void)state;
  static const char *const taken[][2] = {{"session.timeout.ms", "6000"},
                                         {"fetch.wait.max.ms", "20"},
                                         {"linger.ms", "20"},
                                         {"compression.codec", "lz4"},
                                         {"sasl.username", "me"},
                                         {"security.protocol", "sasl_ssl"},
                                         {"message.timeout.ms", "1000"}, /* of topics */
                                         {"group.instance.id", "a"},
                                         {"debug", "cgrp,topic"},
                                         {"queued.min.messages", "1000000"},
                                         {"max.poll.interval.ms", "6000"}};
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
    assert_no_error(cj_io_rdkafka_check_property(taken[i][0], taken[i][1]));
}

/* What would break an invariant of the runtime, whatever the value. */
static void invariants_are_refused_with_the_reason(void **state) {
  (void)state;
  REFUSED_WITH("enable.auto.commit", "false", "refused", "committed by the runtime");
  REFUSED_WITH("auto.commit.enable", "true", "committed by the runtime");
  REFUSED_WITH("enable.auto.offset.store", "true", "committed by the runtime");
  REFUSED_WITH("auto.offset.reset", "latest", "without `rd.`");
  REFUSED_WITH("enable.partition.eof", "false", "end-of-partition");
  REFUSED_WITH("group.id", "g", "application.id");
  REFUSED_WITH("client.id", "c", "without `rd.`");
  REFUSED_WITH("partition.assignment.strategy", "roundrobin", "assignment");
  REFUSED_WITH("group.protocol", "consumer", "assignment");
  REFUSED_WITH("group.remote.assignor", "uniform", "assignment");
  REFUSED_WITH("enable.idempotence", "false", "idempotent");
  REFUSED_WITH("transactional.id", "t", "processing.guarantee");
  REFUSED_WITH("isolation.level", "read_committed", "without `rd.`");
  REFUSED_WITH("partitioner", "random", "partitioner");
  REFUSED_WITH("bootstrap.servers", "b", "without `rd.`");
  REFUSED_WITH("metadata.broker.list", "b", "bootstrap.servers");
  REFUSED_WITH("allow.auto.create.topics", "true", "misspelt");
  REFUSED_WITH("delivery.report.only.error", "true", "delivered");
  REFUSED_WITH("acks", "1", "all");
  REFUSED_WITH("rebalance_cb", "x", "pointer");
  REFUSED_WITH("dr_msg_cb", "x", "pointer");
  REFUSED_WITH("opaque", "x", "pointer");
}

static void an_unknown_name_is_told_its_nearest(void **state) {
  (void)state;
  REFUSED_WITH("sesion.timeout.ms", "6000", "no such property", "rd.session.timeout.ms");
  REFUSED_WITH("lingr.ms", "1", "rd.linger.ms");
  REFUSED_WITH("", "1", "no such property");
  cj_error *error = cj_io_rdkafka_check_property("zzzzzzzzzzzzzzzzzzzzzzzz", "1");
  assert_non_null(error);
  assert_null(strstr(cj_error_message(error), "nearest"));
  cj_error_destroy(error);
  /* One that is refused is no help. */
  error = cj_io_rdkafka_check_property("enable.auto.comit", "1");
  assert_non_null(error);
  assert_null(strstr(cj_error_message(error), "rd.enable.auto.commit"));
  cj_error_destroy(error);
}

/* Case 84: librdkafka's own words, with the property's name. */
static void a_value_that_librdkafka_refuses_is_told_in_its_words(void **state) {
  (void)state;
  char why[512];
  static const char *const wrong[][2] = {{"session.timeout.ms", "-3"},
                                         {"session.timeout.ms", "soon"},
                                         {"security.protocol", "tls"},
                                         {"compression.codec", "rar"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, wrong[i][0], wrong[i][1], why, sizeof why);
    rd_kafka_conf_destroy(conf);
    REFUSED_WITH(wrong[i][0], wrong[i][1], why);
  }
}

/* ---- what only a whole configuration can tell ---- */

static cj_error *try_open(cj_settings settings, const cj_rd_property *rd, size_t count,
                          bool admin) {
  settings.application_id = "app";
  settings.bootstrap_servers = "127.0.0.1:1";
  settings.memory_bytes = 256 << 20;
  settings.request_timeout_ms = 1000;
  settings.rd = rd;
  settings.rd_count = count;
  const cj_io_setup setup = {.settings = &settings, .client_id = "c", .admin = admin};
  cj_io *io;
  cj_error *error = cj_io_rdkafka_new(&setup, &io);
  if (!error) io->ops->destroy(io);
  return error;
}

static void one_instance_id_is_not_for_several_workers(void **state) {
  (void)state;
  const cj_rd_property rd[] = {{"group.instance.id", "a"}};
  assert_no_error(try_open((cj_settings){.threads = 1}, rd, 1, false));
  cj_error *error = try_open((cj_settings){.threads = 2}, rd, 1, false);
  assert_non_null(error);
  assert_int_equal(cj_error_code(error), CJ_ERR_CONFIG);
  ASSERT_MENTIONS(cj_error_text(error), "group.instance.id", "threads=2");
  cj_error_destroy(error);
}

static void assignments_that_are_not_there_say_what_they_need(void **state) {
  (void)state;
  static const struct {
    cj_assignment assignment;
    const char *needs;
  } rows[] = {{CJ_ASSIGN_STICKY, "2.10"}, {CJ_ASSIGN_BROKER, "Kafka 4.0"}};
  for (size_t i = 0; i < 2; i++) {
    cj_error *error =
        try_open((cj_settings){.threads = 1, .assignment = rows[i].assignment}, NULL, 0, false);
    assert_non_null(error);
    assert_int_equal(cj_error_code(error), CJ_ERR_UNSUPPORTED);
    ASSERT_MENTIONS(cj_error_message(error), rows[i].needs, "use range or spread");
    cj_error_destroy(error);
  }
}

/* Case 84: what librdkafka sees only when the client is made. */
static void a_client_that_cannot_be_made_is_told_in_librdkafkas_words(void **state) {
  (void)state;
  const cj_rd_property rd[] = {{"max.in.flight", "6"}};
  cj_error *error = try_open((cj_settings){.threads = 1}, rd, 1, false);
  assert_non_null(error);
  assert_int_equal(cj_error_code(error), CJ_ERR_CONFIG);
  ASSERT_MENTIONS(cj_error_text(error), "producer", "max.in.flight");
  cj_error_destroy(error);
  const cj_rd_property poll[] = {{"max.poll.interval.ms", "1000"}};
  error = try_open((cj_settings){.threads = 1}, poll, 1, true);
  assert_non_null(error);
  ASSERT_MENTIONS(cj_error_text(error), "max.poll.interval.ms", "session.timeout.ms");
  cj_error_destroy(error);
}

/* A producer's property does not go to the consumer, which would warn, nor the other way round. */
static void count_warnings(void *user, cj_log_level level, const char *line) {
  int *warnings = user;
  if (level <= CJ_LOG_WARN && strstr(line, "CONFWARN")) {
    fprintf(stderr, "%s\n", line);
    ++*warnings;
  }
}

static void each_property_goes_where_it_belongs(void **state) {
  (void)state;
  const cj_rd_property rd[] = {{"linger.ms", "7"},           {"message.timeout.ms", "5000"},
                               {"fetch.min.bytes", "2"},     {"session.timeout.ms", "7000"},
                               {"max.in.flight", "3"},       {"queued.min.messages", "77"},
                               {"compression.codec", "lz4"}, {"batch.num.messages", "50"}};
  cj_settings settings = {.application_id = "app",
                          .bootstrap_servers = "127.0.0.1:1",
                          .threads = 1,
                          .memory_bytes = 256 << 20,
                          .rd = rd,
                          .rd_count = sizeof rd / sizeof *rd};
  int warnings = 0;
  const cj_io_setup setup = {
      .settings = &settings,
      .client_id = "c",
      .read_committed = true,
      .log = {.user = &warnings, .level = CJ_LOG_DEBUG, .line = count_warnings}};
  cj_io *io;
  assert_no_error(cj_io_rdkafka_new(&setup, &io));
  cj_io_event event;
  int64_t until = io->ops->now(io) + 500;
  bool told = false; /* by an event: the logs before it were served */
  while (!told || io->ops->now(io) < until) {
    if (io->ops->poll(io, &event))
      told = true;
    else
      io->ops->wait(io, 20);
    if (io->ops->now(io) > until + 20000) break;
  }
  io->ops->destroy(io);
  assert_true(told);
  assert_int_equal(warnings, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_properties_are_taken),
      cmocka_unit_test(invariants_are_refused_with_the_reason),
      cmocka_unit_test(an_unknown_name_is_told_its_nearest),
      cmocka_unit_test(a_value_that_librdkafka_refuses_is_told_in_its_words),
      cmocka_unit_test(one_instance_id_is_not_for_several_workers),
      cmocka_unit_test(assignments_that_are_not_there_say_what_they_need),
      cmocka_unit_test(a_client_that_cannot_be_made_is_told_in_librdkafkas_words),
      cmocka_unit_test(each_property_goes_where_it_belongs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
