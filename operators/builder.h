/* SPDX-License-Identifier: BSD-2-Clause */
/* The topology while it is declared. Nodes and topics are kept in the shape that the plan has, so
 * that building moves them. */
#ifndef CJ_BUILDER_H
#define CJ_BUILDER_H

#include "operators/plan.h"

typedef struct {
  cj_plan_node node; /* next and branch_of are made when the plan is */
  /* A merge has two, a source none; a join's table is its topic, not a parent. Parents come first:
   * their indices are smaller. -1: none. */
  int parents[2];
  int parent_branches[2]; /* which branch of the parent; -1 where it has none */
  bool named;             /* by the user: a default name gives way to it */
} cj_builder_node;

struct cj_topology {
  cj_plan_topic *topics; /* sources and sinks in the order of their declaration */
  size_t topic_count, topic_cap;
  cj_builder_node *nodes;
  size_t node_count, node_cap;
  cj_stream *streams; /* all handles that were given out */
  cj_table *tables;
  cj_error *error; /* the first */
};

struct cj_stream {
  cj_topology *topology;
  cj_stream *older;
  int node;
  int branch; /* of a branch node: which; otherwise -1 */
};

struct cj_table {
  cj_topology *topology;
  cj_table *older;
  int node;
};

/* Copies the options that the caller's header knows of; the rest, and all where `from` is NULL, is
 * zero. */
void cj_options_copy(void *to, size_t to_size, const void *from, size_t from_size);

/* Keeps the error if it is the first. */
void cj_builder_fail(cj_topology *topology, const char *subject, const char *format, ...)
    CJ_PRINTF(3, 4);
void cj_builder_no_memory(cj_topology *topology);

/* Adds the node; takes its user, and its why. Returns its index. On failure, and when the builder
 * has an error already, returns -1, and the node's destroy has been called. `name` may be NULL. */
int cj_builder_add(cj_topology *topology, const cj_builder_node *node, const char *name);
/* What a node that is not added because of an error would have been called, for that error. The
 * result is in `space`, or is `name`. */
const char *cj_builder_would_name(const cj_topology *topology, cj_node_kind kind, const char *name,
                                  char *space, size_t size);

/* A handle, or NULL with the builder's error set. */
cj_stream *cj_builder_stream(cj_topology *topology, int node, int branch);

/* topology_check.c: what only the whole can tell. NULL, or why it cannot be built. */
cj_error *cj_builder_check(const cj_topology *topology);
/* Marks the nodes that a record may have passed before it comes out of `from`, itself included.
 * With `stop_at_new_keys` the walk ends at nodes that make a key. */
void cj_builder_mark_upstream(const cj_topology *topology, int from, bool stop_at_new_keys,
                              bool *marked);

static inline bool cj_node_is_join(cj_node_kind kind) {
  return kind == CJ_NODE_JOIN || kind == CJ_NODE_LEFT_JOIN;
}
static inline bool cj_node_changes_key(cj_node_kind kind) {
  return kind == CJ_NODE_MAP || kind == CJ_NODE_FLAT_MAP || kind == CJ_NODE_SELECT_KEY;
}
static inline bool cj_node_is_source(cj_node_kind kind) {
  return kind == CJ_NODE_STREAM || kind == CJ_NODE_TABLE;
}

#endif
