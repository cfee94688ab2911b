/* SPDX-License-Identifier: BSD-2-Clause */
/* Serdes: how bytes and objects become each other. A serde is a const struct of functions; the
 * built-in ones write what the serializers of the Java client write, so that int32, int64 and
 * double are big-endian and a string is its UTF-8 bytes without a length.
 *
 * Threads: a serde's functions are called from every worker at once and must not share state. */
#ifndef COJOIN_SERDE_H
#define COJOIN_SERDE_H

#include <stdbool.h>
#include <stdint.h>

#include <cojoin/export.h>
#include <cojoin/record.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Memory for one record: what is taken from it lives until the record has been processed. */
typedef struct cj_arena cj_arena;
/* `size` bytes aligned for any object, not initialised, or NULL. */
CJ_API void *cj_arena_alloc(cj_arena *arena, size_t size);

typedef struct cj_serde {
  const char *name; /* shown by the topology, the checklist and errors */
  /* Decodes `in`, which is never null. Returns the object, from the arena or a view into `in`;
   * NULL when the bytes do not fit, with *why pointing at a static reason. */
  const void *(*decode)(void *user, cj_bytes in, cj_arena *arena, const char **why);
  /* Appends the object's bytes to `out`. False when it cannot, with *why set. */
  bool (*encode)(void *user, const void *object, cj_buf *out, const char **why);
  void *user; /* handed to both; outlives the plan */
} cj_serde;

/* Static, for every thread. Their objects: bytes `const cj_bytes *`; string `const char *`,
 * NUL-terminated, refused if not UTF-8 or with a NUL byte in it; int32 `const int32_t *`;
 * int64 `const int64_t *`; double `const double *`. */
CJ_API const cj_serde *cj_serde_bytes(void);
CJ_API const cj_serde *cj_serde_string(void);
CJ_API const cj_serde *cj_serde_int32(void);
CJ_API const cj_serde *cj_serde_int64(void);
CJ_API const cj_serde *cj_serde_double(void);
/* The built-in serde of that name ("bytes", "string", "int32", "int64", "double"), or NULL. */
CJ_API const cj_serde *cj_serde_named(const char *name);

/* The same without objects, for callbacks that hold bytes: false when the length does not fit. */
CJ_API bool cj_get_int32(cj_bytes in, int32_t *out);
CJ_API bool cj_get_int64(cj_bytes in, int64_t *out);
CJ_API bool cj_get_double(cj_bytes in, double *out);
CJ_API void cj_put_int32(cj_buf *out, int32_t value);
CJ_API void cj_put_int64(cj_buf *out, int64_t value);
CJ_API void cj_put_double(cj_buf *out, double value);

#ifdef __cplusplus
}
#endif
#endif
