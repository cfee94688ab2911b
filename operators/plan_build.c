/* SPDX-License-Identifier: BSD-2-Clause */
/* From the topology to the plan. Everything that can fail comes first; only then what the topology
 * owns moves over, so that a build which fails leaves it as it was. */
#include "operators/builder.h"
#include "operators/plan_hash.h"

#include <stdlib.h>
#include <string.h>

/* Inputs before sinks, each in the order of their names. */
static int by_kind_and_name(const void *left, const void *right) {
  const cj_plan_topic *a = left, *b = right;
  bool a_sink = a->kind == CJ_TOPIC_SINK, b_sink = b->kind == CJ_TOPIC_SINK;
  return a_sink != b_sink ? (a_sink ? 1 : -1) : strcmp(a->name, b->name);
}

static bool build_topics(const cj_topology *topology, cj_plan *plan) {
  size_t count = topology->topic_count;
  plan->topics = cj_alloc(count * sizeof *plan->topics);
  if (!plan->topics) return false;
  memcpy(plan->topics, topology->topics, count * sizeof *plan->topics);
  qsort(plan->topics, count, sizeof *plan->topics, by_kind_and_name);
  plan->topic_count = count;
  while (plan->input_count < count && plan->topics[plan->input_count].kind != CJ_TOPIC_SINK)
    plan->input_count++;
  return true;
}

/* ---- edges ---- */

/* Appends an edge, keeping a branch's edges in the order of its branches. */
static void add_edge(cj_plan_node *from, int to, int branch) {
  size_t at = from->next_count++;
  if (from->branch_of) {
    for (; at > 0 && from->branch_of[at - 1] > branch; at--) {
      from->next[at] = from->next[at - 1];
      from->branch_of[at] = from->branch_of[at - 1];
    }
    from->branch_of[at] = branch;
  }
  from->next[at] = to;
}

static bool build_edges(const cj_topology *topology, cj_plan *plan) {
  for (size_t i = 0; i < topology->node_count; i++)
    for (int k = 0; k < 2; k++)
      if (topology->nodes[i].parents[k] >= 0)
        plan->nodes[topology->nodes[i].parents[k]].next_count++;
  for (size_t i = 0; i < plan->node_count; i++) {
    cj_plan_node *node = &plan->nodes[i];
    if (node->next_count == 0) continue;
    node->next = cj_alloc(node->next_count * sizeof *node->next);
    if (node->kind == CJ_NODE_BRANCH)
      node->branch_of = cj_alloc(node->next_count * sizeof *node->branch_of);
    if (!node->next || (node->kind == CJ_NODE_BRANCH && !node->branch_of)) return false;
    node->next_count = 0;
  }
  for (size_t i = 0; i < topology->node_count; i++) {
    const cj_builder_node *node = &topology->nodes[i];
    for (int k = 0; k < 2; k++)
      if (node->parents[k] >= 0)
        add_edge(&plan->nodes[node->parents[k]], (int)i, node->parent_branches[k]);
  }
  return true;
}

static bool build_nodes(const cj_topology *topology, cj_plan *plan) {
  plan->nodes = cj_alloc(topology->node_count * sizeof *plan->nodes);
  if (!plan->nodes) return false;
  plan->node_count = topology->node_count;
  for (size_t i = 0; i < plan->node_count; i++) {
    cj_plan_node *node = &plan->nodes[i];
    *node = topology->nodes[i].node;
    if (node->topic < 0) continue;
    node->topic = cj_plan_find_topic(plan, topology->topics[node->topic].name);
    if (cj_node_is_source(node->kind)) plan->topics[node->topic].source_node = (int)i;
  }
  return build_edges(topology, plan);
}

/* ---- groups: union-find over the inputs ---- */

static int root_of(int *sets, int topic) {
  while (sets[topic] != topic) {
    sets[topic] = sets[sets[topic]];
    topic = sets[topic];
  }
  return topic;
}

/* The smaller index is the root: topics are in the order of their names, so a set's root is its
 * anchor. */
static void unite(int *sets, int a, int b) {
  a = root_of(sets, a);
  b = root_of(sets, b);
  if (a < b)
    sets[b] = a;
  else
    sets[a] = b;
}

/* All topics whose records may reach a join, whatever happened to their keys on the way, meet its
 * table in one task. */
static void unite_joined(const cj_topology *topology, const cj_plan *plan, int *sets,
                         bool *marked) {
  for (size_t join = 0; join < plan->node_count; join++) {
    if (!cj_node_is_join(plan->nodes[join].kind)) continue;
    cj_builder_mark_upstream(topology, (int)join, false, marked);
    for (size_t i = 0; i < join; i++)
      if (marked[i] && cj_node_is_source(plan->nodes[i].kind))
        unite(sets, plan->nodes[join].topic, plan->nodes[i].topic);
  }
}

static bool fill_group(cj_plan *plan, const int *sets, int anchor) {
  cj_plan_group *group = &plan->groups[plan->group_count];
  int number = (int)plan->group_count++;
  group->anchor = anchor;
  for (size_t i = 0; i < plan->input_count; i++)
    if (sets[i] == anchor) group->topic_count++;
  group->topics = cj_alloc(group->topic_count * sizeof *group->topics);
  group->tables = cj_alloc(group->topic_count * sizeof *group->tables);
  if (!group->topics || !group->tables) return false;
  group->joined = group->topic_count > 1;
  group->topic_count = 0;
  for (size_t i = 0; i < plan->input_count; i++) {
    if (sets[i] != anchor) continue;
    cj_plan_topic *topic = &plan->topics[i];
    topic->group = number;
    group->topics[group->topic_count++] = (int)i;
    if (topic->kind != CJ_TOPIC_TABLE) continue;
    topic->table = (int)group->table_count;
    group->tables[group->table_count++] = (int)i;
  }
  return true;
}

static bool build_groups(const cj_topology *topology, cj_plan *plan) {
  int *sets = cj_alloc(plan->input_count * sizeof *sets);
  bool *marked = cj_alloc(plan->node_count * sizeof *marked);
  plan->groups = cj_alloc(plan->input_count * sizeof *plan->groups);
  bool built = sets && marked && plan->groups;
  if (built) {
    for (size_t i = 0; i < plan->input_count; i++)
      sets[i] = (int)i;
    unite_joined(topology, plan, sets, marked);
    for (size_t i = 0; i < plan->input_count; i++)
      sets[i] = root_of(sets, (int)i);
  }
  for (size_t i = 0; built && i < plan->input_count; i++)
    if (sets[i] == (int)i) built = fill_group(plan, sets, (int)i);
  cj_free(sets);
  cj_free(marked);
  return built;
}

/* ---- the whole ---- */

/* Frees a plan that owns nothing of the topology yet, or a topology that owns nothing any more. */
static void disown_plan(cj_plan *plan) {
  for (size_t i = 0; i < plan->node_count; i++) {
    plan->nodes[i].name = plan->nodes[i].why = NULL;
    plan->nodes[i].destroy = NULL;
  }
  for (size_t i = 0; i < plan->topic_count; i++)
    plan->topics[i].name = NULL;
  cj_plan_destroy(plan);
}

static void consume(cj_topology *topology) {
  topology->node_count = topology->topic_count = 0;
  cj_topology_destroy(topology);
}

cj_error *cj_topology_build(cj_topology *topology, cj_plan **plan) {
  *plan = NULL;
  if (!topology) return cj_error_no_memory(); /* what cj_topology_new returned says that */
  if (topology->error) return cj_error_copy(topology->error);
  cj_error *error = cj_builder_check(topology);
  if (error) return error;
  cj_plan *made = cj_alloc(sizeof *made);
  if (!made) return cj_error_no_memory();
  if (!build_topics(topology, made) || !build_nodes(topology, made) ||
      !build_groups(topology, made) || !cj_plan_hash(made, &made->hash)) {
    disown_plan(made);
    return cj_error_no_memory();
  }
  consume(topology);
  *plan = made;
  return NULL;
}
