/* SPDX-License-Identifier: BSD-2-Clause */
/* The built-in serdes: the bytes are those of the Java client's serializers. */
#include <cojoin/serde.h>

#include "operators/utf8.h"

static const char no_memory[] = "there is no memory";

/* ---- big-endian numbers ---- */

static uint64_t get_big_endian(const void *data, size_t len) {
  const unsigned char *p = data;
  uint64_t bits = 0;
  for (size_t i = 0; i < len; i++)
    bits = bits << 8 | p[i];
  return bits;
}

static void put_big_endian(cj_buf *out, uint64_t bits, size_t len) {
  unsigned char bytes[8];
  for (size_t i = 0; i < len; i++)
    bytes[i] = (unsigned char)(bits >> (8 * (len - 1 - i)));
  cj_buf_append(out, bytes, len);
}

bool cj_get_int32(cj_bytes in, int32_t *out) {
  if (!in.data || in.len != 4) return false;
  uint32_t bits = (uint32_t)get_big_endian(in.data, 4);
  memcpy(out, &bits, sizeof *out);
  return true;
}

bool cj_get_int64(cj_bytes in, int64_t *out) {
  if (!in.data || in.len != 8) return false;
  uint64_t bits = get_big_endian(in.data, 8);
  memcpy(out, &bits, sizeof *out);
  return true;
}

bool cj_get_double(cj_bytes in, double *out) {
  if (!in.data || in.len != 8) return false;
  uint64_t bits = get_big_endian(in.data, 8);
  memcpy(out, &bits, sizeof *out);
  return true;
}

void cj_put_int32(cj_buf *out, int32_t value) {
  put_big_endian(out, (uint32_t)value, 4);
}

void cj_put_int64(cj_buf *out, int64_t value) {
  put_big_endian(out, (uint64_t)value, 8);
}

void cj_put_double(cj_buf *out, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  put_big_endian(out, bits, 8);
}

static bool encoded(const cj_buf *out, const char **why) {
  if (out->failed) *why = no_memory;
  return !out->failed;
}

static const void *decode_int32(void *user, cj_bytes in, cj_arena *arena, const char **why) {
  (void)user;
  int32_t *object = cj_arena_alloc(arena, sizeof *object);
  if (object && cj_get_int32(in, object)) return object;
  *why = object ? "an int32 is 4 bytes long" : no_memory;
  return NULL;
}

static bool encode_int32(void *user, const void *object, cj_buf *out, const char **why) {
  (void)user;
  cj_put_int32(out, *(const int32_t *)object);
  return encoded(out, why);
}

static const void *decode_int64(void *user, cj_bytes in, cj_arena *arena, const char **why) {
  (void)user;
  int64_t *object = cj_arena_alloc(arena, sizeof *object);
  if (object && cj_get_int64(in, object)) return object;
  *why = object ? "an int64 is 8 bytes long" : no_memory;
  return NULL;
}

static bool encode_int64(void *user, const void *object, cj_buf *out, const char **why) {
  (void)user;
  cj_put_int64(out, *(const int64_t *)object);
  return encoded(out, why);
}

static const void *decode_double(void *user, cj_bytes in, cj_arena *arena, const char **why) {
  (void)user;
  double *object = cj_arena_alloc(arena, sizeof *object);
  if (object && cj_get_double(in, object)) return object;
  *why = object ? "a double is 8 bytes long" : no_memory;
  return NULL;
}

static bool encode_double(void *user, const void *object, cj_buf *out, const char **why) {
  (void)user;
  cj_put_double(out, *(const double *)object);
  return encoded(out, why);
}

/* ---- bytes and strings ---- */

static const void *decode_bytes(void *user, cj_bytes in, cj_arena *arena, const char **why) {
  (void)user;
  cj_bytes *object = cj_arena_alloc(arena, sizeof *object);
  if (object)
    *object = in;
  else
    *why = no_memory;
  return object;
}

static bool encode_bytes(void *user, const void *object, cj_buf *out, const char **why) {
  (void)user;
  const cj_bytes *bytes = object;
  if (!bytes->data) {
    *why = "null has no bytes: make the buffer null instead";
    return false;
  }
  cj_buf_append(out, bytes->data, bytes->len);
  return encoded(out, why);
}

static const void *decode_string(void *user, cj_bytes in, cj_arena *arena, const char **why) {
  (void)user;
  *why = cj_utf8_wrong(in);
  if (*why) return NULL;
  char *object = cj_arena_alloc(arena, in.len + 1);
  if (!object) {
    *why = no_memory;
    return NULL;
  }
  if (in.len) memcpy(object, in.data, in.len);
  object[in.len] = '\0';
  return object;
}

static bool encode_string(void *user, const void *object, cj_buf *out, const char **why) {
  (void)user;
  cj_bytes text = cj_bytes_str(object);
  *why = cj_utf8_wrong(text);
  if (*why) return false;
  cj_buf_append(out, text.data, text.len);
  return encoded(out, why);
}

static const cj_serde bytes_serde = {
    .name = "bytes", .decode = decode_bytes, .encode = encode_bytes};
static const cj_serde string_serde = {
    .name = "string", .decode = decode_string, .encode = encode_string};
static const cj_serde int32_serde = {
    .name = "int32", .decode = decode_int32, .encode = encode_int32};
static const cj_serde int64_serde = {
    .name = "int64", .decode = decode_int64, .encode = encode_int64};
static const cj_serde double_serde = {
    .name = "double", .decode = decode_double, .encode = encode_double};

const cj_serde *cj_serde_bytes(void) {
  return &bytes_serde;
}

const cj_serde *cj_serde_string(void) {
  return &string_serde;
}

const cj_serde *cj_serde_int32(void) {
  return &int32_serde;
}

const cj_serde *cj_serde_int64(void) {
  return &int64_serde;
}

const cj_serde *cj_serde_double(void) {
  return &double_serde;
}

const cj_serde *cj_serde_named(const char *name) {
  static const cj_serde *const all[] = {&bytes_serde, &string_serde, &int32_serde,
                                        &int64_serde, &double_serde, NULL};
  for (const cj_serde *const *one = all; name && *one; one++)
    if (strcmp((*one)->name, name) == 0) return *one;
  return NULL;
}
