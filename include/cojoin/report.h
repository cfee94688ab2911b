/* SPDX-License-Identifier: BSD-2-Clause */
/* The report of the four-point checklist: what was proven about the topics, and by what.
 *
 * A report is immutable. It is owned by whoever asked for it, or by the error that carries it;
 * everything it returns is owned by the report and valid as long as it is. Any thread may read it.
 */
#ifndef COJOIN_REPORT_H
#define COJOIN_REPORT_H

#include <stddef.h>

#include <cojoin/error.h>
#include <cojoin/export.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  CJ_HOLDS,
  CJ_UNVERIFIED, /* nothing speaks against it, and nothing proves it yet */
  CJ_BROKEN,
} cj_point_verdict;

/* Indices of the rows, in the checklist's order. */
typedef enum {
  CJ_POINT_PARTITION_COUNT, /* 1: the same partition count on every joined topic */
  CJ_POINT_KEYS,            /* 2: the same key and serialization */
  CJ_POINT_PARTITIONER,     /* 3: the same partitioner on every producer */
  CJ_POINT_ASSIGNMENT,      /* 4: a co-locating assignment */
  CJ_POINTS
} cj_point;

/* The worst of the four. */
CJ_API cj_point_verdict cj_report_verdict(const cj_report *report);
CJ_API cj_point_verdict cj_report_point(const cj_report *report, cj_point point);
/* "same partition count" … */
CJ_API const char *cj_point_name(cj_point point);
/* "holds", "unverified", "broken". */
CJ_API const char *cj_verdict_name(cj_point_verdict verdict);
/* The evidence's rows: how many, and row i (NULL past the end). */
CJ_API size_t cj_report_evidence_count(const cj_report *report, cj_point point);
CJ_API const char *cj_report_evidence(const cj_report *report, cj_point point, size_t i);
/* What to do; "" when the point holds. */
CJ_API const char *cj_report_remedy(const cj_report *report, cj_point point);
/* The whole as plain text, several lines. */
CJ_API const char *cj_report_text(const cj_report *report);
/* Frees a report that the caller owns. NULL is fine. */
CJ_API void cj_report_destroy(cj_report *report);

#ifdef __cplusplus
}
#endif
#endif
