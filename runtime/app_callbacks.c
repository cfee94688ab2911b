/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls to the user, one at a time for one application. */

#include "runtime/app_internal.h"

const char *cj_app_state_name(cj_app_state state) {
  static const char *const names[] = {
      [CJ_APP_CREATED] = "created", [CJ_APP_CHECKING] = "checking", [CJ_APP_STARTING] = "starting",
      [CJ_APP_RUNNING] = "running", [CJ_APP_STOPPING] = "stopping", [CJ_APP_STOPPED] = "stopped",
      [CJ_APP_FAILED] = "failed",
  };
  return (unsigned)state < sizeof names / sizeof names[0] ? names[state] : "unknown";
}

/* False: the application is gone for the user. */
static bool enter(cj_app *app) {
  pthread_mutex_lock(&app->callbacks);
  if (!app->silent) return true;
  pthread_mutex_unlock(&app->callbacks);
  return false;
}

static void leave(cj_app *app) {
  pthread_mutex_unlock(&app->callbacks);
}

/* The state changes within the callbacks' lock, so that they are told in the order in which they
 * happened. */
void cj_app_set_state(cj_app *app, cj_app_state to) {
  if (!enter(app)) return;
  cj_app_state from = atomic_exchange(&app->state, to);
  if (from != to) {
    cj_logf(&app->log, CJ_LOG_INFO, "application %s: %s", app->settings.application_id,
            cj_app_state_name(to));
    if (app->options.on_state) app->options.on_state(app->options.user, from, to);
  }
  leave(app);
}

void cj_app_log_line(void *user, cj_log_level level, const char *line) {
  cj_app *app = user;
  if (!app->options.on_log || !enter(app)) return;
  app->options.on_log(app->options.user, level, line);
  leave(app);
}

void cj_app_tell_rebalance(void *user, const cj_rebalance *event) {
  cj_app *app = ((cj_app_worker *)user)->app;
  if (!app->options.on_rebalance || !enter(app)) return;
  app->options.on_rebalance(app->options.user, event);
  leave(app);
}

void cj_app_tell_restore(void *user, const cj_restore *progress) {
  cj_app *app = ((cj_app_worker *)user)->app;
  if (!app->options.on_restore || !enter(app)) return;
  app->options.on_restore(app->options.user, progress);
  leave(app);
}

void cj_app_tell_assigned(void *user, int index) {
  (void)index;
  cj_app_worker *worker = user;
  if (!atomic_exchange(&worker->assigned, true)) cj_app_wake(worker->app);
}

/* What is broken is told in full; the evidence of what is merely unverified is the rule. */
static void log_point(cj_app *app, const cj_report *report, cj_point point) {
  bool broken = cj_report_point(report, point) == CJ_BROKEN;
  cj_logf(&app->log, CJ_LOG_WARN, "checklist point %d, %s: %s%s. %s", (int)point + 1,
          cj_point_name(point), cj_verdict_name(cj_report_point(report, point)),
          broken ? ", waived by its policy" : "", cj_report_remedy(report, point));
  for (size_t i = 0; i < cj_report_evidence_count(report, point); i++)
    cj_logf(&app->log, broken ? CJ_LOG_WARN : CJ_LOG_INFO, "checklist point %d: %s", (int)point + 1,
            cj_report_evidence(report, point, i));
}

void cj_app_tell_report(cj_app *app, const cj_report *report) {
  if (cj_report_verdict(report) == CJ_HOLDS || !enter(app)) return;
  for (cj_point point = 0; point < CJ_POINTS; point++)
    if (cj_report_point(report, point) != CJ_HOLDS) log_point(app, report, point);
  if (app->options.on_report) app->options.on_report(app->options.user, report);
  leave(app);
}
