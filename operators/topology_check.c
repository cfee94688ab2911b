/* SPDX-License-Identifier: BSD-2-Clause */
/* What a topology must fulfil as a whole: every join is a local look-up only where both sides have
 * the same key, serialized and placed in the same way. What can be told from the declaration is
 * refused here; the rest is the checklist's, from the data. */
#include "operators/builder.h"

#include <string.h>

void cj_builder_mark_upstream(const cj_topology *topology, int from, bool stop_at_new_keys,
                              bool *marked) {
  memset(marked, 0, topology->node_count * sizeof *marked);
  marked[from] = true;
  /* Parents have smaller indices, so one pass backwards sees every node after its children. */
  for (int i = from; i >= 0; i--) {
    const cj_builder_node *node = &topology->nodes[i];
    if (!marked[i] || (stop_at_new_keys && cj_node_changes_key(node->node.kind))) continue;
    for (int k = 0; k < 2; k++)
      if (node->parents[k] >= 0) marked[node->parents[k]] = true;
  }
}

/* For each node the one that made the key of what comes out of it, or -1 where it is still the
 * source's. A merge is co-partitioned only if both of its sides are. */
static void find_key_makers(const cj_topology *topology, int *makers) {
  for (size_t i = 0; i < topology->node_count; i++) {
    const cj_builder_node *node = &topology->nodes[i];
    makers[i] = cj_node_changes_key(node->node.kind) ? (int)i : -1;
    if (node->node.kind == CJ_NODE_ASSUME) continue;
    for (int k = 0; k < 2; k++)
      if (makers[i] < 0 && node->parents[k] >= 0) makers[i] = makers[node->parents[k]];
  }
}

static cj_error *key_changed(const cj_topology *topology, const cj_builder_node *join,
                             const cj_plan_node *by) {
  return cj_error_new(
      CJ_ERR_TOPOLOGY, join->node.name,
      "the stream that it joins is no longer co-partitioned with table %s: %s (%s) may have "
      "changed "
      "the key, so that a record lies where its old key belongs. Repartition: write the stream to "
      "a "
      "topic of its own (cj_stream_to) and read that in a second topology; or, if every record "
      "still lies where its new key belongs, say so with cj_stream_assume_copartitioned",
      topology->topics[join->node.topic].name, by->name, cj_node_kind_name(by->kind));
}

/* One side of the join: where its keys come from, and how. */
static cj_error *check_side(const cj_topology *topology, const cj_builder_node *join,
                            const cj_plan_node *origin) {
  const cj_plan_topic *table = &topology->topics[join->node.topic];
  const cj_plan_topic *source =
      cj_node_is_source(origin->kind) ? &topology->topics[origin->topic] : NULL;
  const cj_serde *serde = source ? source->key_serde : origin->key_serde;
  if (serde && table->key_serde && strcmp(serde->name, table->key_serde->name) != 0)
    return cj_error_new(
        CJ_ERR_TOPOLOGY, join->node.name,
        "the keys of %s %s are declared as %s, those of table %s as %s: the same key would have "
        "other bytes on each side and never match; write and declare both with one serde",
        source ? "topic" : "node", source ? source->name : origin->name, serde->name, table->name,
        table->key_serde->name);
  if (source && strcmp(source->partitioner->name, table->partitioner->name) != 0)
    return cj_error_new(
        CJ_ERR_TOPOLOGY, join->node.name,
        "the keys of topic %s are declared as placed by %s, those of table %s by %s (murmur2 where "
        "nothing is declared): the same key would lie in other partitions; let both producers use "
        "one partitioner and declare it",
        source->name, source->partitioner->name, table->name, table->partitioner->name);
  return NULL;
}

static cj_error *check_join(const cj_topology *topology, const cj_builder_node *join,
                            const int *makers, bool *marked) {
  int maker = makers[join->parents[0]];
  if (maker >= 0) return key_changed(topology, join, &topology->nodes[maker].node);
  cj_builder_mark_upstream(topology, join->parents[0], true, marked);
  cj_error *error = NULL;
  for (size_t i = 0; i < topology->node_count && !error; i++) {
    const cj_plan_node *node = &topology->nodes[i].node;
    if (marked[i] && (cj_node_is_source(node->kind) || cj_node_changes_key(node->kind)))
      error = check_side(topology, join, node);
  }
  return error;
}

static cj_error *check_joins(const cj_topology *topology, int *makers, bool *marked) {
  find_key_makers(topology, makers);
  cj_error *error = NULL;
  for (size_t i = 0; i < topology->node_count && !error; i++)
    if (cj_node_is_join(topology->nodes[i].node.kind))
      error = check_join(topology, &topology->nodes[i], makers, marked);
  return error;
}

cj_error *cj_builder_check(const cj_topology *topology) {
  if (topology->node_count == 0)
    return cj_error_new(CJ_ERR_TOPOLOGY, "topology",
                        "it reads no topic: declare a source with cj_topology_stream or "
                        "cj_topology_table");
  int *makers = cj_alloc(topology->node_count * sizeof *makers);
  bool *marked = cj_alloc(topology->node_count * sizeof *marked);
  cj_error *error = makers && marked ? check_joins(topology, makers, marked) : cj_error_no_memory();
  cj_free(makers);
  cj_free(marked);
  return error;
}
