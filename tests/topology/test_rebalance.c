/* SPDX-License-Identifier: BSD-2-Clause */
/* Members come, go, stall and die: who owns what, and what becomes of state and positions. */
#include "lib/alerts.h"

enum { PARTITIONS = 6, KEYS = 30 };

/* One price a key, then rounds of one notification a key, each with the round in its value. */
static void some_prices(alerts *a, int64_t timestamp) {
  for (int k = 0; k < KEYS; k++) {
    char key[16], value[16];
    snprintf(key, sizeof key, "k%d", k);
    snprintf(value, sizeof value, "p%d", k);
    alerts_price(a, key, value, timestamp);
  }
}

static void a_round(alerts *a, int round) {
  for (int k = 0; k < KEYS; k++) {
    char key[16], value[16];
    snprintf(key, sizeof key, "k%d", k);
    snprintf(value, sizeof value, "r%d.%d", round, k);
    alerts_notif(a, key, value, 10000 + round);
  }
}

/* How often this round's output of the key is there; any other value than the right one fails. */
static int outputs_of(const alerts *a, int32_t partitions, int round, int k) {
  char wanted[64], prefix[40];
  snprintf(wanted, sizeof wanted, "r%d.%d+p%d", round, k, k);
  snprintf(prefix, sizeof prefix, "r%d.%d+", round, k);
  int found = 0;
  cj_record record;
  for (int32_t p = 0; p < partitions; p++)
    for (size_t i = 0; cj_test_read(a->t, "alerts", p, i, &record); i++) {
      size_t len = strlen(prefix);
      if (record.value.len < len || memcmp(record.value.data, prefix, len) != 0) continue;
      if (!cj_bytes_equal(cj_bytes_str(wanted), record.value))
        fail_msg("wrong output: %.*s", (int)record.value.len, (const char *)record.value.data);
      found++;
    }
  return found;
}

static void once_each(const alerts *a, int32_t partitions, int rounds) {
  for (int round = 0; round < rounds; round++)
    for (int k = 0; k < KEYS; k++)
      assert_int_equal(1, outputs_of(a, partitions, round, k));
}

static void at_least_once_each(const alerts *a, int32_t partitions, int rounds) {
  for (int round = 0; round < rounds; round++)
    for (int k = 0; k < KEYS; k++)
      assert_true(outputs_of(a, partitions, round, k) >= 1);
}

static void all_owned(alerts *a, int32_t partitions) {
  for (int32_t p = 0; p < partitions; p++)
    assert_non_null(cj_test_owner(a->t, p));
}

static int owned_by(alerts *a, int32_t partitions, const char *member) {
  int count = 0;
  for (int32_t p = 0; p < partitions; p++) {
    const char *owner = cj_test_owner(a->t, p);
    count += owner && strcmp(owner, member) == 0;
  }
  return count;
}

/* ---- coming and going ---- */

static void members_come_and_go(const char *assignment, int64_t threads) {
  char text[8];
  snprintf(text, sizeof text, "%d", (int)threads);
  alerts a = alerts_open(INNER, PARTITIONS, WITH("assignment", assignment, "threads", text));
  some_prices(&a, 1000);
  int round = 0;
  alerts_run(&a);
  a_round(&a, round++);
  cj_test_settle(a.t);
  static const char *const come[] = {"b", "c", "d"};
  for (size_t i = 0; i < 3; i++) {
    alerts_start(&a, come[i]);
    a_round(&a, round++); /* while they join */
    cj_test_settle(a.t);
    all_owned(&a, PARTITIONS);
    once_each(&a, PARTITIONS, round);
  }
  static const char *const go[] = {"b", "a", "d"};
  for (size_t i = 0; i < 3; i++) {
    a_round(&a, round++);
    cj_test_stop_member(a.t, go[i]);
    cj_test_settle(a.t);
    all_owned(&a, PARTITIONS);
    once_each(&a, PARTITIONS, round);
  }
  assert_int_equal(PARTITIONS, owned_by(&a, PARTITIONS, "c"));
  cj_test_commit(a.t);
  for (int32_t p = 0; p < PARTITIONS; p++)
    assert_int_equal(cj_test_end(a.t, "notif", p), cj_test_committed(a.t, "notif", p));
  alerts_close(&a);
}

static void nothing_is_lost_or_done_twice_as_members_come_and_go(void **state) {
  (void)state;
  members_come_and_go("range", 1);
  members_come_and_go("spread", 1);
}

static void several_threads_are_several_members(void **state) {
  (void)state;
  members_come_and_go("range", 2);
}

/* Plain roundrobin leaves 0 of 6 indices together over 4 members; with the anchor every index is
 * whole: each stream record finds its row, and they are spread. */
static void spread_is_whole_over_four_members(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, PARTITIONS, WITH("assignment", "spread"));
  some_prices(&a, 1000);
  a_round(&a, 0);
  static const char *const members[] = {"a", "b", "c", "d"};
  for (size_t i = 0; i < 4; i++)
    alerts_start(&a, members[i]);
  cj_test_settle(a.t);
  once_each(&a, PARTITIONS, 1);
  assert_int_equal(0, cj_test_metric(a.t, "missed", NULL));
  int most = 0;
  for (size_t i = 0; i < 4; i++) {
    int count = owned_by(&a, PARTITIONS, members[i]);
    assert_true(count >= 1);
    if (count > most) most = count;
  }
  assert_int_equal(2, most);
  alerts_close(&a);
}

static void spare_members_idle_and_take_over(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 2, NULL);
  some_prices(&a, 1000);
  static const char *const members[] = {"a", "b", "c"};
  for (size_t i = 0; i < 3; i++)
    alerts_start(&a, members[i]);
  a_round(&a, 0);
  cj_test_settle(a.t);
  const char *spare = NULL, *busy = NULL;
  for (size_t i = 0; i < 3; i++) {
    if (owned_by(&a, 2, members[i])) busy = members[i];
    if (!owned_by(&a, 2, members[i])) spare = members[i];
  }
  assert_non_null(spare);
  assert_non_null(busy);
  cj_test_commit(a.t);
  cj_test_crash_member(a.t, busy);
  a_round(&a, 1);
  cj_test_advance(a.t, 44000);
  assert_int_equal(0, owned_by(&a, 2, spare)); /* the session of the dead one still runs */
  cj_test_advance(a.t, 2000);
  assert_int_equal(1, owned_by(&a, 2, spare));
  once_each(&a, 2, 2);
  alerts_close(&a);
}

/* The client id begins with an id that the state directory keeps: after a restart a member gets its
 * indices back, and with them its stores. */
static void a_restart_gets_its_indices_back(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, PARTITIONS, NULL);
  some_prices(&a, 1000);
  static const char *const members[] = {"a", "b", "c"};
  for (size_t i = 0; i < 3; i++)
    alerts_start(&a, members[i]);
  cj_test_settle(a.t);
  const char *before[PARTITIONS];
  for (int32_t p = 0; p < PARTITIONS; p++)
    before[p] = cj_test_owner(a.t, p);
  for (size_t i = 0; i < 3; i++) {
    cj_test_stop_member(a.t, members[i]);
    alerts_start(&a, members[i]);
    cj_test_settle(a.t);
    for (int32_t p = 0; p < PARTITIONS; p++)
      assert_string_equal(before[p], cj_test_owner(a.t, p));
  }
  alerts_close(&a);
}

/* ---- suspended tasks ---- */

static void a_task_that_comes_back_keeps_its_store(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, PARTITIONS, NULL);
  some_prices(&a, 1000);
  a_round(&a, 0);
  alerts_run(&a);
  size_t opened = cj_test_logged(a.t, "opened");
  for (int i = 1; i < 4; i++) {
    cj_test_rebalance(a.t);
    a_round(&a, i);
    cj_test_settle(a.t);
  }
  assert_int_equal(opened, cj_test_logged(a.t, "opened"));
  assert_int_equal(0, cj_test_metric(a.t, "restored", NULL));
  assert_int_equal(0, cj_test_logged(a.t, "rebuilt"));
  once_each(&a, PARTITIONS, 4);
  assert_int_equal(KEYS, cj_test_metric(a.t, "table_updates", NULL)); /* none was applied twice */
  alerts_close(&a);
}

/* The revoke commits: what was done before a rebalance is not done again after it. */
static void a_revoke_commits(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, WITH("commit.interval.ms", "600000"));
  alerts_price(&a, "X", "1", 1);
  alerts_notif(&a, "X", "n1", 2);
  alerts_run(&a);
  assert_int_equal(-1, cj_test_committed(a.t, "notif", 0));
  cj_test_rebalance(a.t);
  cj_test_settle(a.t);
  assert_int_equal(1, cj_test_committed(a.t, "notif", 0));
  assert_alerts(&a, "n1+1");
  alerts_close(&a);
}

/* While it was suspended someone else committed further: it starts anew from its store. */
static void a_suspended_task_does_not_trust_an_old_store(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1, NULL);
  alerts_price(&a, "X", "1", 1);
  alerts_run(&a);
  cj_test_commit(a.t);
  alerts_price(&a, "X", "2", 2);
  cj_test_hold(a.t, "price", 0, true);
  cj_test_rebalance(a.t);
  while (cj_test_logged(a.t, "suspended") == 0)
    assert_true(cj_test_step(a.t));
  cj_test_set_committed(a.t, "price", 0, 2);
  cj_test_hold(a.t, "price", 0, false);
  cj_test_settle(a.t);
  assert_string_equal("2", alerts_row(&a, "X")); /* restored up to what the group has */
  assert_int_equal(1, cj_test_metric(a.t, "restored", NULL));
  alerts_close(&a);
}

/* ---- losing ---- */

/* A member that does not run for longer than max.poll.interval.ms: its updates since the last
 * commit are dropped, the next owner does the work again, and nothing that it did moves the group's
 * offsets afterwards. */
static void a_frozen_member_loses_its_tasks(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1,
                         WITH("rd.max.poll.interval.ms", "60000", "commit.interval.ms", "600000"));
  alerts_price(&a, "X", "1", 1);
  alerts_notif(&a, "X", "n1", 2);
  alerts_run(&a);
  cj_test_freeze_member(a.t, "a", true);
  alerts_start(&a, "b");
  cj_test_advance(a.t, 59000);
  assert_int_equal(0, owned_by(&a, 1, "b"));
  cj_test_advance(a.t, 2000);
  assert_int_equal(1, owned_by(&a, 1, "b"));
  assert_alerts(&a, "n1+1 n1+1");
  alerts_price(&a, "X", "2", 3);
  alerts_notif(&a, "X", "n2", 4);
  cj_test_settle(a.t);
  cj_test_commit(a.t);
  assert_int_equal(2, cj_test_committed(a.t, "notif", 0));
  cj_test_freeze_member(a.t, "a", false);
  cj_test_settle(a.t);
  cj_test_commit(a.t);
  alerts_well(&a, "a");
  assert_int_equal(1, cj_test_logged(a.t, "closed (lost)")); /* another may need its store */
  all_owned(&a, 1);
  assert_int_equal(2, cj_test_committed(a.t, "notif", 0));
  assert_int_equal(2, cj_test_committed(a.t, "price", 0));
  assert_alerts(&a, "n1+1 n1+1 n2+2");
  cj_test_stop_member(a.t, cj_test_owner(a.t, 0));
  cj_test_settle(a.t);
  assert_string_equal("2", alerts_row(&a, "X"));
  alerts_close(&a);
}

/* The group took it for dead while its process stood still. Until its next heartbeat it believes
 * that it owns its tasks; the first commit tells it better: from there on it does nothing. */
static void a_stalled_member_does_nothing_once_it_was_told(void **state) {
  (void)state;
  alerts a = alerts_open(
      INNER, 1, WITH("rd.session.timeout.ms", "10000", "rd.heartbeat.interval.ms", "3000"));
  alerts_price(&a, "X", "1", 1);
  alerts_run(&a);
  cj_test_commit(a.t);
  cj_test_stall_member(a.t, "a", true);
  alerts_start(&a, "b");
  cj_test_advance(a.t, 13000);
  assert_int_equal(1, owned_by(&a, 1, "b"));
  cj_test_stall_member(a.t, "a", false);
  alerts_notif(&a, "X", "n1", 2);
  cj_test_advance(a.t, 1500);
  assert_alerts(&a, "n1+1 n1+1"); /* both have done it, and both have tried to commit */
  assert_int_equal(1, cj_test_committed(a.t, "notif", 0));
  alerts_notif(&a, "X", "n2", 3);
  cj_test_settle(a.t);
  assert_alerts(&a, "n1+1 n1+1 n2+1");
  cj_test_advance(a.t, 10000);
  all_owned(&a, 1);
  assert_alerts(&a, "n1+1 n1+1 n2+1");
  assert_int_equal(2, cj_test_committed(a.t, "notif", 0));
  alerts_close(&a);
}

/* Evicted, and back before anyone else was there: it starts from the group's offsets again. */
static void an_evicted_member_drops_what_was_not_committed(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, 1,
                         WITH("rd.max.poll.interval.ms", "60000", "commit.interval.ms", "600000"));
  alerts_price(&a, "X", "1", 1);
  alerts_run(&a);
  cj_test_commit(a.t);
  alerts_notif(&a, "X", "n1", 2);
  alerts_price(&a, "X", "2", 3);
  cj_test_settle(a.t);
  cj_test_freeze_member(a.t, "a", true);
  cj_test_advance(a.t, 61000);
  cj_test_freeze_member(a.t, "a", false);
  cj_test_settle(a.t);
  alerts_well(&a, "a");
  /* Done again, with the row that was in force. */
  assert_alerts(&a, "n1+1 n1+1");
  cj_test_commit(a.t);
  assert_string_equal("2", alerts_row(&a, "X"));
  assert_int_equal(0, cj_test_metric(a.t, "out_of_order", NULL));
  alerts_close(&a);
}

/* Outputs are not acknowledged in the time that a revoke has: the rebalance goes on without a
 * commit, updates are dropped, the records come again. */
static void a_revoke_over_its_budget_does_not_commit(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, PARTITIONS, WITH("revoke.timeout.ms", "4000"));
  some_prices(&a, 1000);
  alerts_run(&a);
  cj_test_commit(a.t);
  for (int32_t p = 0; p < PARTITIONS; p++)
    cj_test_hold(a.t, "alerts", p, true);
  a_round(&a, 0);
  cj_test_settle(a.t);
  alerts_start(&a, "b");
  cj_test_advance(a.t, 3900);
  assert_int_equal(0, owned_by(&a, PARTITIONS, "b"));
  cj_test_advance(a.t, 200);
  assert_int_equal(3, owned_by(&a, PARTITIONS, "b"));
  int64_t committed = 0;
  for (int32_t p = 0; p < PARTITIONS; p++)
    committed += cj_test_committed(a.t, "notif", p);
  assert_int_equal(0, committed);
  for (int32_t p = 0; p < PARTITIONS; p++)
    cj_test_hold(a.t, "alerts", p, false);
  cj_test_advance(a.t, 5000);
  at_least_once_each(&a, PARTITIONS, 1);
  for (int32_t p = 0; p < PARTITIONS; p++)
    assert_int_equal(cj_test_end(a.t, "notif", p), cj_test_committed(a.t, "notif", p));
  alerts_well(&a, "a");
  alerts_well(&a, "b");
  alerts_close(&a);
}

/* Two members of one process group die in turn; each time the rest takes over. */
static void crashes_one_after_the_other(void **state) {
  (void)state;
  alerts a = alerts_open(INNER, PARTITIONS, NULL);
  some_prices(&a, 1000);
  static const char *const members[] = {"a", "b", "c"};
  for (size_t i = 0; i < 3; i++)
    alerts_start(&a, members[i]);
  int round = 0;
  for (size_t i = 0; i < 3; i++) {
    a_round(&a, round++);
    cj_test_settle(a.t);
    cj_test_crash_member(a.t, members[i]);
    a_round(&a, round++);
    if (i == 2) alerts_start(&a, "a");
    cj_test_advance(a.t, 60000);
    at_least_once_each(&a, PARTITIONS, round);
    all_owned(&a, PARTITIONS);
  }
  alerts_close(&a);
}

/* Case 64: stopping while it joins, restores, or is being revoked ends all the same. */
static void case_64_stopping_at_any_moment(void **state) {
  (void)state;
  for (int steps = 0; steps < 60; steps++) {
    alerts a = alerts_open(INNER, PARTITIONS, NULL);
    some_prices(&a, 1000);
    alerts_run(&a);
    alerts_start(&a, "b");
    a_round(&a, 0);
    for (int i = 0; i < steps; i++)
      cj_test_step(a.t);
    cj_test_stop_member(a.t, steps % 2 ? "a" : "b");
    cj_test_settle(a.t);
    assert_int_equal(PARTITIONS, owned_by(&a, PARTITIONS, steps % 2 ? "b" : "a"));
    once_each(&a, PARTITIONS, 1);
    alerts_close(&a);
  }
}

/* The same for a crash, at each of the first steps of a hand-over. */
static void crashing_at_any_moment(void **state) {
  (void)state;
  for (int steps = 0; steps < 60; steps++) {
    alerts a = alerts_open(INNER, PARTITIONS, NULL);
    some_prices(&a, 1000);
    alerts_run(&a);
    alerts_start(&a, "b");
    a_round(&a, 0);
    for (int i = 0; i < steps; i++)
      cj_test_step(a.t);
    cj_test_crash_member(a.t, steps % 2 ? "a" : "b");
    cj_test_advance(a.t, 60000);
    all_owned(&a, PARTITIONS);
    at_least_once_each(&a, PARTITIONS, 1);
    alerts_close(&a);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_lost_or_done_twice_as_members_come_and_go),
      cmocka_unit_test(several_threads_are_several_members),
      cmocka_unit_test(spread_is_whole_over_four_members),
      cmocka_unit_test(spare_members_idle_and_take_over),
      cmocka_unit_test(a_restart_gets_its_indices_back),
      cmocka_unit_test(a_task_that_comes_back_keeps_its_store),
      cmocka_unit_test(a_revoke_commits),
      cmocka_unit_test(a_suspended_task_does_not_trust_an_old_store),
      cmocka_unit_test(a_frozen_member_loses_its_tasks),
      cmocka_unit_test(a_stalled_member_does_nothing_once_it_was_told),
      cmocka_unit_test(an_evicted_member_drops_what_was_not_committed),
      cmocka_unit_test(a_revoke_over_its_budget_does_not_commit),
      cmocka_unit_test(crashes_one_after_the_other),
      cmocka_unit_test(case_64_stopping_at_any_moment),
      cmocka_unit_test(crashing_at_any_moment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
