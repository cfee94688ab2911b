/* SPDX-License-Identifier: BSD-2-Clause */
/* The checklist: point 4, and brokers that do not answer. */
#include "lib/check_fixture.h"
#include "runtime/stamp.h"

/* ---- point 4 ---- */

static char *member_id(const world *w, const char *process, uint32_t topology) {
  cj_stamp stamp;
  cj_stamp_of(&w->p.plan, &w->settings, &stamp);
  stamp.topology = topology;
  char *id = cj_stamp_client_id(&stamp, process, 0, "");
  assert_non_null(id);
  return id;
}

static void test_members_that_fit(void **state) {
  (void)state;
  world w;
  setup(&w);
  topics(&w, 6, 6);
  char *id = member_id(&w, "0000aaaa", w.p.plan.hash);
  const cj_io_member members[] = {{.client_id = id, .host = "/10.0.0.1"}};
  w.io.members = members;
  w.io.member_count = 1;
  w.io.group_state = "Stable";
  run(&w);
  expect_verdict(&w, CJ_POINT_ASSIGNMENT, CJ_HOLDS);
  expect_evidence(&w, CJ_POINT_ASSIGNMENT, "1 of 1 members");
  cj_check_result_free(&w.out);
  cj_free(id);
}

static void test_plain_client_in_the_group(void **state) {
  (void)state;
  world w;
  setup(&w);
  topics(&w, 6, 6);
  char *id = member_id(&w, "0000aaaa", w.p.plan.hash);
  const cj_io_member members[] = {{.client_id = id, .host = "/10.0.0.1"},
                                  {.client_id = "rdkafka", .host = "/10.0.0.2"}};
  w.io.members = members;
  w.io.member_count = 2;
  run(&w);
  expect_verdict(&w, CJ_POINT_ASSIGNMENT, CJ_BROKEN);
  expect_evidence(&w, CJ_POINT_ASSIGNMENT, "member rdkafka at /10.0.0.2 is no member of cojoin");
  expect_refusal(&w, CJ_ERR_ASSIGNMENT, "rdkafka at /10.0.0.2");
  cj_check_result_free(&w.out);
  w.settings.check[CJ_POINT_ASSIGNMENT] = CJ_CHECK_WARN;
  run(&w);
  expect_start(&w);
  cj_check_result_free(&w.out);
  cj_free(id);
}

static void test_other_scheme_anchor_and_topology(void **state) {
  (void)state;
  world w;
  setup(&w);
  topics(&w, 6, 6);
  char *ids[3];
  ids[0] = member_id(&w, "0000aaaa", 1);
  w.settings.anchor = "price";
  ids[1] = member_id(&w, "0000bbbb", w.p.plan.hash);
  w.settings.anchor = "";
  w.settings.assignment = CJ_ASSIGN_SPREAD;
  ids[2] = member_id(&w, "0000cccc", w.p.plan.hash);
  w.settings.assignment = CJ_ASSIGN_RANGE;
  const char *says[] = {"another version of the topology", "has the anchor price, this one notif",
                        "uses assignment spread, this one range"};
  const cj_point_verdict verdicts[] = {CJ_UNVERIFIED, CJ_BROKEN, CJ_BROKEN};
  for (int i = 0; i < 3; i++) {
    const cj_io_member members[] = {{.client_id = ids[i], .host = "/h"}};
    w.io.members = members;
    w.io.member_count = 1;
    run(&w);
    expect_verdict(&w, CJ_POINT_ASSIGNMENT, verdicts[i]);
    expect_evidence(&w, CJ_POINT_ASSIGNMENT, says[i]);
    if (verdicts[i] == CJ_BROKEN)
      expect_refusal(&w, CJ_ERR_ASSIGNMENT, says[i]);
    else
      expect_start(&w);
    cj_check_result_free(&w.out);
    cj_free(ids[i]);
  }
}

/* Each is named, up to a number that a person can read. */
static void test_many_foreign_members(void **state) {
  (void)state;
  world w;
  setup(&w);
  topics(&w, 6, 6);
  cj_io_member members[50];
  char names[50][24];
  for (int i = 0; i < 50; i++) {
    snprintf(names[i], sizeof names[i], "plain-%d", i);
    members[i] = (cj_io_member){.client_id = names[i], .host = "/h"};
  }
  w.io.members = members;
  w.io.member_count = 50;
  run(&w);
  expect_evidence(&w, CJ_POINT_ASSIGNMENT, "plain-19 ");
  assert_false(evidence(&w, CJ_POINT_ASSIGNMENT, "plain-20 "));
  expect_evidence(&w, CJ_POINT_ASSIGNMENT, "and 30 more");
  cj_check_result_free(&w.out);
}

static void test_pinned_anchor(void **state) {
  (void)state;
  world w;
  setup(&w);
  topics(&w, 6, 6);
  w.settings.anchor = "price";
  run(&w);
  expect_evidence(&w, CJ_POINT_ASSIGNMENT, "price, pinned by the property anchor");
  cj_check_result_free(&w.out);
}

/* What cannot be seen is said to be unseen, within one request's time; it does not hold the start
 * up. */
static void test_group_that_cannot_be_described(void **state) {
  (void)state;
  world w;
  setup(&w);
  topics(&w, 6, 6);
  w.io.faults[CJ_REQ_GROUP] = (fake_fault){.code = CJ_IO_UNSUPPORTED, .until = INT64_MAX};
  run(&w);
  expect_verdict(&w, CJ_POINT_ASSIGNMENT, CJ_UNVERIFIED);
  expect_evidence(&w, CJ_POINT_ASSIGNMENT, "could not be described");
  assert_int_equal(w.io.submitted[CJ_REQ_GROUP], 1);
  cj_check_result_free(&w.out);
  w.io.faults[CJ_REQ_GROUP] = (fake_fault){.silent = true, .until = INT64_MAX};
  int64_t begun = w.io.clock;
  run(&w);
  expect_verdict(&w, CJ_POINT_ASSIGNMENT, CJ_UNVERIFIED);
  assert_in_range(w.io.clock - begun, 9900, 10500);
  expect_start(&w);
  cj_check_result_free(&w.out);
  w.io.faults[CJ_REQ_GROUP] = (fake_fault){.code = CJ_IO_AUTH, .until = INT64_MAX};
  expect_failure(try_run(&w), CJ_ERR_AUTH, "orders");
}

/* The coordinator of a cluster that has just come up needs a moment. */
static void test_group_coordinator_comes_up(void **state) {
  (void)state;
  world w;
  setup(&w);
  topics(&w, 6, 6);
  w.io.faults[CJ_REQ_GROUP] = (fake_fault){.code = CJ_IO_RETRIABLE, .until = w.io.clock + 2000};
  run(&w);
  expect_verdict(&w, CJ_POINT_ASSIGNMENT, CJ_HOLDS);
  cj_check_result_free(&w.out);
}

/* ---- brokers ---- */

/* Case 83: nobody there. It ends at the timeout, with the client's own words. */
static void test_broker_down(void **state) {
  (void)state;
  world w;
  setup(&w);
  w.io.faults[CJ_REQ_METADATA] = (fake_fault){.silent = true, .until = INT64_MAX};
  w.io.event = (cj_io_event){
      .kind = CJ_EV_ERROR, .code = CJ_IO_RETRIABLE, .text = "Connect to 127.0.0.1:9 refused"};
  int64_t begun = w.io.clock;
  cj_error *error = try_run(&w);
  assert_string_equal(cj_error_subject(error), "127.0.0.1:9");
  assert_int_equal(cj_error_class(error), CJ_CLASS_RETRIABLE);
  expect_failure(error, CJ_ERR_BROKER, "Connect to 127.0.0.1:9 refused");
  assert_in_range(w.io.clock - begun, 30000, 30500);
}

/* Case 83: the broker comes up ten seconds later; the check is made then, not skipped. */
static void test_broker_comes_up_later(void **state) {
  (void)state;
  world w;
  setup(&w);
  topics(&w, 6, 4);
  w.io.faults[CJ_REQ_METADATA] = (fake_fault){.code = CJ_IO_RETRIABLE, .until = w.io.clock + 10000};
  run(&w);
  expect_verdict(&w, CJ_POINT_PARTITION_COUNT, CJ_BROKEN);
  assert_true(w.io.submitted[CJ_REQ_METADATA] > 3);  /* it did go on asking */
  assert_true(w.io.submitted[CJ_REQ_METADATA] < 20); /* and not all the time */
  cj_check_result_free(&w.out);
}

/* Wrong credentials do not get better: at once, not at the timeout. */
static void test_authentication_fails(void **state) {
  (void)state;
  world w;
  setup(&w);
  w.io.faults[CJ_REQ_METADATA] = (fake_fault){.silent = true, .until = INT64_MAX};
  w.io.event = (cj_io_event){.kind = CJ_EV_ERROR, .code = CJ_IO_AUTH, .text = "SASL: no"};
  w.io.event_at = w.io.clock + 150;
  int64_t begun = w.io.clock;
  expect_failure(try_run(&w), CJ_ERR_AUTH, "SASL: no");
  assert_true(w.io.clock - begun < 500);
}

static void test_fatal_client_error(void **state) {
  (void)state;
  world w;
  setup(&w);
  w.io.event =
      (cj_io_event){.kind = CJ_EV_ERROR, .code = CJ_IO_OTHER, .fatal = true, .text = "broken"};
  expect_failure(try_run(&w), CJ_ERR_KAFKA, "broken");
}

static bool cancelled(void *user) {
  return ((world *)user)->io.clock >= 3000;
}

static void test_cancelled(void **state) {
  (void)state;
  world w;
  setup(&w);
  w.io.faults[CJ_REQ_METADATA] = (fake_fault){.silent = true, .until = INT64_MAX};
  expect_failure(cj_check_run_until(&w.io.io, &w.p.plan, &w.settings, NULL, cancelled, &w, &w.out),
                 CJ_ERR_STATE, "stopped");
  assert_in_range(w.io.clock, 3000, 3100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_members_that_fit),
      cmocka_unit_test(test_plain_client_in_the_group),
      cmocka_unit_test(test_other_scheme_anchor_and_topology),
      cmocka_unit_test(test_many_foreign_members),
      cmocka_unit_test(test_pinned_anchor),
      cmocka_unit_test(test_group_that_cannot_be_described),
      cmocka_unit_test(test_group_coordinator_comes_up),
      cmocka_unit_test(test_broker_down),
      cmocka_unit_test(test_broker_comes_up_later),
      cmocka_unit_test(test_authentication_fails),
      cmocka_unit_test(test_fatal_client_error),
      cmocka_unit_test(test_cancelled),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
