/* SPDX-License-Identifier: BSD-2-Clause */
#include "state/store_format.h"

#define POSITION_VERSION 1

static void put_little(unsigned char *to, uint64_t value, size_t len) {
  for (size_t i = 0; i < len; i++)
    to[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get_little(const unsigned char *from, size_t len) {
  uint64_t value = 0;
  for (size_t i = 0; i < len; i++)
    value |= (uint64_t)from[i] << (8 * i);
  return value;
}

/* ---- keys ---- */

void cj_store_put_table_id(unsigned char to[2], uint16_t id) {
  to[0] = (unsigned char)(id >> 8);
  to[1] = (unsigned char)(id & 0xff);
}

bool cj_store_get_table_id(cj_bytes stored, uint16_t *id) {
  if (stored.len != 2) return false;
  const unsigned char *from = stored.data;
  *id = (uint16_t)(from[0] << 8 | from[1]);
  return true;
}

static cj_store_prefix prefix(unsigned char kind, uint16_t id) {
  cj_store_prefix result = {{kind, 0, 0}};
  cj_store_put_table_id(result.bytes + 1, id);
  return result;
}

cj_store_prefix cj_store_rows_prefix(uint16_t id) {
  return prefix('t', id);
}

cj_store_prefix cj_store_position_key(uint16_t id) {
  return prefix('p', id);
}

/* ---- rows ---- */

void cj_store_put_timestamp(unsigned char to[CJ_STORE_TIMESTAMP], int64_t timestamp) {
  put_little(to, (uint64_t)timestamp, CJ_STORE_TIMESTAMP);
}

bool cj_store_get_row(cj_bytes stored, cj_bytes *value, int64_t *timestamp) {
  if (stored.len < CJ_STORE_TIMESTAMP) return false;
  const unsigned char *from = stored.data;
  *timestamp = (int64_t)get_little(from, CJ_STORE_TIMESTAMP);
  *value = cj_bytes_of(from + CJ_STORE_TIMESTAMP, stored.len - CJ_STORE_TIMESTAMP);
  return true;
}

/* ---- positions ---- */

void cj_store_put_position(unsigned char to[CJ_STORE_POSITION], const cj_position *position) {
  to[0] = POSITION_VERSION;
  put_little(to + 1, (uint64_t)position->offset, 8);
  put_little(to + 9, (uint64_t)position->last_offset, 8);
  put_little(to + 17, (uint64_t)position->last_timestamp, 8);
  put_little(to + 25, position->last_key_hash, 8);
  put_little(to + 33, (uint64_t)position->at_end_ms, 8);
}

bool cj_store_get_position(cj_bytes stored, cj_position *position) {
  const unsigned char *from = stored.data;
  if (stored.len != CJ_STORE_POSITION || from[0] != POSITION_VERSION) return false;
  *position = (cj_position){
      .offset = (int64_t)get_little(from + 1, 8),
      .last_offset = (int64_t)get_little(from + 9, 8),
      .last_timestamp = (int64_t)get_little(from + 17, 8),
      .last_key_hash = get_little(from + 25, 8),
      .at_end_ms = (int64_t)get_little(from + 33, 8),
  };
  return true;
}

/* ---- the fingerprint: format(1), partition(4), partition count(4), length(4) and bytes of the
 * cluster's id, then of the anchor. The format comes first for ever, or no build could tell what it
 * does not know. ---- */

static void append_number(cj_buf *to, uint32_t value) {
  unsigned char bytes[4];
  put_little(bytes, value, sizeof bytes);
  cj_buf_append(to, bytes, sizeof bytes);
}

static void append_text(cj_buf *to, const char *text) {
  append_number(to, (uint32_t)strlen(text));
  cj_buf_append_str(to, text);
}

void cj_store_put_identity(cj_buf *to, const cj_fingerprint *fingerprint) {
  cj_buf_append(to, (const unsigned char[]){CJ_STORE_FORMAT}, 1);
  append_number(to, (uint32_t)fingerprint->partition);
  append_number(to, (uint32_t)fingerprint->partition_count);
  append_text(to, fingerprint->cluster_id);
  append_text(to, fingerprint->anchor);
}

static bool take_number(cj_bytes *from, uint32_t *value) {
  if (from->len < 4) return false;
  *value = (uint32_t)get_little(from->data, 4);
  *from = cj_bytes_of((const unsigned char *)from->data + 4, from->len - 4);
  return true;
}

static bool take_text(cj_bytes *from, cj_bytes *text) {
  uint32_t len;
  if (!take_number(from, &len) || from->len < len) return false;
  *text = cj_bytes_of(from->data, len);
  *from = cj_bytes_of((const unsigned char *)from->data + len, from->len - len);
  return true;
}

bool cj_store_get_identity(cj_bytes stored, cj_store_identity *identity) {
  *identity = (cj_store_identity){.format = 0};
  if (!stored.len) return false;
  const unsigned char *from = stored.data;
  identity->format = from[0];
  if (identity->format != CJ_STORE_FORMAT) return true;
  cj_bytes rest = cj_bytes_of(from + 1, stored.len - 1);
  uint32_t partition, count;
  if (!take_number(&rest, &partition) || !take_number(&rest, &count)) return false;
  identity->partition = (int32_t)partition;
  identity->partition_count = (int32_t)count;
  return take_text(&rest, &identity->cluster_id) && take_text(&rest, &identity->anchor) &&
         rest.len == 0;
}
