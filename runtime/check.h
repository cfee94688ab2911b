/* SPDX-License-Identifier: BSD-2-Clause */
/* The four-point checklist: asks the cluster, judges, and reports before a record is read.
 *
 * 1 counts every joined topic's partitions; 4 looks at the configuration and at the group's living
 * members. 2 and 3 need sampled records and say what they know without any. */
#ifndef CJ_CHECK_H
#define CJ_CHECK_H

#include <cojoin/report.h>

#include "operators/plan.h"
#include "runtime/config.h"
#include "runtime/io.h"

typedef struct {
  cj_report *report;
  char *cluster_id;
  /* One for each topic of the plan, then that of the dead-letter topic if there is one; 0: missing.
   */
  int32_t *partition_counts;
  size_t topic_count;
  /* With stop.at.end: the end offset of every input partition. */
  cj_io_offset *ends;
  size_t end_count;
  /* What cj_check_enforce hands out: a topic that does not exist, and each broken point's error. */
  cj_error *missing;
  cj_error *broken[CJ_POINTS];
} cj_check_result;

/* True: the check is not wanted any more. */
typedef bool cj_check_cancelled_fn(void *user);

/* Runs the checklist over `admin`, an io whose topics are the plan's in their order. Blocks in the
 * io's wait for check.timeout.ms at most. A broken point is not an error: the error is for a check
 * that could not be run (CJ_ERR_BROKER, CJ_ERR_AUTH, CJ_ERR_KAFKA); *out is empty then. The caller
 * frees *out. */
CJ_MUST_CHECK cj_error *cj_check_run(cj_io *admin, const cj_plan *plan, const cj_settings *settings,
                                     const cj_log *log, cj_check_result *out);
/* The same, given up with CJ_ERR_STATE soon after `cancelled` turns true. */
CJ_MUST_CHECK cj_error *cj_check_run_until(cj_io *admin, const cj_plan *plan,
                                           const cj_settings *settings, const cj_log *log,
                                           cj_check_cancelled_fn *cancelled, void *user,
                                           cj_check_result *out);

/* The error of the first broken point whose policy is `enforce`, with a copy of the report; NULL if
 * the application may start. A missing topic is never waived: there is nothing to read. */
CJ_MUST_CHECK cj_error *cj_check_enforce(const cj_check_result *result,
                                         const cj_settings *settings);

void cj_check_result_free(cj_check_result *result);

#endif
