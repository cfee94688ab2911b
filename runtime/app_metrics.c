/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters: of the living workers, or as they were when the workers ended. */
#include <string.h>

#include "runtime/app_internal.h"

/* ---- the application's own ---- */

static bool tell_gauge(cj_metric_fn *fn, void *user, const char *name, int64_t value) {
  const cj_metric metric = {.name = name, .kind = CJ_METRIC_GAUGE, .partition = -1, .value = value};
  return fn(user, &metric);
}

static bool tell_own(cj_app *app, cj_metric_fn *fn, void *user) {
  int64_t assigned = 0;
  for (size_t i = 0; i < app->run.worker_count; i++)
    assigned += atomic_load(&app->run.workers[i].assigned);
  if (!tell_gauge(fn, user, "workers", (int64_t)app->run.worker_count)) return false;
  if (!tell_gauge(fn, user, "workers_assigned", assigned)) return false;
  if (!app->settings.stop_at_end) return true;
  size_t left = atomic_load(&app->at_end.left);
  return tell_gauge(fn, user, "partitions_before_end", (int64_t)left);
}

/* ---- the snapshot ---- */

void cj_app_snapshot_free(cj_app_snapshot *snapshot) {
  for (size_t i = 0; i < snapshot->count; i++) {
    cj_free((char *)(uintptr_t)snapshot->metrics[i].name);
    cj_free((char *)(uintptr_t)snapshot->metrics[i].topic);
    cj_free((char *)(uintptr_t)snapshot->metrics[i].node);
    cj_free((char *)(uintptr_t)snapshot->metrics[i].reason);
  }
  cj_free(snapshot->metrics);
  *snapshot = (cj_app_snapshot){0};
}

static const char *copy_text(const char *text, bool *ok) {
  char *copy = text ? cj_strdup(text) : NULL;
  if (text && !copy) *ok = false;
  return copy;
}

/* A metric that there is no memory for is left out. */
static bool keep(void *user, const cj_metric *metric) {
  cj_app_snapshot *snapshot = user;
  if (snapshot->count == snapshot->cap) {
    size_t cap = snapshot->cap ? snapshot->cap * 2 : 64;
    cj_metric *metrics = cj_realloc(snapshot->metrics, cap * sizeof *metrics);
    if (!metrics) return false;
    snapshot->metrics = metrics;
    snapshot->cap = cap;
  }
  bool ok = true;
  cj_metric *copy = &snapshot->metrics[snapshot->count++];
  *copy = *metric;
  copy->name = copy_text(metric->name, &ok);
  copy->topic = copy_text(metric->topic, &ok);
  copy->node = copy_text(metric->node, &ok);
  copy->reason = copy_text(metric->reason, &ok);
  if (ok) return true;
  cj_free((char *)(uintptr_t)copy->name);
  cj_free((char *)(uintptr_t)copy->topic);
  cj_free((char *)(uintptr_t)copy->node);
  cj_free((char *)(uintptr_t)copy->reason);
  snapshot->count--;
  return false;
}

void cj_app_snapshot_take(cj_app_snapshot *snapshot, const cj_app_parts *run) {
  cj_app_snapshot_free(snapshot);
  for (size_t i = 0; i < run->worker_count; i++)
    if (!cj_worker_metrics(run->workers[i].worker, keep, snapshot)) return;
}

/* ---- reading ---- */

static bool tell_all(cj_app *app, cj_metric_fn *fn, void *user) {
  if (!tell_own(app, fn, user)) return false;
  for (size_t i = 0; i < app->run.worker_count; i++)
    if (!cj_worker_metrics(app->run.workers[i].worker, fn, user)) return false;
  for (size_t i = 0; app->run.worker_count == 0 && i < app->last.count; i++)
    if (!fn(user, &app->last.metrics[i])) return false;
  return true;
}

void cj_app_metrics(cj_app *app, cj_metric_fn *fn, void *user) {
  pthread_rwlock_rdlock(&app->run_lock);
  tell_all(app, fn, user);
  pthread_rwlock_unlock(&app->run_lock);
}

typedef struct {
  const char *name, *reason;
  int64_t sum;
} sum;

static bool add(void *user, const cj_metric *metric) {
  sum *s = user;
  if (strcmp(metric->name, s->name) != 0) return true;
  if (s->reason && (!metric->reason || strcmp(metric->reason, s->reason) != 0)) return true;
  s->sum += metric->value;
  return true;
}

int64_t cj_app_metric(cj_app *app, const char *name, const char *reason) {
  sum s = {.name = name, .reason = reason};
  cj_app_metrics(app, add, &s);
  return s.sum;
}
