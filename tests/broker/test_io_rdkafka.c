/* SPDX-License-Identifier: BSD-2-Clause */
/* The io over librdkafka on a real broker: what goes down comes up as it was, assignments take
 * effect at their offsets, requests are answered. Members of a group: test_io_members.c. */
#include "broker/io_broker.h"

/* ---- records ---- */

static const struct {
  const char *key, *value;
  int64_t timestamp, expected;
} rows[] = {
    {NULL, "v", 1000, 1000}, {"", "v", 1001, 1001},          {"k", NULL, 1002, 1002},
    {"k", "", 1003, 1003},   {NULL, NULL, 1004, 1004},       {"", "", 1005, 1005},
    {"k", "v", -1, -1},      {"k", "v", 0, 1 /* nearest */},
};
#define ROWS (sizeof rows / sizeof *rows)

static cj_bytes bytes_of(const char *text) {
  return text ? cj_bytes_str(text) : cj_bytes_null();
}

/* Cases 30 and 61: null, empty and negative come back as they went. */
static void null_empty_and_timestamps_survive(void **state) {
  (void)state;
  char topic[64];
  test_unique(topic, sizeof topic, "rows");
  test_create_topic(topic, 1, NULL);
  test_io t;
  test_init(&t, topic);
  test_open(&t, (const char *[]){topic}, 1, "rows", false);
  for (size_t i = 0; i < ROWS; i++)
    test_produce(&t, &(cj_io_output){.key = bytes_of(rows[i].key),
                                     .value = bytes_of(rows[i].value),
                                     .timestamp = rows[i].timestamp,
                                     .token = i});
  bool seen[ROWS] = {false};
  for (size_t n = 0; n < ROWS;) {
    cj_io_event event;
    test_await(&t, CJ_EV_DELIVERED, &event);
    for (size_t i = 0; i < event.delivery_count; i++, n++) {
      assert_int_equal(event.deliveries[i].code, CJ_IO_OK);
      assert_int_equal(event.deliveries[i].topic, 0);
      assert_false(seen[event.deliveries[i].token]);
      seen[event.deliveries[i].token] = true;
    }
  }
  test_ok(t.io->ops->assign(t.io, &(cj_io_offset){.offset = 0}, 1));
  cj_fetched entries[ROWS + 1];
  assert_int_equal(test_fetch(&t, (cj_tp){0, 0}, entries, ROWS + 1), ROWS + 1);
  for (size_t i = 0; i < ROWS; i++) {
    assert_int_equal(entries[i].kind, CJ_FETCHED_RECORD);
    assert_int_equal(entries[i].offset, i);
    assert_true(cj_bytes_equal(entries[i].key, bytes_of(rows[i].key)));
    assert_true(cj_bytes_equal(entries[i].value, bytes_of(rows[i].value)));
    assert_int_equal(entries[i].timestamp, rows[i].expected);
  }
  assert_int_equal(entries[ROWS].kind, CJ_FETCHED_EOF);
  assert_int_equal(entries[ROWS].offset, ROWS);
  t.io->ops->release(t.io, entries, ROWS + 1);
  test_end(&t);
}

/* Case 81: order, duplicates, null and empty header values are kept, and added ones follow. */
static void headers_pass_through(void **state) {
  (void)state;
  char topic[64];
  test_unique(topic, sizeof topic, "headers");
  test_create_topic(topic, 2, NULL);
  test_io t;
  test_init(&t, topic);
  test_open(&t, (const char *[]){topic}, 1, "headers", false);
  const cj_header first[] = {{"trace", cj_bytes_str("1")},
                             {"trace", cj_bytes_str("2")},
                             {"k", cj_bytes_null()},
                             {"e", cj_bytes_str("")}};
  test_produce(
      &t, &(cj_io_output){
              .value = cj_bytes_str("v"), .timestamp = 1, .headers = first, .header_count = 4});
  test_await_delivered(&t, 1);
  const cj_io_offset both[] = {{.tp = {0, 0}}, {.tp = {0, 1}}};
  test_ok(t.io->ops->assign(t.io, both, 2));
  cj_fetched from, to;
  assert_int_equal(test_fetch(&t, (cj_tp){0, 0}, &from, 1), 1);
  test_produce(&t, &(cj_io_output){.partition = 1,
                                   .value = cj_bytes_str("v"),
                                   .timestamp = 1,
                                   .headers_from = &from,
                                   .headers = &(cj_header){"added", cj_bytes_str("x")},
                                   .header_count = 1});
  do
    assert_int_equal(test_fetch(&t, (cj_tp){0, 1}, &to, 1), 1);
  while (to.kind == CJ_FETCHED_EOF);
  cj_header got[8];
  assert_int_equal(t.io->ops->headers(t.io, &to, NULL, 0), 5);
  assert_int_equal(t.io->ops->headers(t.io, &to, got, 8), 5);
  for (size_t i = 0; i < 4; i++) {
    assert_string_equal(got[i].name, first[i].name);
    assert_true(cj_bytes_equal(got[i].value, first[i].value));
  }
  assert_string_equal(got[4].name, "added");
  t.io->ops->release(t.io, &from, 1);
  t.io->ops->release(t.io, &to, 1);
  test_end(&t);
}

/* ---- assignment ---- */

/* Takes what has arrived, checking that it goes on where it stood. */
static int drain(test_io *t, int32_t partition, int64_t *position, size_t max) {
  cj_fetched entries[512];
  size_t got = t->io->ops->fetch(t->io, (cj_tp){0, partition}, entries, max < 512 ? max : 512);
  int records = 0;
  for (size_t i = 0; i < got; i++) {
    if (entries[i].kind == CJ_FETCHED_EOF) continue;
    assert_int_equal(entries[i].kind, CJ_FETCHED_RECORD);
    assert_int_equal(entries[i].offset, *position);
    assert_int_equal(test_number(entries[i].value), *position);
    ++*position;
    records++;
  }
  t->io->ops->release(t->io, entries, got);
  return records;
}

/* Several assignments within one generation, as tasks become ready; some rewind. Nothing may be
 * lost, doubled or stale: every partition goes on exactly at the offset that was given. */
static void assigning_again_continues_at_the_offsets(void **state) {
  (void)state;
  enum { PARTITIONS = 4, EACH = 50000, SHORT = 60 };
  char topic[64];
  test_unique(topic, sizeof topic, "again");
  test_create_topic(topic, PARTITIONS, NULL);
  test_io t;
  test_init(&t, topic);
  test_open(&t, (const char *[]){topic}, 1, "again", false);
  for (int p = 0; p < PARTITIONS; p++)
    test_fill(&t, 0, p, 0, EACH);
  cj_io_event event;
  test_join(&t, &event);
  assert_int_equal(event.count, PARTITIONS);
  test_answer(&t);

  int64_t position[PARTITIONS] = {0};
  int64_t rewound = 0, taken = 0;
  int cycles = 0;
  unsigned chance = 12345;
  for (;;) {
    cj_io_offset list[PARTITIONS];
    size_t count = 0;
    for (int p = 0; p < PARTITIONS; p++) {
      chance = chance * 1103515245u + 12345u;
      if (cycles < SHORT && cycles % 3 == 0 && p != cycles % 4) continue; /* a shorter list */
      int64_t back = (chance >> 20) % 2 && position[p] > 100 ? 100 : 0;
      position[p] -= back;
      rewound += back;
      list[count++] = (cj_io_offset){.tp = {0, p}, .offset = position[p]};
    }
    test_ok(t.io->ops->assign(t.io, list, count));
    int64_t until = test_now() + PATIENCE_MS;
    int64_t enough = cycles < SHORT ? taken + 200 + (int64_t)(chance >> 10) % 2000 : INT64_MAX;
    bool all = false;
    while (!all && taken < enough) {
      assert_true(test_now() < until);
      int got = 0;
      all = true;
      while (t.io->ops->poll(t.io, &event))
        assert_int_not_equal(event.kind, CJ_EV_REVOKE);
      for (size_t i = 0; i < count; i++)
        got += drain(&t, list[i].tp.partition, &position[list[i].tp.partition], 100);
      for (int p = 0; p < PARTITIONS; p++)
        all = all && position[p] == EACH;
      taken += got;
      if (!got && !all) t.io->ops->wait(t.io, 20);
    }
    cycles++;
    if (all) break;
  }
  assert_true(cycles > SHORT);
  assert_int_equal(taken, (int64_t)PARTITIONS * EACH + rewound);
  test_end(&t);
}

static void an_offset_outside_of_the_log_is_told(void **state) {
  (void)state;
  char topic[64];
  test_unique(topic, sizeof topic, "range");
  test_create_topic(topic, 1, NULL);
  test_io t;
  test_init(&t, topic);
  test_open(&t, (const char *[]){topic}, 1, "range", false);
  test_fill(&t, 0, 0, 0, 10);
  test_ok(t.io->ops->assign(t.io, &(cj_io_offset){.offset = 11}, 1));
  cj_fetched entry;
  assert_int_equal(test_fetch(&t, (cj_tp){0, 0}, &entry, 1), 1);
  assert_int_equal(entry.kind, CJ_FETCHED_ERROR);
  assert_int_equal(entry.code, CJ_IO_OUT_OF_RANGE);
  /* The end itself is in range. */
  test_ok(t.io->ops->assign(t.io, &(cj_io_offset){.offset = 10}, 1));
  assert_int_equal(test_fetch(&t, (cj_tp){0, 0}, &entry, 1), 1);
  assert_int_equal(entry.kind, CJ_FETCHED_EOF);
  assert_int_equal(entry.offset, 10);
  test_end(&t);
}

/* ---- requests ---- */

static void offsets_are_committed_and_read_back(void **state) {
  (void)state;
  char topic[64];
  test_unique(topic, sizeof topic, "commit");
  test_create_topic(topic, 3, NULL);
  test_io t, admin;
  test_init(&t, topic);
  test_open(&t, (const char *[]){topic}, 1, "commit", false);
  cj_io_event event;
  test_join(&t, &event);
  test_answer(&t);
  const cj_io_offset commit[] = {{.tp = {0, 2}, .offset = 7}, {.tp = {0, 0}, .offset = 0}};
  test_ask(&t, CJ_REQ_COMMIT, commit, 2, &event);
  const cj_io_offset ask[] = {{.tp = {0, 0}}, {.tp = {0, 1}}, {.tp = {0, 2}}};
  test_ask(&t, CJ_REQ_COMMITTED, ask, 3, &event);
  assert_int_equal(event.offset_count, 3);
  assert_int_equal(event.offsets[0].offset, 0);
  assert_int_equal(event.offsets[1].offset, CJ_OFFSET_NONE);
  assert_int_equal(event.offsets[1].code, CJ_IO_OK);
  assert_int_equal(event.offsets[2].offset, 7);
  test_ask(&t, CJ_REQ_COMMIT, NULL, 0, &event);
  test_init(&admin, topic);
  test_open(&admin, (const char *[]){topic}, 1, "admin", true);
  test_ask(&admin, CJ_REQ_COMMITTED, ask, 3, &event);
  assert_int_equal(event.offsets[2].offset, 7);
  test_end(&admin);
  test_end(&t);
}

static void no_member_commits_nothing(void **state) {
  (void)state;
  char topic[64];
  test_unique(topic, sizeof topic, "stranger");
  test_create_topic(topic, 1, NULL);
  test_io t, other;
  cj_io_event event;
  test_init(&t, topic);
  test_open(&t, (const char *[]){topic}, 1, "member", false);
  test_join(&t, &event);
  test_answer(&t);
  test_init(&other, topic);
  test_open(&other, (const char *[]){topic}, 1, "stranger", false);
  test_ask_for(&other, CJ_REQ_COMMIT, &(cj_io_offset){.offset = 5}, 1, &event, 10000);
  assert_true(event.code == CJ_IO_UNKNOWN_MEMBER || event.code == CJ_IO_ILLEGAL_GENERATION);
  test_end(&other);
  test_end(&t);
}

static void delete_before(const char *topic, int64_t offset) {
  rd_kafka_t *client = test_client(RD_KAFKA_PRODUCER, NULL);
  rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
  rd_kafka_topic_partition_list_add(list, topic, 0)->offset = offset;
  rd_kafka_DeleteRecords_t *records = rd_kafka_DeleteRecords_new(list);
  rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
  rd_kafka_DeleteRecords(client, &records, 1, NULL, queue);
  rd_kafka_event_t *event = rd_kafka_queue_poll(queue, PATIENCE_MS);
  assert_non_null(event);
  assert_int_equal(rd_kafka_event_error(event), 0);
  rd_kafka_event_destroy(event);
  rd_kafka_DeleteRecords_destroy(records);
  rd_kafka_topic_partition_list_destroy(list);
  rd_kafka_queue_destroy(queue);
  rd_kafka_destroy(client);
}

static void bounds_and_ends_are_those_of_the_log(void **state) {
  (void)state;
  char topic[64], other[64];
  test_unique(topic, sizeof topic, "bounds");
  test_unique(other, sizeof other, "bounds");
  test_create_topic(topic, 2, NULL);
  test_create_topic(other, 1, NULL);
  test_io t;
  test_init(&t, topic);
  test_open(&t, (const char *[]){topic, other}, 2, "bounds", false);
  test_fill(&t, 0, 0, 0, 20);
  test_fill(&t, 1, 0, 0, 3);
  delete_before(topic, 8);
  const cj_io_offset ask[] = {{.tp = {0, 0}}, {.tp = {1, 0}}, {.tp = {0, 1}}};
  cj_io_event event;
  test_ask(&t, CJ_REQ_BOUNDS, ask, 3, &event);
  assert_int_equal(event.offsets[0].start, 8);
  assert_int_equal(event.offsets[0].offset, 20);
  assert_int_equal(event.offsets[1].start, 0);
  assert_int_equal(event.offsets[1].offset, 3);
  assert_int_equal(event.offsets[2].start, 0);
  assert_int_equal(event.offsets[2].offset, 0);
  /* Many at once are merged; each has its own answer. */
  for (int i = 0; i < 50; i++) {
    const cj_io_offset one[] = {{.tp = {i % 2, 0}}, {.tp = {0, 1}}};
    test_submit(&t, CJ_REQ_ENDS, one, 1 + (size_t)(i % 3 == 0), 10000);
  }
  for (int i = 0; i < 50; i++) {
    test_await(&t, CJ_EV_DONE, &event);
    assert_int_equal(event.code, CJ_IO_OK);
    assert_int_equal(event.offsets[0].offset, event.offsets[0].tp.topic ? 3 : 20);
    if (event.offset_count == 2) assert_int_equal(event.offsets[1].offset, 0);
  }
  /* One that does not exist fails its asker only. */
  uint64_t bad = test_submit(&t, CJ_REQ_ENDS, &(cj_io_offset){.tp = {1, 77}}, 1, 10000);
  test_submit(&t, CJ_REQ_ENDS, &(cj_io_offset){.tp = {1, 0}}, 1, 10000);
  for (int i = 0; i < 2; i++) {
    test_await(&t, CJ_EV_DONE, &event);
    if (event.id == bad) {
      assert_int_not_equal(event.code, CJ_IO_OK);
      assert_int_equal(event.offsets[0].offset < 0 || event.offsets[0].code != CJ_IO_OK, 1);
    } else {
      assert_int_equal(event.code, CJ_IO_OK);
      assert_int_equal(event.offsets[0].offset, 3);
    }
  }
  test_end(&t);
}

/* Case 52: what a reader of committed records can reach ends before the open transaction. */
static void read_committed_ends_at_the_last_stable_offset(void **state) {
  (void)state;
  char topic[64];
  test_unique(topic, sizeof topic, "stable");
  test_create_topic(topic, 1, NULL);
  rd_kafka_t *open =
      test_client(RD_KAFKA_PRODUCER, (const char *[]){"transactional.id", topic, NULL});
  assert_null(rd_kafka_init_transactions(open, PATIENCE_MS));
  assert_null(rd_kafka_begin_transaction(open));
  assert_int_equal(rd_kafka_producev(open, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(0),
                                     RD_KAFKA_V_VALUE("x", 1), RD_KAFKA_V_END),
                   0);
  assert_int_equal(rd_kafka_flush(open, PATIENCE_MS), 0);
  for (int committed = 0; committed < 2; committed++) {
    test_io t;
    cj_io_event event;
    test_init(&t, topic);
    t.settings.read_committed = committed;
    test_open(&t, (const char *[]){topic}, 1, "stable", false);
    if (!committed) test_fill(&t, 0, 0, 0, 4);
    test_ask(&t, CJ_REQ_ENDS, &(cj_io_offset){.offset = 0}, 1, &event);
    assert_int_equal(event.offsets[0].offset, committed ? 0 : 5);
    test_ask(&t, CJ_REQ_BOUNDS, &(cj_io_offset){.offset = 0}, 1, &event);
    assert_int_equal(event.offsets[0].offset, committed ? 0 : 5);
    test_end(&t);
  }
  assert_null(rd_kafka_commit_transaction(open, PATIENCE_MS));
  test_io t;
  cj_io_event event;
  test_init(&t, topic);
  t.settings.read_committed = true;
  test_open(&t, (const char *[]){topic}, 1, "stable", false);
  /* The marker is written after the commit was answered. */
  int64_t until = test_now() + PATIENCE_MS;
  do
    test_ask(&t, CJ_REQ_ENDS, &(cj_io_offset){.offset = 0}, 1, &event);
  while (event.offsets[0].offset != 6 && test_now() < until);
  assert_int_equal(event.offsets[0].offset, 6);
  /* Case 45: the marker at the end is no record; the end-of-partition mark is past it. */
  test_ok(t.io->ops->assign(t.io, &(cj_io_offset){.offset = 0}, 1));
  cj_fetched entries[6];
  assert_int_equal(test_fetch(&t, (cj_tp){0, 0}, entries, 6), 6);
  assert_int_equal(entries[4].offset, 4);
  assert_int_equal(entries[5].kind, CJ_FETCHED_EOF);
  assert_int_equal(entries[5].offset, 6);
  t.io->ops->release(t.io, entries, 6);
  test_end(&t);
  rd_kafka_destroy(open);
}

static bool has_topic(const cj_io_event *event, const char *name, int32_t *partitions) {
  for (size_t i = 0; i < event->topic_count; i++) {
    if (strcmp(event->topics[i].name, name) != 0) continue;
    *partitions = event->topics[i].partitions;
    return event->topics[i].code == CJ_IO_OK;
  }
  return false;
}

/* Case 35: nothing that is asked or subscribed creates a topic, on a broker that would create it.
 */
static void metadata_never_creates_a_topic(void **state) {
  (void)state;
  char topic[64], missing[64];
  test_unique(topic, sizeof topic, "meta");
  test_unique(missing, sizeof missing, "missing");
  test_create_topic(topic, 5, NULL);
  test_io t, admin;
  cj_io_event event;
  int32_t partitions;
  test_init(&t, topic);
  test_open(&t, (const char *[]){topic, missing}, 2, "meta", false);
  test_init(&admin, topic);
  test_open(&admin, (const char *[]){topic, missing}, 2, "admin", true);
  test_join(&t, &event);
  test_answer(&t);
  test_ask_for(&t, CJ_REQ_ENDS, &(cj_io_offset){.tp = {1, 0}}, 1, &event, 2000);
  assert_int_not_equal(event.code, CJ_IO_OK);
  test_ask_for(&admin, CJ_REQ_BOUNDS, &(cj_io_offset){.tp = {1, 0}}, 1, &event, 2000);
  assert_int_not_equal(event.code, CJ_IO_OK);
  t.io->ops->produce(t.io, &(cj_io_output){.topic = 1, .value = cj_bytes_str("x"), .timestamp = 1});
  for (int i = 0; i < 3; i++) {
    test_io *asked = i % 2 ? &t : &admin;
    test_ask(asked, CJ_REQ_METADATA, NULL, 0, &event);
    assert_true(has_topic(&event, topic, &partitions));
    assert_int_equal(partitions, 5);
    assert_false(has_topic(&event, missing, &partitions));
    assert_true(strlen(event.cluster_id) > 0);
  }
  test_end(&admin);
  test_end(&t);
}

/* ---- outputs that cannot be ---- */

static void outputs_that_fail_say_why(void **state) {
  (void)state;
  char topic[64];
  test_unique(topic, sizeof topic, "toolarge");
  test_create_topic(topic, 1, (const char *[]){"max.message.bytes", "5000", NULL});
  test_io t;
  test_init(&t, topic);
  test_property(&t, "message.max.bytes", "100000");
  test_open(&t, (const char *[]){topic}, 1, "toolarge", false);
  char *big = calloc(1, 200000);
  cj_io_output output = {.value = {big, 200000}, .timestamp = 1, .token = 1};
  assert_int_equal(t.io->ops->produce(t.io, &output), CJ_IO_TOO_LARGE);
  output.value.len = 50000;
  test_produce(&t, &output);
  cj_io_event event;
  test_await(&t, CJ_EV_DELIVERED, &event);
  assert_int_equal(event.delivery_count, 1);
  assert_int_equal(event.deliveries[0].code, CJ_IO_TOO_LARGE);
  free(big);
  test_end(&t);
}

static void a_full_queue_is_told_and_empties(void **state) {
  (void)state;
  char topic[64];
  test_unique(topic, sizeof topic, "full");
  test_create_topic(topic, 1, NULL);
  test_io t;
  test_init(&t, topic);
  test_property(&t, "queue.buffering.max.messages", "10");
  test_open(&t, (const char *[]){topic}, 1, "full", false);
  size_t accepted = 0, delivered = 0, refused = 0;
  while (accepted < 1000) {
    const cj_io_output output = {.value = cj_bytes_str("v"), .timestamp = 1, .token = accepted};
    cj_io_code code = t.io->ops->produce(t.io, &output);
    if (code == CJ_IO_OK) {
      accepted++;
      continue;
    }
    assert_int_equal(code, CJ_IO_QUEUE_FULL);
    refused++;
    cj_io_event event;
    test_await(&t, CJ_EV_DELIVERED, &event);
    for (size_t i = 0; i < event.delivery_count; i++)
      assert_int_equal(event.deliveries[i].token, delivered++);
  }
  assert_true(refused > 0);
  test_await_delivered(&t, accepted - delivered);
  test_end(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(null_empty_and_timestamps_survive),
      cmocka_unit_test(headers_pass_through),
      cmocka_unit_test(assigning_again_continues_at_the_offsets),
      cmocka_unit_test(an_offset_outside_of_the_log_is_told),
      cmocka_unit_test(offsets_are_committed_and_read_back),
      cmocka_unit_test(no_member_commits_nothing),
      cmocka_unit_test(bounds_and_ends_are_those_of_the_log),
      cmocka_unit_test(read_committed_ends_at_the_last_stable_offset),
      cmocka_unit_test(metadata_never_creates_a_topic),
      cmocka_unit_test(outputs_that_fail_say_why),
      cmocka_unit_test(a_full_queue_is_told_and_empties),
  };
  return test_main_on_broker(tests, sizeof tests / sizeof *tests, "test_io_rdkafka");
}
