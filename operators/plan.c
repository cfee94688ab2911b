/* SPDX-License-Identifier: BSD-2-Clause */
#include "operators/plan.h"

#include <string.h>

/* Part of the plan's hash and of default names: they do not change. */
const char *cj_node_kind_name(cj_node_kind kind) {
  static const char *const names[] = {
      [CJ_NODE_STREAM] = "stream",
      [CJ_NODE_TABLE] = "table",
      [CJ_NODE_FILTER] = "filter",
      [CJ_NODE_MAP_VALUES] = "map-values",
      [CJ_NODE_MAP] = "map",
      [CJ_NODE_FLAT_MAP] = "flat-map",
      [CJ_NODE_SELECT_KEY] = "select-key",
      [CJ_NODE_PEEK] = "peek",
      [CJ_NODE_BRANCH] = "branch",
      [CJ_NODE_MERGE] = "merge",
      [CJ_NODE_ASSUME] = "assume-copartitioned",
      [CJ_NODE_JOIN] = "join",
      [CJ_NODE_LEFT_JOIN] = "left-join",
      [CJ_NODE_SINK] = "sink",
  };
  return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}

int cj_plan_find_topic(const cj_plan *plan, const char *name) {
  for (size_t i = 0; i < plan->topic_count; i++)
    if (strcmp(plan->topics[i].name, name) == 0) return (int)i;
  return -1;
}

int64_t cj_plan_timestamp(const cj_plan_topic *topic, const cj_record *record) {
  return topic->timestamp ? topic->timestamp(topic->timestamp_user, record) : record->timestamp;
}

void cj_plan_destroy(cj_plan *plan) {
  if (!plan) return;
  for (size_t i = 0; i < plan->node_count; i++) {
    cj_plan_node *node = &plan->nodes[i];
    if (node->destroy) node->destroy(node->user);
    cj_free(node->name);
    cj_free(node->why);
    cj_free(node->next);
    cj_free(node->branch_of);
  }
  for (size_t i = 0; i < plan->topic_count; i++)
    cj_free(plan->topics[i].name);
  for (size_t i = 0; i < plan->group_count; i++) {
    cj_free(plan->groups[i].topics);
    cj_free(plan->groups[i].tables);
  }
  cj_free(plan->nodes);
  cj_free(plan->topics);
  cj_free(plan->groups);
  cj_free(plan);
}
