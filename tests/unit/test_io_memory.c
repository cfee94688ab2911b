/* SPDX-License-Identifier: BSD-2-Clause */
/* The twin of the seam: requests, faults, records up and down have to be as librdkafka 2.0.2 and
 * Kafka 4.2.0 were seen to have them. */
#include "lib/memory_member.h"

/* ---- requests ---- */

static void a_commit_is_read_back(void **state) {
  (void)state;
  cj_world *world = world_new(1);
  member m = {.io = io_new(world, "a", CJ_ASSIGN_RANGE)};
  assert_null(m.io->ops->subscribe(m.io));
  settle(&m, 1);
  ask(&m, CJ_REQ_COMMITTED, &at_seven, 1);
  settle(&m, 1);
  assert_int_equal(CJ_OFFSET_NONE, m.offsets[0].offset);
  ask(&m, CJ_REQ_COMMIT, &at_seven, 1);
  settle(&m, 1);
  assert_int_equal(CJ_IO_OK, m.done);
  ask(&m, CJ_REQ_COMMITTED, &at_seven, 1);
  settle(&m, 1);
  assert_int_equal(7, m.offsets[0].offset);
  end(&m, 1, world);
}

static void requests_and_faults(void **state) {
  (void)state;
  cj_world *world = world_new(2);
  member m = {.io = admin_new(world)};
  cj_world_group *group = cj_world_group_of(world, "app");
  const cj_world_fault refused = {
      .kind = CJ_REQ_COMMIT, .effect = CJ_FAULT_REFUSE, .code = CJ_IO_RETRIABLE, .times = 1};
  const cj_world_fault untold = {
      .kind = CJ_REQ_COMMIT, .effect = CJ_FAULT_DONE_UNTOLD, .code = CJ_IO_TIMED_OUT, .times = 1};
  const cj_world_fault hangs = {
      .kind = CJ_REQ_COMMIT, .effect = CJ_FAULT_HANG, .delay_ms = 400, .times = 1};
  const cj_world_fault hangs_for_long = {
      .kind = CJ_REQ_COMMIT, .effect = CJ_FAULT_HANG, .delay_ms = 4000, .times = 1};
  cj_world_fault_add(world, &refused);
  cj_world_fault_add(world, &untold);
  cj_world_fault_add(world, &hangs);
  cj_world_fault_add(world, &hangs_for_long);

  ask(&m, CJ_REQ_COMMIT, &at_seven, 1);
  settle(&m, 1);
  assert_int_equal(CJ_IO_RETRIABLE, m.done);
  assert_int_equal(CJ_OFFSET_NONE, cj_group_committed(group, "notif", 0));

  ask(&m, CJ_REQ_COMMIT, &at_seven, 1);
  settle(&m, 1);
  assert_int_equal(CJ_IO_TIMED_OUT, m.done);
  assert_int_equal(7, cj_group_committed(group, "notif", 0));

  const cj_io_offset at_eight = {.tp = {NOTIF, 0}, .offset = 8};
  ask(&m, CJ_REQ_COMMIT, &at_eight, 1);
  settle(&m, 1);
  assert_int_equal(2, m.dones);
  assert_int_equal(400, cj_world_deadline(world) - cj_world_monotonic(world));
  cj_world_advance(world, 400);
  settle(&m, 1);
  assert_int_equal(CJ_IO_OK, m.done);
  assert_int_equal(8, cj_group_committed(group, "notif", 0));

  ask(&m, CJ_REQ_COMMIT, &at_seven, 1);
  cj_world_advance(world, 1000);
  settle(&m, 1);
  assert_int_equal(CJ_IO_TIMED_OUT, m.done);
  assert_int_equal(8, cj_group_committed(group, "notif", 0));
  end(&m, 1, world);
}

static void bounds_of_what_exists_and_what_does_not(void **state) {
  (void)state;
  cj_world *world = world_new(1);
  cj_world_partition *price = cj_world_partition_of(cj_world_topic_find(world, "price"), 0);
  cj_world_gap(price, 20);
  cj_world_delete_before(price, 12);
  member m = {.io = admin_new(world)};
  const cj_io_offset list[] = {{.tp = {PRICE, 0}}, {.tp = {PRICE, 1}}};
  ask(&m, CJ_REQ_BOUNDS, list, 2);
  settle(&m, 1);
  assert_int_equal(CJ_IO_OK, m.done);
  assert_int_equal(12, m.offsets[0].start);
  assert_int_equal(20, m.offsets[0].offset);
  assert_int_equal(CJ_IO_UNKNOWN_TOPIC, m.offsets[1].code);
  end(&m, 1, world);
}

static void metadata_and_group(void **state) {
  (void)state;
  cj_world *world = world_new(3);
  member m[2] = {{.io = io_new(world, "a", CJ_ASSIGN_RANGE)}, {.io = admin_new(world)}};
  assert_null(m[0].io->ops->subscribe(m[0].io));
  settle(m, 2);
  const cj_io_request metadata = {.id = 1, .kind = CJ_REQ_METADATA, .timeout_ms = 10};
  const cj_io_request describe = {.id = 2, .kind = CJ_REQ_GROUP, .timeout_ms = 10};
  assert_null(m[1].io->ops->submit(m[1].io, &metadata));
  assert_null(m[1].io->ops->submit(m[1].io, &describe));
  cj_io_event event;
  assert_true(m[1].io->ops->poll(m[1].io, &event));
  assert_int_equal(1, event.id);
  assert_int_equal(3, event.topic_count);
  assert_string_equal("notif", event.topics[0].name);
  assert_int_equal(3, event.topics[0].partitions);
  assert_true(m[1].io->ops->poll(m[1].io, &event));
  assert_string_equal("Stable", event.group_state);
  assert_string_equal("range", event.group_protocol);
  assert_int_equal(1, event.member_count);
  assert_string_equal("a", event.members[0].client_id);
  assert_int_equal(2, event.members[0].topic_count);
  assert_null(cj_world_topic_find(world, "nowhere")); /* asking makes no topic */
  end(m, 2, world);
}

static void an_admin_waits_until_its_deadline(void **state) {
  (void)state;
  cj_world *world = world_new(1);
  member m = {.io = admin_new(world)};
  cj_world_set_down(world, true);
  ask(&m, CJ_REQ_COMMITTED, &at_seven, 1);
  int64_t start = m.io->ops->now(m.io);
  for (int i = 0; i < 100 && !serve(&m); i++)
    m.io->ops->wait(m.io, 50);
  assert_int_equal(1, m.dones);
  assert_int_equal(CJ_IO_TIMED_OUT, m.done);
  assert_int_equal(1000, m.io->ops->now(m.io) - start);
  end(&m, 1, world);
}

/* ---- records ---- */

static void put(cj_world *world, const char *topic, int32_t partition, const char *key,
                const char *value) {
  const cj_header header = {"h", cj_bytes_null()};
  const cj_world_record record = {.key = cj_bytes_str(key),
                                  .value = cj_bytes_str(value),
                                  .timestamp = 10,
                                  .headers = (cj_header[]){header, header},
                                  .header_count = 2};
  cj_world_append(cj_world_partition_of(cj_world_topic_find(world, topic), partition), &record);
}

static const cj_tp price0 = {PRICE, 0};

static void start_at(cj_io *io, int64_t offset) {
  const cj_io_offset from = {.tp = price0, .offset = offset};
  assert_null(io->ops->assign(io, &from, 1));
}

static void fetch_goes_over_holes_and_tells_the_end_once(void **state) {
  (void)state;
  cj_world *world = world_new(1);
  cj_io *io = io_new(world, "a", CJ_ASSIGN_RANGE);
  cj_world_partition *price = cj_world_partition_of(cj_world_topic_find(world, "price"), 0);
  cj_world_gap(price, 3);
  put(world, "price", 0, "k", "");
  cj_world_gap(price, 2);
  put(world, "price", 0, NULL, NULL);
  cj_world_gap(price, 1);
  start_at(io, 0);
  cj_fetched out[8];
  assert_int_equal(3, io->ops->fetch(io, price0, out, 8));
  assert_int_equal(3, out[0].offset);
  assert_true(out[0].value.data != NULL && out[0].value.len == 0);
  assert_int_equal(6, out[1].offset);
  assert_null(out[1].key.data);
  assert_null(out[1].value.data);
  cj_header headers[1];
  assert_int_equal(2, io->ops->headers(io, &out[0], headers, 1));
  assert_string_equal("h", headers[0].name);
  assert_int_equal(CJ_FETCHED_EOF, out[2].kind);
  assert_int_equal(8, out[2].offset);
  assert_int_equal(0, io->ops->fetch(io, price0, out + 3, 1));
  io->ops->release(io, out, 3);
  put(world, "price", 0, "k", "v");
  assert_int_equal(2, io->ops->fetch(io, price0, out, 8));
  assert_int_equal(8, out[0].offset);
  assert_int_equal(9, out[1].offset);
  io->ops->release(io, out, 2);
  /* Assigned anew it starts anew. */
  start_at(io, 8);
  assert_int_equal(2, io->ops->fetch(io, price0, out, 8));
  io->ops->release(io, out, 2);
  io->ops->destroy(io);
  cj_world_destroy(world);
}

static void fetch_out_of_range_tells_so_and_stops(void **state) {
  (void)state;
  cj_world *world = world_new(1);
  cj_io *io = io_new(world, "a", CJ_ASSIGN_RANGE);
  cj_world_partition *price = cj_world_partition_of(cj_world_topic_find(world, "price"), 0);
  for (int i = 0; i < 4; i++)
    put(world, "price", 0, "k", "v");
  cj_fetched out[8];
  start_at(io, 5);
  assert_int_equal(1, io->ops->fetch(io, price0, out, 8));
  assert_int_equal(CJ_FETCHED_ERROR, out[0].kind);
  assert_int_equal(CJ_IO_OUT_OF_RANGE, out[0].code);
  assert_int_equal(0, io->ops->fetch(io, price0, out, 8));
  cj_world_delete_before(price, 2);
  start_at(io, 0);
  assert_int_equal(1, io->ops->fetch(io, price0, out, 8));
  assert_int_equal(CJ_IO_OUT_OF_RANGE, out[0].code);
  start_at(io, 2);
  assert_int_equal(3, io->ops->fetch(io, price0, out, 8));
  io->ops->release(io, out, 3);
  /* The blind spot of case 55: a log that grew past the position again looks untouched. */
  cj_world_truncate(price, 3);
  put(world, "price", 0, "k", "other");
  put(world, "price", 0, "k", "later");
  assert_int_equal(2, io->ops->fetch(io, price0, out, 8));
  assert_int_equal(4, out[0].offset);
  io->ops->release(io, out, 2);
  io->ops->destroy(io);
  cj_world_destroy(world);
}

static void compaction_keeps_the_last_of_each_key(void **state) {
  (void)state;
  cj_world *world = world_new(1);
  cj_world_partition *price = cj_world_partition_of(cj_world_topic_find(world, "price"), 0);
  put(world, "price", 0, "a", "1");
  put(world, "price", 0, "b", "1");
  put(world, "price", 0, "a", "2");
  put(world, "price", 0, "b", NULL);
  cj_world_compact(price);
  assert_int_equal(2, cj_world_record_at(price, 0)->offset);
  assert_null(cj_world_record_at(price, 3));
  assert_int_equal(4, price->end);
  cj_world_destroy(world);
}

static cj_io_code produce(cj_io *io, const char *value, uint64_t token) {
  const cj_io_output output = {
      .topic = OUT, .key = cj_bytes_str("k"), .value = cj_bytes_str(value), .token = token};
  return io->ops->produce(io, &output);
}

static void outputs_are_acknowledged_at_the_next_poll(void **state) {
  (void)state;
  cj_world *world = world_new(1);
  cj_io *io = io_new(world, "a", CJ_ASSIGN_RANGE);
  cj_world_topic *topic = cj_world_topic_find(world, "out");
  const cj_world_partition *out = cj_world_partition_of(topic, 0);
  cj_io_event event;
  topic->refuse_next = 1;
  topic->refuse_code = CJ_IO_TOO_LARGE;
  assert_int_equal(CJ_IO_OK, produce(io, "one", 11));
  assert_int_equal(CJ_IO_OK, produce(io, "two", 12));
  assert_int_equal(CJ_IO_QUEUE_FULL, produce(io, "three", 13));
  assert_int_equal(0, out->all_count);
  assert_true(io->ops->poll(io, &event));
  assert_int_equal(CJ_EV_DELIVERED, event.kind);
  assert_int_equal(2, event.delivery_count);
  assert_int_equal(11, event.deliveries[0].token);
  assert_int_equal(CJ_IO_TOO_LARGE, event.deliveries[0].code);
  assert_int_equal(12, event.deliveries[1].token);
  assert_int_equal(CJ_IO_OK, event.deliveries[1].code);
  assert_int_equal(1, out->all_count);
  assert_true(cj_bytes_equal(cj_bytes_str("two"), out->all[0]->value));

  char large[128];
  memset(large, 'x', sizeof large - 1);
  large[sizeof large - 1] = 0;
  assert_int_equal(CJ_IO_TOO_LARGE, produce(io, large, 14));
  const cj_io_output nowhere = {.topic = OUT, .partition = 1};
  assert_int_equal(CJ_IO_UNKNOWN_TOPIC, io->ops->produce(io, &nowhere));

  /* What was not acknowledged dies with the member. */
  assert_int_equal(CJ_IO_OK, produce(io, "four", 15));
  cj_io_memory_crash(io);
  assert_false(io->ops->poll(io, &event));
  io->ops->destroy(io);
  assert_int_equal(1, out->all_count);
  cj_world_destroy(world);
}

static void outputs_wait_for_brokers_until_they_expire(void **state) {
  (void)state;
  cj_world *world = world_new(1);
  cj_io *io = io_new(world, "a", CJ_ASSIGN_RANGE);
  const cj_world_partition *out = cj_world_partition_of(cj_world_topic_find(world, "out"), 0);
  cj_io_event event;
  cj_world_set_down(world, true);
  assert_int_equal(CJ_IO_OK, produce(io, "late", 1));
  assert_false(io->ops->poll(io, &event));
  cj_world_advance(world, 2999);
  assert_false(io->ops->poll(io, &event));
  cj_world_advance(world, 1);
  assert_true(io->ops->poll(io, &event));
  assert_int_equal(CJ_IO_TIMED_OUT, event.deliveries[0].code);
  assert_int_equal(CJ_IO_OK, produce(io, "in time", 2));
  cj_world_set_down(world, false);
  assert_true(io->ops->poll(io, &event));
  assert_int_equal(CJ_IO_OK, event.deliveries[0].code);
  assert_int_equal(1, out->all_count);
  io->ops->destroy(io);
  cj_world_destroy(world);
}

static void a_fetched_record_passes_its_headers_on(void **state) {
  (void)state;
  cj_world *world = world_new(1);
  cj_io *io = io_new(world, "a", CJ_ASSIGN_RANGE);
  put(world, "price", 0, "k", "v");
  start_at(io, 0);
  cj_fetched record;
  assert_int_equal(1, io->ops->fetch(io, price0, &record, 1));
  const cj_header added = {"why", cj_bytes_str("because")};
  const cj_io_output output = {
      .topic = OUT, .headers_from = &record, .headers = &added, .header_count = 1};
  assert_int_equal(CJ_IO_OK, io->ops->produce(io, &output));
  io->ops->release(io, &record, 1);
  cj_io_event event;
  assert_true(io->ops->poll(io, &event));
  const cj_world_record *got = cj_world_partition_of(cj_world_topic_find(world, "out"), 0)->all[0];
  assert_int_equal(3, got->header_count);
  assert_string_equal("h", got->headers[0].name);
  assert_null(got->headers[1].value.data);
  assert_string_equal("why", got->headers[2].name);
  io->ops->destroy(io);
  cj_world_destroy(world);
}

static void incremental_calls_refuse_as_librdkafka_does(void **state) {
  (void)state;
  cj_world *world = world_new(2);
  const cj_io_offset list[] = {{.tp = {PRICE, 0}}, {.tp = {PRICE, 1}}};
  const cj_tp gone[] = {{PRICE, 0}, {PRICE, 1}};
  cj_io *eager = io_new(world, "a", CJ_ASSIGN_RANGE);
  cj_error *error = eager->ops->assign_add(eager, list, 1);
  assert_int_equal(CJ_ERR_STATE, cj_error_code(error));
  cj_error_destroy(error);
  eager->ops->destroy(eager);

  cj_io *io = io_new(world, "b", CJ_ASSIGN_STICKY);
  assert_null(io->ops->assign_add(io, list, 1));
  error = io->ops->assign_add(io, list, 2);
  assert_non_null(strstr(cj_error_message(error), "_CONFLICT"));
  cj_error_destroy(error);
  error = io->ops->assign_remove(io, gone, 2);
  assert_non_null(strstr(cj_error_message(error), "_INVALID_ARG"));
  cj_error_destroy(error);
  cj_fetched out;
  assert_int_equal(1, io->ops->fetch(io, price0, &out, 1)); /* still there: nothing was applied */
  assert_null(io->ops->assign_remove(io, gone, 1));
  assert_int_equal(0, io->ops->fetch(io, price0, &out, 1));
  io->ops->destroy(io);
  cj_world_destroy(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_commit_is_read_back),
      cmocka_unit_test(requests_and_faults),
      cmocka_unit_test(bounds_of_what_exists_and_what_does_not),
      cmocka_unit_test(metadata_and_group),
      cmocka_unit_test(an_admin_waits_until_its_deadline),
      cmocka_unit_test(fetch_goes_over_holes_and_tells_the_end_once),
      cmocka_unit_test(fetch_out_of_range_tells_so_and_stops),
      cmocka_unit_test(compaction_keeps_the_last_of_each_key),
      cmocka_unit_test(outputs_are_acknowledged_at_the_next_poll),
      cmocka_unit_test(outputs_wait_for_brokers_until_they_expire),
      cmocka_unit_test(a_fetched_record_passes_its_headers_on),
      cmocka_unit_test(incremental_calls_refuse_as_librdkafka_does),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
