/* SPDX-License-Identifier: BSD-2-Clause */
/* The checklist's point 4 and the refusals of a start, on a real broker: the mock cluster describes
 * no groups. ctest: timeout=180 */
#include "broker/io_broker.h"

#include "lib/topologies.h"
#include "lib/unit.h"

#include <cojoin/cojoin.h>

typedef struct {
  char notif[64], price[64], alerts[64], group[64];
} names;

static void unique(names *n) {
  test_unique(n->notif, sizeof n->notif, "notif");
  test_unique(n->price, sizeof n->price, "price");
  test_unique(n->alerts, sizeof n->alerts, "alerts");
  test_unique(n->group, sizeof n->group, "group");
}

static void create(const names *n) {
  test_create_topic(n->notif, 4, NULL);
  test_create_topic(n->price, 4, NULL);
  test_create_topic(n->alerts, 1, NULL);
}

/* Properties are names and values in turn, ended by NULL. */
static cj_app *make(const names *n, bool filtered, const char *const *properties) {
  cj_topology *topology = cj_topology_new();
  cj_stream *notif = cj_topology_stream(topology, n->notif, NULL);
  if (filtered) notif = cj_stream_filter(notif, keep, NULL);
  cj_table *price = cj_topology_table(topology, n->price, NULL);
  cj_stream_to(cj_stream_join(notif, price, value_and_row, NULL), n->alerts, NULL);
  cj_plan *plan = NULL;
  assert_no_error(cj_topology_build(topology, &plan));
  cj_config *config = cj_config_new();
  assert_no_error(cj_config_set(config, "application.id", n->group));
  assert_no_error(cj_config_set(config, "bootstrap.servers", test_brokers()));
  assert_no_error(cj_config_set(config, "store", "memory"));
  for (; properties && *properties; properties += 2)
    assert_no_error(cj_config_set(config, properties[0], properties[1]));
  cj_app *app = NULL;
  assert_no_error(cj_app_new(plan, config, NULL, &app));
  cj_config_destroy(config);
  return app;
}

static void await_state(cj_app *app, cj_app_state state) {
  int64_t until = test_now() + PATIENCE_MS;
  while (cj_app_get_state(app) != state) {
    if (test_now() > until || cj_app_get_state(app) == CJ_APP_FAILED)
      fail_msg("the application is %s", cj_app_state_name(cj_app_get_state(app)));
    cj_error *error = cj_app_wait(app, 20);
    cj_error_destroy(error);
  }
}

/* What a newcomer of that kind sees, and whether it may start. */
static void expect_newcomer(const names *n, bool filtered, const char *const *properties,
                            cj_point_verdict verdict, const char *says) {
  cj_app *app = make(n, filtered, properties);
  cj_report *report = NULL;
  assert_no_error(cj_app_check(app, &report));
  const char *text = cj_report_text(report);
  if (cj_report_point(report, CJ_POINT_ASSIGNMENT) != verdict || !strstr(text, says))
    fail_msg("not %s with \"%s\":\n%s", cj_verdict_name(verdict), says, text);
  cj_report_destroy(report);
  if (verdict == CJ_BROKEN) {
    cj_error *error = cj_app_start(app);
    assert_int_equal(cj_error_code(error), CJ_ERR_ASSIGNMENT);
    assert_string_equal(cj_error_subject(error), n->group);
    ASSERT_MENTIONS(cj_error_message(error), says);
    cj_error_destroy(error);
  }
  cj_app_destroy(app);
}

static void test_group_is_described(void **state) {
  (void)state;
  names n;
  unique(&n);
  create(&n);
  expect_newcomer(&n, false, NULL, CJ_HOLDS, "has no members");
  cj_app *first = make(&n, false, NULL);
  assert_no_error(cj_app_start(first));
  await_state(first, CJ_APP_RUNNING);
  expect_newcomer(&n, false, NULL, CJ_HOLDS, "1 of 1 members use this assignment");
  const char *spread[] = {"assignment", "spread", NULL};
  expect_newcomer(&n, false, spread, CJ_BROKEN, "uses assignment range, this one spread");
  const char *anchored[] = {"anchor", n.price, NULL};
  expect_newcomer(&n, false, anchored, CJ_BROKEN, "has the anchor");
  expect_newcomer(&n, true, NULL, CJ_UNVERIFIED, "another version of the topology");
  cj_app_stop(first);
  assert_no_error(cj_app_wait(first, PATIENCE_MS));
  cj_app_destroy(first);
  expect_newcomer(&n, false, spread, CJ_HOLDS, "has no members"); /* it has left, not timed out */
}

/* A plain client in the group would take indices without a word. */
static void test_foreign_member_is_named(void **state) {
  (void)state;
  names n;
  unique(&n);
  create(&n);
  const char *properties[] = {"group.id", n.group, "client.id", "lag-tool", NULL};
  rd_kafka_t *plain = test_client(RD_KAFKA_CONSUMER, properties);
  rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
  rd_kafka_topic_partition_list_add(list, n.notif, RD_KAFKA_PARTITION_UA);
  assert_int_equal(rd_kafka_subscribe(plain, list), 0);
  rd_kafka_topic_partition_list_destroy(list);
  int64_t until = test_now() + PATIENCE_MS;
  int assigned = 0;
  while (!assigned) {
    assert_true(test_now() < until);
    rd_kafka_message_t *message = rd_kafka_consumer_poll(plain, 100);
    if (message) rd_kafka_message_destroy(message);
    assert_int_equal(rd_kafka_assignment(plain, &list), 0);
    assigned = list->cnt;
    rd_kafka_topic_partition_list_destroy(list);
  }
  expect_newcomer(&n, false, NULL, CJ_BROKEN, "member lag-tool at ");
  assert_int_equal(rd_kafka_consumer_close(plain), 0);
  rd_kafka_destroy(plain);
}

/* Case 35: the broker would make a topic for whoever asks for it by name. */
static void test_missing_topic_is_not_made(void **state) {
  (void)state;
  names n;
  unique(&n);
  test_create_topic(n.notif, 4, NULL);
  test_create_topic(n.alerts, 1, NULL);
  cj_app *app = make(&n, false, NULL);
  cj_error *error = cj_app_start(app);
  assert_int_equal(cj_error_code(error), CJ_ERR_TOPIC_MISSING);
  assert_string_equal(cj_error_subject(error), n.price);
  cj_error_destroy(error);
  cj_app_destroy(app);
  rd_kafka_t *client = test_client(RD_KAFKA_PRODUCER, NULL);
  const struct rd_kafka_metadata *metadata;
  assert_int_equal(rd_kafka_metadata(client, 1, NULL, &metadata, PATIENCE_MS), 0);
  bool made = false, known = false;
  for (int i = 0; i < metadata->topic_cnt; i++) {
    made |= strcmp(metadata->topics[i].topic, n.price) == 0;
    known |= strcmp(metadata->topics[i].topic, n.notif) == 0;
  }
  rd_kafka_metadata_destroy(metadata);
  rd_kafka_destroy(client);
  assert_true(known);
  assert_false(made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_group_is_described),
      cmocka_unit_test(test_foreign_member_is_named),
      cmocka_unit_test(test_missing_topic_is_not_made),
  };
  return test_main_on_broker(tests, sizeof tests / sizeof *tests, "test_app_group");
}
