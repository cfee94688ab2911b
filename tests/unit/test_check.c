/* SPDX-License-Identifier: BSD-2-Clause */
/* The checklist: points 1 to 3, and the end offsets of stop.at.end. */
#include "lib/check_fixture.h"

/* ---- point 1 ---- */

static void test_equal_counts_hold(void **state) {
  (void)state;
  world w;
  setup(&w);
  topics(&w, 6, 6);
  run(&w);
  expect_verdict(&w, CJ_POINT_PARTITION_COUNT, CJ_HOLDS);
  expect_verdict(&w, CJ_POINT_KEYS, CJ_UNVERIFIED);
  expect_verdict(&w, CJ_POINT_PARTITIONER, CJ_UNVERIFIED);
  expect_verdict(&w, CJ_POINT_ASSIGNMENT, CJ_HOLDS);
  expect_evidence(&w, CJ_POINT_PARTITION_COUNT, "notif (stream): 6 partitions");
  expect_evidence(&w, CJ_POINT_PARTITION_COUNT, "price (table): 6 partitions");
  expect_evidence(&w, CJ_POINT_PARTITION_COUNT, "alerts (sink): 3 partitions");
  expect_evidence(&w, CJ_POINT_KEYS, "no record was sampled");
  expect_evidence(&w, CJ_POINT_ASSIGNMENT, "anchor of {notif, price}: notif, the first by name");
  expect_start(&w);
  assert_string_equal(w.out.cluster_id, "fake-cluster");
  assert_int_equal(w.out.topic_count, 3);
  assert_int_equal(w.out.partition_counts[0], 6);
  assert_int_equal(w.out.partition_counts[2], 3);
  assert_null(w.out.ends);
  assert_int_equal(w.io.submitted[CJ_REQ_ENDS], 0);
  assert_true(w.io.waited < 100); /* nothing to wait for but two answers */
  cj_check_result_free(&w.out);
}

/* Case 31: the start fails, and names both topics and both counts. */
static void test_different_counts(void **state) {
  (void)state;
  world w;
  setup(&w);
  topics(&w, 6, 4);
  run(&w);
  expect_verdict(&w, CJ_POINT_PARTITION_COUNT, CJ_BROKEN);
  assert_int_equal(cj_report_verdict(w.out.report), CJ_BROKEN);
  expect_refusal(&w, CJ_ERR_NOT_COPARTITIONED, "notif has 6 partitions, price has 4 partitions");
  assert_string_not_equal(cj_report_remedy(w.out.report, CJ_POINT_PARTITION_COUNT), "");
  cj_check_result_free(&w.out);
}

static void test_warn_starts_and_says_what_is_not_joined(void **state) {
  (void)state;
  world w;
  setup(&w);
  topics(&w, 6, 4);
  w.settings.check[CJ_POINT_PARTITION_COUNT] = CJ_CHECK_WARN;
  run(&w);
  expect_verdict(&w, CJ_POINT_PARTITION_COUNT, CJ_BROKEN);
  expect_evidence(&w, CJ_POINT_PARTITION_COUNT, "the tasks 4 to 5 run without price");
  expect_evidence(&w, CJ_POINT_ASSIGNMENT, "notif, the first by name");
  assert_int_equal(w.out.partition_counts[1], 4);
  expect_start(&w);
  cj_check_result_free(&w.out);
  /* The other way round every index still has an owner: the topic with most of them deals. */
  w.io.topics[1].partitions = 4;
  w.io.topics[2].partitions = 6;
  run(&w);
  expect_evidence(&w, CJ_POINT_PARTITION_COUNT, "the tasks 4 to 5 run without notif");
  expect_evidence(&w, CJ_POINT_ASSIGNMENT, "price, the one with most partitions");
  cj_check_result_free(&w.out);
}

static void add_table(world *w, int topic, const char *name, int32_t partitions) {
  /* Before the sink: inputs come first. */
  w->p.topics[topic + 1] = w->p.topics[topic];
  w->p.topics[topic] =
      (cj_plan_topic){.name = (char *)(uintptr_t)name, .kind = CJ_TOPIC_TABLE, .table = topic - 1};
  w->p.members[0][topic] = topic;
  w->p.groups[0].topic_count++;
  w->p.plan.topic_count++;
  w->p.plan.input_count++;
  fake_io_topic(&w->io, name, partitions);
}

/* Case 31, n-way: 6, 6, 1, 6. The odd one is named by what most have. */
static void test_the_odd_one_is_named(void **state) {
  (void)state;
  world w;
  setup(&w);
  topics(&w, 6, 6);
  add_table(&w, 2, "rates", 1);
  add_table(&w, 3, "zones", 6);
  run(&w);
  expect_refusal(&w, CJ_ERR_NOT_COPARTITIONED,
                 "rates has 1 partition, notif, price and zones have 6");
  expect_evidence(&w, CJ_POINT_PARTITION_COUNT, "rates (table): 1 partition, unlike");
  assert_false(evidence(&w, CJ_POINT_PARTITION_COUNT, "zones (table): 6 partitions, unlike"));
  cj_check_result_free(&w.out);
}

/* Two against two: no majority, so each is named and none accused. */
static void test_no_majority(void **state) {
  (void)state;
  world w;
  setup(&w);
  topics(&w, 6, 4);
  add_table(&w, 2, "rates", 4);
  add_table(&w, 3, "zones", 6);
  run(&w);
  expect_refusal(&w, CJ_ERR_NOT_COPARTITIONED,
                 "notif has 6 partitions, price has 4 partitions, rates has 4 partitions, zones "
                 "has 6 partitions");
  assert_false(evidence(&w, CJ_POINT_PARTITION_COUNT, "unlike"));
  cj_check_result_free(&w.out);
}

/* Case 35: a typo. Never created, never waived, the nearest names offered. */
static void test_missing_topic(void **state) {
  (void)state;
  world w;
  setup(&w);
  fake_io_topic(&w.io, "alerts", 3);
  fake_io_topic(&w.io, "notif", 6);
  fake_io_topic(&w.io, "prices", 6);
  fake_io_topic(&w.io, "volume", 6);
  fake_io_topic(&w.io, "__price", 6);
  w.settings.check[CJ_POINT_PARTITION_COUNT] = CJ_CHECK_WARN;
  run(&w);
  expect_refusal(&w, CJ_ERR_TOPIC_MISSING, "does not exist; the nearest names are: prices");
  cj_error *error = cj_check_enforce(&w.out, &w.settings);
  assert_string_equal(cj_error_subject(error), "price");
  assert_null(strstr(cj_error_message(error), "__price"));
  cj_error_destroy(error);
  expect_evidence(&w, CJ_POINT_PARTITION_COUNT, "price (table): does not exist");
  assert_int_equal(w.out.partition_counts[1], 0);
  assert_true(w.io.waited < 2000); /* a typo is known soon, not at the timeout */
  cj_check_result_free(&w.out);
}

static void test_missing_sink_and_dead_letter_topic(void **state) {
  (void)state;
  world w;
  setup(&w);
  fake_io_topic(&w.io, "notif", 6);
  fake_io_topic(&w.io, "price", 6);
  w.settings.dead_letter_topic = "dead";
  run(&w);
  expect_refusal(&w, CJ_ERR_TOPIC_MISSING, "no topic has a name like it");
  expect_evidence(&w, CJ_POINT_PARTITION_COUNT, "alerts (sink): does not exist");
  expect_evidence(&w, CJ_POINT_PARTITION_COUNT, "dead (dead letters): does not exist");
  cj_check_result_free(&w.out);
  fake_io_topic(&w.io, "alerts", 2);
  fake_io_topic(&w.io, "dead", 5);
  run(&w);
  expect_start(&w);
  assert_int_equal(w.out.topic_count, 4);
  assert_int_equal(w.out.partition_counts[3], 5);
  cj_check_result_free(&w.out);
}

/* Not every broker knows a topic at the moment in which it was made. */
static void test_topic_that_was_just_made(void **state) {
  (void)state;
  world w;
  setup(&w);
  fake_io_topic(&w.io, "alerts", 3);
  fake_io_topic(&w.io, "notif", 6);
  w.io.appears.at = w.io.clock + 300;
  w.io.appears.topic = (cj_io_topic){.name = "price", .partitions = 6};
  run(&w);
  expect_start(&w);
  cj_check_result_free(&w.out);
}

static void test_topic_metadata_in_error(void **state) {
  (void)state;
  world w;
  setup(&w);
  topics(&w, 6, 6);
  w.io.topics[2].code = CJ_IO_AUTH;
  expect_failure(try_run(&w), CJ_ERR_AUTH, "price");
  assert_null(w.out.report);
  w.io.topics[2].code = CJ_IO_RETRIABLE; /* no leader, for all of the time */
  int64_t begun = w.io.clock;
  expect_failure(try_run(&w), CJ_ERR_KAFKA, "price");
  assert_in_range(w.io.clock - begun, 29000, 31000);
}

/* ---- what is declared ---- */

static void test_declarations_that_contradict(void **state) {
  (void)state;
  world w;
  setup(&w);
  topics(&w, 6, 6);
  w.p.topics[1].partitioner = cj_partitioner_crc32();
  run(&w);
  expect_verdict(&w, CJ_POINT_KEYS, CJ_UNVERIFIED);
  expect_verdict(&w, CJ_POINT_PARTITIONER, CJ_BROKEN);
  expect_refusal(&w, CJ_ERR_NOT_COPARTITIONED,
                 "producers of notif are declared murmur2, those of price crc32");
  cj_check_result_free(&w.out);
  w.settings.check[CJ_POINT_PARTITIONER] = CJ_CHECK_WARN;
  run(&w);
  expect_start(&w);
  cj_check_result_free(&w.out);
  /* A single partition holds every key, whoever placed it. */
  w.settings.check[CJ_POINT_PARTITIONER] = CJ_CHECK_ENFORCE;
  w.io.topics[1].partitions = w.io.topics[2].partitions = 1;
  run(&w);
  expect_verdict(&w, CJ_POINT_PARTITIONER, CJ_UNVERIFIED);
  cj_check_result_free(&w.out);
  w.p.topics[1].partitioner = cj_partitioner_murmur2();
  w.p.topics[0].key_serde = cj_serde_string();
  w.p.topics[1].key_serde = cj_serde_bytes(); /* bytes may hold anything */
  run(&w);
  expect_verdict(&w, CJ_POINT_KEYS, CJ_UNVERIFIED);
  cj_check_result_free(&w.out);
  w.p.topics[1].key_serde = cj_serde_int64();
  run(&w);
  expect_verdict(&w, CJ_POINT_KEYS, CJ_BROKEN);
  expect_refusal(&w, CJ_ERR_NOT_COPARTITIONED,
                 "keys of notif are declared string, those of price int64");
  cj_check_result_free(&w.out);
}

static void test_nothing_joined_holds(void **state) {
  (void)state;
  world w;
  setup(&w);
  topics(&w, 6, 4);
  w.p.groups[0].topic_count = 1;
  w.p.groups[0].joined = false;
  w.p.groups[1] = (cj_plan_group){.topics = &w.p.members[0][1], .topic_count = 1, .anchor = 1};
  w.p.topics[1].group = 1;
  w.p.plan.group_count = 2;
  run(&w);
  assert_int_equal(cj_report_verdict(w.out.report), CJ_HOLDS);
  expect_evidence(&w, CJ_POINT_KEYS, "no topics are joined");
  cj_check_result_free(&w.out);
}

/* ---- end offsets ---- */

static void test_end_offsets(void **state) {
  (void)state;
  world w;
  setup(&w);
  topics(&w, 3, 3);
  w.settings.stop_at_end = true;
  for (int t = 0; t < 2; t++)
    for (int p = 0; p < 3; p++)
      w.io.ends[t][p] = 100 * t + p;
  run(&w);
  assert_int_equal(w.out.end_count, 6);
  for (int i = 0; i < 6; i++) {
    assert_int_equal(w.out.ends[i].tp.topic, i / 3);
    assert_int_equal(w.out.ends[i].tp.partition, i % 3);
    assert_int_equal(w.out.ends[i].offset, 100 * (i / 3) + i % 3);
  }
  cj_check_result_free(&w.out);
  /* A partition without a leader is not an empty one (case 51). */
  w.io.ends[1][2] = -1;
  expect_failure(try_run(&w), CJ_ERR_BROKER, "partition 2 gives no end offset");
}

/* Whatever allocation fails: an error, no crash, no leak. */
static void test_no_memory(void **state) {
  (void)state;
  bool ran = false;
  for (long n = 0; !ran; n++) {
    world w;
    setup(&w);
    topics(&w, 6, 4);
    w.settings.stop_at_end = true;
    cj_alloc_fail_after(n);
    cj_error *error = try_run(&w);
    cj_error *refused = error ? NULL : cj_check_enforce(&w.out, &w.settings);
    cj_alloc_fail_after(-1);
    ran = refused && cj_error_code(refused) == CJ_ERR_NOT_COPARTITIONED && cj_error_report(refused);
    if (!error) assert_non_null(refused); /* never started for want of memory */
    cj_error_destroy(error);
    cj_error_destroy(refused);
    cj_check_result_free(&w.out);
    assert_true(n < 10000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equal_counts_hold),
      cmocka_unit_test(test_different_counts),
      cmocka_unit_test(test_warn_starts_and_says_what_is_not_joined),
      cmocka_unit_test(test_the_odd_one_is_named),
      cmocka_unit_test(test_no_majority),
      cmocka_unit_test(test_missing_topic),
      cmocka_unit_test(test_missing_sink_and_dead_letter_topic),
      cmocka_unit_test(test_topic_that_was_just_made),
      cmocka_unit_test(test_topic_metadata_in_error),
      cmocka_unit_test(test_declarations_that_contradict),
      cmocka_unit_test(test_nothing_joined_holds),
      cmocka_unit_test(test_end_offsets),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
