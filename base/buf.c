/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

#define FIRST_CAP 64

void cj_buf_free(cj_buf *buf) {
  cj_free(buf->data);
  *buf = (cj_buf)CJ_BUF_INIT;
}

void *cj_buf_reserve(cj_buf *buf, size_t more) {
  /* A buffer without memory gets some even for 0 bytes: NULL means failure and nothing else. */
  if (buf->data && buf->cap - buf->len >= more) return buf->data + buf->len;
  size_t cap = buf->cap ? buf->cap : FIRST_CAP;
  if (more > SIZE_MAX / 2 - buf->len) {
    buf->failed = true;
    return NULL;
  }
  while (cap < buf->len + more)
    cap *= 2;
  unsigned char *data = cj_realloc(buf->data, cap);
  if (!data) {
    buf->failed = true;
    return NULL;
  }
  buf->data = data;
  buf->cap = cap;
  return data + buf->len;
}

void cj_buf_append(cj_buf *buf, const void *data, size_t len) {
  buf->null = false;
  if (len == 0) return;
  void *to = cj_buf_reserve(buf, len);
  if (!to) return;
  memcpy(to, data, len);
  buf->len += len;
}

void cj_buf_append_str(cj_buf *buf, const char *text) {
  cj_buf_append(buf, text, strlen(text));
}

void cj_buf_printf(cj_buf *buf, const char *format, ...) {
  buf->null = false;
  size_t room = buf->cap - buf->len;
  char *to = room ? (char *)buf->data + buf->len : NULL;
  va_list args;
  va_start(args, format);
  int len = vsnprintf(to, room, format, args);
  va_end(args);
  if (len >= 0 && (size_t)len >= room) {
    /* vsnprintf ends with a NUL, which needs room but is not content. */
    to = cj_buf_reserve(buf, (size_t)len + 1);
    if (!to) return;
    va_start(args, format);
    len = vsnprintf(to, (size_t)len + 1, format, args);
    va_end(args);
  }
  if (len < 0)
    buf->failed = true;
  else
    buf->len += (size_t)len;
}

void cj_buf_set(cj_buf *buf, cj_bytes bytes) {
  if (!bytes.data) {
    cj_buf_set_null(buf);
    return;
  }
  cj_buf_clear(buf);
  if (bytes.len == 0) return;
  void *to = cj_buf_reserve(buf, bytes.len);
  if (!to) return;
  /* The bytes may be a part of this buffer; then it has room and was not moved. */
  memmove(to, bytes.data, bytes.len);
  buf->len = bytes.len;
}

cj_bytes cj_buf_bytes(const cj_buf *buf) {
  if (buf->null) return cj_bytes_null();
  /* Zero bytes is a value, NULL is not: a buffer that was never grown has to point somewhere. */
  return cj_bytes_of(buf->data ? buf->data : (const unsigned char *)"", buf->len);
}
