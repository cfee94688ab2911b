/* SPDX-License-Identifier: BSD-2-Clause */
/* Which offsets of a group change, and to what. */
#ifndef COJOIN_TOOL_RESET_PLAN_H
#define COJOIN_TOOL_RESET_PLAN_H

#include "tools/tool.h"

typedef enum { RESET_EARLIEST, RESET_LATEST, RESET_TIMESTAMP } reset_target;

typedef struct {
  reset_target target;
  int64_t timestamp;   /* of RESET_TIMESTAMP */
  tool_strings topics; /* to the target; neither topics nor tables: all that the group has */
  tool_strings tables; /* their offsets are deleted */
} reset_wish;

typedef struct {
  char *topic;
  int32_t partition;
  int64_t before; /* -1: the group has none */
  int64_t after;  /* -1: it is deleted */
} reset_change;

typedef struct {
  reset_change *changes;
  size_t count;
} reset_plan;

/* Reads the group's offsets and the logs' bounds; changes nothing. False, reported. The plan is to
 * be freed in any case. */
bool reset_plan_make(reset_plan *plan, rd_kafka_t *rk, const char *group, const reset_wish *wish);
bool reset_plan_apply(const reset_plan *plan, rd_kafka_t *rk, const char *group);
void reset_plan_free(reset_plan *plan);

#endif
