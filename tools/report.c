/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/report.h"

#include <jansson.h>
#include <string.h>

#include "tools/encode.h"

static const char *verdict_colour(cj_point_verdict verdict) {
  switch (verdict) {
  case CJ_HOLDS:
    return "\033[32m";
  case CJ_UNVERIFIED:
    return "\033[33m";
  case CJ_BROKEN:
    return "\033[1;31m";
  }
  return "";
}

static void print_verdict(FILE *to, cj_point_verdict verdict, bool colour) {
  fprintf(to, "%s%s%s\n", colour ? verdict_colour(verdict) : "", cj_verdict_name(verdict),
          colour ? "\033[0m" : "");
}

static void print_row(FILE *to, const char *label, const char *text) {
  cj_buf row = CJ_BUF_INIT;
  tool_printable(&row, text, strlen(text));
  fprintf(to, "   %s%.*s\n", label, (int)row.len, row.data ? (const char *)row.data : "");
  cj_buf_free(&row);
}

void tool_report_print(FILE *to, const cj_report *report, bool colour) {
  for (int i = 0; i < CJ_POINTS; i++) {
    cj_point point = (cj_point)i;
    fprintf(to, "%d  %s: ", i + 1, cj_point_name(point));
    print_verdict(to, cj_report_point(report, point), colour);
    for (size_t row = 0; row < cj_report_evidence_count(report, point); row++)
      print_row(to, "", cj_report_evidence(report, point, row));
    const char *remedy = cj_report_remedy(report, point);
    if (*remedy != '\0') print_row(to, "to do: ", remedy);
  }
  fputs("checklist: ", to);
  print_verdict(to, cj_report_verdict(report), colour);
}

/* What the evidence quotes may hold any bytes; what is not UTF-8 is shown escaped. */
static json_t *json_text(const char *text) {
  cj_buf shown = CJ_BUF_INIT;
  tool_printable(&shown, text, strlen(text));
  json_t *string =
      shown.failed ? NULL : json_stringn_nocheck(shown.data ? (char *)shown.data : "", shown.len);
  cj_buf_free(&shown);
  return string;
}

static json_t *json_point(const cj_report *report, cj_point point) {
  json_t *evidence = json_array();
  bool ok = evidence != NULL;
  for (size_t i = 0; ok && i < cj_report_evidence_count(report, point); i++)
    ok = json_array_append_new(evidence, json_text(cj_report_evidence(report, point, i))) == 0;
  if (!ok) {
    json_decref(evidence);
    return NULL;
  }
  return json_pack("{s:i, s:s, s:s, s:o, s:o}", "point", (int)point + 1, "name",
                   cj_point_name(point), "verdict", cj_verdict_name(cj_report_point(report, point)),
                   "evidence", evidence, "remedy", json_text(cj_report_remedy(report, point)));
}

bool tool_report_json(FILE *to, const cj_report *report) {
  json_t *points = json_array();
  bool ok = points != NULL;
  for (int i = 0; ok && i < CJ_POINTS; i++)
    ok = json_array_append_new(points, json_point(report, (cj_point)i)) == 0;
  json_t *whole = ok ? json_pack("{s:s, s:O}", "verdict",
                                 cj_verdict_name(cj_report_verdict(report)), "points", points)
                     : NULL;
  ok = whole && json_dumpf(whole, to, JSON_INDENT(2) | JSON_PRESERVE_ORDER) == 0 &&
       fputc('\n', to) != EOF;
  json_decref(whole);
  json_decref(points);
  return ok;
}
