/* SPDX-License-Identifier: BSD-2-Clause */
/* A plan by hand: stream `notif` joined with table `price`, the result to `alerts`. For tests of
 * what reads a plan without building one. */
#ifndef CJ_TEST_SMALL_PLAN_H
#define CJ_TEST_SMALL_PLAN_H

#include "operators/plan.h"

typedef struct {
  cj_plan plan;
  cj_plan_topic topics[8];
  cj_plan_group groups[4];
  int members[4][8], tables[4][8]; /* of each group */
} small_plan;

static inline void small_plan_init(small_plan *p) {
  *p = (small_plan){
      .topics = {{.name = (char *)"notif", .kind = CJ_TOPIC_STREAM, .table = -1},
                 {.name = (char *)"price", .kind = CJ_TOPIC_TABLE, .table = 0},
                 {.name = (char *)"alerts", .kind = CJ_TOPIC_SINK, .group = -1, .table = -1}},
      .members = {{0, 1}},
      .tables = {{1}},
  };
  for (int i = 0; i < 3; i++)
    p->topics[i].partitioner = cj_partitioner_murmur2();
  p->groups[0] = (cj_plan_group){.topics = p->members[0],
                                 .topic_count = 2,
                                 .tables = p->tables[0],
                                 .table_count = 1,
                                 .anchor = 0,
                                 .joined = true};
  p->plan = (cj_plan){.topics = p->topics,
                      .topic_count = 3,
                      .input_count = 2,
                      .groups = p->groups,
                      .group_count = 1,
                      .hash = 0xabcd};
}

#endif
