/* SPDX-License-Identifier: BSD-2-Clause */
#include "runtime/restore_plan.h"

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static const char *why_rebuild(int64_t store, int64_t committed, int64_t start, int64_t end) {
  if (store == CJ_OFFSET_NONE) return NULL;
  if (committed == CJ_OFFSET_NONE)
    return "the group has no committed offset any more (reset or expired)";
  if (store > end) return "its position is past the end of the log (truncated or re-created topic)";
  if (store < start)
    return "its position is before the start of the log: deletes in between cannot be known";
  if (store > committed) return "its position is past the group's committed offset (reset)";
  return NULL;
}

cj_restore_plan cj_plan_table_start(int64_t store, int64_t committed, int64_t start, int64_t end) {
  cj_restore_plan plan = {.rebuild = why_rebuild(store, committed, start, end)};
  plan.from = (store == CJ_OFFSET_NONE || plan.rebuild) ? start : store;
  plan.to = committed == CJ_OFFSET_NONE ? plan.from : smaller(committed, end);
  /* Committed before the log's start: what was committed is gone, the rest is input. */
  if (plan.to < plan.from) plan.to = plan.from;
  return plan;
}

cj_stream_start cj_plan_stream_start(int64_t committed, int64_t start, int64_t end,
                                     cj_reset reset) {
  cj_stream_start plan = {.from = committed};
  bool first = committed == CJ_OFFSET_NONE;
  if (!first && committed < start)
    plan.reset = "the committed offset is before the start of the log";
  else if (!first && committed > end)
    plan.reset = "the committed offset is past the end of the log (truncated or re-created topic)";
  else if (!first)
    return plan;
  plan.refused = reset == CJ_RESET_ERROR;
  plan.from = reset == CJ_RESET_LATEST ? end : start;
  return plan;
}
