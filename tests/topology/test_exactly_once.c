/* SPDX-License-Identifier: BSD-2-Clause */
/* Exactly once: outputs, the positions of all inputs and, after them, the stores.
 *
 * Every notification of these tests meets a price, and their partition has no holes. So there is one
 * thing that has to hold after every single step, whatever happens: a reader under read_committed
 * sees as many outputs as the group has committed notifications, and no store is ahead of what the
 * group has committed of its table. Both are watched throughout. */
#include "lib/alerts.h"

enum { MEMBERS = 3 };
static const char *const members[MEMBERS] = {"a", "b", "c"};

typedef struct {
  alerts a;
  bool dropping;           /* a policy drops outputs: they are fewer */
  bool started[MEMBERS];   /* ever */
  char violation[256];     /* the first one */
} exact;

static int64_t at_least_zero(int64_t n) {
  return n < 0 ? 0 : n;
}

/* Only notes: a failed assertion would jump out of the driver. */
static void look(void *user, cj_test *t) {
  exact *e = user;
  int64_t seen = (int64_t)cj_test_count(t, "alerts", 0);
  int64_t done = at_least_zero(cj_test_committed(t, "notif", 0));
  int64_t table = at_least_zero(cj_test_committed(t, "price", 0));
  if (e->violation[0]) return;
  if (e->dropping ? seen > done : seen != done)
    snprintf(e->violation, sizeof e->violation, "%d outputs of %d notifications are to be seen",
             (int)seen, (int)done);
  for (size_t m = 0; m < MEMBERS; m++) {
    int64_t stored = e->started[m] ? cj_test_stored(t, members[m], "price", 0) : -1;
    if (stored > table)
      snprintf(e->violation, sizeof e->violation, "the store of %s is at %d, the group at %d",
               members[m], (int)stored, (int)table);
  }
}

static void start(exact *e, const char *member) {
  for (size_t m = 0; m < MEMBERS; m++)
    if (strcmp(members[m], member) == 0) e->started[m] = true;
  alerts_start(&e->a, member);
}

/* One partition, a price of 1 at the beginning, and member a. `properties` may be NULL. */
static void begin(exact *e, const char *const *properties) {
  memset(e, 0, sizeof *e);
  const char *all[32] = {"processing.guarantee", "exactly_once", "log.level", "debug"};
  for (size_t i = 0; properties && properties[i]; i++)
    all[4 + i] = properties[i];
  e->a = alerts_open(INNER, 1, all);
  alerts_price(&e->a, "X", "1", 0);
  start(e, "a");
  cj_test_settle(e->a.t);
  cj_test_watch(e->a.t, look, e);
}

static void end(exact *e) {
  if (e->violation[0]) fail_msg("%s", e->violation);
  alerts_close(&e->a);
}

static void notif(exact *e, const char *value) {
  alerts_notif(&e->a, "X", value, 1000);
}

#define assert_outputs(e, expected) assert_alerts(&(e)->a, expected)

/* A transaction that is open: `value` was processed, its output is in the log, not to be seen. */
static void leave_open(exact *e, const char *value) {
  size_t before = cj_test_count(e->a.t, "alerts", 0);
  int64_t end_before = cj_test_end(e->a.t, "alerts", 0);
  notif(e, value);
  cj_test_settle(e->a.t);
  assert_true(cj_test_end(e->a.t, "alerts", 0) > end_before);
  assert_int_equal(before, cj_test_count(e->a.t, "alerts", 0));
}

/* Steps until the group has that offset of `notif`: the answer has not been looked at then. */
static void step_until_committed(exact *e, int64_t offset) {
  while (cj_test_committed(e->a.t, "notif", 0) != offset)
    assert_true(cj_test_step(e->a.t));
}

static void commit_begins(exact *e) {
  cj_test_advance(e->a.t, 99);
  assert_int_equal(CJ_READ_FOUND, CJ_READ_FOUND);
}

/* ---- without trouble ---- */

static void outputs_are_seen_with_their_positions_only(void **state) {
  (void)state;
  exact e;
  begin(&e, NULL);
  leave_open(&e, "n1");
  assert_int_equal(-1, cj_test_committed(e.a.t, "notif", 0));
  cj_test_advance(e.a.t, 100); /* commit.interval.ms */
  assert_outputs(&e, "n1+1");
  assert_int_equal(1, cj_test_committed(e.a.t, "notif", 0));
  assert_int_equal(1, cj_test_committed(e.a.t, "price", 0));
  assert_int_equal(1, cj_test_stored(e.a.t, "a", "price", 0));
  for (int i = 0; i < 50; i++) {
    notif(&e, "n");
    cj_test_advance(e.a.t, 10);
  }
  cj_test_advance(e.a.t, 100);
  assert_int_equal(51, cj_test_count(e.a.t, "alerts", 0));
  assert_int_equal(0, cj_test_logged(e.a.t, "transaction was aborted"));
  end(&e);
}

static void stopping_commits_and_leaves_nothing_open(void **state) {
  (void)state;
  exact e;
  begin(&e, NULL);
  leave_open(&e, "n1");
  cj_test_stop_member(e.a.t, "a");
  assert_outputs(&e, "n1+1");
  int64_t stopped = cj_test_end(e.a.t, "alerts", 0);
  cj_test_advance(e.a.t, 60000);
  assert_int_equal(stopped, cj_test_end(e.a.t, "alerts", 0)); /* nothing had to time out */
  end(&e);
}

/* The inputs are read_committed: what was taken back never happened, what is open waits. */
static void inputs_are_what_was_committed(void **state) {
  (void)state;
  exact e;
  begin(&e, NULL);
  cj_test_watch(e.a.t, NULL, NULL); /* markers make holes */
  cj_test_transaction(e.a.t);
  alerts_price(&e.a, "X", "wrong", 500);
  notif(&e, "wrong");
  cj_test_transaction_end(e.a.t, false);
  notif(&e, "n1");
  cj_test_transaction(e.a.t);
  alerts_price(&e.a, "X", "2", 2000);
  cj_test_advance(e.a.t, 1000);
  assert_outputs(&e, "n1+1");
  assert_string_equal("1", alerts_row(&e.a, "X"));
  cj_test_transaction_end(e.a.t, true);
  cj_test_advance(e.a.t, 1000);
  assert_string_equal("2", alerts_row(&e.a, "X"));
  assert_int_equal(cj_test_end(e.a.t, "price", 0), cj_test_committed(e.a.t, "price", 0));
  end(&e);
}
