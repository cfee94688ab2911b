/* SPDX-License-Identifier: BSD-2-Clause */
/* The operators of a stream, as the builder takes them. */
#include "operators/builder.h"

#include <limits.h>

/* A node that cannot even be tried, because a handle is NULL: its user is given back. */
static int give_up(const cj_node *options) {
  if (options->destroy) options->destroy(options->user);
  return -1;
}

static cj_builder_node make_node(cj_node_kind kind, cj_any_fn *fn, const cj_stream *parent,
                                 const cj_node *options) {
  return (cj_builder_node){
      .node =
          {
              .kind = kind,
              .topic = -1,
              .fn = fn,
              .user = options->user,
              .destroy = options->destroy,
              .task_open = options->task_open,
              .task_close = options->task_close,
              .key_serde = options->key_serde,
              .value_serde = options->value_serde,
          },
      .parents = {parent->node, -1},
      .parent_branches = {parent->branch, -1},
  };
}

/* An operator with one stream in and one out. */
static cj_stream *add_operator(cj_stream *stream, cj_node_kind kind, cj_any_fn *fn,
                               const cj_node *given, size_t size) {
  cj_node options;
  cj_options_copy(&options, sizeof options, given, size);
  if (!stream) {
    give_up(&options);
    return NULL;
  }
  cj_builder_node node = make_node(kind, fn, stream, &options);
  int index = cj_builder_add(stream->topology, &node, options.name);
  return index < 0 ? NULL : cj_builder_stream(stream->topology, index, -1);
}

cj_stream *cj_stream_filter_sized(cj_stream *stream, cj_filter_fn *fn, const cj_node *node,
                                  size_t size) {
  return add_operator(stream, CJ_NODE_FILTER, (cj_any_fn *)fn, node, size);
}

cj_stream *cj_stream_map_values_sized(cj_stream *stream, cj_map_values_fn *fn, const cj_node *node,
                                      size_t size) {
  return add_operator(stream, CJ_NODE_MAP_VALUES, (cj_any_fn *)fn, node, size);
}

cj_stream *cj_stream_peek_sized(cj_stream *stream, cj_peek_fn *fn, const cj_node *node,
                                size_t size) {
  return add_operator(stream, CJ_NODE_PEEK, (cj_any_fn *)fn, node, size);
}

cj_stream *cj_stream_map_sized(cj_stream *stream, cj_map_fn *fn, const cj_node *node, size_t size) {
  return add_operator(stream, CJ_NODE_MAP, (cj_any_fn *)fn, node, size);
}

cj_stream *cj_stream_flat_map_sized(cj_stream *stream, cj_flat_map_fn *fn, const cj_node *node,
                                    size_t size) {
  return add_operator(stream, CJ_NODE_FLAT_MAP, (cj_any_fn *)fn, node, size);
}

cj_stream *cj_stream_select_key_sized(cj_stream *stream, cj_select_key_fn *fn, const cj_node *node,
                                      size_t size) {
  return add_operator(stream, CJ_NODE_SELECT_KEY, (cj_any_fn *)fn, node, size);
}

cj_stream *cj_stream_assume_copartitioned(cj_stream *stream, const char *why) {
  if (!stream || stream->topology->error) return NULL;
  cj_topology *topology = stream->topology;
  cj_node options = {0};
  cj_builder_node node = make_node(CJ_NODE_ASSUME, NULL, stream, &options);
  if (!why || !why[0]) {
    char space[32];
    cj_builder_fail(topology,
                    cj_builder_would_name(topology, CJ_NODE_ASSUME, NULL, space, sizeof space),
                    "say why the keys still lie where their partitioner puts them: the topology "
                    "prints the reason");
    return NULL;
  }
  node.node.why = cj_strdup(why);
  if (!node.node.why) {
    cj_builder_no_memory(topology);
    return NULL;
  }
  int index = cj_builder_add(topology, &node, NULL);
  return index < 0 ? NULL : cj_builder_stream(topology, index, -1);
}

size_t cj_stream_branch_sized(cj_stream *stream, cj_branch_fn *fn, cj_stream **out, size_t n,
                              const cj_node *given, size_t size) {
  cj_node options;
  cj_options_copy(&options, sizeof options, given, size);
  for (size_t i = 0; out && i < n; i++)
    out[i] = NULL;
  if (!stream) {
    give_up(&options);
    return 0;
  }
  cj_topology *topology = stream->topology;
  if (n == 0 || n > INT_MAX || !out) {
    char space[32];
    cj_builder_fail(
        topology,
        cj_builder_would_name(topology, CJ_NODE_BRANCH, options.name, space, sizeof space),
        out ? "it has %zu branches: there must be at least one, and not more than an int counts"
            : "there is no array for its %zu branches: `out` is NULL",
        n);
    give_up(&options);
    return 0;
  }
  cj_builder_node node = make_node(CJ_NODE_BRANCH, (cj_any_fn *)fn, stream, &options);
  node.node.branches = n;
  int index = cj_builder_add(topology, &node, options.name);
  if (index < 0) return 0;
  for (size_t i = 0; i < n; i++) {
    out[i] = cj_builder_stream(topology, index, (int)i);
    if (!out[i]) return 0;
  }
  return n;
}

/* Two handles must be of one topology; the error goes to both, for whichever is built. NULL is
 * what a call that failed returned: then its topology, if it is known, has an error. */
static bool together(cj_topology *a, cj_topology *b, cj_node_kind kind, const char *name) {
  cj_topology *known = a ? a : b;
  if (!known) return false;
  if (a == b) return true;
  char space[32];
  const char *subject = cj_builder_would_name(known, kind, name, space, sizeof space);
  if (!a || !b) {
    cj_builder_fail(known, subject, "one of the two handles that it is given is NULL");
    return false;
  }
  cj_builder_fail(a, subject, "it is given handles of two different topologies");
  cj_builder_fail(b, subject, "it is given handles of two different topologies");
  return false;
}

cj_stream *cj_stream_merge_sized(cj_stream *a, cj_stream *b, const cj_node *given, size_t size) {
  cj_node options;
  cj_options_copy(&options, sizeof options, given, size);
  if (!together(a ? a->topology : NULL, b ? b->topology : NULL, CJ_NODE_MERGE, options.name)) {
    give_up(&options);
    return NULL;
  }
  cj_builder_node node = make_node(CJ_NODE_MERGE, NULL, a, &options);
  node.parents[1] = b->node;
  node.parent_branches[1] = b->branch;
  int index = cj_builder_add(a->topology, &node, options.name);
  return index < 0 ? NULL : cj_builder_stream(a->topology, index, -1);
}

static cj_stream *add_join(cj_stream *stream, cj_table *table, cj_node_kind kind, cj_join_fn *fn,
                           const cj_node *given, size_t size) {
  cj_node options;
  cj_options_copy(&options, sizeof options, given, size);
  if (!together(stream ? stream->topology : NULL, table ? table->topology : NULL, kind,
                options.name)) {
    give_up(&options);
    return NULL;
  }
  cj_topology *topology = stream->topology;
  cj_builder_node node = make_node(kind, (cj_any_fn *)fn, stream, &options);
  node.node.topic = topology->nodes[table->node].node.topic;
  int index = cj_builder_add(topology, &node, options.name);
  return index < 0 ? NULL : cj_builder_stream(topology, index, -1);
}

cj_stream *cj_stream_join_sized(cj_stream *stream, cj_table *table, cj_join_fn *fn,
                                const cj_node *node, size_t size) {
  return add_join(stream, table, CJ_NODE_JOIN, fn, node, size);
}

cj_stream *cj_stream_left_join_sized(cj_stream *stream, cj_table *table, cj_join_fn *fn,
                                     const cj_node *node, size_t size) {
  return add_join(stream, table, CJ_NODE_LEFT_JOIN, fn, node, size);
}
