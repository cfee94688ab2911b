/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CJ_PLAN_HASH_H
#define CJ_PLAN_HASH_H

#include "operators/plan.h"

/* The plan's hash from its topics and nodes. False without memory. */
bool cj_plan_hash(const cj_plan *plan, uint32_t *hash);

#endif
