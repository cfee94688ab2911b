/* SPDX-License-Identifier: BSD-2-Clause */
/* A batch in memory: for each operation a head, the key, the value. It never leaves the process, so
 * that the machine's own byte order is right. */
#include "state/kv.h"

/* A batch that grew above this goes back to the heap when it is cleared: one large commit must not
 * stay in memory for each of a thousand stores. */
#define KEEP_MAX ((size_t)1 << 20)

typedef enum { OP_PUT, OP_DELETE, OP_DELETE_PREFIX } op_kind;

typedef struct {
  uint32_t kind;
  uint32_t key_len;
  uint32_t value_len;
} op_head;

static void add(cj_kv_batch *batch, op_kind kind, cj_bytes key, cj_bytes value) {
  if (key.len > UINT32_MAX || value.len > UINT32_MAX) {
    batch->ops.failed = true;
    return;
  }
  const op_head head = {kind, (uint32_t)key.len, (uint32_t)value.len};
  /* Room for the whole first: half an operation would make the walk go astray. */
  unsigned char *to = cj_buf_reserve(&batch->ops, sizeof head + key.len + value.len);
  if (!to) return;
  memcpy(to, &head, sizeof head);
  if (key.len) memcpy(to + sizeof head, key.data, key.len);
  if (value.len) memcpy(to + sizeof head + key.len, value.data, value.len);
  batch->ops.len += sizeof head + key.len + value.len;
  batch->count++;
}

void cj_kv_batch_put(cj_kv_batch *batch, cj_bytes key, cj_bytes value) {
  add(batch, OP_PUT, key, value);
}

void cj_kv_batch_delete(cj_kv_batch *batch, cj_bytes key) {
  add(batch, OP_DELETE, key, cj_bytes_null());
}

void cj_kv_batch_delete_prefix(cj_kv_batch *batch, cj_bytes prefix) {
  add(batch, OP_DELETE_PREFIX, prefix, cj_bytes_null());
}

void cj_kv_batch_clear(cj_kv_batch *batch) {
  if (batch->ops.cap > KEEP_MAX) cj_buf_free(&batch->ops);
  cj_buf_clear(&batch->ops);
  batch->ops.failed = false;
  batch->count = 0;
}

void cj_kv_batch_free(cj_kv_batch *batch) {
  cj_buf_free(&batch->ops);
  batch->count = 0;
}

bool cj_kv_batch_next(cj_kv_batch_walk *walk, cj_bytes *key, cj_bytes *value) {
  const cj_buf *ops = &walk->batch->ops;
  if (walk->at >= ops->len) return false;
  op_head head;
  memcpy(&head, ops->data + walk->at, sizeof head);
  const unsigned char *bytes = ops->data + walk->at + sizeof head;
  *key = cj_bytes_of(bytes, head.key_len);
  *value =
      head.kind == OP_PUT ? cj_bytes_of(bytes + head.key_len, head.value_len) : cj_bytes_null();
  walk->prefix = head.kind == OP_DELETE_PREFIX;
  walk->at += sizeof head + head.key_len + head.value_len;
  return true;
}
