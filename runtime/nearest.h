/* SPDX-License-Identifier: BSD-2-Clause */
/* Which name was meant, for the errors about one that does not exist. */
#ifndef CJ_NEAREST_H
#define CJ_NEAREST_H

#include <stddef.h>

#define CJ_NEAREST 3

/* The names that come closest to a misspelt one, the best first. */
typedef struct {
  const char *wanted; /* set this, leave the rest zero */
  const char *name[CJ_NEAREST];
  size_t edits[CJ_NEAREST];
  size_t count;
} cj_nearest;

/* Considers a candidate, borrowed. One that differs in too much is not taken. */
void cj_nearest_consider(cj_nearest *nearest, const char *candidate);

/* Letters to insert, delete, replace or swap with their neighbour; case counts for nothing but the
 * first edit, so that `Price` is near to `price`. */
size_t cj_edit_distance(const char *a, const char *b);

#endif
