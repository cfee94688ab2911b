/* SPDX-License-Identifier: BSD-2-Clause */
/* What a topology becomes when it is built, and what happens to what was put into it. */
#include "lib/unit.h"

#include "lib/topologies.h"
#include "operators/plan.h"

static cj_plan *build(cj_topology *topology) {
  cj_plan *plan = NULL;
  assert_no_error(cj_topology_build(topology, &plan));
  assert_non_null(plan);
  return plan;
}

static int find_node(const cj_plan *plan, const char *name) {
  for (size_t i = 0; i < plan->node_count; i++)
    if (strcmp(plan->nodes[i].name, name) == 0) return (int)i;
  fail_msg("no node %s", name);
  return -1;
}

static int group_of(const cj_plan *plan, const char *topic) {
  return plan->topics[cj_plan_find_topic(plan, topic)].group;
}

/* ---- the plan ---- */

static void topics_are_numbered_by_name_inputs_first(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream *notif = cj_topology_stream(t, "notif", NULL);
  cj_table *price = cj_topology_table(t, "market", NULL);
  cj_stream *joined = cj_stream_join(notif, price, value_and_row, &(cj_node){.name = "alert"});
  cj_stream_to(joined, "zalerts", NULL);
  cj_stream_to(joined, "alerts", &(cj_sink_options){.partitioner = cj_partitioner_crc32()});
  cj_stream_to(joined, "alerts", &(cj_sink_options){.partitioner = cj_partitioner_crc32()});
  cj_plan *plan = build(t);
  static const char *const names[] = {"market", "notif", "alerts", "zalerts"};
  assert_int_equal(plan->topic_count, 4);
  assert_int_equal(plan->input_count, 2);
  for (int i = 0; i < 4; i++) {
    assert_string_equal(plan->topics[i].name, names[i]);
    assert_int_equal(cj_plan_find_topic(plan, names[i]), i);
  }
  assert_int_equal(cj_plan_find_topic(plan, "other"), -1);
  assert_int_equal(plan->topics[0].kind, CJ_TOPIC_TABLE);
  assert_int_equal(plan->topics[0].table, 0);
  assert_int_equal(plan->topics[1].table, -1);
  assert_int_equal(plan->topics[2].group, -1);
  assert_int_equal(plan->topics[2].source_node, -1);
  assert_ptr_equal(plan->topics[0].partitioner, cj_partitioner_murmur2());
  assert_ptr_equal(plan->topics[2].partitioner, cj_partitioner_crc32());
  assert_int_equal(plan->nodes[plan->topics[1].source_node].kind, CJ_NODE_STREAM);
  assert_int_equal(plan->nodes[find_node(plan, "alert")].topic, 0);
  assert_int_equal(plan->group_count, 1);
  const cj_plan_group *group = &plan->groups[0];
  assert_int_equal(group->topic_count, 2);
  assert_int_equal(group->topics[0], 0);
  assert_int_equal(group->topics[1], 1);
  assert_int_equal(group->table_count, 1);
  assert_int_equal(group->tables[0], 0);
  assert_int_equal(group->anchor, 0);
  assert_true(group->joined);
  cj_plan_destroy(plan);
}

static void topics_of_common_joins_are_one_set(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream *orders = cj_topology_stream(t, "orders", NULL);
  cj_stream *clicks = cj_topology_stream(t, "clicks", NULL);
  cj_table *users = cj_topology_table(t, "users", NULL);
  cj_table *prices = cj_topology_table(t, "prices", NULL);
  /* orders-users and clicks-users have users in common; prices comes in through the second join of
   * orders. */
  cj_stream *named = cj_stream_join(orders, users, value_and_row, NULL);
  cj_stream_left_join(named, prices, value_and_row, NULL);
  cj_stream_join(cj_stream_filter(clicks, keep, NULL), users, value_and_row, NULL);
  /* Merged and never joined: two sets. */
  cj_stream *east = cj_topology_stream(t, "east", NULL);
  cj_stream *west = cj_topology_stream(t, "west", NULL);
  cj_stream_to(cj_stream_merge(east, west, NULL), "all", NULL);
  /* A table that only the application looks up. */
  cj_topology_table(t, "alone", NULL);
  cj_plan *plan = build(t);
  assert_int_equal(plan->group_count, 4);
  int users_group = group_of(plan, "users");
  assert_int_equal(group_of(plan, "orders"), users_group);
  assert_int_equal(group_of(plan, "clicks"), users_group);
  assert_int_equal(group_of(plan, "prices"), users_group);
  /* Sets are numbered by their anchors' names. */
  assert_int_equal(group_of(plan, "alone"), 0);
  assert_int_equal(users_group, 1);
  assert_int_equal(group_of(plan, "east"), 2);
  assert_int_equal(group_of(plan, "west"), 3);
  const cj_plan_group *group = &plan->groups[users_group];
  assert_string_equal(plan->topics[group->anchor].name, "clicks");
  assert_int_equal(group->topic_count, 4);
  assert_int_equal(group->table_count, 2);
  assert_int_equal(plan->topics[cj_plan_find_topic(plan, "prices")].table, 0);
  assert_int_equal(plan->topics[cj_plan_find_topic(plan, "users")].table, 1);
  assert_false(plan->groups[0].joined);
  assert_int_equal(plan->groups[0].table_count, 1);
  cj_plan_destroy(plan);
}

static void a_merge_before_a_join_unites(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream *east = cj_topology_stream(t, "east", NULL);
  cj_stream *west = cj_topology_stream(t, "west", NULL);
  cj_table *users = cj_topology_table(t, "users", NULL);
  cj_stream *word = cj_stream_assume_copartitioned(cj_stream_select_key(west, key_from_value, NULL),
                                                   "the producer keys by this field");
  cj_stream_join(cj_stream_merge(east, word, NULL), users, value_and_row, NULL);
  cj_plan *plan = build(t);
  assert_int_equal(plan->group_count, 1);
  assert_int_equal(plan->groups[0].topic_count, 3);
  assert_string_equal(plan->nodes[find_node(plan, "assume-copartitioned-4")].why,
                      "the producer keys by this field");
  cj_plan_destroy(plan);
}

static void edges_lead_forward_and_branches_are_told_apart(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream *in = cj_topology_stream(t, "in", NULL);
  cj_stream *out[3];
  assert_int_equal(cj_stream_branch(in, first_branch, out, 3, &(cj_node){.name = "split"}), 3);
  cj_stream_to(out[2], "c", &(cj_sink_options){.name = "to-c"});
  cj_stream_to(out[0], "a", &(cj_sink_options){.name = "to-a"});
  cj_stream_to(out[2], "d", &(cj_sink_options){.name = "to-d"});
  cj_stream_peek(cj_stream_merge(out[0], out[2], &(cj_node){.name = "both"}), look, NULL);
  cj_plan *plan = build(t);
  for (size_t i = 0; i < plan->node_count; i++)
    for (size_t k = 0; k < plan->nodes[i].next_count; k++)
      assert_true(plan->nodes[i].next[k] > (int)i);
  const cj_plan_node *split = &plan->nodes[find_node(plan, "split")];
  static const char *const next[] = {"to-a", "both", "to-c", "to-d", "both"};
  static const int branch_of[] = {0, 0, 2, 2, 2};
  assert_int_equal(split->branches, 3);
  assert_int_equal(split->next_count, 5);
  for (size_t i = 0; i < 5; i++) {
    assert_string_equal(plan->nodes[split->next[i]].name, next[i]);
    assert_int_equal(split->branch_of[i], branch_of[i]);
  }
  cj_plan_destroy(plan);
}

static int64_t value_as_time(void *user, const cj_record *record) {
  assert_non_null(user);
  return strtoll(record->value.data, NULL, 10);
}

static void options_reach_the_plan(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  int here = 0;
  cj_stream *in = cj_topology_stream(t, "in",
                                     &(cj_source_options){
                                         .key_serde = cj_serde_string(),
                                         .value_serde = cj_serde_int64(),
                                         .partitioner = cj_partitioner_fnv1a(),
                                         .timestamp = value_as_time,
                                         .timestamp_user = &here,
                                     });
  cj_stream_map_values(in, same_value,
                       &(cj_node){.name = "m", .user = &here, .value_serde = cj_serde_double()});
  cj_plan *plan = build(t);
  const cj_plan_topic *topic = &plan->topics[0];
  assert_ptr_equal(topic->key_serde, cj_serde_string());
  assert_ptr_equal(topic->value_serde, cj_serde_int64());
  assert_ptr_equal(topic->partitioner, cj_partitioner_fnv1a());
  cj_record record = {.value = cj_bytes_str("77"), .timestamp = 5};
  assert_int_equal(cj_plan_timestamp(topic, &record), 77);
  assert_int_equal(cj_plan_timestamp(&(cj_plan_topic){0}, &record), 5);
  const cj_plan_node *node = &plan->nodes[find_node(plan, "m")];
  assert_ptr_equal(node->user, &here);
  assert_ptr_equal(node->value_serde, cj_serde_double());
  cj_plan_destroy(plan);
}

static void names_default_to_kind_and_number(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream *in = cj_topology_stream(t, "in", NULL);
  cj_stream *a = cj_stream_filter(in, keep, NULL);
  /* A default name gives way to a user's, whichever comes first. */
  cj_stream *b = cj_stream_filter(a, keep, &(cj_node){.name = "filter-1"});
  cj_stream *c = cj_stream_filter(b, keep, &(cj_node){.name = "filter-4"});
  cj_stream_filter(c, keep, NULL);
  cj_plan *plan = build(t);
  assert_string_equal(plan->nodes[0].name, "stream-0");
  assert_string_equal(plan->nodes[2].name, "filter-1");
  assert_string_equal(plan->nodes[3].name, "filter-4");
  for (size_t i = 0; i < plan->node_count; i++)
    for (size_t k = 0; k < i; k++)
      assert_string_not_equal(plan->nodes[i].name, plan->nodes[k].name);
  cj_plan_destroy(plan);
}

/* A program that was built with an older header passes a smaller size: what lies beyond it is not
 * read. */
static void fields_beyond_the_callers_size_are_zero(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_source_options source = {.key_serde = cj_serde_string(),
                              .partitioner = cj_partitioner_crc32()};
  cj_stream *in =
      cj_topology_stream_sized(t, "in", &source, offsetof(cj_source_options, partitioner));
  int destroyed = 0;
  cj_node node = counted(&destroyed, "old");
  cj_stream *f = cj_stream_filter_sized(in, keep, &node, offsetof(cj_node, destroy));
  cj_sink_options sink = {.name = "to-out", .partitioner = cj_partitioner_crc32()};
  cj_stream_to_sized(f, "out", &sink, offsetof(cj_sink_options, partitioner));
  cj_plan *plan = build(t);
  assert_ptr_equal(plan->topics[0].key_serde, cj_serde_string());
  assert_ptr_equal(plan->topics[0].partitioner, cj_partitioner_murmur2());
  assert_ptr_equal(plan->topics[1].partitioner, cj_partitioner_murmur2());
  assert_int_equal(find_node(plan, "old"), 1);
  assert_int_equal(find_node(plan, "to-out"), 2);
  cj_plan_destroy(plan);
  assert_int_equal(destroyed, 0);
}

/* ---- who destroys what ---- */

static void users_are_destroyed_with_the_plan(void **state) {
  (void)state;
  int count = 0;
  cj_node node = counted(&count, NULL);
  cj_topology *t = cj_topology_new();
  cj_stream *in = cj_topology_stream(t, "in", NULL);
  cj_table *table = cj_topology_table(t, "table", NULL);
  cj_stream *at = cj_stream_filter(in, keep, &node);
  at = cj_stream_map_values(at, same_value, &node);
  at = cj_stream_peek(at, look, &node);
  at = cj_stream_join(at, table, value_and_row, &node);
  at = cj_stream_left_join(at, table, value_and_row, &node);
  cj_stream *out[2];
  cj_stream_branch(at, first_branch, out, 2, &node);
  at = cj_stream_merge(out[0], out[1], &node);
  at = cj_stream_map(at, same_both, &node);
  at = cj_stream_select_key(at, key_from_value, &node);
  cj_stream_flat_map(at, emit_twice, &node);
  cj_plan *plan = build(t);
  assert_int_equal(count, 0);
  cj_plan_destroy(plan);
  assert_int_equal(count, 10);
  cj_plan_destroy(NULL);
  cj_topology_destroy(NULL);
}

static void users_are_destroyed_once_when_the_build_fails(void **state) {
  (void)state;
  int kept = 0, refused = 0, after = 0, nowhere = 0;
  cj_node node = counted(&kept, "kept"), same = counted(&refused, "kept"),
          later = counted(&after, NULL), none = counted(&nowhere, NULL);
  cj_topology *t = cj_topology_new();
  cj_stream *in = cj_topology_stream(t, "in", NULL);
  cj_stream *f = cj_stream_filter(in, keep, &node);
  assert_non_null(f);
  /* Refused: within the call. */
  assert_null(cj_stream_filter(f, keep, &same));
  assert_int_equal(refused, 1);
  /* After the first error: likewise. */
  assert_null(cj_stream_peek(f, look, &later));
  assert_null(cj_stream_merge(f, f, &later));
  cj_stream *out[2];
  assert_int_equal(cj_stream_branch(f, first_branch, out, 2, &later), 0);
  assert_null(out[0]);
  assert_int_equal(after, 3);
  /* A NULL handle: likewise. */
  assert_null(cj_stream_filter(NULL, keep, &none));
  assert_null(cj_stream_join(NULL, NULL, value_and_row, &none));
  assert_null(cj_stream_merge(NULL, NULL, &none));
  assert_int_equal(cj_stream_branch(NULL, first_branch, out, 2, &none), 0);
  assert_null(cj_stream_assume_copartitioned(NULL, "why"));
  cj_stream_to(NULL, "out", NULL);
  assert_int_equal(nowhere, 4);
  for (int again = 0; again < 2; again++) {
    cj_plan *plan = (cj_plan *)1;
    cj_error *error = cj_topology_build(t, &plan);
    assert_null(plan);
    assert_int_equal(cj_error_code(error), CJ_ERR_TOPOLOGY);
    assert_string_equal(cj_error_subject(error), "kept");
    cj_error_destroy(error);
  }
  assert_int_equal(kept, 0);
  cj_topology_destroy(t);
  assert_int_equal(kept, 1);
  assert_int_equal(refused, 1);
  assert_int_equal(after, 3);
}

static cj_error *build_all(int *count, cj_plan **plan) {
  cj_node node = counted(count, NULL);
  cj_topology *t = cj_topology_new();
  cj_stream *in = cj_topology_stream(t, "in", NULL);
  cj_table *table = cj_topology_table(t, "table", NULL);
  cj_stream *at = cj_stream_filter(in, keep, &node);
  at = cj_stream_join(at, table, value_and_row, &node);
  cj_stream *out[2] = {0};
  cj_stream_branch(at, first_branch, out, 2, &node);
  at = cj_stream_merge(out[0], out[1], &node);
  at = cj_stream_select_key(at, key_from_value, &node);
  at = cj_stream_assume_copartitioned(at, "because");
  cj_stream_to(at, "out", NULL);
  cj_error *error = cj_topology_build(t, plan);
  if (error) cj_topology_destroy(t);
  return error;
}

/* Every allocation fails once: an error comes back, each user is destroyed once and, under the
 * address sanitizer, nothing leaks. */
static void any_allocation_may_fail(void **state) {
  (void)state;
  long n = 0;
  for (bool built = false; !built; n++) {
    int count = 0;
    cj_plan *plan = NULL;
    cj_alloc_fail_after(n);
    cj_error *error = build_all(&count, &plan);
    cj_alloc_fail_after(-1);
    built = !error;
    assert_int_equal(cj_error_code(error), built ? CJ_OK : CJ_ERR_NO_MEMORY);
    cj_error_destroy(error);
    cj_plan_destroy(plan);
    assert_int_equal(count, 5);
    assert_true(n < 500);
  }
  assert_true(n > 30);
}

/* ---- the hash ---- */

typedef struct {
  bool reversed; /* the order of declaration */
  const char *name, *topic;
  const cj_serde *key, *value;
  const cj_partitioner *sink;
  cj_filter_fn *fn;
  bool left, filter_first, other_branch;
} variant;

static cj_verdict drop(cj_ctx *ctx, const cj_record *record) {
  (void)ctx;
  (void)record;
  return CJ_DROP;
}

static uint32_t hash_of(variant v) {
  cj_topology *t = cj_topology_new();
  cj_source_options options = {.key_serde = v.key, .value_serde = v.value};
  cj_node named = {.name = v.name};
  cj_table *table = v.reversed ? cj_topology_table(t, "table", &options) : NULL;
  cj_stream *at = cj_topology_stream(t, v.topic ? v.topic : "in", NULL);
  if (!table) table = cj_topology_table(t, "table", &options);
  if (v.filter_first) at = cj_stream_filter(at, v.fn ? v.fn : keep, &named);
  at = v.left ? cj_stream_left_join(at, table, value_and_row, NULL)
              : cj_stream_join(at, table, value_and_row, NULL);
  if (!v.filter_first) at = cj_stream_filter(at, v.fn ? v.fn : keep, &named);
  cj_stream *out[2];
  cj_stream_branch(at, first_branch, out, 2, NULL);
  if (v.reversed) {
    cj_stream_to(out[1], "second", NULL);
    cj_stream_to(out[0], "first", &(cj_sink_options){.partitioner = v.sink});
  } else {
    cj_stream_to(out[v.other_branch], "first", &(cj_sink_options){.partitioner = v.sink});
    cj_stream_to(out[!v.other_branch], "second", NULL);
  }
  cj_plan *plan = build(t);
  uint32_t hash = plan->hash;
  cj_plan_destroy(plan);
  return hash;
}

static void the_hash_is_of_what_decides_where_records_go(void **state) {
  (void)state;
  uint32_t plain = hash_of((variant){0});
  assert_int_equal(hash_of((variant){0}), plain);
  assert_int_equal(hash_of((variant){.reversed = true}), plain);
  assert_int_equal(hash_of((variant){.name = "other"}), plain);
  assert_int_equal(hash_of((variant){.fn = drop}), plain);
  const variant others[] = {
      {.topic = "in-other"},       {.key = cj_serde_string()},       {.value = cj_serde_string()},
      {.value = cj_serde_int64()}, {.sink = cj_partitioner_crc32()}, {.left = true},
      {.filter_first = true},      {.other_branch = true},
  };
  enum { OTHERS = sizeof others / sizeof *others };
  uint32_t hashes[OTHERS];
  for (size_t i = 0; i < OTHERS; i++) {
    hashes[i] = hash_of(others[i]);
    assert_int_not_equal(hashes[i], plain);
    for (size_t k = 0; k < i; k++)
      assert_int_not_equal(hashes[i], hashes[k]);
  }
  /* It is in the client ids of running groups: a change of the formula would make every rolling
   * update look like another topology. */
  assert_int_equal(plain, 0xebaf53c1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(topics_are_numbered_by_name_inputs_first),
      cmocka_unit_test(topics_of_common_joins_are_one_set),
      cmocka_unit_test(a_merge_before_a_join_unites),
      cmocka_unit_test(edges_lead_forward_and_branches_are_told_apart),
      cmocka_unit_test(options_reach_the_plan),
      cmocka_unit_test(names_default_to_kind_and_number),
      cmocka_unit_test(fields_beyond_the_callers_size_are_zero),
      cmocka_unit_test(users_are_destroyed_with_the_plan),
      cmocka_unit_test(users_are_destroyed_once_when_the_build_fails),
      cmocka_unit_test(any_allocation_may_fail),
      cmocka_unit_test(the_hash_is_of_what_decides_where_records_go),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
