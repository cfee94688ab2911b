/* SPDX-License-Identifier: BSD-2-Clause */
/* A member: what a process that runs the application holds, put together from the same parts. */
#include <stdlib.h>
#include <string.h>

#include "runtime/check.h"
#include "runtime/stamp.h"
#include "runtime/worker_internal.h"
#include "testing/driver.h"

/* ---- a disk that is lent to the process ---- */

/* A state destroys its source; the disk has to outlive it. */
typedef struct {
  cj_kv_source source; /* first */
  cj_kv_source *disk;
} lent_disk;

static cj_error *lent_open(cj_kv_source *source, const char *path, cj_kv **kv) {
  cj_kv_source *disk = ((lent_disk *)source)->disk;
  return disk->ops->open(disk, path, kv);
}

static cj_error *lent_remove(cj_kv_source *source, const char *path) {
  cj_kv_source *disk = ((lent_disk *)source)->disk;
  return disk->ops->remove(disk, path);
}

static void lent_destroy(cj_kv_source *source) {
  cj_world_free(source);
}

static cj_kv_source *lend(cj_kv_source *disk) {
  static const cj_kv_source_ops ops = {
      .open = lent_open, .remove = lent_remove, .destroy = lent_destroy};
  lent_disk *lent = cj_world_alloc(sizeof *lent);
  lent->source.ops = &ops;
  lent->disk = disk;
  return &lent->source;
}

static cj_kv_source *disk_new(void) {
  cj_kv_source *disk = cj_kv_source_memory();
  if (!disk) cj_world_misuse("no memory for a member's disk");
  return disk;
}

/* ---- finding ---- */

static void log_line(void *user, cj_log_level level, const char *line) {
  cj_test_member *member = user;
  cj_driver_log(member->t, member->name, level, line);
}

cj_test_member *cj_driver_member(cj_test *t, const char *name) {
  for (size_t i = 0; i < t->member_count; i++)
    if (strcmp(t->members[i]->name, name) == 0) return t->members[i];
  return NULL;
}

static cj_test_member *member_known(cj_test *t, const char *name) {
  cj_test_member *member = cj_driver_member(t, name);
  if (!member) cj_world_misuse("there is no member %s: it was never started", name);
  return member;
}

static cj_test_member *member_running(cj_test *t, const char *name) {
  cj_test_member *member = member_known(t, name);
  if (!member->running) cj_world_misuse("member %s is not running", name);
  return member;
}

static cj_test_member *member_make(cj_test *t, const char *name) {
  cj_test_member *member = cj_driver_member(t, name);
  if (member && member->running) cj_world_misuse("member %s runs already", name);
  if (member) return member;
  member = cj_world_alloc(sizeof *member);
  member->t = t;
  member->name = cj_world_strdup(name);
  member->log = (cj_log){.user = member, .level = t->settings.log_level, .line = log_line};
  member->disk = disk_new();
  t->members =
      cj_world_grow(t->members, &t->member_cap, t->member_count + 1, sizeof(cj_test_member *));
  t->members[t->member_count++] = member;
  return member;
}

/* ---- starting ---- */

/* `transactional_id` may be NULL. */
static cj_error *io_make(cj_test_member *member, const char *client_id,
                         const char *transactional_id, bool admin, cj_io **io) {
  cj_test *t = member->t;
  size_t count = t->plan->topic_count;
  const char *dead = t->settings.dead_letter_topic;
  cj_io_setup_topic *topics = cj_world_alloc((count + 1) * sizeof *topics);
  for (size_t i = 0; i < count; i++)
    topics[i] = (cj_io_setup_topic){.name = t->plan->topics[i].name,
                                    .subscribed = i < t->plan->input_count};
  if (dead && *dead) topics[count++].name = dead;
  const cj_io_setup setup = {.settings = &t->settings,
                             .topics = topics,
                             .topic_count = count,
                             .client_id = client_id,
                             .admin = admin,
                             .read_committed = t->settings.read_committed,
                             .transactional_id = transactional_id,
                             .log = member->log};
  cj_error *error = cj_io_memory_new(t->world, &setup, io);
  cj_world_free(topics);
  return error;
}

static void log_report(cj_test_member *member, const cj_report *report) {
  for (cj_point point = 0; point < CJ_POINTS; point++) {
    if (cj_report_point(report, point) == CJ_HOLDS) continue;
    const char *evidence;
    for (size_t i = 0; (evidence = cj_report_evidence(report, point, i)); i++)
      cj_logf(&member->log, CJ_LOG_WARN, "checklist: %s: %s: %s", cj_point_name(point),
              cj_verdict_name(cj_report_point(report, point)), evidence);
  }
}

static cj_error *check(cj_test_member *member, cj_check_result *result) {
  cj_test *t = member->t;
  cj_io *admin;
  cj_error *error = io_make(member, "admin", NULL, true, &admin);
  if (error) return error;
  error = cj_check_run(admin, t->plan, &t->settings, &member->log, result);
  admin->ops->destroy(admin);
  if (!error) error = cj_check_enforce(result, &t->settings);
  if (!error) log_report(member, result->report);
  return error;
}

static cj_error *worker_start(cj_test_member *member, size_t i, const cj_check_result *checked) {
  cj_test *t = member->t;
  cj_stamp stamp;
  cj_stamp_of(t->plan, &t->settings, &stamp);
  const char *process_id = cj_state_process_id(member->state);
  char *client_id = cj_stamp_client_id(&stamp, process_id, (int)i, t->settings.client_id);
  if (!client_id) return cj_error_no_memory();
  cj_test_worker *w = &member->workers[i];
  char *transactional_id;
  cj_error *error = cj_stamp_transactional_id(&t->settings, process_id, (int)i, &transactional_id);
  if (!error) error = io_make(member, client_id, transactional_id, false, &w->io);
  cj_free(transactional_id);
  cj_free(client_id);
  if (error) return error;
  const cj_worker_setup setup = {
      .index = (int)i,
      .plan = t->plan,
      .settings = &t->settings,
      .io = w->io,
      .state = member->state,
      .cluster_id = checked->cluster_id,
      .partition_counts = checked->partition_counts,
      .log = member->log,
  };
  w->deadline = INT64_MAX;
  return cj_worker_new(&setup, &w->worker);
}

static cj_error *workers_start(cj_test_member *member, const cj_check_result *checked) {
  cj_test *t = member->t;
  const cj_state_options options = {.dir = member->name,
                                    .app_id = t->settings.application_id,
                                    .source = lend(member->disk),
                                    .lock_wait_ms = t->settings.store_lock_wait_ms,
                                    .in_memory = true,
                                    .log = member->log};
  cj_error *error = cj_state_open(&options, &member->state);
  if (error) return error;
  member->worker_count = (size_t)t->settings.threads;
  member->workers = cj_world_alloc(member->worker_count * sizeof *member->workers);
  for (size_t i = 0; i < member->worker_count && !error; i++)
    error = worker_start(member, i, checked);
  return error;
}

cj_error *cj_test_start_member(cj_test *t, const char *name) {
  cj_test_member *member = member_make(t, name);
  cj_error_destroy(member->error);
  member->error = NULL;
  cj_driver_make_sinks(t);
  cj_check_result checked = {0};
  cj_error *error = check(member, &checked);
  if (!error) error = workers_start(member, &checked);
  cj_check_result_free(&checked);
  if (error)
    cj_driver_member_end(member, true);
  else
    member->running = true;
  return error;
}

/* ---- ending ---- */

void cj_driver_member_end(cj_test_member *member, bool crash) {
  for (size_t i = 0; crash && i < member->worker_count; i++)
    if (member->workers[i].io) cj_io_memory_crash(member->workers[i].io);
  if (crash) cj_kv_source_memory_crash(member->disk);
  for (size_t i = 0; i < member->worker_count; i++) {
    cj_worker_destroy(member->workers[i].worker);
    if (member->workers[i].io) member->workers[i].io->ops->destroy(member->workers[i].io);
  }
  cj_world_free(member->workers);
  member->workers = NULL;
  member->worker_count = 0;
  if (member->state) cj_state_close(member->state);
  member->state = NULL;
  member->running = member->frozen = member->stalled = false;
}

void cj_driver_member_free(cj_test_member *member) {
  cj_driver_member_end(member, true);
  member->disk->ops->destroy(member->disk);
  cj_error_destroy(member->error);
  cj_world_free(member->name);
  cj_world_free(member);
}

void cj_test_stop_member(cj_test *t, const char *name) {
  cj_test_member *member = member_running(t, name);
  if (member->frozen || member->stalled)
    cj_world_misuse("member %s stands still: it cannot stop by itself", name);
  for (size_t i = 0; i < member->worker_count; i++)
    cj_worker_stop(member->workers[i].worker);
  int64_t limit = cj_test_now(t) + 10 * t->settings.shutdown_timeout_ms + 60000;
  for (;;) {
    cj_test_settle(t);
    if (!member->running) return;
    if (cj_test_now(t) > limit) cj_world_misuse("member %s does not stop", name);
    cj_test_advance(t, 100); /* it waits for something: a broker that is gone, say */
  }
}

void cj_test_crash_member(cj_test *t, const char *name) {
  cj_driver_member_end(member_running(t, name), true);
}

void cj_test_wipe_member(cj_test *t, const char *name) {
  cj_test_member *member = member_known(t, name);
  if (member->running) cj_world_misuse("member %s runs: its disk cannot be wiped", name);
  member->disk->ops->destroy(member->disk);
  member->disk = disk_new();
}

void cj_test_freeze_member(cj_test *t, const char *name, bool frozen) {
  cj_test_member *member = member_running(t, name);
  if (member->frozen == frozen) return;
  member->frozen = frozen;
  for (size_t i = 0; i < member->worker_count; i++)
    cj_io_memory_stop_polling(member->workers[i].io, frozen);
}

void cj_test_stall_member(cj_test *t, const char *name, bool stalled) {
  cj_test_member *member = member_running(t, name);
  if (member->stalled == stalled) return;
  member->stalled = stalled;
  for (size_t i = 0; i < member->worker_count; i++)
    cj_io_memory_stall(member->workers[i].io, stalled);
}

const cj_error *cj_test_member_error(cj_test *t, const char *name) {
  return member_known(t, name)->error;
}

/* ---- stepping ---- */

/* As in an application, one worker that fails ends the others. */
static void worker_finished(cj_test_member *member, cj_test_worker *w) {
  w->finished = true;
  const cj_error *error = cj_worker_error(w->worker);
  if (error && !member->error) member->error = cj_error_copy(error);
  bool all = true;
  for (size_t i = 0; i < member->worker_count; i++) {
    if (error && !member->workers[i].finished) cj_worker_stop(member->workers[i].worker);
    all = all && member->workers[i].finished;
  }
  if (all) cj_driver_member_end(member, false);
}

static bool background(cj_test_member *member) {
  bool any = false;
  for (size_t i = 0; i < member->worker_count; i++)
    any = cj_io_memory_background(member->workers[i].io) || any;
  return any;
}

bool cj_driver_member_step(cj_test_member *member) {
  if (!member->running || member->stalled) return false;
  if (member->frozen) return background(member);
  if (cj_state_run_pool(member->state)) return true;
  for (size_t n = 0; n < member->worker_count; n++) {
    cj_test_worker *w = &member->workers[(member->turn + n) % member->worker_count];
    if (w->finished) continue;
    uint64_t changes = member->t->world->changes;
    cj_step step = cj_worker_step(w->worker, &w->deadline);
    /* What it has just asked for may be answered already: a thread's wait would return. And what
     * its io did while it was polled may be news for the others. */
    if (step == CJ_STEP_IDLE && !cj_io_memory_background(w->io) &&
        changes == member->t->world->changes)
      continue;
    member->turn = (member->turn + n + 1) % member->worker_count;
    if (step == CJ_STEP_FINISHED)
      worker_finished(member, w);
    else
      w->deadline = INT64_MAX;
    return true;
  }
  return false;
}

int64_t cj_driver_member_deadline(const cj_test_member *member) {
  int64_t next = INT64_MAX;
  if (!member->running || member->frozen || member->stalled) return next;
  for (size_t i = 0; i < member->worker_count; i++)
    if (!member->workers[i].finished && member->workers[i].deadline < next)
      next = member->workers[i].deadline;
  return next;
}

const cj_test_worker *cj_driver_owner(const cj_test_member *member, int group, int32_t partition) {
  bool running;
  for (size_t i = 0; i < member->worker_count; i++)
    if (!member->workers[i].finished && cj_io_memory_is_member(member->workers[i].io) &&
        cj_worker_owns(member->workers[i].worker, group, partition, &running))
      return &member->workers[i];
  return NULL;
}

/* ---- stores ---- */

/* The worker's task, for it is there in every state, also where no reader may look. */
static int64_t stored(const cj_worker *worker, int group, int table, int32_t partition) {
  for (size_t i = 0; i < worker->task_count; i++) {
    const cj_task *task = worker->tasks[i];
    if (task->group == group && task->partition == partition && task->store)
      return cj_task_store_position(task->store, table).offset;
  }
  return CJ_OFFSET_NONE;
}

int64_t cj_test_stored(cj_test *t, const char *name, const char *table, int32_t partition) {
  const cj_test_member *member = member_known(t, name);
  const cj_plan_topic *topic = cj_driver_table(t, table);
  for (size_t i = 0; i < member->worker_count; i++) {
    int64_t at = stored(member->workers[i].worker, topic->group, topic->table, partition);
    if (at != CJ_OFFSET_NONE) return at;
  }
  return CJ_OFFSET_NONE;
}
