/* SPDX-License-Identifier: BSD-2-Clause */
#include "runtime/nearest.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define LONGEST 256 /* a topic's name has at most 249 characters */

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Optimal string alignment: three rows of the table are enough for swaps of neighbours. */
size_t cj_edit_distance(const char *a, const char *b) {
  size_t n = strlen(a), m = strlen(b);
  if (n > LONGEST || m > LONGEST) return n > m ? n : m;
  if (n == m && strcasecmp(a, b) == 0) return strcmp(a, b) == 0 ? 0 : 1;
  size_t rows[3][LONGEST + 1];
  size_t *before = rows[0], *last = rows[1], *row = rows[2];
  for (size_t j = 0; j <= m; j++)
    last[j] = j;
  for (size_t i = 1; i <= n; i++) {
    row[0] = i;
    for (size_t j = 1; j <= m; j++) {
      size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = least(replace, least(last[j], row[j - 1]) + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = least(row[j], before[j - 2] + 1);
    }
    size_t *free_row = before;
    before = last;
    last = row;
    row = free_row;
  }
  return last[m];
}

void cj_nearest_consider(cj_nearest *nearest, const char *candidate) {
  size_t len = strlen(nearest->wanted);
  size_t edits = cj_edit_distance(nearest->wanted, candidate);
  /* A third of the letters: more would offer names that nobody mistook. One that only goes on
   * (`price` for `price-feed`) is near as well. */
  bool prefix =
      len >= 3 &&
      (strncmp(nearest->wanted, candidate, len) == 0 ||
       (strlen(candidate) >= 3 && strncmp(nearest->wanted, candidate, strlen(candidate)) == 0));
  if (edits > 1 + len / 3 && !prefix) return;
  size_t at = nearest->count;
  while (at > 0 && nearest->edits[at - 1] > edits)
    at--;
  if (at == CJ_NEAREST) return;
  if (nearest->count < CJ_NEAREST) nearest->count++;
  for (size_t i = nearest->count - 1; i > at; i--) {
    nearest->name[i] = nearest->name[i - 1];
    nearest->edits[i] = nearest->edits[i - 1];
  }
  nearest->name[at] = candidate;
  nearest->edits[at] = edits;
}
