/* SPDX-License-Identifier: BSD-2-Clause */
/* What a processor needs from its task, in memory: tables that are lists of rows, outputs that are
 * kept. It takes its memory past cj_alloc, so that a test can forbid the processor to allocate. */
#ifndef CJ_TEST_FAKE_ENV_H
#define CJ_TEST_FAKE_ENV_H

#include "lib/unit.h"

#include "operators/processor.h"

enum { FAKE_ROWS = 64, FAKE_OUTPUTS = 4096 };

typedef struct {
  int table;
  cj_bytes key, value;
  int64_t timestamp;
} fake_row;

typedef struct {
  const char *topic; /* that was written */
  cj_bytes key, value;
  const void *key_object, *value_object; /* only to see whether there was one */
  int64_t timestamp;
  const char *source;
  int32_t partition;
  int64_t offset;
  const cj_headers *headers;
} fake_output;

typedef struct {
  cj_plan *plan;
  cj_processor *processor;
  cj_counters counters;
  fake_row rows[FAKE_ROWS];
  size_t row_count;
  fake_output outputs[FAKE_OUTPUTS];
  size_t output_count;
  bool forget;    /* count outputs, keep none */
  bool store_bad; /* get and put fail */
  bool emit_bad;
  int64_t offset; /* of the next record that is processed */
  const cj_headers *headers;
  cj_process_result result; /* of the last record, and its error */
  cj_error *error;
} fake_env;

static inline cj_bytes fake_copy(cj_bytes bytes) {
  if (!bytes.data) return bytes;
  char *copy = malloc(bytes.len + 1);
  if (!copy) abort();
  if (bytes.len) memcpy(copy, bytes.data, bytes.len);
  copy[bytes.len] = '\0'; /* so that a test can compare it with a string */
  return cj_bytes_of(copy, bytes.len);
}

static inline void fake_free(cj_bytes bytes) {
  free((void *)(uintptr_t)bytes.data);
}

static inline fake_row *fake_find(fake_env *env, int table, cj_bytes key) {
  for (size_t i = 0; i < env->row_count; i++)
    if (env->rows[i].table == table && cj_bytes_equal(env->rows[i].key, key)) return &env->rows[i];
  return NULL;
}

static inline cj_kv_read fake_get(void *self, int table, cj_bytes key, cj_row *row,
                                  cj_error **error) {
  fake_env *env = self;
  if (env->store_bad) {
    *error = cj_error_new(CJ_ERR_STORE, "price-0", "unreadable");
    return CJ_KV_FAILED;
  }
  const fake_row *found = fake_find(env, table, key);
  if (!found) return CJ_KV_ABSENT;
  *row = (cj_row){.value = found->value, .timestamp = found->timestamp};
  return CJ_KV_FOUND;
}

static inline cj_error *fake_put(void *self, int table, cj_bytes key, cj_bytes value,
                                 int64_t timestamp, bool *older) {
  fake_env *env = self;
  if (env->store_bad) return cj_error_new(CJ_ERR_STORE, "price-0", "unwritable");
  fake_row *row = fake_find(env, table, key);
  *older = row && row->timestamp > timestamp;
  if (row) {
    fake_free(row->key);
    fake_free(row->value);
    *row = env->rows[--env->row_count];
  }
  if (!value.data) return NULL;
  if (env->row_count == FAKE_ROWS) abort();
  env->rows[env->row_count++] = (fake_row){
      .table = table, .key = fake_copy(key), .value = fake_copy(value), .timestamp = timestamp};
  return NULL;
}

static inline cj_error *fake_emit(void *self, const cj_plan_node *sink, const cj_record *record) {
  fake_env *env = self;
  if (env->emit_bad) return cj_error_new(CJ_ERR_PRODUCE, sink->name, "refused");
  if (env->forget) {
    env->output_count++;
    return NULL;
  }
  if (env->output_count == FAKE_OUTPUTS) abort();
  env->outputs[env->output_count++] = (fake_output){
      .topic = env->plan->topics[sink->topic].name,
      .key = fake_copy(record->key),
      .value = fake_copy(record->value),
      .key_object = record->key_object,
      .value_object = record->value_object,
      .timestamp = record->timestamp,
      .source = record->topic,
      .partition = record->partition,
      .offset = record->offset,
      .headers = record->headers,
  };
  return NULL;
}

static inline cj_processor_env fake_ops(fake_env *env) {
  return (cj_processor_env){
      .self = env, .get = fake_get, .put = fake_put, .emit = fake_emit, .counters = &env->counters};
}

/* Builds the topology, which is consumed, and a processor for partition 3 of its first set. The
 * env is large: let it be static. */
static inline void fake_start(fake_env *env, cj_topology *topology) {
  memset(env, 0, sizeof *env);
  assert_no_error(cj_topology_build(topology, &env->plan));
  cj_processor_env ops = fake_ops(env);
  assert_no_error(cj_processor_new(env->plan, 0, 3, &ops, &env->processor));
}

static inline void fake_stop(fake_env *env) {
  cj_processor_destroy(env->processor);
  cj_plan_destroy(env->plan);
  cj_error_destroy(env->error);
  for (size_t i = 0; i < env->row_count; i++) {
    fake_free(env->rows[i].key);
    fake_free(env->rows[i].value);
  }
  for (size_t i = 0; !env->forget && i < env->output_count; i++) {
    fake_free(env->outputs[i].key);
    fake_free(env->outputs[i].value);
  }
  memset(env, 0, sizeof *env);
}

/* One record, NULL being null; returns the result. */
static inline cj_process_result fake_try(fake_env *env, const char *topic, cj_bytes key,
                                         cj_bytes value, int64_t timestamp) {
  cj_record record = {.key = key,
                      .value = value,
                      .timestamp = timestamp,
                      .topic = topic,
                      .partition = 3,
                      .offset = env->offset++,
                      .headers = env->headers};
  cj_error_destroy(env->error);
  env->error = NULL;
  int index = cj_plan_find_topic(env->plan, topic);
  env->result = cj_processor_process(env->processor, index, &record, &env->error);
  return env->result;
}

/* One record that must go through. */
static inline void fake_pipe(fake_env *env, const char *topic, const char *key, const char *value,
                             int64_t timestamp) {
  if (fake_try(env, topic, cj_bytes_str(key), cj_bytes_str(value), timestamp) != CJ_PROCESSED)
    fail_msg("%s", cj_error_text(env->error));
  assert_null(env->error);
}

/* Output i was this, NULL being null. */
static inline void assert_output(const fake_env *env, size_t i, const char *topic, const char *key,
                                 const char *value) {
  assert_true(i < env->output_count);
  const fake_output *output = &env->outputs[i];
  assert_string_equal(output->topic, topic);
  if (!cj_bytes_equal(output->key, cj_bytes_str(key)))
    fail_msg("key %s, expected %s", output->key.data ? (const char *)output->key.data : "null",
             key ? key : "null");
  if (!cj_bytes_equal(output->value, cj_bytes_str(value)))
    fail_msg("value %s, expected %s",
             output->value.data ? (const char *)output->value.data : "null",
             value ? value : "null");
}

#endif
