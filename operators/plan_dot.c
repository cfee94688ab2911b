/* SPDX-License-Identifier: BSD-2-Clause */
/* The plan for Graphviz: a box around each set of co-partitioned topics with the nodes that only
 * its records reach, a dashed edge where a join looks a table up. */
#include "operators/plan_print.h"

enum { NOWHERE = -1, SEVERAL = -2 };

/* The inside of a quoted string. Names may hold quotes and backslashes; a control character has no
 * spelling in DOT and becomes a space. */
static void quoted(cj_buf *out, const char *text) {
  for (; *text; text++) {
    char c = *text;
    if (c == '"' || c == '\\') cj_buf_append(out, "\\", 1);
    if ((unsigned char)c < ' ' || c == 0x7f) c = ' ';
    cj_buf_append(out, &c, 1);
  }
}

/* For each node the one set whose topics reach it, or SEVERAL. */
static void find_homes(const cj_plan *plan, int *homes, bool *reached) {
  for (size_t i = 0; i < plan->node_count; i++)
    homes[i] = NOWHERE;
  for (size_t g = 0; g < plan->group_count; g++) {
    cj_plan_mark_group(plan, (int)g, reached);
    for (size_t i = 0; i < plan->node_count; i++)
      if (reached[i]) homes[i] = homes[i] == NOWHERE ? (int)g : SEVERAL;
  }
}

static void topic(const cj_plan *plan, size_t i, cj_buf *out) {
  cj_buf_printf(out, "  topic_%zu [label=\"%s\", shape=cds, style=filled, fillcolor=\"%s\"];\n", i,
                plan->topics[i].name,
                plan->topics[i].kind == CJ_TOPIC_TABLE ? "#dce8f8" : "#f4f4f4");
}

static void nodes_of(const cj_plan *plan, const int *homes, int home, cj_buf *out) {
  for (size_t i = 0; i < plan->node_count; i++) {
    const cj_plan_node *node = &plan->nodes[i];
    if (homes[i] != home) continue;
    cj_buf_printf(out, "  node_%zu [label=\"", i);
    quoted(out, node->name);
    cj_buf_printf(out, "\\n%s", cj_node_kind_name(node->kind));
    if (node->why) {
      cj_buf_append_str(out, "\\n");
      quoted(out, node->why);
    }
    cj_buf_append_str(out, "\"");
    if (node->kind == CJ_NODE_TABLE) cj_buf_append_str(out, ", shape=cylinder");
    cj_buf_append_str(out, "];\n");
  }
}

static void edges_of(const cj_plan *plan, size_t i, cj_buf *out) {
  const cj_plan_node *node = &plan->nodes[i];
  switch (node->kind) {
  case CJ_NODE_STREAM:
  case CJ_NODE_TABLE:
    cj_buf_printf(out, "  topic_%d -> node_%zu;\n", node->topic, i);
    break;
  case CJ_NODE_JOIN:
  case CJ_NODE_LEFT_JOIN:
    cj_buf_printf(out, "  node_%d -> node_%zu [style=dashed, label=\"look-up\"];\n",
                  plan->topics[node->topic].source_node, i);
    break;
  case CJ_NODE_SINK:
    cj_buf_printf(out, "  node_%zu -> topic_%d;\n", i, node->topic);
    break;
  default:
    break;
  }
  for (size_t k = 0; k < node->next_count; k++) {
    cj_buf_printf(out, "  node_%zu -> node_%d", i, node->next[k]);
    if (node->branch_of) cj_buf_printf(out, " [label=\"%d\"]", node->branch_of[k]);
    cj_buf_append_str(out, ";\n");
  }
}

static void print(const cj_plan *plan, const int *homes, cj_buf *out) {
  cj_buf_printf(out, "digraph topology_%08x {\n  rankdir=LR;\n  node [shape=box];\n",
                (unsigned)plan->hash);
  for (size_t g = 0; g < plan->group_count; g++) {
    const cj_plan_group *group = &plan->groups[g];
    cj_buf_printf(out, "  subgraph cluster_%zu {\n  label=\"set %zu: %s, anchor %s\";\n", g, g,
                  group->joined ? "co-partitioned" : "joined with nothing",
                  plan->topics[group->anchor].name);
    for (size_t i = 0; i < group->topic_count; i++)
      topic(plan, (size_t)group->topics[i], out);
    nodes_of(plan, homes, (int)g, out);
    cj_buf_append_str(out, "  }\n");
  }
  nodes_of(plan, homes, SEVERAL, out);
  for (size_t i = plan->input_count; i < plan->topic_count; i++)
    topic(plan, i, out);
  for (size_t i = 0; i < plan->node_count; i++)
    edges_of(plan, i, out);
  cj_buf_append_str(out, "}\n");
}

void cj_plan_print_dot(const cj_plan *plan, cj_buf *out) {
  int *homes = cj_alloc(plan->node_count * sizeof *homes);
  bool *reached = cj_alloc(plan->node_count * sizeof *reached);
  if (homes && reached) {
    find_homes(plan, homes, reached);
    print(plan, homes, out);
  } else {
    out->failed = true;
  }
  cj_free(homes);
  cj_free(reached);
}
