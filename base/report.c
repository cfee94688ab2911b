/* SPDX-License-Identifier: BSD-2-Clause */
#include <cojoin/report.h>

#include "base/base.h"

#include <stdio.h>
#include <string.h>

typedef struct {
  cj_point_verdict verdict;
  char *remedy; /* or NULL */
  char **evidence;
  size_t count, cap;
} row;

struct cj_report {
  row rows[CJ_POINTS];
  bool incomplete; /* there was no memory for some of the evidence */
  char *text;      /* made when first asked for, by any thread */
};

static const char *const point_names[CJ_POINTS] = {
    [CJ_POINT_PARTITION_COUNT] = "same partition count",
    [CJ_POINT_KEYS] = "same key and serialization",
    [CJ_POINT_PARTITIONER] = "same partitioner on every producer",
    [CJ_POINT_ASSIGNMENT] = "co-locating assignment",
};

static const char *const verdict_names[] = {
    [CJ_HOLDS] = "holds",
    [CJ_UNVERIFIED] = "unverified",
    [CJ_BROKEN] = "broken",
};

const char *cj_point_name(cj_point point) {
  return (unsigned)point < CJ_POINTS ? point_names[point] : "unknown";
}

const char *cj_verdict_name(cj_point_verdict verdict) {
  return (unsigned)verdict <= CJ_BROKEN ? verdict_names[verdict] : "unknown";
}

cj_report *cj_report_new(void) {
  cj_report *report = cj_alloc(sizeof *report);
  if (!report) return NULL;
  for (int i = 0; i < CJ_POINTS; i++)
    report->rows[i].verdict = CJ_UNVERIFIED;
  return report;
}

void cj_report_destroy(cj_report *report) {
  if (!report) return;
  for (int i = 0; i < CJ_POINTS; i++) {
    for (size_t k = 0; k < report->rows[i].count; k++)
      cj_free(report->rows[i].evidence[k]);
    cj_free(report->rows[i].evidence);
    cj_free(report->rows[i].remedy);
  }
  cj_free(report->text);
  cj_free(report);
}

static void changed(cj_report *report) {
  cj_free(report->text);
  report->text = NULL;
}

void cj_report_set(cj_report *report, cj_point point, cj_point_verdict verdict,
                   const char *remedy) {
  row *r = &report->rows[point];
  changed(report);
  r->verdict = verdict;
  cj_free(r->remedy);
  r->remedy = NULL;
  if (!remedy || !remedy[0]) return;
  r->remedy = cj_strdup(remedy);
  if (!r->remedy) report->incomplete = true;
}

static void add(cj_report *report, cj_point point, char *line) {
  row *r = &report->rows[point];
  changed(report);
  if (line && r->count == r->cap) {
    size_t cap = r->cap ? r->cap * 2 : 4;
    char **evidence = cj_realloc(r->evidence, cap * sizeof *evidence);
    if (evidence) {
      r->evidence = evidence;
      r->cap = cap;
    }
  }
  if (!line || r->count == r->cap) {
    report->incomplete = true;
    cj_free(line);
    return;
  }
  r->evidence[r->count++] = line;
}

void cj_report_add(cj_report *report, cj_point point, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int len = vsnprintf(NULL, 0, format, args);
  va_end(args);
  char *line = len < 0 ? NULL : cj_alloc((size_t)len + 1);
  if (line) vsnprintf(line, (size_t)len + 1, format, again);
  va_end(again);
  add(report, point, line);
}

cj_report *cj_report_copy(const cj_report *report) {
  cj_report *copy = cj_report_new();
  if (!copy) return NULL;
  copy->incomplete = report->incomplete;
  for (cj_point i = 0; i < CJ_POINTS; i++) {
    const row *r = &report->rows[i];
    cj_report_set(copy, i, r->verdict, r->remedy);
    for (size_t k = 0; k < r->count; k++)
      add(copy, i, cj_strdup(r->evidence[k]));
  }
  return copy;
}

cj_point_verdict cj_report_verdict(const cj_report *report) {
  cj_point_verdict worst = CJ_HOLDS;
  for (int i = 0; i < CJ_POINTS; i++)
    if (report->rows[i].verdict > worst) worst = report->rows[i].verdict;
  return worst;
}

cj_point_verdict cj_report_point(const cj_report *report, cj_point point) {
  return report->rows[point].verdict;
}

size_t cj_report_evidence_count(const cj_report *report, cj_point point) {
  return report->rows[point].count;
}

const char *cj_report_evidence(const cj_report *report, cj_point point, size_t i) {
  return i < report->rows[point].count ? report->rows[point].evidence[i] : NULL;
}

const char *cj_report_remedy(const cj_report *report, cj_point point) {
  const row *r = &report->rows[point];
  return r->verdict != CJ_HOLDS && r->remedy ? r->remedy : "";
}

/* Each line of the text is put at the same depth, so that the rows stay apart. */
static void indented(cj_buf *out, const char *indent, const char *text) {
  while (*text) {
    size_t len = strcspn(text, "\n");
    cj_buf_append_str(out, indent);
    cj_buf_append(out, text, len);
    cj_buf_append(out, "\n", 1);
    text += len;
    if (*text) text++;
  }
}

static char *make_text(const cj_report *report) {
  cj_buf out = CJ_BUF_INIT;
  for (cj_point i = 0; i < CJ_POINTS; i++) {
    const row *r = &report->rows[i];
    cj_buf_printf(&out, "%d. %s: %s\n", (int)i + 1, cj_point_name(i), cj_verdict_name(r->verdict));
    for (size_t k = 0; k < r->count; k++)
      indented(&out, "     ", r->evidence[k]);
    const char *remedy = cj_report_remedy(report, i);
    if (remedy[0]) {
      cj_buf_append_str(&out, "   remedy:\n");
      indented(&out, "     ", remedy);
    }
  }
  if (report->incomplete)
    cj_buf_append_str(&out, "There was no memory for some of the evidence.\n");
  cj_buf_append(&out, "", 1);
  if (!out.failed) return (char *)out.data;
  cj_buf_free(&out);
  return NULL;
}

const char *cj_report_text(const cj_report *report) {
  char **cached = &((cj_report *)(uintptr_t)report)->text;
  char *text = __atomic_load_n(cached, __ATOMIC_ACQUIRE);
  if (text) return text;
  char *made = make_text(report);
  if (!made) return "There was no memory to print the report.\n";
  if (__atomic_compare_exchange_n(cached, &text, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return made;
  cj_free(made);
  return text;
}
