/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/unit.h"

#include "lib/topologies.h"
#include "operators/plan.h"

/* One of everything: two sets, a merge that both reach, branches, a word on co-partitioning, names
 * that need quoting. */
static cj_plan *everything(void) {
  cj_topology *t = cj_topology_new();
  cj_stream *notif =
      cj_topology_stream(t, "notif", &(cj_source_options){.key_serde = cj_serde_string()});
  cj_table *price = cj_topology_table(
      t, "price",
      &(cj_source_options){.key_serde = cj_serde_string(), .value_serde = cj_serde_double()});
  cj_stream *other =
      cj_topology_stream(t, "other", &(cj_source_options){.partitioner = cj_partitioner_fnv1a()});
  cj_stream *alerts =
      cj_stream_join(notif, price, value_and_row,
                     &(cj_node){.name = "say \"hi\\\"", .value_serde = cj_serde_int64()});
  cj_stream *out[2];
  cj_stream_branch(alerts, first_branch, out, 2, &(cj_node){.name = "split"});
  cj_stream *word = cj_stream_assume_copartitioned(
      cj_stream_select_key(out[1], key_from_value, &(cj_node){.name = "rekey"}), "line\none");
  cj_stream_left_join(word, price, value_and_row, &(cj_node){.name = "again"});
  cj_stream_to(cj_stream_merge(out[0], other, &(cj_node){.name = "both"}), "alerts",
               &(cj_sink_options){.name = "send"});
  cj_plan *plan = NULL;
  assert_no_error(cj_topology_build(t, &plan));
  return plan;
}

static void text_is_a_tree_for_each_set(void **state) {
  (void)state;
  cj_plan *plan = everything();
  char *text = cj_plan_text(plan, CJ_FORMAT_TEXT);
  char first[32];
  snprintf(first, sizeof first, "topology %08x\n", (unsigned)plan->hash);
  assert_memory_equal(text, first, strlen(first));
  assert_string_equal(
      text + strlen(first),
      "\n"
      "set 0: co-partitioned, anchor notif\n"
      "  stream notif, key string, partitioner murmur2\n"
      "  table price, key string, value double, partitioner murmur2\n"
      "  stream-0 (stream) reads notif\n"
      "    -> say \"hi\\\" (join) with table price, value int64\n"
      "      -> split (branch) into 2\n"
      "        -> [0] both (merge)\n"
      "          -> send (sink) writes alerts, partitioner murmur2\n"
      "        -> [1] rekey (select-key)\n"
      "          -> assume-copartitioned-6 (assume-copartitioned) because: line\\x0aone\n"
      "            -> again (left-join) with table price\n"
      "  table-1 (table) keeps price, looked up by say \"hi\\\", again\n"
      "\n"
      "set 1: joined with nothing, anchor other\n"
      "  stream other, partitioner fnv1a\n"
      "  stream-2 (stream) reads other\n"
      "    -> both (merge)\n"
      "      -> send (sink) writes alerts, partitioner murmur2\n");
  free(text);
  cj_plan_destroy(plan);
}

static void a_node_is_described_once_in_a_tree(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream *in = cj_topology_stream(t, "in", NULL);
  cj_stream *left = cj_stream_peek(in, look, &(cj_node){.name = "left"});
  cj_stream *right = cj_stream_peek(in, look, &(cj_node){.name = "right"});
  cj_stream *both = cj_stream_merge(left, right, &(cj_node){.name = "both"});
  cj_stream_to(both, "out", NULL);
  cj_plan *plan = NULL;
  assert_no_error(cj_topology_build(t, &plan));
  char *text = cj_plan_text(plan, CJ_FORMAT_TEXT);
  ASSERT_MENTIONS(text, "left (peek)\n      -> both (merge)\n",
                  "right (peek)\n      -> both, above\n");
  free(text);
  cj_plan_destroy(plan);
}

/* ---- DOT: a scanner of the part of the language that is used ---- */

typedef struct {
  const char *at;
  int depth;
  int declared[64], depths[64], edges[64][2];
  size_t declared_count, edge_count, clusters;
} dot;

static void skip_quoted(dot *d) {
  for (d->at++; *d->at != '"'; d->at++) {
    if (*d->at == '\\') d->at++;
    if (!*d->at || *d->at == '\n') fail_msg("a string that does not end");
  }
  d->at++;
}

/* node_3 is 3, topic_3 is 1003; -1 is another word. */
static int word(dot *d) {
  int number = -1, used = 0;
  if (sscanf(d->at, "node_%d%n", &number, &used) != 1 &&
      sscanf(d->at, "topic_%d%n", &number, &used) == 1)
    number += 1000;
  if (number < 0)
    used = (int)strspn(d->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "_0123456789");
  if (used == 0) fail_msg("unexpected: %.20s", d->at);
  d->at += used;
  return number;
}

/* "ID;" "ID [..];" "ID -> ID [..];" */
static void statement(dot *d) {
  bool cluster = strncmp(d->at, "subgraph cluster_", 17) == 0;
  d->clusters += cluster;
  int from = word(d), to = -1;
  d->at += strspn(d->at, " ");
  bool edge = strncmp(d->at, "-> ", 3) == 0;
  if (edge) {
    d->at += 3;
    to = word(d);
    d->edges[d->edge_count][0] = from;
    d->edges[d->edge_count++][1] = to;
    assert_true(from >= 0 && to >= 0);
  } else if (from >= 0) {
    for (size_t i = 0; i < d->declared_count; i++)
      assert_int_not_equal(d->declared[i], from);
    d->depths[d->declared_count] = d->depth;
    d->declared[d->declared_count++] = from;
  }
  for (; *d->at && *d->at != ';' && *d->at != '{';)
    if (*d->at == '"')
      skip_quoted(d);
    else
      d->at++;
  assert_true(*d->at);
  if (*d->at++ == '{') d->depth++;
}

/* How deep in braces it is declared; 0: not at all. */
static int declared_at(const dot *d, int id) {
  for (size_t i = 0; i < d->declared_count; i++)
    if (d->declared[i] == id) return d->depths[i];
  return 0;
}

static void scan(dot *d, const char *text) {
  *d = (dot){.at = text};
  assert_memory_equal(text, "digraph ", 8);
  for (;;) {
    d->at += strspn(d->at, " \n");
    if (!*d->at) break;
    if (*d->at == '}') {
      assert_true(d->depth-- > 0);
      d->at++;
    } else {
      statement(d);
    }
  }
  assert_int_equal(d->depth, 0);
}

static void dot_is_well_formed(void **state) {
  (void)state;
  cj_plan *plan = everything();
  char *text = cj_plan_text(plan, CJ_FORMAT_DOT);
  dot d;
  scan(&d, text);
  assert_int_equal(d.clusters, plan->group_count);
  /* What the records of two sets reach, the merge and the sink, is in neither's box. */
  for (size_t i = 0; i < plan->node_count; i++)
    assert_int_equal(
        declared_at(&d, (int)i),
        plan->nodes[i].kind == CJ_NODE_MERGE || plan->nodes[i].kind == CJ_NODE_SINK ? 1 : 2);
  for (size_t i = 0; i < plan->topic_count; i++)
    assert_int_equal(declared_at(&d, 1000 + (int)i), i < plan->input_count ? 2 : 1);
  assert_int_equal(d.declared_count, plan->node_count + plan->topic_count);
  for (size_t i = 0; i < d.edge_count; i++)
    assert_true(declared_at(&d, d.edges[i][0]) && declared_at(&d, d.edges[i][1]));
  size_t edges = 0;
  for (size_t i = 0; i < plan->node_count; i++)
    edges += plan->nodes[i].next_count;
  /* Besides: three topics are read, one is written, two joins look up. */
  assert_int_equal(d.edge_count, edges + 3 + 1 + 2);
  ASSERT_MENTIONS(text, "say \\\"hi\\\\\\\"", "line one", "style=dashed");
  free(text);
  cj_plan_destroy(plan);
}

/* Where Graphviz is installed it has the last word. */
static void graphviz_takes_it(void **state) {
  (void)state;
  if (system("command -v dot >/dev/null 2>&1") != 0) skip();
  cj_plan *plan = everything();
  char *text = cj_plan_text(plan, CJ_FORMAT_DOT);
  FILE *dot_in = popen("dot -Tsvg >/dev/null", "w");
  assert_non_null(dot_in);
  assert_int_equal(fwrite(text, 1, strlen(text), dot_in), strlen(text));
  assert_int_equal(pclose(dot_in), 0);
  free(text);
  cj_plan_destroy(plan);
}

static void without_memory_there_is_no_text(void **state) {
  (void)state;
  cj_plan *plan = everything();
  for (cj_format format = CJ_FORMAT_TEXT; format <= CJ_FORMAT_DOT; format++) {
    char *text = NULL;
    long n = 0;
    for (; !text; n++) {
      cj_alloc_fail_after(n);
      text = cj_plan_text(plan, format);
      cj_alloc_fail_after(-1);
      assert_true(n < 50);
    }
    free(text);
    assert_true(n > 2);
  }
  cj_plan_destroy(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text_is_a_tree_for_each_set),
      cmocka_unit_test(a_node_is_described_once_in_a_tree),
      cmocka_unit_test(dot_is_well_formed),
      cmocka_unit_test(graphviz_takes_it),
      cmocka_unit_test(without_memory_there_is_no_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
