/* SPDX-License-Identifier: BSD-2-Clause */
/* Records that fail: which result, which error, and that no table was changed. */
#include "lib/fake_env.h"
#include "lib/topologies.h"

static fake_env env;

static void assert_failed(cj_process_result result, cj_code code, const char *subject,
                          const char *const *words) {
  assert_int_equal(env.result, result);
  assert_int_equal(cj_error_code(env.error), code);
  assert_string_equal(cj_error_subject(env.error), subject);
  assert_mentions(cj_error_message(env.error), words);
}
#define ASSERT_FAILED(result, code, subject, ...)                                                  \
  assert_failed((result), (code), (subject), (const char *const[]){__VA_ARGS__, NULL})

/* ---- bytes that do not fit ---- */

static cj_verdict three_bytes(cj_ctx *ctx, const cj_record *record, cj_buf *value) {
  (void)ctx;
  (void)record;
  cj_buf_append(value, "abc", 3);
  return CJ_EMIT;
}

static void start_decoding(void) {
  cj_topology *t = cj_topology_new();
  const cj_source_options options = {.key_serde = cj_serde_string(),
                                     .value_serde = cj_serde_int32()};
  cj_stream *notif = cj_topology_stream(t, "notif", &options);
  cj_table *price = cj_topology_table(t, "price", &options);
  cj_stream_to(cj_stream_left_join(notif, price, value_and_row, &(cj_node){.name = "alert"}), "out",
               NULL);
  cj_stream_map_values(notif, three_bytes,
                       &(cj_node){.name = "short", .value_serde = cj_serde_int64()});
  fake_start(&env, t);
  env.offset = 42;
}

static const cj_bytes good = {"\0\0\0\1", 4}, bad = {"12345", 5}, no_text = {"\xff", 1};

static void a_source_that_cannot_be_decoded(void **state) {
  (void)state;
  start_decoding();
  fake_try(&env, "notif", cj_bytes_str("k"), bad, 1);
  ASSERT_FAILED(CJ_PROCESS_DESERIALIZE, CJ_ERR_DESERIALIZE, "notif", "value", "int32", "5 bytes",
                "4 bytes long", "topic notif", "partition 3", "offset 42");
  fake_try(&env, "notif", no_text, good, 1);
  ASSERT_FAILED(CJ_PROCESS_DESERIALIZE, CJ_ERR_DESERIALIZE, "notif", "key", "string", "UTF-8",
                "offset 43");
  fake_try(&env, "price", cj_bytes_str("k"), bad, 1);
  ASSERT_FAILED(CJ_PROCESS_DESERIALIZE, CJ_ERR_DESERIALIZE, "price", "value", "offset 44");
  assert_int_equal(env.row_count, 0);
  assert_int_equal(env.counters.table_updates, 0);
  assert_int_equal(env.output_count, 0);
  assert_int_equal(env.counters.records_in, 3);
  fake_stop(&env);
}

static void what_a_node_made_cannot_be_decoded(void **state) {
  (void)state;
  start_decoding();
  fake_try(&env, "notif", cj_bytes_str("k"), good, 1);
  ASSERT_FAILED(CJ_PROCESS_DESERIALIZE, CJ_ERR_DESERIALIZE, "short", "value", "int64", "3 bytes",
                "topic notif", "partition 3", "offset 42");
  /* The join stands before it: its output is out. */
  assert_int_equal(env.output_count, 1);
  fake_stop(&env);
}

/* A row that was stored before the table declared its serde. */
static void a_row_that_cannot_be_decoded(void **state) {
  (void)state;
  start_decoding();
  bool older;
  assert_no_error(fake_put(&env, 0, cj_bytes_str("k"), bad, 1, &older));
  fake_try(&env, "notif", cj_bytes_str("k"), good, 1);
  ASSERT_FAILED(CJ_PROCESS_DESERIALIZE, CJ_ERR_DESERIALIZE, "price", "row", "int32", "topic notif",
                "offset 42");
  assert_int_equal(env.output_count, 0);
  fake_stop(&env);
}

static const void *refuse(void *user, cj_bytes in, cj_arena *arena, const char **why) {
  (void)user;
  (void)in;
  (void)arena;
  (void)why;
  return NULL;
}

static void a_serde_without_a_reason(void **state) {
  (void)state;
  const cj_serde mine = {.name = "mine", .decode = refuse};
  cj_topology *t = cj_topology_new();
  cj_topology_stream(t, "in", &(cj_source_options){.value_serde = &mine});
  fake_start(&env, t);
  fake_try(&env, "in", cj_bytes_null(), bad, 1);
  ASSERT_FAILED(CJ_PROCESS_DESERIALIZE, CJ_ERR_DESERIALIZE, "in", "mine", "no reason");
  fake_stop(&env);
}

static void decode_alone_decodes_as_process_does(void **state) {
  (void)state;
  start_decoding();
  int price = cj_plan_find_topic(env.plan, "price");
  cj_record record = {
      .key = cj_bytes_str("k"), .value = good, .topic = "price", .partition = 3, .offset = 9};
  cj_error *error = NULL;
  assert_int_equal(cj_processor_decode(env.processor, price, &record, &error), CJ_PROCESSED);
  assert_null(error);
  assert_int_equal(*(const int32_t *)record.value_object, 1);
  record.value = bad;
  assert_int_equal(cj_processor_decode(env.processor, price, &record, &error),
                   CJ_PROCESS_DESERIALIZE);
  ASSERT_MENTIONS(cj_error_message(error), "topic price", "offset 9");
  cj_error_destroy(error);
  assert_int_equal(env.counters.records_in, 0);
  assert_int_equal(env.row_count, 0);
  fake_stop(&env);
}

/* ---- callbacks that fail ---- */

/* Fails as the value says. */
static cj_verdict as_told(cj_ctx *ctx, const cj_record *record) {
  const char *value = record->value.data;
  switch (value[0]) {
  case 'r':
    return cj_ctx_fail(ctx, "no such currency: %s", "XXX");
  case 's':
    return CJ_FAIL;
  case 'x':
    return (cj_verdict)9;
  case 'm':
    (void)cj_ctx_fail(ctx, "a reason that is not used");
    return CJ_EMIT;
  default:
    return CJ_EMIT;
  }
}

static cj_verdict value_as_told(cj_ctx *ctx, const cj_record *record, cj_buf *value) {
  (void)value;
  return as_told(ctx, record);
}
static cj_verdict map_as_told(cj_ctx *ctx, const cj_record *record, cj_buf *key, cj_buf *value) {
  (void)key;
  (void)value;
  return as_told(ctx, record);
}
static cj_verdict key_as_told(cj_ctx *ctx, const cj_record *record, cj_buf *key) {
  (void)key;
  return as_told(ctx, record);
}
static cj_verdict flat_as_told(cj_ctx *ctx, const cj_record *record, cj_emitter *out) {
  (void)out;
  return as_told(ctx, record);
}
static cj_verdict join_as_told(cj_ctx *ctx, const cj_record *record, const cj_row *row,
                               cj_buf *value) {
  (void)row;
  (void)value;
  return as_told(ctx, record);
}

static cj_stream *failing(cj_topology *t, cj_stream *in, int kind) {
  const cj_node named = {.name = "picky"};
  switch (kind) {
  case 0:
    return cj_stream_filter(in, as_told, &named);
  case 1:
    return cj_stream_map_values(in, value_as_told, &named);
  case 2:
    return cj_stream_map(in, map_as_told, &named);
  case 3:
    return cj_stream_select_key(in, key_as_told, &named);
  case 4:
    return cj_stream_flat_map(in, flat_as_told, &named);
  default:
    return cj_stream_left_join(in, cj_topology_table(t, "price", NULL), join_as_told, &named);
  }
}

static void callbacks_say_why(void **state) {
  (void)state;
  for (int kind = 0; kind < 6; kind++) {
    cj_topology *t = cj_topology_new();
    cj_stream_to(failing(t, cj_topology_stream(t, "in", NULL), kind), "out", NULL);
    fake_start(&env, t);
    env.offset = 7;
    fake_try(&env, "in", cj_bytes_null(), cj_bytes_str("r"), 1);
    ASSERT_FAILED(CJ_PROCESS_FAILED, CJ_ERR_PROCESS, "picky", "no such currency: XXX", "topic in",
                  "partition 3", "offset 7");
    fake_try(&env, "in", cj_bytes_null(), cj_bytes_str("m"), 1);
    assert_int_equal(env.result, CJ_PROCESSED);
    /* The reason of one record is not another's. */
    fake_try(&env, "in", cj_bytes_null(), cj_bytes_str("s"), 1);
    ASSERT_FAILED(CJ_PROCESS_FAILED, CJ_ERR_PROCESS, "picky", "no reason", "offset 9");
    fake_try(&env, "in", cj_bytes_null(), cj_bytes_str("x"), 1);
    ASSERT_FAILED(CJ_PROCESS_FAILED, CJ_ERR_PROCESS, "picky", "no cj_verdict", "offset 10");
    fake_stop(&env);
  }
}

static int far_branch(cj_ctx *ctx, const cj_record *record) {
  (void)ctx;
  return record->value.len == 1 ? 2 : -2;
}

static void a_branch_that_there_is_not(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream *out[2];
  cj_stream_branch(cj_topology_stream(t, "in", NULL), far_branch, out, 2,
                   &(cj_node){.name = "split"});
  fake_start(&env, t);
  fake_try(&env, "in", cj_bytes_null(), cj_bytes_str("1"), 1);
  ASSERT_FAILED(CJ_PROCESS_FAILED, CJ_ERR_PROCESS, "split", "a branch that there is not");
  fake_try(&env, "in", cj_bytes_null(), cj_bytes_str("12"), 1);
  ASSERT_FAILED(CJ_PROCESS_FAILED, CJ_ERR_PROCESS, "split", "a branch that there is not");
  fake_stop(&env);
}

typedef struct {
  cj_verdict first, second;
} emits;

/* Emits twice, and takes no notice of what comes of it. */
static cj_verdict careless(cj_ctx *ctx, const cj_record *record, cj_emitter *out) {
  emits *e = cj_ctx_user(ctx);
  e->first = cj_emit(out, record->key, record->value);
  e->second = cj_emit(out, record->key, cj_bytes_str("fine"));
  return CJ_EMIT;
}

static void a_failure_behind_a_flat_map_is_not_lost(void **state) {
  (void)state;
  emits e = {CJ_EMIT, CJ_EMIT};
  cj_topology *t = cj_topology_new();
  cj_stream *each =
      cj_stream_flat_map(cj_topology_stream(t, "in", NULL), careless, &(cj_node){.user = &e});
  cj_stream_to(cj_stream_filter(each, as_told, &(cj_node){.name = "picky"}), "out", NULL);
  fake_start(&env, t);
  fake_try(&env, "in", cj_bytes_null(), cj_bytes_str("r"), 1);
  ASSERT_FAILED(CJ_PROCESS_FAILED, CJ_ERR_PROCESS, "picky", "no such currency");
  assert_int_equal(e.first, CJ_FAIL);
  assert_int_equal(e.second, CJ_FAIL);
  assert_int_equal(env.output_count, 0);
  fake_stop(&env);
}

/* ---- what no policy helps against ---- */

static void a_store_or_sink_that_fails(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream *in = cj_topology_stream(t, "in", NULL);
  cj_table *price = cj_topology_table(t, "price", NULL);
  cj_stream_to(cj_stream_left_join(in, price, value_and_row, NULL), "out",
               &(cj_sink_options){.name = "send"});
  fake_start(&env, t);
  env.store_bad = true;
  fake_try(&env, "in", cj_bytes_str("k"), cj_bytes_str("v"), 1);
  ASSERT_FAILED(CJ_PROCESS_FATAL, CJ_ERR_STORE, "price-0", "unreadable");
  fake_try(&env, "price", cj_bytes_str("k"), cj_bytes_str("v"), 1);
  ASSERT_FAILED(CJ_PROCESS_FATAL, CJ_ERR_STORE, "price-0", "unwritable");
  assert_int_equal(env.counters.joined + env.counters.missed + env.counters.table_updates, 0);
  env.store_bad = false;
  env.emit_bad = true;
  fake_try(&env, "in", cj_bytes_str("k"), cj_bytes_str("v"), 1);
  ASSERT_FAILED(CJ_PROCESS_FATAL, CJ_ERR_PRODUCE, "send", "refused");
  assert_int_equal(env.counters.out, 0);
  fake_stop(&env);
}

/* A cold processor without memory: the failure is fatal, not the record's, and the next record goes
 * through when there is memory again. */
static void no_memory_is_not_the_records_fault(void **state) {
  (void)state;
  const cj_node text = {.value_serde = cj_serde_string(), .key_serde = cj_serde_string()};
  for (int kind = 0; kind < 5; kind++) {
    cj_topology *t = cj_topology_new();
    cj_source_options options = {.value_serde = kind == 0 ? cj_serde_string() : NULL};
    cj_stream *at = cj_topology_stream(t, "in", &options);
    if (kind == 1) at = cj_stream_map_values(at, same_value, &text);
    if (kind == 2) at = cj_stream_map(at, same_both, &text);
    if (kind == 3) at = cj_stream_select_key(at, key_from_value, &text);
    if (kind == 4)
      at = cj_stream_left_join(at, cj_topology_table(t, "table", NULL), value_and_row, &text);
    cj_stream_to(at, "out", NULL);
    fake_start(&env, t);
    cj_alloc_fail_after(0);
    fake_try(&env, "in", cj_bytes_str("k"), cj_bytes_str("v"), 1);
    cj_alloc_fail_after(-1);
    assert_int_equal(env.result, CJ_PROCESS_FATAL);
    assert_int_equal(cj_error_code(env.error), CJ_ERR_NO_MEMORY);
    assert_int_equal(env.output_count, 0);
    fake_pipe(&env, "in", "k", "v", 1);
    assert_int_equal(env.output_count, 1);
    fake_stop(&env);
  }
}

static cj_verdict honest(cj_ctx *ctx, const cj_record *record, cj_buf *value) {
  (void)record;
  return cj_buf_reserve(value, 10) ? CJ_EMIT : cj_ctx_fail(ctx, "no room");
}
static cj_verdict needs_arena(cj_ctx *ctx, const cj_record *record) {
  (void)record;
  return cj_arena_alloc(cj_ctx_arena(ctx), 10) ? CJ_EMIT : cj_ctx_fail(ctx, "no room");
}

/* A callback that looks whether it got its memory, and fails. */
static void a_callback_that_fails_for_our_memory(void **state) {
  (void)state;
  for (int kind = 0; kind < 2; kind++) {
    cj_topology *t = cj_topology_new();
    cj_stream *in = cj_topology_stream(t, "in", NULL);
    if (kind == 0)
      cj_stream_map_values(in, honest, NULL);
    else
      cj_stream_filter(in, needs_arena, NULL);
    fake_start(&env, t);
    cj_alloc_fail_after(0);
    fake_try(&env, "in", cj_bytes_null(), cj_bytes_str("v"), 1);
    cj_alloc_fail_after(-1);
    assert_int_equal(env.result, CJ_PROCESS_FATAL);
    assert_int_equal(cj_error_code(env.error), CJ_ERR_NO_MEMORY);
    fake_stop(&env);
  }
}

static void a_reason_without_memory(void **state) {
  (void)state;
  cj_topology *t = cj_topology_new();
  cj_stream_filter(cj_topology_stream(t, "in", NULL), as_told, &(cj_node){.name = "picky"});
  fake_start(&env, t);
  cj_alloc_fail_after(0);
  fake_try(&env, "in", cj_bytes_null(), cj_bytes_str("r"), 1);
  cj_alloc_fail_after(-1);
  assert_int_equal(env.result, CJ_PROCESS_FAILED);
  assert_int_equal(cj_error_code(env.error), CJ_ERR_NO_MEMORY);
  fake_stop(&env);
}

static void *count_open(void *user, int32_t partition) {
  (void)partition;
  ++*(int *)user;
  return NULL;
}

static void without_memory_no_processor_and_nothing_opened(void **state) {
  (void)state;
  int opened = 0;
  cj_topology *t = cj_topology_new();
  cj_stream_peek(cj_topology_stream(t, "in", NULL), look,
                 &(cj_node){.user = &opened, .task_open = count_open});
  cj_plan *plan = NULL;
  assert_no_error(cj_topology_build(t, &plan));
  cj_processor_env ops = fake_ops(&env);
  cj_processor *processor = (cj_processor *)1;
  cj_alloc_fail_after(0);
  cj_error *error = cj_processor_new(plan, 0, 0, &ops, &processor);
  cj_alloc_fail_after(-1);
  assert_int_equal(cj_error_code(error), CJ_ERR_NO_MEMORY);
  assert_null(processor);
  assert_int_equal(opened, 0);
  cj_processor_destroy(NULL);
  cj_plan_destroy(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_source_that_cannot_be_decoded),
      cmocka_unit_test(what_a_node_made_cannot_be_decoded),
      cmocka_unit_test(a_row_that_cannot_be_decoded),
      cmocka_unit_test(a_serde_without_a_reason),
      cmocka_unit_test(decode_alone_decodes_as_process_does),
      cmocka_unit_test(callbacks_say_why),
      cmocka_unit_test(a_branch_that_there_is_not),
      cmocka_unit_test(a_failure_behind_a_flat_map_is_not_lost),
      cmocka_unit_test(a_store_or_sink_that_fails),
      cmocka_unit_test(no_memory_is_not_the_records_fault),
      cmocka_unit_test(a_callback_that_fails_for_our_memory),
      cmocka_unit_test(a_reason_without_memory),
      cmocka_unit_test(without_memory_no_processor_and_nothing_opened),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
