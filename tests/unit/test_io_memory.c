/* SPDX-License-Identifier: BSD-2-Clause */
/* The twin of the seam and the world under it: what a broker and librdkafka do (measured on
 * librdkafka 2.0.2 and Kafka 4.2.0) has to be what these do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "testing/io_memory.h"

enum { NOTIF, PRICE, OUT, TOPICS };
static const cj_io_setup_topic topics[TOPICS] = {
    [NOTIF] = {"notif", true}, [PRICE] = {"price", true}, [OUT] = {"out", false}};

static cj_io *io_new(cj_world *world, const char *client_id, cj_assignment assignment) {
  static const cj_rd_property limits[] = {{"session.timeout.ms", "6000"},
                                          {"max.poll.interval.ms", "20000"},
                                          {"queue.buffering.max.messages", "2"},
                                          {"message.timeout.ms", "3000"},
                                          {"message.max.bytes", "100"}};
  const cj_settings settings = {
      .application_id = "app", .assignment = assignment, .rd = limits, .rd_count = 5};
  const cj_io_setup setup = {
      .settings = &settings, .topics = topics, .topic_count = TOPICS, .client_id = client_id};
  cj_io *io;
  assert_null(cj_io_memory_new(world, &setup, &io));
  return io;
}

static cj_io *admin_new(cj_world *world) {
  const cj_settings settings = {.application_id = "app"};
  const cj_io_setup setup = {.settings = &settings,
                             .topics = topics,
                             .topic_count = TOPICS,
                             .client_id = "admin",
                             .admin = true};
  cj_io *io;
  assert_null(cj_io_memory_new(world, &setup, &io));
  return io;
}

static cj_world *world_new(int32_t partitions) {
  cj_world *world = cj_world_new();
  for (int i = 0; i < TOPICS; i++)
    cj_world_topic_make(world, topics[i].name, partitions);
  return world;
}

/* ---- a member that answers at once, and remembers what it was told ---- */
typedef struct {
  cj_io *io;
  cj_tp list[64];
  size_t count;
  int assigns, revokes, lost, max_poll, errors;
  cj_io_code last_error;
  cj_io_code done; /* of the last request */
  cj_io_offset offsets[64];
  int dones;
  bool closed;
} member;

static void take(member *m, const cj_io_event *event) {
  cj_io_offset starts[64] = {0};
  switch (event->kind) {
  case CJ_EV_ASSIGN:
    m->assigns++;
    m->count = event->count;
    for (size_t i = 0; i < event->count; i++)
      m->list[i] = starts[i].tp = event->list[i];
    assert_null(m->io->ops->assign(m->io, starts, event->count));
    break;
  case CJ_EV_REVOKE:
    m->revokes++;
    m->lost += event->lost;
    m->count = 0;
    assert_null(m->io->ops->assign(m->io, NULL, 0));
    break;
  case CJ_EV_ERROR:
    m->errors++;
    m->max_poll += event->code == CJ_IO_MAX_POLL;
    m->last_error = event->code;
    break;
  case CJ_EV_DONE:
    m->dones++;
    m->done = event->code;
    for (size_t i = 0; i < event->offset_count; i++)
      m->offsets[i] = event->offsets[i];
    break;
  case CJ_EV_CLOSED:
    m->closed = true;
    break;
  default:
    break;
  }
}

static bool serve(member *m) {
  cj_io_event event;
  if (!m->io->ops->poll(m->io, &event)) return false;
  take(m, &event);
  return true;
}

/* In turn, until nobody has anything to do for some rounds. */
static void settle(member *members, size_t count) {
  for (int quiet = 0; quiet < 4;) {
    quiet++;
    for (size_t i = 0; i < count; i++)
      while (members[i].io && serve(&members[i]))
        quiet = 0;
  }
}

static void end(member *members, size_t count, cj_world *world) {
  for (size_t i = 0; i < count; i++)
    if (members[i].io) members[i].io->ops->destroy(members[i].io);
  cj_world_destroy(world);
}

static bool has(const member *m, int32_t topic, int32_t partition) {
  for (size_t i = 0; i < m->count; i++)
    if (m->list[i].topic == topic && m->list[i].partition == partition) return true;
  return false;
}

/* How many indices have both topics on one member. */
static int aligned(const member *members, size_t count, int32_t partitions) {
  int together = 0;
  for (int32_t p = 0; p < partitions; p++)
    for (size_t i = 0; i < count; i++)
      together += has(&members[i], NOTIF, p) && has(&members[i], PRICE, p);
  return together;
}

/* Started in an order that is not the one of the client ids. */
static void four_members(member *members, cj_world *world, cj_assignment assignment) {
  static const char *const ids[] = {"c", "a", "d", "b"};
  for (size_t i = 0; i < 4; i++) {
    members[i] = (member){.io = io_new(world, ids[i], assignment)};
    assert_null(members[i].io->ops->subscribe(members[i].io));
    settle(members, i + 1);
  }
}

static void two_topics_by_six_over_four_members(void **state) {
  (void)state;
  cj_world *world = world_new(6);
  member range[4];
  four_members(range, world, CJ_ASSIGN_RANGE);
  assert_int_equal(6, aligned(range, 4, 6));
  /* The client id comes first in the member id, which decides the order. */
  assert_true(has(&range[1], PRICE, 0) && has(&range[1], PRICE, 1));
  assert_true(has(&range[3], PRICE, 2) && has(&range[3], PRICE, 3));
  assert_true(has(&range[0], PRICE, 4));
  assert_true(has(&range[2], PRICE, 5));
  end(range, 4, world);

  world = world_new(6);
  member roundrobin[4];
  four_members(roundrobin, world, CJ_ASSIGN_SPREAD);
  assert_int_equal(0, aligned(roundrobin, 4, 6));
  for (size_t i = 0; i < 4; i++)
    assert_int_equal(3, roundrobin[i].count);
  end(roundrobin, 4, world);
}

/* Measured for librdkafka in case 39: 5 partitions, 2 members. */
static void five_partitions_over_two_members(void **state) {
  (void)state;
  static const struct {
    cj_assignment assignment;
    int expected;
  } runs[] = {{CJ_ASSIGN_RANGE, 5}, {CJ_ASSIGN_SPREAD, 0}};
  for (size_t r = 0; r < 2; r++) {
    cj_world *world = world_new(5);
    member m[2] = {{.io = io_new(world, "a", runs[r].assignment)},
                   {.io = io_new(world, "b", runs[r].assignment)}};
    for (size_t i = 0; i < 2; i++)
      assert_null(m[i].io->ops->subscribe(m[i].io));
    settle(m, 2);
    assert_int_equal(runs[r].expected, aligned(m, 2, 5));
    end(m, 2, world);
  }
}

static void eight_partitions_over_three_members_are_three_three_two(void **state) {
  (void)state;
  cj_world *world = world_new(8);
  static const char *const ids[] = {"a", "b", "c"};
  member m[3] = {0};
  for (size_t i = 0; i < 3; i++) {
    m[i] = (member){.io = io_new(world, ids[i], CJ_ASSIGN_RANGE)};
    assert_null(m[i].io->ops->subscribe(m[i].io));
  }
  settle(m, 3);
  static const size_t expected[] = {6, 6, 4}; /* of both topics together */
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(expected[i], m[i].count);
  assert_true(has(&m[2], NOTIF, 6) && has(&m[2], NOTIF, 7));
  end(m, 3, world);
}

/* Case 40: an old member that subscribes to fewer topics gets a split that range does not see. */
static void members_with_different_subscriptions(void **state) {
  (void)state;
  cj_world *world = world_new(6);
  const cj_settings settings = {.application_id = "app"};
  static const cj_io_setup_topic fewer[] = {{"notif", true}};
  const cj_io_setup setup = {
      .settings = &settings, .topics = fewer, .topic_count = 1, .client_id = "z-old"};
  member m[2] = {{.io = io_new(world, "a-new", CJ_ASSIGN_RANGE)}, {0}};
  assert_null(cj_io_memory_new(world, &setup, &m[1].io));
  for (size_t i = 0; i < 2; i++)
    assert_null(m[i].io->ops->subscribe(m[i].io));
  settle(m, 2);
  assert_int_equal(9, m[0].count);
  assert_int_equal(3, m[1].count);
  for (int32_t p = 3; p < 6; p++)
    assert_true(has(&m[1], NOTIF, p) && has(&m[0], PRICE, p));
  end(m, 2, world);
}

static void a_join_revokes_everything_first(void **state) {
  (void)state;
  cj_world *world = world_new(2);
  member m[2] = {{.io = io_new(world, "a", CJ_ASSIGN_RANGE)},
                 {.io = io_new(world, "b", CJ_ASSIGN_RANGE)}};
  assert_null(m[0].io->ops->subscribe(m[0].io));
  settle(m, 1);
  assert_int_equal(4, m[0].count);
  assert_null(m[1].io->ops->subscribe(m[1].io));
  /* b waits until a has given up what it has, whatever b does. */
  settle(&m[1], 1);
  assert_int_equal(0, m[1].assigns);
  cj_io_event event;
  assert_true(m[0].io->ops->poll(m[0].io, &event));
  assert_int_equal(CJ_EV_REVOKE, event.kind);
  assert_int_equal(4, event.count);
  assert_false(event.lost);
  settle(&m[1], 1);
  assert_int_equal(0, m[1].assigns);
  /* From the event to the answer everything is paused. */
  cj_fetched entry;
  assert_int_equal(0, m[0].io->ops->fetch(m[0].io, (cj_tp){NOTIF, 0}, &entry, 1));
  take(&m[0], &event);
  settle(m, 2);
  assert_int_equal(2, m[0].count);
  assert_int_equal(2, m[1].count);
  end(m, 2, world);
}

static void a_member_without_partitions_is_not_revoked(void **state) {
  (void)state;
  cj_world *world = world_new(1);
  member m[3] = {{.io = io_new(world, "a", CJ_ASSIGN_RANGE)},
                 {.io = io_new(world, "b", CJ_ASSIGN_RANGE)},
                 {0}};
  for (size_t i = 0; i < 2; i++)
    assert_null(m[i].io->ops->subscribe(m[i].io));
  settle(m, 2);
  assert_int_equal(0, m[1].count);
  assert_int_equal(1, m[1].assigns); /* an empty one */
  m[2].io = io_new(world, "c", CJ_ASSIGN_RANGE);
  assert_null(m[2].io->ops->subscribe(m[2].io));
  settle(m, 3);
  assert_int_equal(1, m[0].revokes);
  assert_int_equal(0, m[1].revokes);
  assert_int_equal(2, m[1].assigns);
  end(m, 3, world);
}

static void closing_revokes_and_leaves(void **state) {
  (void)state;
  cj_world *world = world_new(2);
  member m[2] = {{.io = io_new(world, "a", CJ_ASSIGN_RANGE)},
                 {.io = io_new(world, "b", CJ_ASSIGN_RANGE)}};
  for (size_t i = 0; i < 2; i++)
    assert_null(m[i].io->ops->subscribe(m[i].io));
  settle(m, 2);
  m[0].io->ops->close(m[0].io);
  settle(m, 2);
  assert_true(m[0].closed);
  assert_int_equal(1, m[0].revokes);
  assert_int_equal(4, m[1].count);
  assert_int_equal(0, m[1].lost);
  end(m, 2, world);
}

static void a_crashed_member_stays_until_its_session_ends(void **state) {
  (void)state;
  cj_world *world = world_new(2);
  member m[2] = {{.io = io_new(world, "a", CJ_ASSIGN_RANGE)},
                 {.io = io_new(world, "b", CJ_ASSIGN_RANGE)}};
  for (size_t i = 0; i < 2; i++)
    assert_null(m[i].io->ops->subscribe(m[i].io));
  settle(m, 2);
  cj_io_memory_crash(m[0].io);
  cj_world_advance(world, 5999);
  settle(m, 2);
  assert_int_equal(2, m[1].count);
  assert_int_equal(cj_world_monotonic(world) + 1, cj_world_deadline(world));
  cj_world_advance(world, 1);
  settle(m, 2);
  assert_int_equal(4, m[1].count);
  end(m, 2, world);
}

static void who_does_not_poll_is_evicted_and_told_when_it_polls(void **state) {
  (void)state;
  cj_world *world = world_new(2);
  member m[2] = {{.io = io_new(world, "a", CJ_ASSIGN_RANGE)},
                 {.io = io_new(world, "b", CJ_ASSIGN_RANGE)}};
  for (size_t i = 0; i < 2; i++)
    assert_null(m[i].io->ops->subscribe(m[i].io));
  settle(m, 2);
  cj_io_memory_stop_polling(m[0].io, true);
  cj_world_advance(world, 20000);
  settle(&m[1], 1);
  assert_int_equal(4, m[1].count);
  cj_io_memory_stop_polling(m[0].io, false);
  settle(m, 2);
  assert_int_equal(1, m[0].max_poll);
  assert_int_equal(1, m[0].lost);
  assert_int_equal(2, m[0].count); /* joined anew */
  assert_int_equal(2, m[1].count);
  end(m, 2, world);
}

static void a_stalled_process_loses_its_session(void **state) {
  (void)state;
  cj_world *world = world_new(2);
  member m[2] = {{.io = io_new(world, "a", CJ_ASSIGN_RANGE)},
                 {.io = io_new(world, "b", CJ_ASSIGN_RANGE)}};
  for (size_t i = 0; i < 2; i++)
    assert_null(m[i].io->ops->subscribe(m[i].io));
  settle(m, 2);
  cj_io_memory_stall(m[0].io, true);
  cj_world_advance(world, 6000);
  settle(m, 2);
  assert_int_equal(4, m[1].count);
  assert_int_equal(2, m[0].count); /* believes so, as long as it stands still */
  cj_io_memory_stall(m[0].io, false);
  settle(m, 2);
  assert_int_equal(1, m[0].lost);
  assert_int_equal(0, m[0].max_poll);
  assert_int_equal(2, m[0].count);
  end(m, 2, world);
}

/* Another member joins while one does not answer its revoke: the rebalance goes on without it when
 * its rebalance timeout, max.poll.interval.ms, has passed. */
static void a_revoke_that_nobody_answers_ends_with_the_rebalance_timeout(void **state) {
  (void)state;
  cj_world *world = world_new(2);
  member m[2] = {{.io = io_new(world, "a", CJ_ASSIGN_RANGE)},
                 {.io = io_new(world, "b", CJ_ASSIGN_RANGE)}};
  assert_null(m[0].io->ops->subscribe(m[0].io));
  settle(m, 1);
  assert_null(m[1].io->ops->subscribe(m[1].io));
  settle(&m[1], 1);
  cj_io_event event;
  assert_true(m[0].io->ops->poll(m[0].io, &event)); /* the revoke, unanswered */
  cj_world_advance(world, 19999);
  settle(&m[1], 1);
  assert_int_equal(0, m[1].assigns);
  cj_world_advance(world, 1);
  settle(&m[1], 1);
  assert_int_equal(4, m[1].count);
  take(&m[0], &event);
  settle(m, 2);
  assert_int_equal(2, m[0].count);
  assert_int_equal(0, m[0].lost); /* the revoke had been asked for in time */
  end(m, 2, world);
}

static void another_assignor_is_refused_and_tried_again_later(void **state) {
  (void)state;
  cj_world *world = world_new(2);
  member m[2] = {{.io = io_new(world, "a", CJ_ASSIGN_RANGE)},
                 {.io = io_new(world, "b", CJ_ASSIGN_SPREAD)}};
  for (size_t i = 0; i < 2; i++)
    assert_null(m[i].io->ops->subscribe(m[i].io));
  settle(m, 2);
  assert_int_equal(1, m[1].errors);
  assert_int_equal(CJ_IO_INCONSISTENT_GROUP, m[1].last_error);
  settle(m, 2);
  assert_int_equal(1, m[1].errors); /* no spinning */
  cj_world_advance(world, 1000);
  settle(m, 2);
  assert_int_equal(2, m[1].errors);
  assert_int_equal(4, m[0].count);
  end(m, 2, world);
}

/* ---- requests ---- */

static void ask(member *m, cj_io_request_kind kind, const cj_io_offset *list, size_t count) {
  static uint64_t id;
  const cj_io_request request = {
      .id = ++id, .kind = kind, .list = list, .count = count, .timeout_ms = 1000};
  assert_null(m->io->ops->submit(m->io, &request));
}

static const cj_io_offset at_seven = {.tp = {NOTIF, 0}, .offset = 7};

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

/* The broker's checks: accepted while the group prepares a rebalance, refused while it completes
 * one, and afterwards for the old generation. */
static void commits_in_a_rebalance(void **state) {
  (void)state;
  cj_world *world = world_new(2);
  member m[2] = {{.io = io_new(world, "a", CJ_ASSIGN_RANGE)},
                 {.io = io_new(world, "b", CJ_ASSIGN_RANGE)}};
  assert_null(m[0].io->ops->subscribe(m[0].io));
  settle(m, 1);
  assert_null(m[1].io->ops->subscribe(m[1].io));
  settle(&m[1], 1);
  cj_world_group *group = cj_world_group_of(world, "app");
  assert_int_equal(CJ_GROUP_PREPARING, group->state);
  cj_io_event event;
  assert_true(m[0].io->ops->poll(m[0].io, &event));
  assert_int_equal(CJ_EV_REVOKE, event.kind);
  ask(&m[0], CJ_REQ_COMMIT, &at_seven, 1);
  cj_io_event done;
  assert_true(m[0].io->ops->poll(m[0].io, &done));
  assert_int_equal(CJ_EV_DONE, done.kind);
  assert_int_equal(CJ_IO_OK, done.code);
  assert_int_equal(CJ_IO_OK, done.offsets[0].code);

  assert_null(m[0].io->ops->assign(m[0].io, NULL, 0));
  ask(&m[0], CJ_REQ_COMMIT, &at_seven, 1); /* in the generation that is over */
  assert_true(serve(&m[0]));
  assert_int_equal(CJ_IO_OK, m[0].done); /* the answer was made before the member joined anew */
  ask(&m[0], CJ_REQ_COMMIT, &at_seven, 1);
  assert_int_equal(CJ_GROUP_COMPLETING, group->state);
  serve(&m[0]);
  assert_int_equal(CJ_IO_ILLEGAL_GENERATION, m[0].done);
  assert_int_equal(CJ_IO_ILLEGAL_GENERATION, m[0].offsets[0].code);
  settle(m, 2);
  cj_group_rebalance(group);
  settle(m, 2);
  end(m, 2, world);
}

static void commits_of_strangers(void **state) {
  (void)state;
  cj_world *world = world_new(2);
  cj_world_group *group = cj_world_group_of(world, "app");
  assert_int_equal(CJ_IO_OK, cj_group_may_commit(group, NULL, -1));
  member m = {.io = io_new(world, "a", CJ_ASSIGN_RANGE)};
  assert_null(m.io->ops->subscribe(m.io));
  settle(&m, 1);
  const char *id = group->members[0]->member_id;
  assert_int_equal(0, strncmp("a-", id, 2));
  assert_int_equal(CJ_IO_UNKNOWN_MEMBER, cj_group_may_commit(group, NULL, -1));
  assert_int_equal(CJ_IO_UNKNOWN_MEMBER, cj_group_may_commit(group, "x", group->generation));
  assert_int_equal(CJ_IO_ILLEGAL_GENERATION, cj_group_may_commit(group, id, group->generation - 1));
  assert_int_equal(CJ_IO_OK, cj_group_may_commit(group, id, group->generation));
  group->state = CJ_GROUP_COMPLETING;
  assert_int_equal(CJ_IO_REBALANCE, cj_group_may_commit(group, id, group->generation));
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
      cmocka_unit_test(two_topics_by_six_over_four_members),
      cmocka_unit_test(five_partitions_over_two_members),
      cmocka_unit_test(eight_partitions_over_three_members_are_three_three_two),
      cmocka_unit_test(members_with_different_subscriptions),
      cmocka_unit_test(a_join_revokes_everything_first),
      cmocka_unit_test(a_member_without_partitions_is_not_revoked),
      cmocka_unit_test(closing_revokes_and_leaves),
      cmocka_unit_test(a_crashed_member_stays_until_its_session_ends),
      cmocka_unit_test(who_does_not_poll_is_evicted_and_told_when_it_polls),
      cmocka_unit_test(a_stalled_process_loses_its_session),
      cmocka_unit_test(a_revoke_that_nobody_answers_ends_with_the_rebalance_timeout),
      cmocka_unit_test(another_assignor_is_refused_and_tried_again_later),
      cmocka_unit_test(a_commit_is_read_back),
      cmocka_unit_test(commits_in_a_rebalance),
      cmocka_unit_test(commits_of_strangers),
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
