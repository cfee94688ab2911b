/* SPDX-License-Identifier: BSD-2-Clause */
/* The coordinator of the world in memory and the members' side of its protocol: what
 * librdkafka 2.0.2 and Kafka 4.2.0 were seen to do. */
#include "lib/memory_member.h"

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
      cmocka_unit_test(commits_in_a_rebalance),
      cmocka_unit_test(commits_of_strangers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
