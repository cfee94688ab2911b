/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/small_plan.h"
#include "runtime/stamp.h"

static cj_settings ranged(const char *anchor) {
  return (cj_settings){.assignment = CJ_ASSIGN_RANGE, .anchor = anchor};
}

static cj_stamp stamp_of(const cj_plan *plan, const cj_settings *settings) {
  cj_stamp stamp;
  cj_stamp_of(plan, settings, &stamp);
  return stamp;
}

/* What is written is read back, whatever the user's own part is. */
static void test_round_trip(void **state) {
  (void)state;
  small_plan p;
  small_plan_init(&p);
  const char *users[] = {"", "orders", "a-cj1.range.b", "-cj1.", "x-cj1.range.a.00000000.00000000"};
  for (cj_assignment scheme = CJ_ASSIGN_RANGE; scheme <= CJ_ASSIGN_BROKER; scheme++) {
    for (size_t i = 0; i < sizeof users / sizeof users[0]; i++) {
      cj_settings settings = {.assignment = scheme, .anchor = ""};
      cj_stamp made = stamp_of(&p.plan, &settings), back;
      char *id = cj_stamp_client_id(&made, "0a1b2c3d", 7, users[i]);
      assert_non_null(id);
      assert_true(cj_stamp_parse(id, &back));
      assert_int_equal(back.scheme, scheme);
      assert_string_equal(back.anchor, "notif");
      assert_int_equal(back.anchors, made.anchors);
      assert_int_equal(back.topology, p.plan.hash);
      cj_free(id);
    }
  }
}

static void test_form(void **state) {
  (void)state;
  small_plan p;
  small_plan_init(&p);
  cj_settings settings = ranged("");
  cj_stamp stamp = stamp_of(&p.plan, &settings);
  char *id = cj_stamp_client_id(&stamp, "0a1b2c3d", 0, "me");
  /* fnv1a("notif") and the hash of the small plan: others must compute the same, on any host. */
  assert_string_equal(id, "0a1b2c3d-000-me-cj1.range.notif.90635e2d.0000abcd");
  assert_int_equal(strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"),
                   strlen(id));
  cj_free(id);
}

/* `range` and `roundrobin` sort by what the client id begins with: a process keeps its place over a
 * restart, a new topology, a new name and a new scheme; its workers are in order. */
static void test_order_is_stable(void **state) {
  (void)state;
  small_plan p;
  small_plan_init(&p);
  cj_settings settings = ranged("");
  cj_stamp before = stamp_of(&p.plan, &settings);
  p.plan.hash = 1;
  settings.assignment = CJ_ASSIGN_SPREAD;
  cj_stamp after = stamp_of(&p.plan, &settings);
  const char *processes[] = {"0fffffff", "10000000", "ffffffff"};
  char *last = NULL;
  for (size_t i = 0; i < 3; i++) {
    for (int worker = 0; worker < 256; worker++) {
      const cj_stamp *stamp = (worker + (int)i) % 2 ? &before : &after;
      char *id = cj_stamp_client_id(stamp, processes[i], worker, worker % 3 ? "zz" : "");
      if (last && strcmp(last, id) >= 0) fail_msg("%s is not before %s", last, id);
      cj_free(last);
      last = id;
    }
  }
  cj_free(last);
}

static void test_what_is_no_stamp(void **state) {
  (void)state;
  cj_stamp stamp;
  const char *plain[] = {"",
                         "rdkafka",
                         "consumer-1",
                         "cj1.range.a.00000000.00000000", /* no stable part before it */
                         "x-cj2.range.a.00000000.00000000",
                         "x-cj1.uniform.a.00000000.00000000",
                         "x-cj1.range.a.0000000.00000000",
                         "x-cj1.range.a.00000000.0000000g",
                         "x-cj1.range.a.00000000",
                         "x-cj1.range."};
  for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
    if (cj_stamp_parse(plain[i], &stamp)) fail_msg("%s was read as a stamp", plain[i]);
  assert_false(cj_stamp_parse(NULL, &stamp));
}

static void test_anchor(void **state) {
  (void)state;
  small_plan p;
  small_plan_init(&p);
  cj_settings settings = ranged("");
  cj_stamp by_name = stamp_of(&p.plan, &settings);
  assert_string_equal(p.plan.topics[cj_stamp_anchor(&p.plan, 0, &settings)].name, "notif");
  settings = ranged("price");
  cj_stamp pinned = stamp_of(&p.plan, &settings);
  assert_string_equal(p.plan.topics[cj_stamp_anchor(&p.plan, 0, &settings)].name, "price");
  assert_string_equal(pinned.anchor, "price");
  assert_int_not_equal(pinned.anchors, by_name.anchors);
  settings = ranged("another"); /* not of this set: the set keeps its own */
  assert_string_equal(p.plan.topics[cj_stamp_anchor(&p.plan, 0, &settings)].name, "notif");
}

/* Names may have dots and be long: the hash tells them apart where the text was cut. */
static void test_long_and_dotted_anchors(void **state) {
  (void)state;
  small_plan p;
  small_plan_init(&p);
  char name[250];
  memset(name, 'n', 249);
  name[249] = '\0';
  name[3] = '.';
  p.plan.topics[0].name = name;
  cj_settings settings = ranged("");
  cj_stamp a = stamp_of(&p.plan, &settings), b;
  assert_int_equal(strlen(a.anchor), CJ_STAMP_ANCHOR_MAX);
  char *id = cj_stamp_client_id(&a, "0a1b2c3d", 0, "");
  assert_true(cj_stamp_parse(id, &b));
  assert_string_equal(b.anchor, a.anchor);
  cj_free(id);
  name[248] = 'm';
  b = stamp_of(&p.plan, &settings);
  assert_string_equal(b.anchor, a.anchor);
  assert_int_not_equal(b.anchors, a.anchors);
}

/* The same for every version of the topology, and no other worker's. */
static void test_transactional_id(void **state) {
  (void)state;
  cj_settings settings = ranged("");
  settings.application_id = "orders";
  char *id;
  assert_null(cj_stamp_transactional_id(&settings, "0a1b2c3d", 3, &id));
  assert_null(id);
  settings.guarantee = CJ_EXACTLY_ONCE;
  assert_null(cj_stamp_transactional_id(&settings, "0a1b2c3d", 3, &id));
  assert_string_equal(id, "orders-0a1b2c3d-3");
  cj_free(id);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_form),
      cmocka_unit_test(test_order_is_stable),  cmocka_unit_test(test_what_is_no_stamp),
      cmocka_unit_test(test_anchor),           cmocka_unit_test(test_long_and_dotted_anchors),
      cmocka_unit_test(test_transactional_id),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
