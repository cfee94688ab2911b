/* SPDX-License-Identifier: BSD-2-Clause */
/* Transactions of the io on a real broker, where they go wrong: what times out, is taken over, is
 * refused, or comes from who is no member. testing/io_memory_txn.c plays the same.
 *
 * ctest: timeout=300 */
#include "io_broker.h"

static const char *topics[2]; /* in, out */
static const cj_tp in0 = {0, 0}, out0 = {1, 0};

static void open_as(test_io *t, const char *transactional_id) {
  const cj_io_setup_topic list[] = {{topics[0], true}, {topics[1], false}};
  const cj_io_setup setup = {.settings = &t->settings,
                             .topics = list,
                             .topic_count = 2,
                             .client_id = "member",
                             .read_committed = true,
                             .transactional_id = transactional_id,
                             .log = {.user = t, .level = CJ_LOG_DEBUG, .line = test_log_line}};
  test_ok(cj_io_rdkafka_new(&setup, &t->io));
}

/* A member of a group of its own, with a producer that is begun. */
static void begin(test_io *t, const char *transactional_id) {
  static char group[80], in[80], out[80];
  cj_io_event event;
  test_unique(group, sizeof group, "txn");
  test_unique(in, sizeof in, "in");
  test_unique(out, sizeof out, "out");
  topics[0] = in;
  topics[1] = out;
  test_create_topic(in, 1, NULL);
  test_create_topic(out, 1, (const char *const[]){"max.message.bytes", "2000", NULL});
  test_init(t, group);
  test_property(t, "transaction.timeout.ms", "1000");
  open_as(t, transactional_id);
  test_join(t, &event);
  test_answer(t);
  test_ask(t, CJ_REQ_TXN_INIT, NULL, 0, &event);
}

static cj_io_code ask(test_io *t, cj_io_request_kind kind, int64_t offset) {
  const cj_io_offset position = {.tp = in0, .offset = offset};
  cj_io_event event;
  test_ask_for(t, kind, &position, kind == CJ_REQ_TXN_COMMIT, &event, 10000);
  return event.code;
}

static cj_io_code produce(test_io *t, const char *value) {
  const cj_io_output output = {.topic = 1, .value = cj_bytes_str(value), .timestamp = 1};
  return t->io->ops->produce(t->io, &output);
}

static int64_t committed(test_io *t) {
  const cj_io_offset position = {.tp = in0};
  cj_io_event event;
  test_ask(t, CJ_REQ_COMMITTED, &position, 1, &event);
  return event.offsets[0].offset;
}

/* Readers under read_committed see these values, and nothing else up to the end. */
static void assert_seen(test_io *t, const char *values) {
  const cj_io_offset from = {.tp = out0};
  char seen[64] = "";
  cj_fetched entry;
  test_ok(t->io->ops->assign(t->io, &from, 1));
  for (;;) {
    assert_int_equal(1, test_fetch(t, out0, &entry, 1));
    if (entry.kind != CJ_FETCHED_RECORD) break;
    strncat(seen, entry.value.data, entry.value.len);
    t->io->ops->release(t->io, &entry, 1);
  }
  assert_int_equal(CJ_FETCHED_EOF, entry.kind);
  test_ok(t->io->ops->assign(t->io, NULL, 0));
  assert_string_equal(values, seen);
}

static void end(test_io *t) {
  assert_int_equal(0, t->unexpected_fatal);
  test_end(t);
}

/* The broker aborts it and fences the producer: the client as a whole goes on with a new one. */
static void a_transaction_that_times_out(void **state) {
  (void)state;
  test_io t;
  cj_io_event event;
  char id[80];
  test_unique(id, sizeof id, "id");
  begin(&t, id);
  assert_int_equal(CJ_IO_OK, produce(&t, "a"));
  test_await_delivered(&t, 1);
  test_await_for(&t, CJ_EV_CLOSED, &event, 13000); /* it looks every 10 s */
  assert_int_equal(CJ_IO_FENCED, ask(&t, CJ_REQ_TXN_COMMIT, 1));
  assert_int_equal(CJ_IO_FENCED, produce(&t, "b"));
  assert_int_equal(CJ_IO_FENCED, ask(&t, CJ_REQ_TXN_ABORT, 0));
  assert_int_equal(CJ_OFFSET_NONE, committed(&t));
  assert_int_equal(CJ_IO_OK, ask(&t, CJ_REQ_TXN_INIT, 0));
  assert_int_equal(CJ_IO_OK, produce(&t, "c"));
  assert_int_equal(CJ_IO_OK, ask(&t, CJ_REQ_TXN_COMMIT, 1));
  assert_int_equal(1, committed(&t));
  assert_seen(&t, "c");
  end(&t);
}

/* The same, met by an output instead of by the commit. */
static void an_output_after_the_time_out(void **state) {
  (void)state;
  test_io t;
  cj_io_event event;
  char id[80];
  test_unique(id, sizeof id, "id");
  begin(&t, id);
  assert_int_equal(CJ_IO_OK, produce(&t, "a"));
  test_await_delivered(&t, 1);
  test_await_for(&t, CJ_EV_CLOSED, &event, 13000);
  assert_int_equal(CJ_IO_OK, produce(&t, "b"));
  test_await(&t, CJ_EV_DELIVERED, &event);
  assert_int_equal(CJ_IO_FENCED, event.deliveries[0].code);
  cj_io_code refused = produce(&t, "c");
  assert_true(refused == CJ_IO_FENCED || refused == CJ_IO_ABORTABLE);
  assert_int_equal(CJ_IO_FENCED, ask(&t, CJ_REQ_TXN_ABORT, 0));
  assert_int_equal(CJ_IO_OK, ask(&t, CJ_REQ_TXN_INIT, 0));
  assert_int_equal(CJ_IO_OK, produce(&t, "d"));
  assert_int_equal(CJ_IO_OK, ask(&t, CJ_REQ_TXN_COMMIT, 1));
  assert_seen(&t, "d");
  end(&t);
}

/* Fenced with nothing open: an abort must not pass for done. */
static void a_producer_that_is_taken_over(void **state) {
  (void)state;
  test_io t, other;
  char id[80];
  test_unique(id, sizeof id, "id");
  begin(&t, id);
  assert_int_equal(CJ_IO_OK, produce(&t, "a"));
  assert_int_equal(CJ_IO_OK, ask(&t, CJ_REQ_TXN_COMMIT, 1));
  test_init(&other, t.settings.application_id);
  open_as(&other, id);
  assert_int_equal(CJ_IO_OK, ask(&other, CJ_REQ_TXN_INIT, 0));
  cj_io_code code = ask(&t, CJ_REQ_TXN_COMMIT, 2);
  assert_int_equal(CJ_IO_FENCED, code);
  assert_int_equal(CJ_IO_FENCED, ask(&t, CJ_REQ_TXN_ABORT, 0));
  assert_int_equal(1, committed(&t));
  assert_seen(&t, "a");
  test_end(&other);
  end(&t);
}

/* One output that the broker refuses is the end of its transaction, and of that only. */
static void an_output_that_is_refused(void **state) {
  (void)state;
  test_io t;
  cj_io_event event;
  char id[80], large[3000];
  memset(large, 'x', sizeof large - 1);
  large[sizeof large - 1] = '\0';
  test_unique(id, sizeof id, "id");
  begin(&t, id);
  assert_int_equal(CJ_IO_OK, produce(&t, large));
  test_await(&t, CJ_EV_DELIVERED, &event);
  assert_int_equal(CJ_IO_TOO_LARGE, event.deliveries[0].code);
  produce(&t, "a"); /* taken, if the client has not noticed yet */
  assert_int_equal(CJ_IO_ABORTABLE, ask(&t, CJ_REQ_TXN_COMMIT, 1));
  assert_int_equal(CJ_IO_OK, ask(&t, CJ_REQ_TXN_ABORT, 0));
  /* 2.0.2 sees only at the next output that the refused one has left a hole in its numbers, and
   * gives this transaction up for it as well. */
  cj_io_code code = CJ_IO_ABORTABLE;
  for (int i = 0; i < 3 && code == CJ_IO_ABORTABLE; i++) {
    if (i) assert_int_equal(CJ_IO_OK, ask(&t, CJ_REQ_TXN_ABORT, 0));
    assert_int_equal(CJ_IO_OK, produce(&t, "b"));
    code = ask(&t, CJ_REQ_TXN_COMMIT, 1);
  }
  assert_int_equal(CJ_IO_OK, code);
  assert_seen(&t, "b");
  assert_int_equal(1, committed(&t));
  end(&t);
}

/* A broker checks no generation of who names no member: it has to be refused before (KIP-447). */
static void who_is_no_member_cannot_commit(void **state) {
  (void)state;
  test_io t, other;
  char id[80];
  test_unique(id, sizeof id, "id");
  begin(&t, id);
  test_init(&other, t.settings.application_id);
  test_unique(id, sizeof id, "other");
  open_as(&other, id); /* has not subscribed */
  assert_int_equal(CJ_IO_OK, ask(&other, CJ_REQ_TXN_INIT, 0));
  assert_int_equal(CJ_IO_OK, produce(&other, "a"));
  assert_int_equal(CJ_IO_UNKNOWN_MEMBER, ask(&other, CJ_REQ_TXN_COMMIT, 5));
  assert_int_equal(CJ_IO_OK, ask(&other, CJ_REQ_TXN_ABORT, 0));
  assert_int_equal(CJ_OFFSET_NONE, committed(&t));
  assert_seen(&t, "");
  test_end(&other);
  end(&t);
}

int main(void) {
  if (!test_brokers()) return 77;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_transaction_that_times_out),
      cmocka_unit_test(an_output_after_the_time_out),
      cmocka_unit_test(a_producer_that_is_taken_over),
      cmocka_unit_test(an_output_that_is_refused),
      cmocka_unit_test(who_is_no_member_cannot_commit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
