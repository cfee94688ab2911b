/* SPDX-License-Identifier: BSD-2-Clause */
/* The one door to the heap. It is malloc's, so that what the API says is freed with free() may come
 * from here. */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many allocations may still succeed; negative: all. */
static long allowed = -1;

void cj_alloc_fail_after(long n) {
  __atomic_store_n(&allowed, n, __ATOMIC_RELAXED);
}

static bool refused(void) {
  long left = __atomic_load_n(&allowed, __ATOMIC_RELAXED);
  while (left > 0) {
    if (__atomic_compare_exchange_n(&allowed, &left, left - 1, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
      return false;
  }
  return left == 0;
}

void *cj_alloc(size_t size) {
  if (refused()) return NULL;
  return calloc(1, size ? size : 1);
}

void *cj_realloc(void *p, size_t size) {
  if (refused()) return NULL;
  return realloc(p, size ? size : 1);
}

void cj_free(void *p) {
  free(p);
}

char *cj_strdup(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = cj_alloc(size);
  if (copy) memcpy(copy, text, size);
  return copy;
}

char *cj_asprintf(const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int len = vsnprintf(NULL, 0, format, args);
  va_end(args);
  char *text = len < 0 ? NULL : cj_alloc((size_t)len + 1);
  if (text) vsnprintf(text, (size_t)len + 1, format, again);
  va_end(again);
  return text;
}
