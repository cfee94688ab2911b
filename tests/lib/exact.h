/* SPDX-License-Identifier: BSD-2-Clause */
/* The fixture of the tests of exactly once.
 *
 * Every notification meets a price, and their partition has no holes. So there is one thing that
 * has to hold after every single step, whatever happens: a reader under read_committed sees as many
 * outputs as the group has committed notifications, and no store is ahead of what the group has
 * committed of its table. Both are watched throughout. */
#ifndef CJ_TEST_EXACT_H
#define CJ_TEST_EXACT_H

#include "lib/alerts.h"

#include "testing/driver.h"

enum { EXACT_MEMBERS = 3 };
static const char *const exact_members[EXACT_MEMBERS] = {"a", "b", "c"};

typedef struct {
  alerts a;
  bool dropping;               /* a policy drops outputs: they are fewer */
  bool started[EXACT_MEMBERS]; /* ever */
  char violation[256];         /* the first one */
} exact;

static inline int64_t exact_at_least_zero(int64_t n) {
  return n < 0 ? 0 : n;
}

/* Only notes: a failed assertion would jump out of the driver. */
static inline void exact_look(void *user, cj_test *t) {
  exact *e = user;
  int64_t seen = (int64_t)cj_test_count(t, "alerts", 0);
  int64_t done = exact_at_least_zero(cj_test_committed(t, "notif", 0));
  int64_t table = exact_at_least_zero(cj_test_committed(t, "price", 0));
  if (e->violation[0]) return;
  if (e->dropping ? seen > done : seen != done)
    snprintf(e->violation, sizeof e->violation, "%d outputs of %d notifications are to be seen",
             (int)seen, (int)done);
  for (size_t m = 0; m < EXACT_MEMBERS; m++) {
    int64_t stored = e->started[m] ? cj_test_stored(t, exact_members[m], "price", 0) : -1;
    if (stored > table)
      snprintf(e->violation, sizeof e->violation, "the store of %s is at %d, the group at %d",
               exact_members[m], (int)stored, (int)table);
  }
}

static inline void exact_start(exact *e, const char *member) {
  for (size_t m = 0; m < EXACT_MEMBERS; m++)
    if (strcmp(exact_members[m], member) == 0) e->started[m] = true;
  alerts_start(&e->a, member);
}

/* One partition, a price of 1 at the beginning, and member a. `properties` may be NULL. */
static inline void exact_begin(exact *e, const char *const *properties) {
  memset(e, 0, sizeof *e);
  const char *all[32] = {"processing.guarantee", "exactly_once", "log.level", "debug"};
  for (size_t i = 0; properties && properties[i]; i++)
    all[4 + i] = properties[i];
  e->a = alerts_open(INNER, 1, all);
  alerts_price(&e->a, "X", "1", 0);
  exact_start(e, "a");
  cj_test_settle(e->a.t);
  cj_test_watch(e->a.t, exact_look, e);
}

static inline void exact_end(exact *e) {
  if (e->violation[0]) fail_msg("%s", e->violation);
  alerts_close(&e->a);
}

static inline void exact_notif(exact *e, const char *value) {
  alerts_notif(&e->a, "X", value, 1000);
}

#define assert_outputs(e, expected) assert_alerts(&(e)->a, expected)

/* A transaction that is open: `value` was processed, its output is in the log, not to be seen. */
static inline void exact_leave_open(exact *e, const char *value) {
  size_t before = cj_test_count(e->a.t, "alerts", 0);
  int64_t end_before = cj_test_end(e->a.t, "alerts", 0);
  exact_notif(e, value);
  cj_test_settle(e->a.t);
  assert_true(cj_test_end(e->a.t, "alerts", 0) > end_before);
  assert_int_equal(before, cj_test_count(e->a.t, "alerts", 0));
}

/* A commit is asked for and waits for the output of `value`, until `exact_let_commit`. */
static inline void exact_commit_waits(exact *e, const char *value) {
  cj_test_hold(e->a.t, "alerts", 0, true);
  exact_notif(e, value);
  cj_test_settle(e->a.t);
  cj_test_commit(e->a.t);
}

static inline void exact_let_commit(exact *e) {
  cj_test_hold(e->a.t, "alerts", 0, false);
}

#endif
