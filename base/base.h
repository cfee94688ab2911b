/* SPDX-License-Identifier: BSD-2-Clause */
/* What every folder stands on: making errors, allocating, arenas, log lines. Depends on nothing but
 * the public headers. */
#ifndef CJ_BASE_H
#define CJ_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cojoin/app.h>
#include <cojoin/error.h>
#include <cojoin/record.h>
#include <cojoin/serde.h>

/* ---- allocation: one door, so that a test can make any of them fail ---- */
CJ_MUST_CHECK void *cj_alloc(size_t size); /* zeroed */
CJ_MUST_CHECK void *cj_realloc(void *p, size_t size);
CJ_MUST_CHECK char *cj_strdup(const char *text);
CJ_MUST_CHECK char *cj_asprintf(const char *format, ...) CJ_PRINTF(1, 2);
void cj_free(void *p);
/* The nth allocation from now fails, and every one after it (0: the next; -1: none). For tests. */
void cj_alloc_fail_after(long n);

/* ---- errors ---- */
/* The error that stands for "no memory" exists before memory runs out: cj_error_new never returns
 * NULL. `subject` may be NULL. */
cj_error *cj_error_new(cj_code code, const char *subject, const char *format, ...) CJ_PRINTF(3, 4);
cj_error *cj_error_no_memory(void);
/* errno's text and number are part of the message. */
cj_error *cj_error_errno(int errnum, const char *subject, const char *format, ...) CJ_PRINTF(3, 4);
/* Puts `cause` (consumed) under the error; returns the error. */
cj_error *cj_error_under(cj_error *error, cj_error *cause);
/* Lets the error carry the report (consumed); returns the error. */
cj_error *cj_error_with_report(cj_error *error, cj_report *report);
/* Overrides the class that the code's table gives. Returns the error. */
cj_error *cj_error_with_class(cj_error *error, cj_class class_);
/* A deep copy: errors are handed to several waiters. */
cj_error *cj_error_copy(const cj_error *error);

/* ---- reports: built once, then immutable ---- */
cj_report *cj_report_new(void); /* all four unverified, no evidence; NULL without memory */
void cj_report_set(cj_report *report, cj_point point, cj_point_verdict verdict, const char *remedy);
void cj_report_add(cj_report *report, cj_point point, const char *format, ...) CJ_PRINTF(3, 4);
cj_report *cj_report_copy(const cj_report *report);

/* ---- arenas ---- */
struct cj_arena {
  struct cj_arena_block *first, *current;
  size_t used; /* in current */
  bool failed; /* there was no memory for something since the last reset */
};
void cj_arena_reset(cj_arena *arena); /* keeps one block */
void cj_arena_free(cj_arena *arena);

/* ---- headers behind a record ---- */
struct cj_headers {
  size_t (*read)(const cj_headers *headers, const cj_header **out);
};

/* ---- log ---- */
typedef struct {
  void *user;
  cj_log_level level; /* lines above it are not made */
  void (*line)(void *user, cj_log_level level, const char *line);
} cj_log;
void cj_logf(const cj_log *log, cj_log_level level, const char *format, ...) CJ_PRINTF(3, 4);

/* ---- hashing for our own tables (not a partitioner) ---- */
uint64_t cj_hash64(const void *data, size_t len);

#endif
