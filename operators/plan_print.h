/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CJ_PLAN_PRINT_H
#define CJ_PLAN_PRINT_H

#include "operators/plan.h"

/* Append to `out`, which is `failed` without memory. */
void cj_plan_print_tree(const cj_plan *plan, cj_buf *out);
void cj_plan_print_dot(const cj_plan *plan, cj_buf *out);

/* Sets reached[i] of each node that the group's topics reach. */
void cj_plan_mark_group(const cj_plan *plan, int group, bool *reached);

#endif
