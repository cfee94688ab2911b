/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a partition is read from when its task starts: a pure function of four numbers, so that
 * every trap of the trouble reports is one row of a test.
 *
 *   S  the store's position: the next offset to apply, or none
 *   T  the group's committed offset, or none
 *   [start, end)  the log
 *
 *   no T, no S         nothing to restore: read as input from `start`
 *   no T, S            the offsets were reset or expired: the store is rebuilt
 *   S > T              the store is ahead of what is committed (an operator's reset): rebuilt
 *   S > end            the log was truncated or re-created: rebuilt
 *   S < start          deletes between S and start cannot be known: rebuilt
 *   no S, T            restored from `start` to min(T, end)
 *   S <= T             restored from S to min(T, end)
 *
 * (DESIGN "Restore"; KAFKA-7443, KAFKA-16017, KAFKA-20416 are what happens otherwise.) */
#ifndef CJ_RESTORE_PLAN_H
#define CJ_RESTORE_PLAN_H

#include "runtime/config.h"
#include "runtime/io.h"

typedef struct {
  int64_t from;        /* where fetching starts */
  int64_t to;          /* restored up to here, exclusive; == from: nothing to restore */
  const char *rebuild; /* why the table is wiped first, or NULL; static */
} cj_restore_plan;

cj_restore_plan cj_plan_table_start(int64_t store, int64_t committed, int64_t start, int64_t end);

typedef struct {
  int64_t from;
  const char *reset; /* why the committed offset was not used, or NULL; static */
  bool refused;      /* auto.offset.reset = error */
} cj_stream_start;

cj_stream_start cj_plan_stream_start(int64_t committed, int64_t start, int64_t end, cj_reset reset);

#endif
