/* SPDX-License-Identifier: BSD-2-Clause */
/* What a topology must not be: each is refused by the build, with the node or topic as the subject
 * and a sentence that says what is wrong and what to do. */
#include "lib/unit.h"

#include "lib/topologies.h"

static void refused(cj_topology *topology, const char *subject, const char *const *words) {
  cj_plan *plan = NULL;
  cj_error *error = cj_topology_build(topology, &plan);
  assert_null(plan);
  assert_int_equal(cj_error_code(error), CJ_ERR_TOPOLOGY);
  assert_string_equal(cj_error_subject(error), subject);
  assert_mentions(cj_error_message(error), words);
  cj_error_destroy(error);
  cj_topology_destroy(topology);
}
#define REFUSED(topology, subject, ...)                                                            \
  refused((topology), (subject), (const char *const[]){__VA_ARGS__, NULL})

static void accepted(cj_topology *topology) {
  cj_plan *plan = NULL;
  assert_no_error(cj_topology_build(topology, &plan));
  cj_plan_destroy(plan);
}

static void empty(void **state) {
  (void)state;
  REFUSED(cj_topology_new(), "topology", "reads no topic");
  cj_plan *plan = (cj_plan *)1;
  cj_error *error = cj_topology_build(NULL, &plan);
  assert_int_equal(cj_error_code(error), CJ_ERR_NO_MEMORY);
  assert_null(plan);
}

static void a_topic_twice(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  assert_non_null(cj_topology_stream(t, "price", NULL));
  assert_null(cj_topology_table(t, "price", NULL));
  REFUSED(t, "price", "read twice", "first call");
}

static void a_sink_that_is_a_source(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream_to(cj_topology_stream(t, "notif", NULL), "notif", &(cj_sink_options){.name = "back"});
  REFUSED(t, "back", "notif", "both a sink and a source");
  t = cj_topology_new();
  cj_stream_to(cj_topology_stream(t, "notif", NULL), "price", NULL);
  cj_topology_table(t, "price", NULL);
  REFUSED(t, "price", "both a sink and a source");
}

static void names_of_topics(void **state) {
  (void)state;
  char longest[251];
  memset(longest, 'a', sizeof longest - 1);
  longest[250] = '\0';
  static const char *const bad[] = {"", ".", "..", "a b", "a/b", "pr\xc3\xb6", "a\n", "a:b"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    cj_topology *t = cj_topology_new();
    cj_topology_stream(t, bad[i], NULL);
    REFUSED(t, bad[i], "name");
    t = cj_topology_new();
    cj_stream_to(cj_topology_stream(t, "in", NULL), bad[i], NULL);
    REFUSED(t, "sink-1", "cannot write to topic");
  }
  cj_topology *t = cj_topology_new();
  cj_topology_stream(t, longest, NULL);
  REFUSED(t, longest, "1 to 249");
  t = cj_topology_new();
  cj_topology_table(t, NULL, NULL);
  REFUSED(t, "", "NULL");
  t = cj_topology_new();
  longest[249] = '\0';
  cj_topology_stream(t, longest, NULL);
  cj_topology_stream(t, "...", NULL);
  cj_topology_stream(t, "A.b_c-9", NULL);
  accepted(t);
}

static void names_of_nodes(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream *in = cj_topology_stream(t, "in", NULL);
  in = cj_stream_filter(in, keep, &(cj_node){.name = "big"});
  cj_stream_peek(in, look, &(cj_node){.name = "big"});
  REFUSED(t, "big", "was given to a filter before");
  t = cj_topology_new();
  cj_stream_to(cj_topology_stream(t, "in", NULL), "out", &(cj_sink_options){.name = ""});
  REFUSED(t, "sink", "must not be empty");
  t = cj_topology_new();
  cj_stream_peek(cj_topology_stream(t, "in", NULL), look, &(cj_node){.name = "a\nb"});
  REFUSED(t, "peek", "control character");
}

static void functions_that_are_null(void **state) {
  (void)state;
  const cj_node named = {.name = "n"};
  for (int kind = 0; kind < 9; kind++) {
    cj_topology *t = cj_topology_new();
    cj_stream *in = cj_topology_stream(t, "in", NULL), *out[2];
    cj_table *table = cj_topology_table(t, "table", NULL);
    if (kind == 0) assert_null(cj_stream_filter(in, NULL, &named));
    if (kind == 1) assert_null(cj_stream_map_values(in, NULL, &named));
    if (kind == 2) assert_null(cj_stream_peek(in, NULL, &named));
    if (kind == 3) assert_int_equal(cj_stream_branch(in, NULL, out, 2, &named), 0);
    if (kind == 4) assert_null(cj_stream_map(in, NULL, &named));
    if (kind == 5) assert_null(cj_stream_flat_map(in, NULL, &named));
    if (kind == 6) assert_null(cj_stream_select_key(in, NULL, &named));
    if (kind == 7) assert_null(cj_stream_join(in, table, NULL, &named));
    if (kind == 8) assert_null(cj_stream_left_join(in, table, NULL, &named));
    REFUSED(t, "n", "function is NULL");
  }
}

static void handles_of_two_topologies(void **state) {
  (void)state;
  cj_topology *a = cj_topology_new(), *b = cj_topology_new();
  cj_stream *in = cj_topology_stream(a, "in", NULL);
  cj_table *table = cj_topology_table(b, "table", NULL);
  assert_null(cj_stream_join(in, table, value_and_row, &(cj_node){.name = "mixed"}));
  REFUSED(a, "mixed", "two different topologies");
  REFUSED(b, "mixed", "two different topologies");
  a = cj_topology_new();
  b = cj_topology_new();
  in = cj_topology_stream(a, "in", NULL);
  assert_null(cj_stream_merge(in, cj_topology_stream(b, "other", NULL), NULL));
  REFUSED(a, "merge-1", "two different topologies");
  REFUSED(b, "merge-1", "two different topologies");
}

static void a_handle_that_is_null(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream *in = cj_topology_stream(t, "in", NULL);
  assert_null(cj_stream_join(in, NULL, value_and_row, &(cj_node){.name = "half"}));
  REFUSED(t, "half", "NULL");
  t = cj_topology_new();
  in = cj_topology_stream(t, "in", NULL);
  assert_null(cj_stream_merge(NULL, in, &(cj_node){.name = "half"}));
  REFUSED(t, "half", "NULL");
}

static void branches(void **state) {
  (void)state;
  cj_stream *out[1];
  cj_topology *t = cj_topology_new();
  cj_stream *in = cj_topology_stream(t, "in", NULL);
  assert_int_equal(cj_stream_branch(in, first_branch, out, 0, &(cj_node){.name = "split"}), 0);
  REFUSED(t, "split", "0 branches", "at least one");
  t = cj_topology_new();
  in = cj_topology_stream(t, "in", NULL);
  assert_int_equal(cj_stream_branch(in, first_branch, NULL, 2, &(cj_node){.name = "split"}), 0);
  REFUSED(t, "split", "`out` is NULL");
}

/* ---- joins ---- */

/* A join on a stream whose key was changed by one of the three operators that can. */
static cj_stream *change_key(cj_stream *in, int how) {
  const cj_node named = {.name = "changer"};
  if (how == 0) return cj_stream_map(in, same_both, &named);
  if (how == 1) return cj_stream_flat_map(in, emit_twice, &named);
  return cj_stream_select_key(in, key_from_value, &named);
}

static void a_join_after_a_key_change(void **state) {
  (void)state;
  static const char *const kinds[] = {"map", "flat-map", "select-key"};
  for (int how = 0; how < 3; how++) {
    cj_topology *t = cj_topology_new();
    cj_stream *in = cj_topology_stream(t, "notif", NULL);
    cj_table *table = cj_topology_table(t, "price", NULL);
    cj_stream *at = cj_stream_filter(change_key(in, how), keep, NULL);
    cj_stream_left_join(at, table, value_and_row, &(cj_node){.name = "alert"});
    REFUSED(t, "alert", "changer", kinds[how], "price", "cj_stream_to",
            "cj_stream_assume_copartitioned");
  }
}

static void one_side_of_a_merge_is_enough(void **state) {
  (void)state;
  for (int side = 0; side < 2; side++) {
    cj_topology *t = cj_topology_new();
    cj_stream *in = cj_topology_stream(t, "notif", NULL);
    cj_table *table = cj_topology_table(t, "price", NULL);
    cj_stream *changed = change_key(in, 2);
    cj_stream *both =
        side ? cj_stream_merge(in, changed, NULL) : cj_stream_merge(changed, in, NULL);
    cj_stream_join(both, table, value_and_row, &(cj_node){.name = "alert"});
    REFUSED(t, "alert", "changer");
  }
}

static void the_developers_word_is_taken(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream *in = cj_topology_stream(t, "notif", NULL);
  cj_table *table = cj_topology_table(t, "price", NULL);
  cj_stream *at = cj_stream_assume_copartitioned(change_key(in, 2), "same partition by design");
  at = cj_stream_join(at, table, value_and_row, NULL);
  /* After a join the key is still the stream's: joins may follow each other. */
  cj_stream_join(at, table, value_and_row, NULL);
  accepted(t);
  /* A key change after the word needs another one. */
  t = cj_topology_new();
  in = cj_topology_stream(t, "notif", NULL);
  table = cj_topology_table(t, "price", NULL);
  at = change_key(cj_stream_assume_copartitioned(in, "because"), 0);
  cj_stream_join(at, table, value_and_row, &(cj_node){.name = "alert"});
  REFUSED(t, "alert", "changer");
  t = cj_topology_new();
  assert_null(cj_stream_assume_copartitioned(cj_topology_stream(t, "notif", NULL), ""));
  REFUSED(t, "assume-copartitioned-1", "say why");
}

static void a_key_change_without_a_join_is_fine(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream *in = cj_topology_stream(t, "notif", NULL);
  cj_stream_join(in, cj_topology_table(t, "price", NULL), value_and_row, NULL);
  cj_stream_to(change_key(in, 0), "by-sector", NULL);
  accepted(t);
}

static cj_topology *joined_with(const cj_serde *stream_key, const cj_serde *table_key,
                                const cj_partitioner *stream_at, const cj_partitioner *table_at) {
  cj_topology *t = cj_topology_new();
  cj_stream *in = cj_topology_stream(
      t, "notif", &(cj_source_options){.key_serde = stream_key, .partitioner = stream_at});
  cj_table *table = cj_topology_table(
      t, "price", &(cj_source_options){.key_serde = table_key, .partitioner = table_at});
  cj_stream_join(cj_stream_filter(in, keep, NULL), table, value_and_row,
                 &(cj_node){.name = "alert"});
  return t;
}

/* Case 24: 42 as text and as an int64 may even lie in one partition, and never match. */
static void key_serdes_differ(void **state) {
  (void)state;
  REFUSED(joined_with(cj_serde_string(), cj_serde_int64(), NULL, NULL), "alert", "notif", "string",
          "price", "int64");
  accepted(joined_with(cj_serde_string(), NULL, NULL, NULL));
  accepted(joined_with(cj_serde_string(), cj_serde_string(), NULL, NULL));
  /* The serde counts by name: two that have one name write the same. */
  cj_serde mine = *cj_serde_string();
  accepted(joined_with(&mine, cj_serde_string(), NULL, NULL));
}

static void the_serde_of_a_made_key_differs(void **state) {
  (void)state;
  for (int good = 0; good < 2; good++) {
    cj_topology *t = cj_topology_new();
    cj_stream *in =
        cj_topology_stream(t, "notif", &(cj_source_options){.key_serde = cj_serde_string()});
    cj_table *table = cj_topology_table(
        t, "price", &(cj_source_options){.key_serde = good ? cj_serde_int64() : cj_serde_string()});
    cj_stream *made = cj_stream_select_key(
        in, key_from_value, &(cj_node){.name = "by-id", .key_serde = cj_serde_int64()});
    made = cj_stream_assume_copartitioned(made, "one partition");
    cj_stream_join(made, table, value_and_row, &(cj_node){.name = "alert"});
    if (good)
      accepted(t);
    else
      REFUSED(t, "alert", "by-id", "int64", "price", "string");
  }
}

static void partitioners_differ(void **state) {
  (void)state;
  const cj_partitioner *crc32 = cj_partitioner_crc32(), *murmur2 = cj_partitioner_murmur2();
  REFUSED(joined_with(NULL, NULL, crc32, murmur2), "alert", "notif", "crc32", "price", "murmur2");
  /* Nothing declared is murmur2. */
  REFUSED(joined_with(NULL, NULL, NULL, crc32), "alert", "crc32", "murmur2");
  accepted(joined_with(NULL, NULL, crc32, crc32));
  accepted(joined_with(NULL, NULL, murmur2, NULL));
}

static void two_sinks_of_one_topic_differ(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream *in = cj_topology_stream(t, "in", NULL);
  cj_stream_to(in, "out", NULL);
  cj_stream_to(in, "out",
               &(cj_sink_options){.name = "again", .partitioner = cj_partitioner_fnv1a()});
  REFUSED(t, "again", "out", "murmur2", "fnv1a");
}

static void half_a_serde_or_partitioner(void **state) {
  (void)state;
  const cj_serde nameless = {.decode = cj_serde_string()->decode}, blind = {.name = "blind"};
  const cj_partitioner nowhere = {.name = "nowhere"};
  cj_topology *t = cj_topology_new();
  cj_topology_stream(t, "in", &(cj_source_options){.key_serde = &nameless});
  REFUSED(t, "in", "serde", "name");
  t = cj_topology_new();
  cj_topology_stream(t, "in", &(cj_source_options){.value_serde = &blind});
  REFUSED(t, "in", "serde", "decode");
  t = cj_topology_new();
  cj_topology_stream(t, "in", &(cj_source_options){.partitioner = &nowhere});
  REFUSED(t, "in", "partition function");
  t = cj_topology_new();
  cj_stream_to(cj_topology_stream(t, "in", NULL), "out",
               &(cj_sink_options){.partitioner = &nowhere});
  REFUSED(t, "sink-1", "partition function");
  t = cj_topology_new();
  cj_stream_map_values(cj_topology_stream(t, "in", NULL), same_value,
                       &(cj_node){.name = "m", .value_serde = &blind});
  REFUSED(t, "m", "decode");
}

static void the_first_error_is_kept(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream *in = cj_topology_stream(t, "in", NULL);
  cj_stream_filter(in, NULL, &(cj_node){.name = "first"});
  cj_stream_filter(in, NULL, &(cj_node){.name = "second"});
  assert_null(cj_topology_stream(t, "a topic", NULL));
  assert_null(cj_stream_join(in, NULL, value_and_row, &(cj_node){.name = "third"}));
  assert_null(cj_stream_assume_copartitioned(in, ""));
  REFUSED(t, "first", "function is NULL");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(empty),
      cmocka_unit_test(a_topic_twice),
      cmocka_unit_test(a_sink_that_is_a_source),
      cmocka_unit_test(names_of_topics),
      cmocka_unit_test(names_of_nodes),
      cmocka_unit_test(functions_that_are_null),
      cmocka_unit_test(handles_of_two_topologies),
      cmocka_unit_test(a_handle_that_is_null),
      cmocka_unit_test(branches),
      cmocka_unit_test(a_join_after_a_key_change),
      cmocka_unit_test(one_side_of_a_merge_is_enough),
      cmocka_unit_test(the_developers_word_is_taken),
      cmocka_unit_test(a_key_change_without_a_join_is_fine),
      cmocka_unit_test(key_serdes_differ),
      cmocka_unit_test(the_serde_of_a_made_key_differs),
      cmocka_unit_test(partitioners_differ),
      cmocka_unit_test(two_sinks_of_one_topic_differ),
      cmocka_unit_test(half_a_serde_or_partitioner),
      cmocka_unit_test(the_first_error_is_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
