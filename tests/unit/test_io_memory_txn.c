/* SPDX-License-Identifier: BSD-2-Clause */
/* Transactions in the world in memory: what a reader sees, what is fenced, what is unclear. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "testing/io_memory.h"

enum { IN, OUT, TOPICS };
static const cj_io_setup_topic topics[TOPICS] = {[IN] = {"in", true}, [OUT] = {"out", false}};
static const cj_tp out0 = {OUT, 0};

typedef struct {
  cj_world *world;
  cj_io *io, *other;
} fixture;

static cj_io *io_new(cj_world *world, const char *client_id, const char *transactional_id) {
  const cj_settings settings = {.application_id = "app"};
  const cj_io_setup setup = {.settings = &settings,
                             .topics = topics,
                             .topic_count = TOPICS,
                             .client_id = client_id,
                             .read_committed = true,
                             .transactional_id = transactional_id};
  cj_io *io;
  assert_null(cj_io_memory_new(world, &setup, &io));
  return io;
}

static void serve(cj_io *io) {
  cj_io_event event;
  while (io->ops->poll(io, &event))
    if (event.kind == CJ_EV_ASSIGN || event.kind == CJ_EV_REVOKE)
      assert_null(io->ops->assign(io, NULL, 0));
}

/* A member of the group with a transactional producer, and another reader. */
static fixture begin(void) {
  fixture f = {.world = cj_world_new()};
  cj_world_topic_make(f.world, "in", 1);
  cj_world_topic_make(f.world, "out", 1);
  f.io = io_new(f.world, "a", "txn-a");
  f.other = io_new(f.world, "b", "txn-b");
  assert_null(f.io->ops->subscribe(f.io));
  serve(f.io);
  return f;
}

static void end(fixture *f) {
  f->io->ops->destroy(f->io);
  f->other->ops->destroy(f->other);
  cj_world_destroy(f->world);
}

typedef struct {
  bool done;
  cj_io_code code, delivered;
  size_t deliveries;
} outcome;

/* Polls until there is nothing more. */
static outcome collect(cj_io *io) {
  outcome o = {0};
  cj_io_event event;
  while (io->ops->poll(io, &event)) {
    if (event.kind == CJ_EV_DONE) {
      o.done = true;
      o.code = event.code;
    } else if (event.kind == CJ_EV_DELIVERED) {
      o.deliveries += event.delivery_count;
      o.delivered = event.deliveries[0].code;
      assert_int_equal(OUT, event.deliveries[0].topic);
    }
  }
  return o;
}

static void submit(cj_io *io, cj_io_request_kind kind, int64_t offset) {
  static uint64_t id;
  const cj_io_offset position = {.tp = {IN, 0}, .offset = offset};
  const cj_io_request request = {.id = ++id,
                                 .kind = kind,
                                 .list = &position,
                                 .count = kind == CJ_REQ_TXN_COMMIT,
                                 .timeout_ms = 1000};
  assert_null(io->ops->submit(io, &request));
}

static cj_io_code ask(cj_io *io, cj_io_request_kind kind, int64_t offset) {
  submit(io, kind, offset);
  outcome o = collect(io);
  assert_true(o.done);
  return o.code;
}

static void produce(cj_io *io, const char *value) {
  const cj_io_output output = {.topic = OUT, .value = cj_bytes_str(value)};
  assert_int_equal(CJ_IO_OK, io->ops->produce(io, &output));
}

/* What a new reader of `out` gets: values, and "$" for the end with its offset. */
static void reads(cj_io *io, const char *values, int64_t end_offset) {
  const cj_io_offset start = {.tp = out0};
  char got[64] = "";
  int64_t eof = -1;
  assert_null(io->ops->assign(io, &start, 1));
  cj_fetched entry;
  while (io->ops->fetch(io, out0, &entry, 1)) {
    if (entry.kind == CJ_FETCHED_EOF)
      eof = entry.offset;
    else
      strncat(got, entry.value.data, entry.value.len);
    io->ops->release(io, &entry, 1);
  }
  assert_null(io->ops->assign(io, NULL, 0));
  assert_string_equal(values, got);
  assert_int_equal(end_offset, eof);
}

static int64_t committed(const fixture *f) {
  return cj_group_committed(cj_world_group_of(f->world, "app"), "in", 0);
}

static void a_commit_shows_outputs_and_offsets_at_once(void **state) {
  (void)state;
  fixture f = begin();
  assert_int_equal(CJ_IO_OK, ask(f.io, CJ_REQ_TXN_INIT, 0));
  produce(f.io, "x");
  assert_int_equal(1, collect(f.io).deliveries);
  reads(f.other, "", 0);
  assert_int_equal(CJ_OFFSET_NONE, committed(&f));
  assert_int_equal(CJ_IO_OK, ask(f.io, CJ_REQ_TXN_COMMIT, 7));
  reads(f.other, "x", 2); /* the marker is at 1 */
  assert_int_equal(7, committed(&f));
  end(&f);
}

static void an_abort_shows_neither(void **state) {
  (void)state;
  fixture f = begin();
  ask(f.io, CJ_REQ_TXN_INIT, 0);
  produce(f.io, "x");
  collect(f.io);
  produce(f.io, "y");
  submit(f.io, CJ_REQ_TXN_ABORT, 0);
  cj_world_partition_of(cj_world_topic_find(f.world, "out"), 0)->held = true;
  outcome o = collect(f.io);
  assert_int_equal(CJ_IO_OK, o.code);
  assert_int_equal(CJ_IO_PURGED, o.delivered); /* y was not delivered yet */
  cj_world_partition_of(cj_world_topic_find(f.world, "out"), 0)->held = false;
  reads(f.other, "", 2);
  assert_int_equal(CJ_OFFSET_NONE, committed(&f));
  produce(f.io, "z");
  assert_int_equal(CJ_IO_OK, ask(f.io, CJ_REQ_TXN_COMMIT, 3));
  reads(f.other, "z", 4);
  end(&f);
}

static void a_commit_waits_for_its_outputs(void **state) {
  (void)state;
  fixture f = begin();
  ask(f.io, CJ_REQ_TXN_INIT, 0);
  cj_world_partition *out = cj_world_partition_of(cj_world_topic_find(f.world, "out"), 0);
  out->held = true;
  produce(f.io, "x");
  submit(f.io, CJ_REQ_TXN_COMMIT, 7);
  assert_false(collect(f.io).done);
  out->held = false;
  outcome o = collect(f.io);
  assert_true(o.done && o.code == CJ_IO_OK && o.deliveries == 1);
  out->held = true;
  produce(f.io, "y");
  submit(f.io, CJ_REQ_TXN_COMMIT, 8);
  cj_world_advance(f.world, 1000);
  assert_int_equal(CJ_IO_TIMED_OUT, collect(f.io).code);
  assert_int_equal(7, committed(&f));
  end(&f);
}

static void another_generation_or_a_failed_output_cannot_commit(void **state) {
  (void)state;
  fixture f = begin();
  ask(f.io, CJ_REQ_TXN_INIT, 0);
  cj_world_topic_find(f.world, "out")->refuse_next = 1;
  cj_world_topic_find(f.world, "out")->refuse_code = CJ_IO_TOO_LARGE;
  produce(f.io, "x");
  assert_int_equal(CJ_IO_ABORTABLE, ask(f.io, CJ_REQ_TXN_COMMIT, 7));
  assert_int_equal(CJ_IO_OK, ask(f.io, CJ_REQ_TXN_ABORT, 0));
  assert_int_equal(CJ_IO_OK, ask(f.io, CJ_REQ_TXN_COMMIT, 7));

  produce(f.io, "y");
  collect(f.io);
  cj_world_group_of(f.world, "app")->generation++;
  assert_int_equal(CJ_IO_ILLEGAL_GENERATION, ask(f.io, CJ_REQ_TXN_COMMIT, 8));
  assert_int_equal(CJ_IO_OK, ask(f.io, CJ_REQ_TXN_ABORT, 0));
  reads(f.other, "", cj_world_topic_find(f.world, "out")->partitions[0]->end);
  assert_int_equal(7, committed(&f));
  cj_world_group_of(f.world, "app")->generation--;
  end(&f);
}

/* A broker does not check the generation of who names no member (KIP-447). */
static void who_is_no_member_cannot_commit(void **state) {
  (void)state;
  fixture f = begin();
  ask(f.other, CJ_REQ_TXN_INIT, 0);
  produce(f.other, "x");
  assert_int_equal(CJ_IO_UNKNOWN_MEMBER, ask(f.other, CJ_REQ_TXN_COMMIT, 7));
  const cj_io_output more = {.topic = OUT};
  assert_int_equal(CJ_IO_ABORTABLE, f.other->ops->produce(f.other, &more));
  assert_int_equal(CJ_IO_OK, ask(f.other, CJ_REQ_TXN_ABORT, 0));
  assert_int_equal(CJ_OFFSET_NONE, committed(&f));
  end(&f);
}

static void a_newer_producer_fences_and_ends_what_was_open(void **state) {
  (void)state;
  fixture f = begin();
  ask(f.io, CJ_REQ_TXN_INIT, 0);
  produce(f.io, "x");
  collect(f.io);
  cj_io *newer = io_new(f.world, "a2", "txn-a");
  assert_int_equal(CJ_IO_OK, ask(newer, CJ_REQ_TXN_INIT, 0));
  reads(f.other, "", 2);
  produce(f.io, "y");
  assert_int_equal(CJ_IO_FENCED, collect(f.io).delivered);
  const cj_io_output output = {.topic = OUT};
  assert_int_equal(CJ_IO_FENCED, f.io->ops->produce(f.io, &output));
  assert_int_equal(CJ_IO_FENCED, ask(f.io, CJ_REQ_TXN_COMMIT, 7));
  assert_int_equal(CJ_OFFSET_NONE, committed(&f));
  newer->ops->destroy(newer);
  end(&f);
}

static void an_open_transaction_times_out(void **state) {
  (void)state;
  fixture f = begin();
  ask(f.io, CJ_REQ_TXN_INIT, 0);
  produce(f.io, "x");
  collect(f.io);
  cj_io_memory_crash(f.io);
  cj_world_advance(f.world, 9999);
  reads(f.other, "", 0);
  cj_world_advance(f.world, 1);
  reads(f.other, "", 2);
  end(&f);
}

/* Done or not, the answer was TIMED_OUT: a new producer makes it certain. */
static void an_unclear_commit_is_settled_by_a_new_producer(void **state) {
  (void)state;
  static const struct {
    cj_fault_effect effect;
    bool done;
  } kinds[] = {{CJ_FAULT_DONE_UNTOLD, true},
               {CJ_FAULT_HANG, false},
               {CJ_FAULT_LATE, false},
               {CJ_FAULT_DECIDED, true}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    fixture f = begin();
    ask(f.io, CJ_REQ_TXN_INIT, 0);
    produce(f.io, "x");
    collect(f.io);
    const cj_world_fault fault = {.kind = CJ_REQ_TXN_COMMIT,
                                  .effect = kinds[i].effect,
                                  .code = CJ_IO_TIMED_OUT,
                                  .delay_ms = 2000,
                                  .times = 1};
    cj_world_fault_add(f.world, &fault);
    submit(f.io, CJ_REQ_TXN_COMMIT, 7);
    cj_world_advance(f.world, 1000);
    assert_int_equal(CJ_IO_TIMED_OUT, collect(f.io).code);
    assert_int_equal(CJ_IO_OK, ask(f.io, CJ_REQ_TXN_INIT, 0));
    reads(f.other, kinds[i].done ? "x" : "", 2);
    assert_int_equal(kinds[i].done ? 7 : CJ_OFFSET_NONE, committed(&f));
    /* What arrives late is of an epoch that is over. */
    produce(f.io, "y");
    collect(f.io);
    cj_world_advance(f.world, 2000);
    reads(f.other, kinds[i].done ? "x" : "", 2);
    end(&f);
  }
}

/* And what happens without a new producer: the late end hits the next transaction (KIP-890). */
static void a_late_end_hits_what_is_open_under_its_epoch(void **state) {
  (void)state;
  fixture f = begin();
  ask(f.io, CJ_REQ_TXN_INIT, 0);
  cj_world_producer *producer = cj_world_producer_of(f.world, "txn-a");
  produce(f.io, "x");
  collect(f.io);
  cj_txn_end_late(f.world, producer, producer->epoch, true, 500);
  cj_txn_end(producer, false);
  produce(f.io, "y");
  collect(f.io);
  cj_world_advance(f.world, 500);
  reads(f.other, "y", 4);
  end(&f);
}

static void offsets_of_an_open_transaction_are_not_answered(void **state) {
  (void)state;
  fixture f = begin();
  ask(f.io, CJ_REQ_TXN_INIT, 0);
  cj_world_producer *producer = cj_world_producer_of(f.world, "txn-a");
  cj_txn_add_offset(f.world, producer, cj_world_group_of(f.world, "app"), "in", 0, 9);
  const cj_io_offset position = {.tp = {IN, 0}};
  const cj_io_request request = {
      .id = 1000, .kind = CJ_REQ_COMMITTED, .list = &position, .count = 1, .timeout_ms = 10};
  assert_null(f.other->ops->submit(f.other, &request));
  cj_io_event event;
  assert_true(f.other->ops->poll(f.other, &event));
  assert_int_equal(CJ_IO_RETRIABLE, event.offsets[0].code);
  cj_txn_end(producer, true);
  assert_null(f.other->ops->submit(f.other, &request));
  assert_true(f.other->ops->poll(f.other, &event));
  assert_int_equal(CJ_IO_OK, event.offsets[0].code);
  assert_int_equal(9, event.offsets[0].offset);
  end(&f);
}

static void closing_aborts_what_is_open(void **state) {
  (void)state;
  fixture f = begin();
  ask(f.io, CJ_REQ_TXN_INIT, 0);
  produce(f.io, "x");
  collect(f.io);
  f.io->ops->close(f.io);
  serve(f.io);
  reads(f.other, "", 2);
  end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_commit_shows_outputs_and_offsets_at_once),
      cmocka_unit_test(an_abort_shows_neither),
      cmocka_unit_test(a_commit_waits_for_its_outputs),
      cmocka_unit_test(another_generation_or_a_failed_output_cannot_commit),
      cmocka_unit_test(who_is_no_member_cannot_commit),
      cmocka_unit_test(a_newer_producer_fences_and_ends_what_was_open),
      cmocka_unit_test(an_open_transaction_times_out),
      cmocka_unit_test(an_unclear_commit_is_settled_by_a_new_producer),
      cmocka_unit_test(a_late_end_hits_what_is_open_under_its_epoch),
      cmocka_unit_test(offsets_of_an_open_transaction_are_not_answered),
      cmocka_unit_test(closing_aborts_what_is_open),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
