/* SPDX-License-Identifier: BSD-2-Clause */
/* The ways out of a group on a real broker, from wherever they begin: case 64. */
#include "broker/io_broker.h"

#define SOON_MS 12000

static char topic[64];

static void make_topic(void) {
  test_unique(topic, sizeof topic, "closing");
  test_create_topic(topic, 6, NULL);
}

static void opened(test_io *t, const char *group) {
  test_init(t, group);
  test_property(t, "session.timeout.ms", "6000");
  test_property(t, "heartbeat.interval.ms", "200");
  test_open(t, (const char *[]){topic}, 1, "closing", false);
}

static void closing_ends_wherever_it_begins(void **state) {
  (void)state;
  make_topic();
  test_io t;
  cj_io_event event;
  char group[64];
  test_unique(group, sizeof group, "close");
  opened(&t, group); /* never subscribed */
  assert_true(test_close(&t) < SOON_MS);
  test_destroy(&t);
  opened(&t, group); /* right after */
  test_ok(t.io->ops->subscribe(t.io));
  assert_true(test_close(&t) < SOON_MS);
  test_destroy(&t);
  opened(&t, group); /* the assignment was dealt and is not answered */
  test_join(&t, &event);
  assert_true(test_close(&t) < SOON_MS);
  test_destroy(&t);
  opened(&t, group); /* … nor polled */
  test_ok(t.io->ops->subscribe(t.io));
  usleep(1500000);
  assert_true(test_close(&t) < SOON_MS);
  test_destroy(&t);
  opened(&t, group); /* while fetching, with a request under way, and asked again after */
  test_fill(&t, 0, 0, 0, 5000);
  test_join(&t, &event);
  test_answer(&t);
  test_ok(t.io->ops->assign(t.io, &(cj_io_offset){.offset = 0}, 1));
  cj_fetched entry;
  assert_int_equal(test_fetch(&t, (cj_tp){0, 0}, &entry, 1), 1);
  t.io->ops->release(t.io, &entry, 1);
  uint64_t before = test_submit(&t, CJ_REQ_COMMITTED, &(cj_io_offset){.offset = 0}, 1, 3000);
  t.io->ops->close(t.io);
  uint64_t after[2] = {test_submit(&t, CJ_REQ_COMMIT, &(cj_io_offset){.offset = 1}, 1, 3000),
                       test_submit(&t, CJ_REQ_ENDS, &(cj_io_offset){.offset = 1}, 1, 3000)};
  int done[3] = {0}, closed = 0;
  for (int64_t until = test_now() + SOON_MS; test_now() < until;) {
    if (!t.io->ops->poll(t.io, &event)) {
      if (closed && done[0] && done[1] && done[2]) break;
      t.io->ops->wait(t.io, 50);
      continue;
    }
    if (event.kind == CJ_EV_REVOKE) test_answer(&t);
    closed += event.kind == CJ_EV_CLOSED;
    if (event.kind != CJ_EV_DONE) continue;
    done[0] += event.id == before;
    for (int i = 0; i < 2; i++)
      done[i + 1] += event.id == after[i];
  }
  assert_int_equal(closed, 1);
  for (int i = 0; i < 3; i++)
    assert_int_equal(done[i], 1);
  test_destroy(&t);
}

/* Where the owner gives up in the middle, freeing is bounded all the same. */
static void destroying_is_bounded_without_a_close(void **state) {
  (void)state;
  make_topic();
  test_io t;
  cj_io_event event;
  char group[64];
  test_unique(group, sizeof group, "destroy");
  opened(&t, group);
  test_ok(t.io->ops->subscribe(t.io));
  int64_t start = test_now();
  test_destroy(&t);
  opened(&t, group);
  test_fill(&t, 0, 0, 0, 1000);
  test_join(&t, &event); /* not answered */
  test_destroy(&t);
  opened(&t, group);
  test_join(&t, &event);
  test_answer(&t);
  test_ok(t.io->ops->assign(t.io, &(cj_io_offset){.offset = 0}, 1));
  cj_fetched entry;
  assert_int_equal(test_fetch(&t, (cj_tp){0, 0}, &entry, 1), 1);
  t.io->ops->release(t.io, &entry, 1);
  test_submit(&t, CJ_REQ_COMMITTED, &(cj_io_offset){.offset = 0}, 1, 10000);
  test_submit(&t, CJ_REQ_COMMIT, &(cj_io_offset){.offset = 1}, 1, 10000);
  test_produce(&t, &(cj_io_output){.value = cj_bytes_str("v"), .timestamp = 1});
  test_destroy(&t);
  assert_true(test_now() - start < 3 * SOON_MS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(closing_ends_wherever_it_begins),
      cmocka_unit_test(destroying_is_bounded_without_a_close),
  };
  return test_main_on_broker(tests, sizeof tests / sizeof *tests, "test_io_closing");
}
