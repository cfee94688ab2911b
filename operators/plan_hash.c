/* SPDX-License-Identifier: BSD-2-Clause */
/* The hash is in the client id of every member: two programs that must not share a group have to
 * differ in it, and two builds of one program must not. So it is made of what decides where records
 * go: topics, kinds, edges, serdes and partitioners; each node's is built from those before it, and
 * the whole from the sorted set, so that the order of declaration does not matter. */
#include "operators/plan_hash.h"

#include <stdlib.h>
#include <string.h>

static uint64_t fold(uint64_t hash, uint64_t more) {
  hash = (hash ^ more) * UINT64_C(0x9fb21c651e98df25);
  return hash ^ (hash >> 32);
}

static uint64_t fold_text(uint64_t hash, const char *text) {
  return fold(hash, text ? cj_hash64(text, strlen(text)) : 0);
}

static uint64_t fold_serde(uint64_t hash, const cj_serde *serde) {
  return fold_text(hash, serde ? serde->name : NULL);
}

/* What the node is by itself. */
static uint64_t own_hash(const cj_plan *plan, const cj_plan_node *node) {
  uint64_t hash = fold_text(0, cj_node_kind_name(node->kind));
  hash = fold_serde(fold_serde(hash, node->key_serde), node->value_serde);
  hash = fold(hash, node->branches);
  hash = fold_text(hash, node->partitioner ? node->partitioner->name : NULL);
  if (node->topic < 0) return hash;
  const cj_plan_topic *topic = &plan->topics[node->topic];
  hash = fold_text(hash, topic->name);
  hash = fold_serde(fold_serde(hash, topic->key_serde), topic->value_serde);
  return fold_text(hash, topic->partitioner->name);
}

static int by_number(const void *left, const void *right) {
  uint64_t a, b;
  memcpy(&a, left, sizeof a);
  memcpy(&b, right, sizeof b);
  return (a > b) - (a < b);
}

bool cj_plan_hash(const cj_plan *plan, uint32_t *hash) {
  uint64_t *hashes = cj_alloc(plan->node_count * sizeof *hashes);
  if (!hashes) return false;
  for (size_t i = 0; i < plan->node_count; i++)
    hashes[i] = own_hash(plan, &plan->nodes[i]);
  for (size_t i = 0; i < plan->node_count; i++) {
    const cj_plan_node *node = &plan->nodes[i];
    for (size_t k = 0; k < node->next_count; k++) {
      uint64_t branch = node->branch_of ? (uint64_t)node->branch_of[k] + 1 : 0;
      /* A sum: the two sides of a merge may come in either order. */
      hashes[node->next[k]] += fold(fold(1, hashes[i]), branch);
    }
  }
  qsort(hashes, plan->node_count, sizeof *hashes, by_number);
  uint64_t whole = plan->node_count;
  for (size_t i = 0; i < plan->node_count; i++)
    whole = fold(whole, hashes[i]);
  cj_free(hashes);
  *hash = (uint32_t)(whole ^ whole >> 32);
  return true;
}
