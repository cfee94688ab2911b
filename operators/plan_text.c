/* SPDX-License-Identifier: BSD-2-Clause */
/* The plan as text, one tree for each set of co-partitioned topics:
 *
 *   topology 5e1c0f3a
 *
 *   set 0: co-partitioned, anchor price
 *     stream notif, key string, value bytes, partitioner murmur2
 *     table price, key string, value double, partitioner murmur2
 *     stream-0 (stream) reads notif
 *       -> alert (join) with table price
 *         -> sink-3 (sink) writes alerts, partitioner murmur2
 *     table-1 (table) keeps price, looked up by alert
 *
 * tests/unit/test_plan_text.c holds it. */
#include "operators/plan_print.h"

typedef struct {
  const cj_plan *plan;
  cj_buf *out;
  bool *printed; /* in this set's tree */
} tree;

void cj_plan_mark_group(const cj_plan *plan, int group, bool *reached) {
  for (size_t i = 0; i < plan->node_count; i++)
    reached[i] = false;
  const cj_plan_group *of = &plan->groups[group];
  for (size_t i = 0; i < of->topic_count; i++)
    reached[plan->topics[of->topics[i]].source_node] = true;
  for (size_t i = 0; i < plan->node_count; i++)
    for (size_t k = 0; reached[i] && k < plan->nodes[i].next_count; k++)
      reached[plan->nodes[i].next[k]] = true;
}

/* What a user wrote may hold anything; what is printed holds no control characters. */
static void clean(cj_buf *out, const char *text) {
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c < ' ' || c == 0x7f)
      cj_buf_printf(out, "\\x%02x", c);
    else
      cj_buf_append(out, text, 1);
  }
}

static void serde(cj_buf *out, const char *part, const cj_serde *declared) {
  if (!declared) return;
  cj_buf_printf(out, ", %s ", part);
  clean(out, declared->name);
}

static void partitioner(cj_buf *out, const cj_partitioner *declared) {
  cj_buf_append_str(out, ", partitioner ");
  clean(out, declared->name);
}

static void topic_line(const tree *t, const cj_plan_topic *topic) {
  cj_buf_printf(t->out, "  %s %s", topic->kind == CJ_TOPIC_TABLE ? "table" : "stream", topic->name);
  serde(t->out, "key", topic->key_serde);
  serde(t->out, "value", topic->value_serde);
  partitioner(t->out, topic->partitioner);
  if (topic->timestamp) cj_buf_append_str(t->out, ", own timestamp");
  cj_buf_append(t->out, "\n", 1);
}

static void looked_up_by(const tree *t, int table) {
  const char *before = ", looked up by ";
  for (size_t i = 0; i < t->plan->node_count; i++) {
    const cj_plan_node *node = &t->plan->nodes[i];
    if ((node->kind != CJ_NODE_JOIN && node->kind != CJ_NODE_LEFT_JOIN) || node->topic != table)
      continue;
    cj_buf_append_str(t->out, before);
    cj_buf_append_str(t->out, node->name);
    before = ", ";
  }
}

static void node_line(const tree *t, const cj_plan_node *node) {
  const char *topic = node->topic < 0 ? "" : t->plan->topics[node->topic].name;
  cj_buf_printf(t->out, "%s (%s)", node->name, cj_node_kind_name(node->kind));
  switch (node->kind) {
  case CJ_NODE_STREAM:
    cj_buf_printf(t->out, " reads %s", topic);
    break;
  case CJ_NODE_TABLE:
    cj_buf_printf(t->out, " keeps %s", topic);
    looked_up_by(t, node->topic);
    break;
  case CJ_NODE_JOIN:
  case CJ_NODE_LEFT_JOIN:
    cj_buf_printf(t->out, " with table %s", topic);
    break;
  case CJ_NODE_BRANCH:
    cj_buf_printf(t->out, " into %zu", node->branches);
    break;
  case CJ_NODE_ASSUME:
    cj_buf_append_str(t->out, " because: ");
    clean(t->out, node->why);
    break;
  case CJ_NODE_SINK:
    cj_buf_printf(t->out, " writes %s", topic);
    partitioner(t->out, node->partitioner);
    break;
  default:
    break;
  }
  serde(t->out, "key", node->key_serde);
  serde(t->out, "value", node->value_serde);
  cj_buf_append(t->out, "\n", 1);
}

static void subtree(const tree *t, int at, int depth) {
  const cj_plan_node *node = &t->plan->nodes[at];
  t->printed[at] = true;
  node_line(t, node);
  for (size_t i = 0; i < node->next_count; i++) {
    cj_buf_printf(t->out, "%*s-> ", 2 * depth + 2, "");
    if (node->branch_of) cj_buf_printf(t->out, "[%d] ", node->branch_of[i]);
    int next = node->next[i];
    if (t->printed[next])
      cj_buf_printf(t->out, "%s, above\n", t->plan->nodes[next].name);
    else
      subtree(t, next, depth + 1);
  }
}

static void set(const tree *t, size_t number) {
  const cj_plan *plan = t->plan;
  const cj_plan_group *group = &plan->groups[number];
  cj_buf_printf(t->out, "\nset %zu: %s, anchor %s\n", number,
                group->joined ? "co-partitioned" : "joined with nothing",
                plan->topics[group->anchor].name);
  for (size_t i = 0; i < plan->node_count; i++)
    t->printed[i] = false;
  for (size_t i = 0; i < group->topic_count; i++)
    topic_line(t, &plan->topics[group->topics[i]]);
  for (size_t i = 0; i < group->topic_count; i++) {
    cj_buf_append_str(t->out, "  ");
    subtree(t, plan->topics[group->topics[i]].source_node, 1);
  }
}

void cj_plan_print_tree(const cj_plan *plan, cj_buf *out) {
  tree t = {.plan = plan, .out = out, .printed = cj_alloc(plan->node_count * sizeof *t.printed)};
  if (!t.printed) {
    out->failed = true;
    return;
  }
  cj_buf_printf(out, "topology %08x\n", (unsigned)plan->hash);
  for (size_t i = 0; i < plan->group_count; i++)
    set(&t, i);
  cj_free(t.printed);
}

char *cj_plan_text(const cj_plan *plan, cj_format format) {
  cj_buf out = CJ_BUF_INIT;
  if (format == CJ_FORMAT_DOT)
    cj_plan_print_dot(plan, &out);
  else
    cj_plan_print_tree(plan, &out);
  cj_buf_append(&out, "", 1);
  if (!out.failed) return (char *)out.data;
  cj_buf_free(&out);
  return NULL;
}
