/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of the checklist: the small plan, a cluster by script, and what the report says. */
#ifndef CJ_TEST_CHECK_FIXTURE_H
#define CJ_TEST_CHECK_FIXTURE_H

#include "lib/fake_io.h"
#include "lib/small_plan.h"
#include "lib/unit.h"
#include "runtime/check.h"

typedef struct {
  small_plan p;
  fake_io io;
  cj_settings settings;
  cj_check_result out;
} world;

static inline void setup(world *w) {
  *w = (world){0};
  small_plan_init(&w->p);
  fake_io_init(&w->io);
  w->settings = (cj_settings){.application_id = "orders",
                              .bootstrap_servers = "127.0.0.1:9",
                              .anchor = "",
                              .dead_letter_topic = "",
                              .check_timeout_ms = 30000,
                              .request_timeout_ms = 10000};
}

static inline void topics(world *w, int32_t notif, int32_t price) {
  fake_io_topic(&w->io, "alerts", 3);
  fake_io_topic(&w->io, "notif", notif);
  fake_io_topic(&w->io, "price", price);
}

static inline cj_error *try_run(world *w) {
  return cj_check_run(&w->io.io, &w->p.plan, &w->settings, NULL, &w->out);
}

static inline void run(world *w) {
  cj_error *error = try_run(w);
  if (error) fail_msg("%s", cj_error_text(error));
}

static inline bool evidence(const world *w, cj_point point, const char *text) {
  for (size_t i = 0; i < cj_report_evidence_count(w->out.report, point); i++)
    if (strstr(cj_report_evidence(w->out.report, point, i), text)) return true;
  return false;
}

static inline void expect_evidence(const world *w, cj_point point, const char *text) {
  if (!evidence(w, point, text))
    fail_msg("no row \"%s\" in:\n%s", text, cj_report_text(w->out.report));
}

static inline void expect_verdict(const world *w, cj_point point, cj_point_verdict verdict) {
  if (cj_report_point(w->out.report, point) != verdict)
    fail_msg("point %d is not %s:\n%s", (int)point + 1, cj_verdict_name(verdict),
             cj_report_text(w->out.report));
}

/* The error that refuses the start says this, and carries the report. */
static inline void expect_refusal(const world *w, cj_code code, const char *says) {
  cj_error *error = cj_check_enforce(&w->out, &w->settings);
  assert_non_null(error);
  assert_string_equal(cj_code_name(cj_error_code(error)), cj_code_name(code));
  if (!strstr(cj_error_message(error), says)) fail_msg("%s", cj_error_text(error));
  assert_non_null(cj_error_report(error));
  assert_string_equal(cj_report_text(cj_error_report(error)), cj_report_text(w->out.report));
  cj_error_destroy(error);
}

static inline void expect_start(const world *w) {
  cj_error *error = cj_check_enforce(&w->out, &w->settings);
  if (error) fail_msg("%s", cj_error_text(error));
}

static inline void expect_failure(cj_error *error, cj_code code, const char *says) {
  assert_non_null(error);
  if (cj_error_code(error) != code || !strstr(cj_error_text(error), says))
    fail_msg("%s", cj_error_text(error));
  cj_error_destroy(error);
}

#endif
