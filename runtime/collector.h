/* SPDX-License-Identifier: BSD-2-Clause */
/* Outputs on their way to the broker. Each belongs to one of two epochs: the one that a commit is
 * waiting for and the one that is being filled; a commit goes on when the first has nothing
 * outstanding. When the producer's queue is full the outputs wait here and the worker stops
 * processing: that is the back-pressure. */
#ifndef CJ_COLLECTOR_H
#define CJ_COLLECTOR_H

#include "operators/plan.h"
#include "operators/processor.h"
#include "runtime/config.h"
#include "runtime/io.h"

/* Which record an output descends from, packed into the token of its delivery. */
typedef struct {
  int32_t topic, partition; /* topic below 1024, partition below 1,048,576 */
  int64_t offset;           /* its low 33 bits survive */
} cj_origin;

typedef struct cj_pending_output cj_pending_output;

typedef struct {
  cj_io *io;
  const cj_plan *plan;
  const cj_settings *settings;
  const int32_t *partition_counts; /* of the plan's topics, then of the dead-letter topic */
  const cj_log *log;
  cj_counters *counters;
  int epoch; /* being filled: 0 or 1 */
  uint64_t outstanding[2];
  cj_pending_output *pending_first, *pending_last; /* in order */
  uint64_t random;
  struct cj_refused *refused; /* transactions: outputs that failed, not to be tried again */
  size_t refused_count, refused_room;
  bool open;          /* transactions: something was produced since the last end of one, */
  int64_t opened_at;  /* first then (the io's clock) */
  bool failed;        /* it can only be aborted */
  uint64_t misplaced; /* records that do not lie where their partitioner puts them */
  cj_error *error;    /* the first output that failed under policy `fail` */
} cj_collector;

void cj_collector_init(cj_collector *collector);
void cj_collector_free(cj_collector *collector);

/* One output of the record `source` (its headers are passed on). Errors: only those that no policy
 * covers. */
CJ_MUST_CHECK cj_error *cj_collector_emit(cj_collector *collector, const cj_plan_node *sink,
                                          const cj_record *record, const cj_fetched *source,
                                          cj_origin origin);
/* The source record itself goes to the dead-letter topic, with headers that say why. */
CJ_MUST_CHECK cj_error *cj_collector_dead_letter(cj_collector *collector, const cj_fetched *source,
                                                 cj_origin origin, const char *why);
/* Hands over what waits; true if anything went. */
bool cj_collector_retry(cj_collector *collector);
static inline bool cj_collector_blocked(const cj_collector *collector) {
  return collector->pending_first != NULL;
}
void cj_collector_delivered(cj_collector *collector, const cj_io_delivery *deliveries,
                            size_t count);
/* The cut of a commit: what follows belongs to the other epoch, which must be settled. */
void cj_collector_cut(cj_collector *collector);
/* Outputs that wait for room are dropped, with their transaction. */
void cj_collector_drop(cj_collector *collector);
/* Records of the partition before that offset do not come again: outputs of theirs that failed a
 * transaction need not be known any more. */
void cj_collector_forget(cj_collector *collector, cj_tp tp, int64_t before);
/* Everything before the cut is acknowledged (or was skipped by policy). */
bool cj_collector_settled(const cj_collector *collector);

#endif
