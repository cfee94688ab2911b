/* SPDX-License-Identifier: BSD-2-Clause */
/* From the checklist to running threads, each step undone if a later one fails. */
#include <assert.h>

#include "runtime/app_internal.h"
#include "runtime/stamp.h"

/* ---- ios ---- */

cj_error *cj_app_new_io(cj_app *app, const char *client_id, const char *transactional_id,
                        bool admin, cj_io **io) {
  const cj_plan *plan = app->plan;
  bool dead_letters = app->settings.dead_letter_topic[0] != '\0';
  size_t count = plan->topic_count + (dead_letters ? 1 : 0);
  cj_io_setup_topic *topics = cj_alloc(count * sizeof *topics);
  if (!topics) return cj_error_no_memory();
  for (size_t i = 0; i < plan->topic_count; i++)
    topics[i] = (cj_io_setup_topic){plan->topics[i].name, i < plan->input_count};
  if (dead_letters) topics[count - 1] = (cj_io_setup_topic){app->settings.dead_letter_topic, false};
  const cj_io_setup setup = {.settings = &app->settings,
                             .topics = topics,
                             .topic_count = count,
                             .client_id = client_id,
                             .admin = admin,
                             .read_committed = app->settings.read_committed,
                             .transactional_id = transactional_id,
                             .log = app->log};
  sigset_t before;
  cj_signals_block(&before);
  cj_error *error = cj_io_rdkafka_new(&setup, io);
  cj_signals_restore(&before);
  cj_free(topics);
  return error;
}

static bool stop_asked(void *user) {
  cj_app *app = user;
  return atomic_load(&app->stop_asked);
}

cj_error *cj_app_run_check(cj_app *app, cj_check_result *result, cj_io **admin) {
  *result = (cj_check_result){0};
  const cj_settings *settings = &app->settings;
  char *client_id = cj_asprintf("%s-check", settings->client_id[0] ? settings->client_id
                                                                   : settings->application_id);
  if (!client_id) return cj_error_no_memory();
  cj_io *io = NULL;
  cj_error *error = cj_app_new_io(app, client_id, NULL, true, &io);
  cj_free(client_id);
  if (!io) return error;
  error = cj_check_run_until(io, app->plan, settings, &app->log, stop_asked, app, result);
  if (admin && !error)
    *admin = io;
  else
    io->ops->destroy(io);
  return error;
}

/* ---- stores ---- */

/* As many as this process can come to own: all of them, if it is the only member. */
static int store_count(const cj_app *app, const int32_t *partition_counts) {
  int64_t count = 0;
  for (size_t g = 0; g < app->plan->group_count; g++) {
    int anchor = cj_stamp_anchor_counted(app->plan, g, &app->settings, partition_counts);
    if (app->plan->groups[g].table_count) count += partition_counts[anchor];
  }
  return count > INT32_MAX ? INT32_MAX : (int)count;
}

static cj_error *new_source(cj_app *app, const cj_app_parts *run, cj_kv_source **source) {
  if (app->settings.store_in_memory) {
    *source = cj_kv_source_memory();
    return *source ? NULL : cj_error_no_memory();
  }
  assert(run->check.partition_counts); /* the checklist has passed */
  cj_memory_share share = cj_config_memory(&app->settings);
  cj_rocksdb_options options = {.cache_bytes = share.cache_bytes,
                                .write_buffer_bytes = share.write_buffer_bytes,
                                .stores = store_count(app, run->check.partition_counts),
                                .log = app->log};
  cj_error *error =
      cj_state_check_files(options.stores, app->settings.open_files_max, &options.max_open_files);
  return error ? error : cj_kv_source_rocksdb(&options, source);
}

static cj_error *open_stores(cj_app *app, cj_app_parts *run) {
  const cj_settings *settings = &app->settings;
  cj_kv_source *source = NULL;
  cj_error *error = new_source(app, run, &source);
  if (error) return error;
  const cj_state_options options = {.dir = settings->state_dir,
                                    .app_id = settings->application_id,
                                    .source = source,
                                    .pool_threads = settings->threads < 4 ? 2 : 4,
                                    .lock_wait_ms = settings->store_lock_wait_ms,
                                    .in_memory = settings->store_in_memory,
                                    .log = app->log};
  error = cj_state_open(&options, &run->stores);
  if (error) source->ops->destroy(source);
  return error;
}

/* ---- workers ---- */

static cj_error *new_worker(cj_app *app, cj_app_parts *run, const cj_stamp *stamp, size_t index) {
  cj_app_worker *worker = &run->workers[index];
  *worker = (cj_app_worker){.app = app, .index = (int)index};
  const char *process_id = cj_state_process_id(run->stores);
  char *client_id = cj_stamp_client_id(stamp, process_id, (int)index, app->settings.client_id);
  if (!client_id) return cj_error_no_memory();
  char *transactional_id;
  cj_error *error =
      cj_stamp_transactional_id(&app->settings, process_id, (int)index, &transactional_id);
  if (!error) error = cj_app_new_io(app, client_id, transactional_id, false, &worker->io);
  cj_free(transactional_id);
  cj_free(client_id);
  if (error) return error;
  const cj_worker_setup setup = {.index = (int)index,
                                 .plan = app->plan,
                                 .settings = &app->settings,
                                 .io = worker->io,
                                 .state = run->stores,
                                 .cluster_id = run->check.cluster_id,
                                 .partition_counts = run->check.partition_counts,
                                 .log = app->log,
                                 .user = worker,
                                 .on_rebalance = cj_app_tell_rebalance,
                                 .on_restore = cj_app_tell_restore,
                                 .on_assigned = cj_app_tell_assigned};
  return cj_worker_new(&setup, &worker->worker);
}

static cj_error *new_workers(cj_app *app, cj_app_parts *run) {
  size_t count = (size_t)app->settings.threads;
  run->workers = cj_alloc(count * sizeof *run->workers);
  if (!run->workers) return cj_error_no_memory();
  cj_stamp stamp;
  cj_stamp_of(app->plan, &app->settings, &stamp);
  cj_error *error = NULL;
  while (!error && run->worker_count < count)
    error = new_worker(app, run, &stamp, run->worker_count++);
  return error;
}

/* ---- threads ---- */

static cj_error *new_thread(pthread_t *thread, void *(*main)(void *), void *arg, const char *name) {
  sigset_t before;
  cj_signals_block(&before);
  int failure = pthread_create(thread, NULL, main, arg);
  cj_signals_restore(&before);
  if (failure) return cj_error_errno(failure, NULL, "a thread could not be created");
  pthread_setname_np(*thread, name); /* for ps and debuggers */
  return NULL;
}

/* Those that run already end before anything is taken from under them. */
static void end_threads(cj_app_parts *run, size_t count) {
  for (size_t i = 0; i < count; i++)
    cj_worker_stop(run->workers[i].worker);
  for (size_t i = 0; i < count; i++)
    pthread_join(run->workers[i].thread, NULL);
}

static cj_error *start_threads(cj_app *app) {
  cj_error *error = NULL;
  size_t count = 0;
  while (count < app->run.worker_count && !error) {
    cj_app_worker *worker = &app->run.workers[count];
    error = new_thread(&worker->thread, cj_app_worker_main, worker, "cj-worker");
    if (!error) count++;
  }
  if (!error) error = new_thread(&app->supervisor, cj_app_supervisor_main, app, "cj-supervisor");
  app->supervised = error == NULL;
  if (error) end_threads(&app->run, count);
  return error;
}

/* ---- the whole ---- */

void cj_app_parts_free(cj_app_parts *run) {
  for (size_t i = 0; i < run->worker_count; i++) {
    cj_worker_destroy(run->workers[i].worker);
    if (run->workers[i].io) run->workers[i].io->ops->destroy(run->workers[i].io);
  }
  cj_free(run->workers);
  if (run->admin) run->admin->ops->destroy(run->admin);
  if (run->stores) cj_state_close(run->stores);
  cj_check_result_free(&run->check);
  *run = (cj_app_parts){0};
}

static cj_error *check_first(cj_app *app, cj_app_parts *run) {
  cj_app_set_state(app, CJ_APP_CHECKING);
  cj_error *error =
      cj_app_run_check(app, &run->check, app->settings.stop_at_end ? &run->admin : NULL);
  if (!error) error = cj_check_enforce(&run->check, &app->settings);
  if (!error) cj_app_tell_report(app, run->check.report);
  return error;
}

static cj_error *build(cj_app *app, cj_app_parts *run) {
  cj_app_set_state(app, CJ_APP_STARTING);
  sigset_t before;
  cj_signals_block(&before);
  cj_error *error = open_stores(app, run);
  if (!error) error = new_workers(app, run);
  if (!error) error = cj_app_at_end_init(app, &run->check);
  cj_signals_restore(&before);
  return error;
}

static void publish(cj_app *app, cj_app_parts run) {
  pthread_rwlock_wrlock(&app->run_lock);
  app->run = run;
  pthread_rwlock_unlock(&app->run_lock);
}

cj_error *cj_app_run(cj_app *app) {
  cj_app_parts run = {0};
  cj_error *error = check_first(app, &run);
  bool stopped = atomic_load(&app->stop_asked);
  if (!error && !stopped) error = build(app, &run);
  if (!error && !stopped) {
    publish(app, run);
    error = start_threads(app);
    if (!error) return NULL;
    publish(app, (cj_app_parts){0});
  }
  cj_app_parts_free(&run);
  cj_app_at_end_free(app);
  /* A checklist that was cut short by the stop did not fail. */
  if (stopped && cj_error_code(error) == CJ_ERR_STATE) {
    cj_error_destroy(error);
    error = NULL;
  }
  return error;
}
