/* SPDX-License-Identifier: BSD-2-Clause */
/* Callbacks that do next to nothing, for tests of what a topology becomes, and a user that counts
 * how often it is destroyed. */
#ifndef CJ_TEST_TOPOLOGIES_H
#define CJ_TEST_TOPOLOGIES_H

#include <cojoin/topology.h>

static inline cj_verdict keep(cj_ctx *ctx, const cj_record *record) {
  (void)ctx;
  (void)record;
  return CJ_EMIT;
}
static inline cj_verdict same_value(cj_ctx *ctx, const cj_record *record, cj_buf *value) {
  (void)ctx;
  cj_buf_set(value, record->value);
  return CJ_EMIT;
}
static inline cj_verdict same_both(cj_ctx *ctx, const cj_record *record, cj_buf *key,
                                   cj_buf *value) {
  cj_buf_set(key, record->key);
  return same_value(ctx, record, value);
}
static inline cj_verdict key_from_value(cj_ctx *ctx, const cj_record *record, cj_buf *key) {
  (void)ctx;
  cj_buf_set(key, record->value);
  return CJ_EMIT;
}
static inline cj_verdict emit_twice(cj_ctx *ctx, const cj_record *record, cj_emitter *out) {
  (void)ctx;
  if (cj_emit(out, record->key, record->value) == CJ_FAIL) return CJ_FAIL;
  return cj_emit(out, record->key, record->value);
}
static inline void look(cj_ctx *ctx, const cj_record *record) {
  (void)ctx;
  (void)record;
}
static inline int first_branch(cj_ctx *ctx, const cj_record *record) {
  (void)ctx;
  (void)record;
  return 0;
}
/* "VALUE+ROW", or "VALUE+NULL". */
static inline cj_verdict value_and_row(cj_ctx *ctx, const cj_record *record, const cj_row *row,
                                       cj_buf *value) {
  (void)ctx;
  cj_buf_append(value, record->value.data, record->value.len);
  cj_buf_append_str(value, "+");
  if (row)
    cj_buf_append(value, row->value.data, row->value.len);
  else
    cj_buf_append_str(value, "NULL");
  return CJ_EMIT;
}

/* A destroy function for an int that counts. */
static inline void count_destroy(void *user) {
  ++*(int *)user;
}
static inline cj_node counted(int *count, const char *name) {
  return (cj_node){.name = name, .user = count, .destroy = count_destroy};
}

#endif
