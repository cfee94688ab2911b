/* SPDX-License-Identifier: BSD-2-Clause */
/* What a unit test includes first: cmocka with the headers that it wants before it. */
#ifndef CJ_TEST_UNIT_H
#define CJ_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cojoin/error.h>

/* The text of `haystack` holds each of the words; a failure prints it. The list ends with NULL. */
static inline void assert_mentions(const char *haystack, const char *const *words) {
  for (; *words; words++)
    if (!strstr(haystack, *words)) fail_msg("no \"%s\" in: %s", *words, haystack);
}
#define ASSERT_MENTIONS(haystack, ...)                                                             \
  assert_mentions((haystack), (const char *const[]){__VA_ARGS__, NULL})

/* Success; otherwise the error's text is the failure. Consumes the error. */
static inline void assert_no_error(cj_error *error) {
  if (error) fail_msg("%s", cj_error_text(error));
}

#endif
