/* SPDX-License-Identifier: BSD-2-Clause */
/* The builder: its error, its nodes and their names, its sources and sinks. */
#include "operators/builder.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

void cj_options_copy(void *to, size_t to_size, const void *from, size_t from_size) {
  memset(to, 0, to_size);
  if (from) memcpy(to, from, from_size < to_size ? from_size : to_size);
}

cj_topology *cj_topology_new(void) {
  return cj_alloc(sizeof(cj_topology));
}

void cj_topology_destroy(cj_topology *topology) {
  if (!topology) return;
  for (size_t i = 0; i < topology->node_count; i++) {
    cj_plan_node *node = &topology->nodes[i].node;
    if (node->destroy) node->destroy(node->user);
    cj_free(node->name);
    cj_free(node->why);
  }
  for (size_t i = 0; i < topology->topic_count; i++)
    cj_free(topology->topics[i].name);
  for (cj_stream *stream = topology->streams, *older; stream; stream = older) {
    older = stream->older;
    cj_free(stream);
  }
  for (cj_table *table = topology->tables, *older; table; table = older) {
    older = table->older;
    cj_free(table);
  }
  cj_free(topology->nodes);
  cj_free(topology->topics);
  cj_error_destroy(topology->error);
  cj_free(topology);
}

/* ---- errors ---- */

void cj_builder_no_memory(cj_topology *topology) {
  if (!topology->error) topology->error = cj_error_no_memory();
}

void cj_builder_fail(cj_topology *topology, const char *subject, const char *format, ...) {
  if (topology->error) return;
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int len = vsnprintf(NULL, 0, format, args);
  va_end(args);
  char *message = len < 0 ? NULL : cj_alloc((size_t)len + 1);
  if (message) vsnprintf(message, (size_t)len + 1, format, again);
  va_end(again);
  topology->error =
      message ? cj_error_new(CJ_ERR_TOPOLOGY, subject, "%s", message) : cj_error_no_memory();
  cj_free(message);
}

/* ---- growing lists ---- */

/* The list, moved if need be, with room for one more; NULL without memory: then it is as it was. */
static void *with_room(cj_topology *topology, void *list, size_t count, size_t *cap, size_t size) {
  if (count < *cap) return list;
  size_t more = *cap ? *cap * 2 : 8;
  void *bigger = more <= INT_MAX ? cj_realloc(list, more * size) : NULL;
  if (bigger)
    *cap = more;
  else
    cj_builder_no_memory(topology);
  return bigger;
}

/* ---- names ---- */

static int find_name(const cj_topology *topology, const char *name) {
  for (size_t i = 0; i < topology->node_count; i++)
    if (strcmp(topology->nodes[i].node.name, name) == 0) return (int)i;
  return -1;
}

/* KIND-N with the first free N from the node's own number on. */
static char *default_name(cj_topology *topology, cj_node_kind kind, size_t from) {
  for (size_t n = from;; n++) {
    char *name = cj_asprintf("%s-%zu", cj_node_kind_name(kind), n);
    if (!name) cj_builder_no_memory(topology);
    if (!name || find_name(topology, name) < 0) return name;
    cj_free(name);
  }
}

const char *cj_builder_would_name(const cj_topology *topology, cj_node_kind kind, const char *name,
                                  char *space, size_t size) {
  if (name) return name;
  snprintf(space, size, "%s-%zu", cj_node_kind_name(kind), topology->node_count);
  return space;
}

static const char *wrong_name(const char *name) {
  if (!name[0]) return "a node's name must not be empty";
  for (const char *c = name; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 0x7f) return "a node's name has a control character in it";
  return NULL;
}

/* The name that the node gets, or NULL with the builder's error set. */
static char *take_name(cj_topology *topology, cj_node_kind kind, const char *name) {
  if (!name) return default_name(topology, kind, topology->node_count);
  const char *wrong = wrong_name(name);
  if (wrong) {
    cj_builder_fail(topology, cj_node_kind_name(kind), "%s", wrong);
    return NULL;
  }
  int same = find_name(topology, name);
  if (same >= 0 && topology->nodes[same].named) {
    cj_builder_fail(topology, name,
                    "this name was given to a %s before: give every node a name of its own",
                    cj_node_kind_name(topology->nodes[same].node.kind));
    return NULL;
  }
  if (same >= 0) {
    cj_plan_node *node = &topology->nodes[same].node;
    char *other = default_name(topology, node->kind, topology->node_count + 1);
    if (!other) return NULL;
    cj_free(node->name);
    node->name = other;
  }
  char *copy = cj_strdup(name);
  if (!copy) cj_builder_no_memory(topology);
  return copy;
}

/* ---- nodes ---- */

static bool needs_fn(cj_node_kind kind) {
  return !cj_node_is_source(kind) && kind != CJ_NODE_MERGE && kind != CJ_NODE_ASSUME &&
         kind != CJ_NODE_SINK;
}

static const char *wrong_serde(const cj_serde *serde) {
  if (!serde) return NULL;
  if (!serde->name || !serde->name[0]) return "a serde that is declared needs a name";
  return serde->decode ? NULL : "a serde that is declared needs a decode function";
}

static const char *wrong_partitioner(const cj_partitioner *partitioner) {
  if (!partitioner) return NULL;
  if (!partitioner->name || !partitioner->name[0]) return "a partitioner needs a name";
  return partitioner->partition ? NULL : "a partitioner needs a partition function";
}

static const char *wrong_node(const cj_plan_node *node) {
  if (needs_fn(node->kind) && !node->fn) return "its function is NULL";
  const char *wrong = wrong_serde(node->key_serde);
  return wrong ? wrong : wrong_serde(node->value_serde);
}

static int add_node(cj_topology *topology, const cj_builder_node *node, const char *name) {
  if (topology->error) return -1;
  const char *wrong = wrong_node(&node->node);
  if (wrong) {
    char space[32];
    cj_builder_fail(topology,
                    cj_builder_would_name(topology, node->node.kind, name, space, sizeof space),
                    "%s", wrong);
    return -1;
  }
  cj_builder_node *nodes = with_room(topology, topology->nodes, topology->node_count,
                                     &topology->node_cap, sizeof *nodes);
  if (!nodes) return -1;
  topology->nodes = nodes;
  char *own = take_name(topology, node->node.kind, name);
  if (!own) return -1;
  cj_builder_node *added = &topology->nodes[topology->node_count];
  *added = *node;
  added->node.name = own;
  added->named = name != NULL;
  return (int)topology->node_count++;
}

int cj_builder_add(cj_topology *topology, const cj_builder_node *node, const char *name) {
  int index = add_node(topology, node, name);
  if (index >= 0) return index;
  if (node->node.destroy) node->node.destroy(node->node.user);
  cj_free(node->node.why);
  return -1;
}

cj_stream *cj_builder_stream(cj_topology *topology, int node, int branch) {
  cj_stream *stream = cj_alloc(sizeof *stream);
  if (!stream) {
    cj_builder_no_memory(topology);
    return NULL;
  }
  *stream =
      (cj_stream){.topology = topology, .older = topology->streams, .node = node, .branch = branch};
  topology->streams = stream;
  return stream;
}

/* ---- sources and sinks ---- */

/* The rule of org.apache.kafka.common.internals.Topic. */
static const char *wrong_topic(const char *topic) {
  if (!topic) return "the topic's name is NULL";
  size_t len = strlen(topic);
  if (len < 1 || len > 249) return "a topic's name is 1 to 249 characters long";
  if (strcmp(topic, ".") == 0 || strcmp(topic, "..") == 0)
    return "\".\" and \"..\" are no names of topics";
  if (strspn(topic, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != len)
    return "a topic's name consists of ASCII letters, digits, '.', '_' and '-'";
  return NULL;
}

static int find_topic(const cj_topology *topology, const char *name) {
  for (size_t i = 0; i < topology->topic_count; i++)
    if (strcmp(topology->topics[i].name, name) == 0) return (int)i;
  return -1;
}

/* Adds the topic, which has been checked. Returns its index or -1. */
static int add_topic(cj_topology *topology, const cj_plan_topic *topic) {
  cj_plan_topic *topics = with_room(topology, topology->topics, topology->topic_count,
                                    &topology->topic_cap, sizeof *topics);
  if (!topics) return -1;
  topology->topics = topics;
  cj_plan_topic *added = &topology->topics[topology->topic_count];
  *added = *topic;
  added->name = cj_strdup(topic->name);
  if (!added->name) {
    cj_builder_no_memory(topology);
    return -1;
  }
  added->group = added->table = added->source_node = -1;
  if (!added->partitioner) added->partitioner = cj_partitioner_murmur2();
  return (int)topology->topic_count++;
}

/* Adds the topic and the node that reads it. Returns the node or -1. */
static int add_source(cj_topology *topology, cj_node_kind kind, const char *topic,
                      const cj_source_options *given, size_t size) {
  cj_source_options options;
  cj_options_copy(&options, sizeof options, given, size);
  const char *wrong = wrong_topic(topic);
  if (!wrong) wrong = wrong_serde(options.key_serde);
  if (!wrong) wrong = wrong_serde(options.value_serde);
  if (!wrong) wrong = wrong_partitioner(options.partitioner);
  int same = wrong ? -1 : find_topic(topology, topic);
  if (same >= 0)
    wrong = topology->topics[same].kind == CJ_TOPIC_SINK
                ? "it is both a sink and a source of this topology: its own output would come back "
                  "to it without end; read and write different topics"
                : "it is read twice in this topology: use the stream or table that the first call "
                  "returned for both";
  if (wrong) {
    cj_builder_fail(topology, topic, "%s", wrong);
    return -1;
  }
  int index =
      add_topic(topology, &(cj_plan_topic){
                              .name = (char *)(uintptr_t)topic,
                              .kind = kind == CJ_NODE_TABLE ? CJ_TOPIC_TABLE : CJ_TOPIC_STREAM,
                              .key_serde = options.key_serde,
                              .value_serde = options.value_serde,
                              .partitioner = options.partitioner,
                              .timestamp = options.timestamp,
                              .timestamp_user = options.timestamp_user,
                          });
  if (index < 0) return -1;
  int node = cj_builder_add(topology,
                            &(cj_builder_node){
                                .node = {.kind = kind, .topic = index},
                                .parents = {-1, -1},
                                .parent_branches = {-1, -1},
                            },
                            NULL);
  topology->topics[index].source_node = node;
  return node;
}

cj_stream *cj_topology_stream_sized(cj_topology *topology, const char *topic,
                                    const cj_source_options *options, size_t size) {
  if (!topology || topology->error) return NULL;
  int node = add_source(topology, CJ_NODE_STREAM, topic, options, size);
  return node < 0 ? NULL : cj_builder_stream(topology, node, -1);
}

cj_table *cj_topology_table_sized(cj_topology *topology, const char *topic,
                                  const cj_source_options *options, size_t size) {
  if (!topology || topology->error) return NULL;
  int node = add_source(topology, CJ_NODE_TABLE, topic, options, size);
  if (node < 0) return NULL;
  cj_table *table = cj_alloc(sizeof *table);
  if (!table) {
    cj_builder_no_memory(topology);
    return NULL;
  }
  *table = (cj_table){.topology = topology, .older = topology->tables, .node = node};
  topology->tables = table;
  return table;
}

/* The sink's topic, added if it is new. Returns its index or -1. */
static int sink_topic(cj_topology *topology, const char *node, const char *topic,
                      const cj_partitioner *partitioner) {
  const char *wrong = wrong_topic(topic);
  if (!wrong) wrong = wrong_partitioner(partitioner);
  if (wrong) {
    cj_builder_fail(topology, node, "cannot write to topic \"%s\": %s", topic ? topic : "", wrong);
    return -1;
  }
  int same = find_topic(topology, topic);
  if (same < 0)
    return add_topic(topology, &(cj_plan_topic){.name = (char *)(uintptr_t)topic,
                                                .kind = CJ_TOPIC_SINK,
                                                .partitioner = partitioner});
  const cj_plan_topic *known = &topology->topics[same];
  if (known->kind != CJ_TOPIC_SINK) {
    cj_builder_fail(topology, node,
                    "topic %s is both a sink and a source of this topology: its own output would "
                    "come back to it without end; read and write different topics",
                    topic);
    return -1;
  }
  if (strcmp(known->partitioner->name, partitioner->name) != 0) {
    cj_builder_fail(topology, node,
                    "topic %s is written with partitioner %s here and with %s by another sink: a "
                    "key would lie in two partitions; declare the same for both",
                    topic, partitioner->name, known->partitioner->name);
    return -1;
  }
  return same;
}

void cj_stream_to_sized(cj_stream *stream, const char *topic, const cj_sink_options *given,
                        size_t size) {
  if (!stream || stream->topology->error) return;
  cj_topology *topology = stream->topology;
  cj_sink_options options;
  cj_options_copy(&options, sizeof options, given, size);
  if (!options.partitioner) options.partitioner = cj_partitioner_murmur2();
  char space[32];
  const char *name =
      cj_builder_would_name(topology, CJ_NODE_SINK, options.name, space, sizeof space);
  int index = sink_topic(topology, name, topic, options.partitioner);
  if (index < 0) return;
  cj_builder_add(
      topology,
      &(cj_builder_node){
          .node = {.kind = CJ_NODE_SINK, .topic = index, .partitioner = options.partitioner},
          .parents = {stream->node, -1},
          .parent_branches = {stream->branch, -1},
      },
      options.name);
}
