/* SPDX-License-Identifier: BSD-2-Clause */
/* A record as callbacks see it, and the buffer that callbacks write into.
 *
 * NULL and empty are two things, for keys and for values: `data == NULL` is null (a tombstone, no
 * key), `data != NULL && len == 0` is zero bytes. Always test the pointer. */
#ifndef COJOIN_RECORD_H
#define COJOIN_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cojoin/export.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const void *data; /* NULL: null */
  size_t len;       /* bytes */
} cj_bytes;

static inline cj_bytes cj_bytes_of(const void *data, size_t len) {
  cj_bytes b = {data, len};
  return b;
}
static inline cj_bytes cj_bytes_null(void) {
  cj_bytes b = {NULL, 0};
  return b;
}
/* The text's bytes without the terminating NUL; NULL gives null. */
static inline cj_bytes cj_bytes_str(const char *text) {
  cj_bytes b = {text, text ? strlen(text) : 0};
  return b;
}
/* Equal bytes. Null equals null and nothing else. */
static inline bool cj_bytes_equal(cj_bytes a, cj_bytes b) {
  if (!a.data || !b.data) return !a.data && !b.data;
  return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

typedef struct {
  const char *name;
  cj_bytes value;
} cj_header;

typedef struct cj_headers cj_headers; /* headers as they came, unparsed */

/* A record. Made by the library; a view that is valid until the callback that received it returns.
 * The struct may grow at its end: never copy it by value across calls or make one yourself. */
typedef struct {
  cj_bytes key;
  cj_bytes value;
  int64_t timestamp; /* milliseconds since the epoch; a negative one is kept as it came */
  const char *topic; /* of the source record this one descends from */
  int32_t partition;
  int64_t offset;
  /* The decoded key and value where the source, or the node that made the part, declares a serde;
   * otherwise NULL. Valid as long as the record. */
  const void *key_object;
  const void *value_object;
  const cj_headers *headers; /* for cj_record_headers */
} cj_record;

/* The record's headers in their order, duplicates and null values kept. Returns how many there are
 * and points *out at the first; the array is valid as long as the record. */
CJ_API size_t cj_record_headers(const cj_record *record, const cj_header **out);

/* The table's row that a stream record met. */
typedef struct {
  cj_bytes value;
  int64_t timestamp;  /* of the table record that wrote it, milliseconds */
  const void *object; /* decoded with the table's value serde, or NULL if it has none */
} cj_row;

/* A buffer that grows and is reused from record to record. It starts out as zero bytes; it can be
 * made null. A failed allocation makes it `failed`, which the library turns into an error: appends
 * need not be checked one by one.
 *
 * One made by the library is lent for the call. One of yours: start with CJ_BUF_INIT, end with
 * cj_buf_free. Not locked. */
typedef struct {
  unsigned char *data;
  size_t len;
  size_t cap;
  bool null;
  bool failed;
} cj_buf;

#define CJ_BUF_INIT                                                                                \
  { NULL, 0, 0, false, false }

CJ_API void cj_buf_free(cj_buf *buf);
/* Makes the buffer zero bytes long (not null), keeping its memory. */
static inline void cj_buf_clear(cj_buf *buf) {
  buf->len = 0;
  buf->null = false;
}
/* Makes the buffer null: as a value it is a tombstone. */
static inline void cj_buf_set_null(cj_buf *buf) {
  buf->len = 0;
  buf->null = true;
}
/* Room for `more` bytes after the present end: where to write them, or NULL (and `failed`). The
 * length does not change: add what was written to buf->len. */
CJ_API void *cj_buf_reserve(cj_buf *buf, size_t more);
CJ_API void cj_buf_append(cj_buf *buf, const void *data, size_t len);
CJ_API void cj_buf_append_str(cj_buf *buf, const char *text);
CJ_API void cj_buf_printf(cj_buf *buf, const char *format, ...) CJ_PRINTF(2, 3);
/* Replaces the content; null bytes make the buffer null. */
CJ_API void cj_buf_set(cj_buf *buf, cj_bytes bytes);
/* The content as bytes: null if the buffer is null, otherwise a non-NULL pointer. Valid until the
 * buffer changes. */
CJ_API cj_bytes cj_buf_bytes(const cj_buf *buf);

#ifdef __cplusplus
}
#endif
#endif
