/* SPDX-License-Identifier: BSD-2-Clause */
/* The checklist's report for people and for programs. */
#ifndef COJOIN_TOOL_REPORT_H
#define COJOIN_TOOL_REPORT_H

#include <cojoin/report.h>

#include <stdbool.h>
#include <stdio.h>

/* Rows with verdict, evidence and remedy, then the verdict of the whole. */
void tool_report_print(FILE *to, const cj_report *report, bool colour);
/* {"verdict","points":[{"point":1,"name","verdict","evidence":[…],"remedy"}…]}, indented, with a
 * line end. False: no memory. */
bool tool_report_json(FILE *to, const cj_report *report);

#endif
