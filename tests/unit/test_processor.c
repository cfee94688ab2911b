/* SPDX-License-Identifier: BSD-2-Clause */
/* How a record goes through the nodes: what each kind makes of it, in which order, and what
 * callbacks see. Joins are in test_processor_joins.c, failures in test_processor_failures.c. */
#include "lib/fake_env.h"
#include "lib/topologies.h"

static fake_env env;

static cj_verdict longer_than_two(cj_ctx *ctx, const cj_record *record) {
  (void)ctx;
  return record->value.data && record->value.len > 2 ? CJ_EMIT : CJ_DROP;
}

static void a_filter_drops_and_counts(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream *in = cj_topology_stream(t, "in", NULL);
  cj_stream_to(cj_stream_filter(in, longer_than_two, NULL), "out", NULL);
  fake_start(&env, t);
  fake_pipe(&env, "in", "k", "abc", 1);
  fake_pipe(&env, "in", "k", "ab", 2);
  fake_pipe(&env, "in", "k", NULL, 3);
  fake_pipe(&env, "in", NULL, "abcd", 4);
  assert_int_equal(env.output_count, 2);
  assert_output(&env, 0, "out", "k", "abc");
  assert_output(&env, 1, "out", NULL, "abcd");
  assert_int_equal(env.counters.dropped[CJ_DROP_FILTER], 2);
  assert_int_equal(env.counters.records_in, 4);
  assert_int_equal(env.counters.out, 2);
  fake_stop(&env);
}

/* The output keeps where the record came from, its time and its headers. */
static void a_record_keeps_its_origin(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream *at = cj_topology_stream(t, "in", NULL);
  at = cj_stream_map_values(at, same_value, NULL);
  at = cj_stream_map(at, same_both, NULL);
  at = cj_stream_select_key(at, key_from_value, NULL);
  at = cj_stream_flat_map(at, emit_twice, NULL);
  cj_stream_to(cj_stream_peek(at, look, NULL), "out", NULL);
  fake_start(&env, t);
  const cj_headers headers = {0};
  env.headers = &headers;
  env.offset = 42;
  fake_pipe(&env, "in", "k", "value", 1234);
  assert_int_equal(env.output_count, 2);
  for (size_t i = 0; i < 2; i++) {
    const fake_output *output = &env.outputs[i];
    assert_output(&env, i, "out", "value", "value");
    assert_string_equal(output->source, "in");
    assert_int_equal(output->partition, 3);
    assert_int_equal(output->offset, 42);
    assert_int_equal(output->timestamp, 1234);
    assert_ptr_equal(output->headers, &headers);
  }
  fake_stop(&env);
}

static cj_verdict shout(cj_ctx *ctx, const cj_record *record, cj_buf *value) {
  (void)ctx;
  /* It comes empty and not null, whatever the record before left in it. */
  if (value->null || value->len) return CJ_FAIL;
  if (record->value.len == 0) {
    cj_buf_set_null(value);
    return CJ_EMIT;
  }
  cj_buf_append(value, record->value.data, record->value.len);
  cj_buf_append_str(value, "!");
  return CJ_EMIT;
}

static cj_verdict swap(cj_ctx *ctx, const cj_record *record, cj_buf *key, cj_buf *value) {
  (void)ctx;
  cj_buf_set(key, record->value);
  cj_buf_set(value, record->key);
  return CJ_EMIT;
}

static void maps_write_new_parts(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream *in = cj_topology_stream(t, "in", NULL);
  cj_stream_to(cj_stream_map_values(in, shout, NULL), "loud", NULL);
  cj_stream_to(cj_stream_map(in, swap, NULL), "swapped", NULL);
  cj_stream_to(cj_stream_select_key(in, key_from_value, NULL), "keyed", NULL);
  fake_start(&env, t);
  fake_pipe(&env, "in", "k", "v", 1);
  fake_pipe(&env, "in", "k", "", 2);
  fake_pipe(&env, "in", NULL, "w", 3);
  assert_int_equal(env.output_count, 9);
  assert_output(&env, 0, "loud", "k", "v!");
  assert_output(&env, 1, "swapped", "v", "k");
  assert_output(&env, 2, "keyed", "v", "v");
  assert_output(&env, 3, "loud", "k", NULL);
  assert_output(&env, 4, "swapped", "", "k");
  assert_output(&env, 5, "keyed", "", "");
  assert_output(&env, 6, "loud", NULL, "w!");
  assert_output(&env, 7, "swapped", "w", NULL);
  assert_output(&env, 8, "keyed", "w", "w");
  fake_stop(&env);
}

/* "a b c" into its words, each keyed by itself. */
static cj_verdict words(cj_ctx *ctx, const cj_record *record, cj_emitter *out) {
  (void)ctx;
  const char *at = record->value.data, *end = at + record->value.len;
  while (at < end) {
    const char *stop = memchr(at, ' ', (size_t)(end - at));
    if (!stop) stop = end;
    cj_bytes one = cj_bytes_of(at, (size_t)(stop - at));
    if (cj_emit(out, one, one) != CJ_EMIT) return CJ_FAIL;
    at = stop < end ? stop + 1 : end;
  }
  return record->value.len ? CJ_EMIT : CJ_DROP;
}

/* Depth first: all that comes of the first word is out before the second is seen. */
static void flat_map_pushes_each_record_through(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream *each = cj_stream_flat_map(cj_topology_stream(t, "in", NULL), words, NULL);
  cj_stream_to(each, "first", NULL);
  cj_stream_to(cj_stream_map_values(each, shout, NULL), "second", NULL);
  fake_start(&env, t);
  fake_pipe(&env, "in", "k", "a bc", 1);
  fake_pipe(&env, "in", "k", "", 2);
  assert_int_equal(env.output_count, 4);
  assert_output(&env, 0, "first", "a", "a");
  assert_output(&env, 1, "second", "a", "a!");
  assert_output(&env, 2, "first", "bc", "bc");
  assert_output(&env, 3, "second", "bc", "bc!");
  assert_int_equal(env.counters.dropped[CJ_DROP_FILTER], 1);
  fake_stop(&env);
}

static int by_first_letter(cj_ctx *ctx, const cj_record *record) {
  (void)ctx;
  const char *value = record->value.data;
  return value[0] == '-' ? -1 : value[0] - 'a';
}

static void branches_and_merges(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream *out[3];
  cj_stream_branch(cj_topology_stream(t, "in", NULL), by_first_letter, out, 3, NULL);
  cj_stream_to(out[0], "a", NULL);
  cj_stream_to(out[2], "c", NULL);
  cj_stream *both = cj_stream_merge(out[0], out[2], NULL);
  cj_stream_to(cj_stream_assume_copartitioned(both, "why not"), "a-or-c", NULL);
  fake_start(&env, t);
  fake_pipe(&env, "in", "k", "a", 1);
  fake_pipe(&env, "in", "k", "b", 2);
  fake_pipe(&env, "in", "k", "c", 3);
  fake_pipe(&env, "in", "k", "-", 4);
  assert_int_equal(env.output_count, 4);
  assert_output(&env, 0, "a", "k", "a");
  assert_output(&env, 1, "a-or-c", "k", "a");
  assert_output(&env, 2, "c", "k", "c");
  assert_output(&env, 3, "a-or-c", "k", "c");
  /* Branch b has nobody: that is no drop. */
  assert_int_equal(env.counters.dropped[CJ_DROP_FILTER], 1);
  fake_stop(&env);
}

/* ---- objects ---- */

typedef struct {
  int calls;
  bool key_object, value_object;
  char key[16];
  int64_t value;
} seen;

static void see(cj_ctx *ctx, const cj_record *record) {
  seen *s = cj_ctx_user(ctx);
  s->calls++;
  s->key_object = record->key_object != NULL;
  s->value_object = record->value_object != NULL;
  if (record->key_object) snprintf(s->key, sizeof s->key, "%s", (const char *)record->key_object);
  if (record->value_object) s->value = *(const int64_t *)record->value_object;
}

static cj_verdict length_as_int64(cj_ctx *ctx, const cj_record *record, cj_buf *value) {
  (void)ctx;
  cj_put_int64(value, (int64_t)record->value.len * 100);
  return CJ_EMIT;
}

static cj_verdict key_as_text(cj_ctx *ctx, const cj_record *record, cj_buf *key) {
  (void)ctx;
  (void)record;
  cj_buf_append_str(key, "made");
  return CJ_EMIT;
}

static void objects_are_of_whoever_made_the_part(void **state) {
  (void)state;
  seen at_source = {0}, at_map = {0}, at_key = {0}, at_plain = {0};
  cj_topology *t = cj_topology_new();
  cj_stream *in = cj_topology_stream(
      t, "in",
      &(cj_source_options){.key_serde = cj_serde_string(), .value_serde = cj_serde_int64()});
  cj_stream_peek(in, see, &(cj_node){.user = &at_source});
  cj_stream *mapped =
      cj_stream_map_values(in, length_as_int64, &(cj_node){.value_serde = cj_serde_int64()});
  cj_stream_peek(mapped, see, &(cj_node){.user = &at_map});
  cj_stream *keyed =
      cj_stream_select_key(mapped, key_as_text, &(cj_node){.key_serde = cj_serde_string()});
  cj_stream_peek(keyed, see, &(cj_node){.user = &at_key});
  cj_stream *plain = cj_stream_map(keyed, same_both, NULL);
  cj_stream_peek(plain, see, &(cj_node){.user = &at_plain});
  fake_start(&env, t);
  cj_buf number = CJ_BUF_INIT;
  cj_put_int64(&number, -7);
  assert_int_equal(fake_try(&env, "in", cj_bytes_str("key"), cj_buf_bytes(&number), 1),
                   CJ_PROCESSED);
  assert_string_equal(at_source.key, "key");
  assert_int_equal(at_source.value, -7);
  /* map_values keeps the key with its object. */
  assert_string_equal(at_map.key, "key");
  assert_int_equal(at_map.value, 800);
  assert_string_equal(at_key.key, "made");
  assert_int_equal(at_key.value, 800);
  assert_int_equal(at_plain.calls, 1);
  assert_false(at_plain.key_object || at_plain.value_object);
  /* Null parts are not decoded. */
  assert_int_equal(fake_try(&env, "in", cj_bytes_null(), cj_bytes_null(), 1), CJ_PROCESSED);
  assert_int_equal(at_source.calls, 2);
  assert_false(at_source.key_object || at_source.value_object);
  cj_buf_free(&number);
  fake_stop(&env);
}

/* ---- what a task has ---- */

typedef struct {
  int opened, closed, called;
  int32_t partition;
  bool in_arena;
} tenant;

static void *open_state(void *user, int32_t partition) {
  tenant *of = user;
  of->opened++;
  of->partition = partition;
  return &of->called;
}

static void close_state(void *user, void *task_state) {
  tenant *of = user;
  of->closed += task_state == &of->called;
}

static void use_state(cj_ctx *ctx, const cj_record *record) {
  (void)record;
  tenant *of = cj_ctx_user(ctx);
  ++*(int *)cj_ctx_task_state(ctx);
  of->in_arena = cj_arena_alloc(cj_ctx_arena(ctx), 100) && cj_ctx_partition(ctx) == 7;
}

/* Two sets share the node after a merge; each task has its own of it, and only what it reaches. */
static void state_is_opened_for_reached_nodes(void **state) {
  (void)state;
  tenant of_east = {0}, of_west = {0}, of_both = {0};
  const cj_node east = {.user = &of_east, .task_open = open_state, .task_close = close_state};
  const cj_node west = {.user = &of_west, .task_open = open_state, .task_close = close_state};
  const cj_node both = {.user = &of_both, .task_open = open_state, .task_close = close_state};
  cj_topology *t = cj_topology_new();
  cj_stream *a = cj_stream_peek(cj_topology_stream(t, "east", NULL), use_state, &east);
  cj_stream *b = cj_stream_peek(cj_topology_stream(t, "west", NULL), use_state, &west);
  cj_stream_peek(cj_stream_merge(a, b, NULL), use_state, &both);
  memset(&env, 0, sizeof env);
  assert_no_error(cj_topology_build(t, &env.plan));
  cj_processor_env ops = fake_ops(&env);
  assert_no_error(cj_processor_new(env.plan, 1, 7, &ops, &env.processor));
  assert_int_equal(of_east.opened, 0);
  assert_int_equal(of_west.opened, 1);
  assert_int_equal(of_both.opened, 1);
  assert_int_equal(of_west.partition, 7);
  fake_pipe(&env, "west", "k", "v", 1);
  assert_int_equal(of_west.called, 1);
  assert_int_equal(of_both.called, 1);
  assert_true(of_both.in_arena);
  fake_stop(&env);
  assert_int_equal(of_east.closed, 0);
  assert_int_equal(of_west.closed, 1);
  assert_int_equal(of_both.closed, 1);
}

/* Reached on two ways, opened once. */
static void state_is_opened_once(void **state) {
  (void)state;
  tenant of_both = {0};
  const cj_node both = {.user = &of_both, .task_open = open_state, .task_close = close_state};
  cj_topology *t = cj_topology_new();
  cj_stream *in = cj_topology_stream(t, "in", NULL);
  cj_stream *left = cj_stream_filter(in, keep, NULL), *right = cj_stream_filter(in, keep, NULL);
  cj_stream_merge(left, right, &both);
  fake_start(&env, t);
  assert_int_equal(of_both.opened, 1);
  fake_stop(&env);
  assert_int_equal(of_both.closed, 1);
}

/* ---- timestamps ---- */

static int64_t from_value(void *user, const cj_record *record) {
  *(bool *)user = record->key_object || record->value_object;
  return strtoll(record->value.data, NULL, 10) + record->timestamp;
}

static void the_extractor_comes_before_everything(void **state) {
  (void)state;
  bool saw_objects = true;
  cj_topology *t = cj_topology_new();
  cj_stream *in = cj_topology_stream(t, "in",
                                     &(cj_source_options){.key_serde = cj_serde_string(),
                                                          .timestamp = from_value,
                                                          .timestamp_user = &saw_objects});
  cj_stream_to(in, "out", NULL);
  fake_start(&env, t);
  fake_pipe(&env, "in", "k", "1000", 5);
  assert_false(saw_objects);
  assert_int_equal(env.outputs[0].timestamp, 1005);
  assert_int_equal(env.counters.negative_timestamp, 0);
  fake_pipe(&env, "in", "k", "-1000", 5);
  assert_int_equal(env.outputs[1].timestamp, -995);
  assert_int_equal(env.counters.negative_timestamp, 1);
  fake_stop(&env);
}

/* ---- memory ---- */

/* Everything that a record can go through, with every built-in serde on the way: no allocation once
 * the buffers have grown. */
static void a_warm_processor_allocates_nothing(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream *in = cj_topology_stream(
      t, "in",
      &(cj_source_options){.key_serde = cj_serde_string(), .value_serde = cj_serde_string()});
  cj_table *table = cj_topology_table(
      t, "table",
      &(cj_source_options){.key_serde = cj_serde_string(), .value_serde = cj_serde_string()});
  const cj_node text = {.value_serde = cj_serde_string(), .key_serde = cj_serde_string()};
  cj_stream *out[1];
  cj_stream_branch(cj_stream_filter(in, keep, NULL), first_branch, out, 1, NULL);
  cj_stream *at = cj_stream_join(out[0], table, value_and_row, &text);
  at = cj_stream_left_join(at, table, value_and_row, &text);
  at = cj_stream_map_values(at, shout, &text);
  at = cj_stream_map(at, swap, &text);
  at = cj_stream_select_key(at, key_from_value, &text);
  cj_stream_to(cj_stream_peek(cj_stream_flat_map(at, words, &text), look, NULL), "out", NULL);
  fake_start(&env, t);
  env.forget = true;
  char value[2048];
  memset(value, 'x', sizeof value - 1);
  value[sizeof value - 1] = '\0';
  size_t warm = 20, records = 2000;
  for (size_t i = 0; i < records; i++) {
    if (i == warm) cj_alloc_fail_after(0);
    cj_process_result result = fake_try(&env, "table", cj_bytes_str("key"), cj_bytes_str(value), 1);
    if (result == CJ_PROCESSED)
      result = fake_try(&env, "in", cj_bytes_str("key"), cj_bytes_str(value), 1);
    if (result == CJ_PROCESSED) continue;
    cj_alloc_fail_after(-1);
    fail_msg("record %zu: %s", i, cj_error_text(env.error));
  }
  cj_alloc_fail_after(-1);
  assert_int_equal(env.output_count, records);
  fake_stop(&env);
}

static void reasons_have_names(void **state) {
  (void)state;
  for (cj_drop_reason i = 0; i < CJ_DROP_REASONS; i++)
    for (cj_drop_reason k = 0; k < i; k++)
      assert_string_not_equal(cj_drop_reason_name(i), cj_drop_reason_name(k));
  assert_string_equal(cj_drop_reason_name(CJ_DROP_NULL_KEY), "null-key");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_filter_drops_and_counts),
      cmocka_unit_test(a_record_keeps_its_origin),
      cmocka_unit_test(maps_write_new_parts),
      cmocka_unit_test(flat_map_pushes_each_record_through),
      cmocka_unit_test(branches_and_merges),
      cmocka_unit_test(objects_are_of_whoever_made_the_part),
      cmocka_unit_test(state_is_opened_for_reached_nodes),
      cmocka_unit_test(state_is_opened_once),
      cmocka_unit_test(the_extractor_comes_before_everything),
      cmocka_unit_test(a_warm_processor_allocates_nothing),
      cmocka_unit_test(reasons_have_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
