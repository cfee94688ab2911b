/* SPDX-License-Identifier: BSD-2-Clause */
/* What a topology becomes when it is built: immutable, shared by all workers. */
#ifndef CJ_PLAN_H
#define CJ_PLAN_H

#include <cojoin/topology.h>

#include "base/base.h"

typedef enum { CJ_TOPIC_STREAM, CJ_TOPIC_TABLE, CJ_TOPIC_SINK } cj_topic_kind;

/* Topics are numbered: inputs first, in the order of their names; then sinks likewise. */
typedef struct {
  char *name;
  cj_topic_kind kind;
  int group;       /* of an input: its co-partitioned set; of a sink: -1 */
  int table;       /* of a table: its number within the group; otherwise -1 */
  int source_node; /* of an input; otherwise -1 */
  const cj_serde *key_serde, *value_serde;
  const cj_partitioner *partitioner;
  int64_t (*timestamp)(void *user, const cj_record *record);
  void *timestamp_user;
} cj_plan_topic;

typedef enum {
  CJ_NODE_STREAM,
  CJ_NODE_TABLE,
  CJ_NODE_FILTER,
  CJ_NODE_MAP_VALUES,
  CJ_NODE_MAP,
  CJ_NODE_FLAT_MAP,
  CJ_NODE_SELECT_KEY,
  CJ_NODE_PEEK,
  CJ_NODE_BRANCH, /* children: next[i] is branch i */
  CJ_NODE_MERGE,
  CJ_NODE_ASSUME, /* cj_stream_assume_copartitioned */
  CJ_NODE_JOIN,
  CJ_NODE_LEFT_JOIN,
  CJ_NODE_SINK,
} cj_node_kind;

typedef void cj_any_fn(void); /* cast back by the node's kind */

typedef struct {
  cj_node_kind kind;
  char *name;
  char *why; /* of ASSUME */
  int topic; /* of sources and sinks: index in topics; of joins: the table's topic; else -1 */
  cj_any_fn *fn;
  void *user;
  void (*destroy)(void *user);
  void *(*task_open)(void *user, int32_t partition);
  void (*task_close)(void *user, void *task_state);
  const cj_serde *key_serde, *value_serde;
  const cj_partitioner *partitioner; /* of sinks */
  int *next; /* the nodes after it, by index, each greater than this node's own; of BRANCH: one
                list a branch, flattened with branch_of telling which */
  int *branch_of;
  size_t next_count;
  size_t branches; /* of BRANCH */
} cj_plan_node;

/* A set of topics whose partition p is one task: joined with each other directly or through other
 * joins. A topic that is joined with nothing is a set of its own. */
typedef struct {
  int *topics; /* in the order of their names */
  size_t topic_count;
  int *tables; /* topic indices; a table's number is its place here */
  size_t table_count;
  int anchor; /* topic index: the first by name, until the configuration pins another */
  bool joined;
} cj_plan_group;

struct cj_plan {
  cj_plan_topic *topics;
  size_t topic_count, input_count; /* inputs come first */
  cj_plan_node *nodes;             /* in topological order */
  size_t node_count;
  cj_plan_group *groups;
  size_t group_count;
  uint32_t hash; /* of topics, kinds, edges, serdes and partitioners: part of the client id's stamp.
                    The order of declaration, names of nodes and callbacks do not matter */
};

int cj_plan_find_topic(const cj_plan *plan, const char *name); /* index or -1 */
const char *cj_node_kind_name(cj_node_kind kind);
/* The record's timestamp, or what the source's extractor makes of it. The extractor sees the record
 * as it came: bytes, its own timestamp, no objects. */
int64_t cj_plan_timestamp(const cj_plan_topic *topic, const cj_record *record);

#endif
