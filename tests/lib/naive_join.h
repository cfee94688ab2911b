/* SPDX-License-Identifier: BSD-2-Clause */
/* The oracle: what a stream-table join over the two logs of one partition gives, too simple to be
 * wrong. The two heads are compared, the smaller timestamp goes first, the table's among equals. */
#ifndef CJ_TEST_NAIVE_JOIN_H
#define CJ_TEST_NAIVE_JOIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NAIVE_NULL = -1, NAIVE_KEYS = 8 };

typedef struct {
  int key;   /* 0 … NAIVE_KEYS - 1, or NAIVE_NULL */
  int value; /* a number that occurs once, or NAIVE_NULL */
  int64_t timestamp;
  int met; /* of the stream: the table's value; NAIVE_NULL: a miss */
} naive_record;

typedef struct {
  naive_record *records;
  size_t count;
} naive_log;

/* Fills in `met` of every stream record; `table` is what the table holds at the end. */
static inline void naive_join(naive_log *stream, const naive_log *prices, int table[NAIVE_KEYS]) {
  for (int k = 0; k < NAIVE_KEYS; k++)
    table[k] = NAIVE_NULL;
  size_t s = 0, p = 0;
  while (s < stream->count || p < prices->count) {
    const naive_record *price = p < prices->count ? &prices->records[p] : NULL;
    naive_record *record = s < stream->count ? &stream->records[s] : NULL;
    if (price && (!record || price->timestamp <= record->timestamp)) {
      if (price->key != NAIVE_NULL) table[price->key] = price->value;
      p++;
    } else {
      record->met = record->key == NAIVE_NULL ? NAIVE_NULL : table[record->key];
      s++;
    }
  }
}

#endif
