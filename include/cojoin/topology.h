/* SPDX-License-Identifier: BSD-2-Clause */
/* The topology: which topics are read, what happens to a record, where the result goes.
 *
 * A builder makes nodes; each call returns a handle for what comes after it. The builder keeps its
 * first error: later calls on it do nothing, NULL handles are accepted everywhere, and
 * cj_topology_build reports that error with the node's name. So a chain needs one check, at its
 * end.
 *
 * Ownership: every cj_stream and cj_table is owned by its topology and valid until the topology is
 * destroyed or built. Names are copied. Serdes, partitioners and `user` pointers are borrowed and
 * must outlive the plan.
 *
 * Threads: a topology is used by one thread at a time. A callback is called by the thread of the
 * worker that owns the task; callbacks of one task never run at the same time, those of two tasks
 * may. Views that a callback receives die when it returns. A callback must not block for long: the
 * member is evicted from its group after max.poll.interval.ms. */
#ifndef COJOIN_TOPOLOGY_H
#define COJOIN_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cojoin/error.h>
#include <cojoin/export.h>
#include <cojoin/partitioner.h>
#include <cojoin/record.h>
#include <cojoin/serde.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cj_topology cj_topology;
typedef struct cj_plan cj_plan;
typedef struct cj_stream cj_stream;
typedef struct cj_table cj_table;

/* What a callback is called in: valid during the call. */
typedef struct cj_ctx cj_ctx;

typedef enum {
  CJ_EMIT, /* pass the result on */
  CJ_DROP, /* drop it; counted as dropped by this node */
  CJ_FAIL, /* the record failed: policy `errors.process` decides. Say why with cj_ctx_fail first */
} cj_verdict;

/* The `user` of the node, and the state that its task_open returned. */
CJ_API void *cj_ctx_user(const cj_ctx *ctx);
CJ_API void *cj_ctx_task_state(const cj_ctx *ctx);
/* The partition index that the running task owns. */
CJ_API int32_t cj_ctx_partition(const cj_ctx *ctx);
/* Memory until the record is done. */
CJ_API cj_arena *cj_ctx_arena(cj_ctx *ctx);
/* Says why the record fails; returns CJ_FAIL, so that a callback can `return cj_ctx_fail(…)`. */
CJ_API cj_verdict cj_ctx_fail(cj_ctx *ctx, const char *format, ...) CJ_PRINTF(2, 3);

/* What a user's callback carries. All fields may be zero; NULL stands for all zero. */
typedef struct {
  const char *name; /* shown in errors and pictures; must be unique; default KIND-N */
  void *user;       /* handed to the callback through the context */
  /* Called once, whatever happens: with the plan, with the topology if it is not built, or, where
   * the node cannot be added, within the call that was to add it. */
  void (*destroy)(void *user);
  /* State of one task, made when the task starts and closed when it leaves. task_open returning
   * NULL is no error. Both are called on the task's worker thread. */
  void *(*task_open)(void *user, int32_t partition);
  void (*task_close)(void *user, void *task_state);
  const cj_serde *value_serde; /* of the value this node makes: decoded for the nodes after it */
  const cj_serde *key_serde;   /* of the key this node makes, where it makes one */
} cj_node;

typedef struct {
  const cj_serde *key_serde;   /* default: none, keys are bytes. Declared: decoded and checked */
  const cj_serde *value_serde; /* likewise; null values are not decoded */
  /* How this topic's producers place keys. Default murmur2. Checked from the data. */
  const cj_partitioner *partitioner;
  /* The timestamp to use instead of the record's own, in milliseconds. Sees the record as it came,
   * before anything is decoded; called more than once for a record. */
  int64_t (*timestamp)(void *user, const cj_record *record);
  void *timestamp_user;
} cj_source_options;

typedef struct {
  const char *name; /* of the node */
  /* Where outputs go. Default murmur2. */
  const cj_partitioner *partitioner;
} cj_sink_options;

/* A filter keeps a record when it returns CJ_EMIT. */
typedef cj_verdict cj_filter_fn(cj_ctx *ctx, const cj_record *record);
/* Writes the new value (the buffer comes empty, not null). */
typedef cj_verdict cj_map_values_fn(cj_ctx *ctx, const cj_record *record, cj_buf *value);
/* Writes the new key and the new value. */
typedef cj_verdict cj_map_fn(cj_ctx *ctx, const cj_record *record, cj_buf *key, cj_buf *value);
typedef cj_verdict cj_select_key_fn(cj_ctx *ctx, const cj_record *record, cj_buf *key);
/* Calls cj_emit any number of times. */
typedef struct cj_emitter cj_emitter;
typedef cj_verdict cj_flat_map_fn(cj_ctx *ctx, const cj_record *record, cj_emitter *out);
/* Passes one record on, with the source's timestamp and headers; the bytes are only read. Returns
 * CJ_FAIL when the records after it cannot go on: return that from the callback. */
CJ_API cj_verdict cj_emit(cj_emitter *out, cj_bytes key, cj_bytes value);
typedef void cj_peek_fn(cj_ctx *ctx, const cj_record *record);
/* The branch (0 … n-1) that the record takes, or -1 for none (counted as dropped). */
typedef int cj_branch_fn(cj_ctx *ctx, const cj_record *record);
/* Joins a stream record with the table's row for its key; `row` is NULL in a left join that finds
 * none, never NULL in an inner join. Writes the output's value. */
typedef cj_verdict cj_join_fn(cj_ctx *ctx, const cj_record *record, const cj_row *row,
                              cj_buf *value);

/* A new empty topology, or NULL without memory. */
CJ_API cj_topology *cj_topology_new(void);
/* Frees the topology and calls its nodes' destroy. NULL is fine. Not after a build that succeeded:
 * that one consumed the topology. */
CJ_API void cj_topology_destroy(cj_topology *topology);

/* Sources. A topic can be read once in a topology: reuse the handle. */
CJ_API cj_stream *cj_topology_stream_sized(cj_topology *topology, const char *topic,
                                           const cj_source_options *options, size_t size);
CJ_API cj_table *cj_topology_table_sized(cj_topology *topology, const char *topic,
                                         const cj_source_options *options, size_t size);

/* Operators that keep the key, and so keep the stream co-partitioned with its source. */
CJ_API cj_stream *cj_stream_filter_sized(cj_stream *stream, cj_filter_fn *fn, const cj_node *node,
                                         size_t size);
CJ_API cj_stream *cj_stream_map_values_sized(cj_stream *stream, cj_map_values_fn *fn,
                                             const cj_node *node, size_t size);
CJ_API cj_stream *cj_stream_peek_sized(cj_stream *stream, cj_peek_fn *fn, const cj_node *node,
                                       size_t size);
/* Each record goes into one of n streams, written to out[0 … n-1]. Returns n, or 0 on error. */
CJ_API size_t cj_stream_branch_sized(cj_stream *stream, cj_branch_fn *fn, cj_stream **out, size_t n,
                                     const cj_node *node, size_t size);
/* Both streams as one. Co-partitioned if both are. */
CJ_API cj_stream *cj_stream_merge_sized(cj_stream *a, cj_stream *b, const cj_node *node,
                                        size_t size);

/* Operators that may change the key: what follows is not co-partitioned with anything any more, and
 * a join on it is refused when the topology is built. */
CJ_API cj_stream *cj_stream_map_sized(cj_stream *stream, cj_map_fn *fn, const cj_node *node,
                                      size_t size);
CJ_API cj_stream *cj_stream_flat_map_sized(cj_stream *stream, cj_flat_map_fn *fn,
                                           const cj_node *node, size_t size);
CJ_API cj_stream *cj_stream_select_key_sized(cj_stream *stream, cj_select_key_fn *fn,
                                             const cj_node *node, size_t size);
/* The developer's word that the keys still lie where their partitioner puts them, with the reason,
 * which the topology prints. */
CJ_API cj_stream *cj_stream_assume_copartitioned(cj_stream *stream, const char *why);

/* Joins. The output has the stream record's key, timestamp and headers.
 *   table:   t=1 (BBCA, 9100)                   t=5 (BBCA, 9200)
 *   stream:            t=3 (BBCA, n1)  t=4 (TLKM, n2)     t=6 (BBCA, n3)
 *   inner:             n1+9100                              n3+9200
 *   left:              n1+9100         n2+NULL              n3+9200
 * A stream record with a null value is dropped and counted; one with a null key is dropped and
 * counted by the inner join and met with NULL by the left join (KIP-962). */
CJ_API cj_stream *cj_stream_join_sized(cj_stream *stream, cj_table *table, cj_join_fn *fn,
                                       const cj_node *node, size_t size);
CJ_API cj_stream *cj_stream_left_join_sized(cj_stream *stream, cj_table *table, cj_join_fn *fn,
                                            const cj_node *node, size_t size);

/* The sink. A topic can have several sinks, and must not be a source of the same topology. */
CJ_API void cj_stream_to_sized(cj_stream *stream, const char *topic, const cj_sink_options *options,
                               size_t size);

/* Checks the whole and makes the plan, which the caller owns until it gives it to an application.
 * Consumes the topology only on success; on failure *plan is NULL and the topology is still the
 * caller's. */
CJ_API CJ_MUST_CHECK cj_error *cj_topology_build(cj_topology *topology, cj_plan **plan);
/* Frees a plan that no application has taken. NULL is fine. */
CJ_API void cj_plan_destroy(cj_plan *plan);

typedef enum { CJ_FORMAT_TEXT, CJ_FORMAT_DOT } cj_format;
/* The plan for a person, or for Graphviz. The caller frees it with free(); NULL without memory. */
CJ_API char *cj_plan_text(const cj_plan *plan, cj_format format);

/* The short names: the options' size is passed along, so that a program built against an older
 * header goes on working with a newer library. */
static inline cj_stream *cj_topology_stream(cj_topology *topology, const char *topic,
                                            const cj_source_options *options) {
  return cj_topology_stream_sized(topology, topic, options, sizeof *options);
}
static inline cj_table *cj_topology_table(cj_topology *topology, const char *topic,
                                          const cj_source_options *options) {
  return cj_topology_table_sized(topology, topic, options, sizeof *options);
}
static inline cj_stream *cj_stream_filter(cj_stream *stream, cj_filter_fn *fn,
                                          const cj_node *node) {
  return cj_stream_filter_sized(stream, fn, node, sizeof *node);
}
static inline cj_stream *cj_stream_map_values(cj_stream *stream, cj_map_values_fn *fn,
                                              const cj_node *node) {
  return cj_stream_map_values_sized(stream, fn, node, sizeof *node);
}
static inline cj_stream *cj_stream_peek(cj_stream *stream, cj_peek_fn *fn, const cj_node *node) {
  return cj_stream_peek_sized(stream, fn, node, sizeof *node);
}
static inline size_t cj_stream_branch(cj_stream *stream, cj_branch_fn *fn, cj_stream **out,
                                      size_t n, const cj_node *node) {
  return cj_stream_branch_sized(stream, fn, out, n, node, sizeof *node);
}
static inline cj_stream *cj_stream_merge(cj_stream *a, cj_stream *b, const cj_node *node) {
  return cj_stream_merge_sized(a, b, node, sizeof *node);
}
static inline cj_stream *cj_stream_map(cj_stream *stream, cj_map_fn *fn, const cj_node *node) {
  return cj_stream_map_sized(stream, fn, node, sizeof *node);
}
static inline cj_stream *cj_stream_flat_map(cj_stream *stream, cj_flat_map_fn *fn,
                                            const cj_node *node) {
  return cj_stream_flat_map_sized(stream, fn, node, sizeof *node);
}
static inline cj_stream *cj_stream_select_key(cj_stream *stream, cj_select_key_fn *fn,
                                              const cj_node *node) {
  return cj_stream_select_key_sized(stream, fn, node, sizeof *node);
}
static inline cj_stream *cj_stream_join(cj_stream *stream, cj_table *table, cj_join_fn *fn,
                                        const cj_node *node) {
  return cj_stream_join_sized(stream, table, fn, node, sizeof *node);
}
static inline cj_stream *cj_stream_left_join(cj_stream *stream, cj_table *table, cj_join_fn *fn,
                                             const cj_node *node) {
  return cj_stream_left_join_sized(stream, table, fn, node, sizeof *node);
}
static inline void cj_stream_to(cj_stream *stream, const char *topic,
                                const cj_sink_options *options) {
  cj_stream_to_sized(stream, topic, options, sizeof *options);
}

#ifdef __cplusplus
}
#endif
#endif
