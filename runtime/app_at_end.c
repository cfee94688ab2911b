/* SPDX-License-Identifier: BSD-2-Clause */
/* The property stop.at.end: every input partition of the group, whoever owns it, has been committed
 * to the end that it had at the start. Of partitions that are owned here the workers know, the
 * group is asked for the others. */

#include "runtime/app_internal.h"

#define ASK_MS 1000

cj_error *cj_app_at_end_init(cj_app *app, const cj_check_result *check) {
  if (!app->settings.stop_at_end) return NULL;
  size_t count = check->end_count;
  app->at_end.reached = cj_alloc(count * sizeof *app->at_end.reached);
  if (!app->at_end.reached) return cj_error_no_memory();
  /* Where nothing was ever written nothing has to be committed. */
  size_t left = 0;
  for (size_t i = 0; i < count; i++) {
    app->at_end.reached[i] = check->ends[i].offset == 0;
    left += !app->at_end.reached[i];
  }
  atomic_store(&app->at_end.left, left);
  app->at_end.last_request = UINT32_MAX; /* the checklist asked through the same io, with less */
  return NULL;
}

void cj_app_at_end_free(cj_app *app) {
  cj_free(app->at_end.reached);
  app->at_end.reached = NULL;
  app->at_end.request = 0;
  atomic_store(&app->at_end.left, 0);
}

static void see(cj_app *app, size_t i, int64_t committed) {
  if (app->at_end.reached[i] || committed < app->run.check.ends[i].offset) return;
  app->at_end.reached[i] = true;
  atomic_fetch_sub(&app->at_end.left, 1);
}

/* False: no worker of this process has it, or none has committed it yet. */
static bool ask_workers(cj_app *app, size_t i) {
  const cj_io_offset *end = &app->run.check.ends[i];
  bool local = false;
  for (size_t w = 0; w < app->run.worker_count && !local; w++) {
    int64_t committed = CJ_OFFSET_NONE;
    local = cj_worker_committed(app->run.workers[w].worker, end->tp.topic, end->tp.partition,
                                &committed);
    if (local) see(app, i, committed);
  }
  return local;
}

static void take_answer(cj_app *app, const cj_io_event *event) {
  app->at_end.request = 0;
  if (event->code != CJ_IO_OK) return; /* asked again in a second */
  for (size_t k = 0; k < event->offset_count; k++) {
    const cj_io_offset *o = &event->offsets[k];
    if (o->code != CJ_IO_OK) continue;
    for (size_t i = 0; i < app->run.check.end_count; i++) {
      const cj_tp *tp = &app->run.check.ends[i].tp;
      if (tp->topic == o->tp.topic && tp->partition == o->tp.partition) see(app, i, o->offset);
    }
  }
}

static void ask_group(cj_app *app, const cj_io_offset *list, size_t count) {
  const cj_io_request request = {.id = ++app->at_end.last_request,
                                 .kind = CJ_REQ_COMMITTED,
                                 .list = list,
                                 .count = count,
                                 .timeout_ms = app->settings.request_timeout_ms};
  cj_error *error = app->run.admin->ops->submit(app->run.admin, &request);
  if (error) {
    cj_logf(&app->log, CJ_LOG_WARN, "stop.at.end: the group's offsets cannot be asked for: %s",
            cj_error_text(error));
    cj_error_destroy(error);
    return;
  }
  app->at_end.request = request.id;
}

bool cj_app_at_end_reached(cj_app *app, int64_t now) {
  cj_io_event event;
  while (app->run.admin->ops->poll(app->run.admin, &event))
    if (event.kind == CJ_EV_DONE && event.id == app->at_end.request) take_answer(app, &event);
  bool ask = !app->at_end.request && now >= app->at_end.ask_at;
  size_t count = 0, left = atomic_load(&app->at_end.left);
  cj_io_offset *elsewhere = ask && left ? cj_alloc(left * sizeof *elsewhere) : NULL;
  for (size_t i = 0; i < app->run.check.end_count; i++) {
    if (app->at_end.reached[i] || ask_workers(app, i)) continue;
    if (elsewhere) elsewhere[count++] = (cj_io_offset){.tp = app->run.check.ends[i].tp};
  }
  if (count) {
    ask_group(app, elsewhere, count);
    app->at_end.ask_at = now + ASK_MS;
  }
  cj_free(elsewhere);
  return atomic_load(&app->at_end.left) == 0;
}
