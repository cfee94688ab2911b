/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads of the last committed state, past the workers. */

#include "runtime/app_internal.h"
#include "runtime/stamp.h"

static cj_read read_partition(cj_app *app, const cj_plan_topic *topic, int32_t partition,
                              cj_bytes key, cj_buf *copy) {
  int anchor = cj_stamp_anchor_counted(app->plan, (size_t)topic->group, &app->settings,
                                       app->run.check.partition_counts);
  bool restoring = false;
  cj_task_store *store =
      cj_state_pin(app->run.stores, app->plan->topics[anchor].name, partition, &restoring);
  if (!store) return restoring ? CJ_READ_RESTORING : CJ_READ_NOT_LOCAL;
  int64_t timestamp;
  cj_error *error = NULL;
  cj_kv_read read =
      cj_task_store_read_committed(store, topic->table, key, copy, &timestamp, &error);
  cj_state_unpin(app->run.stores, store);
  if (error)
    cj_logf(&app->log, CJ_LOG_WARN, "a read of %s failed: %s", topic->name, cj_error_text(error));
  cj_error_destroy(error);
  if (read == CJ_KV_FAILED || copy->failed) return CJ_READ_FAILED;
  return read == CJ_KV_FOUND ? CJ_READ_FOUND : CJ_READ_ABSENT;
}

/* The partitioner places such keys anywhere: all partitions are looked into. Only if all are here
 * can it be said that the key is nowhere. */
static cj_read read_anywhere(cj_app *app, const cj_plan_topic *topic, int32_t partitions,
                             cj_bytes key, cj_buf *copy) {
  cj_read answer = CJ_READ_ABSENT;
  for (int32_t p = 0; p < partitions; p++) {
    cj_read read = read_partition(app, topic, p, key, copy);
    if (read == CJ_READ_FOUND || read == CJ_READ_FAILED) return read;
    if (read == CJ_READ_RESTORING || answer == CJ_READ_ABSENT) answer = read;
  }
  return answer;
}

static cj_read read_table(cj_app *app, int index, cj_bytes key, cj_buf *copy) {
  if (!app->run.stores || !app->run.check.partition_counts) return CJ_READ_NOT_LOCAL;
  const cj_plan_topic *topic = &app->plan->topics[index];
  int32_t partitions = app->run.check.partition_counts[index];
  const cj_partitioner *partitioner = topic->partitioner;
  int32_t partition = partitioner->partition(partitioner->user, key, partitions);
  if (partition == CJ_PARTITION_ANY) return read_anywhere(app, topic, partitions, key, copy);
  if (partition < 0 || partition >= partitions) return CJ_READ_FAILED;
  return read_partition(app, topic, partition, key, copy);
}

cj_read cj_app_get(cj_app *app, const char *table, cj_bytes key, cj_buf *copy) {
  int index = cj_plan_find_topic(app->plan, table);
  if (index < 0 || app->plan->topics[index].kind != CJ_TOPIC_TABLE) return CJ_READ_FAILED;
  if (!key.data) return CJ_READ_ABSENT; /* a null key is never in a table */
  pthread_rwlock_rdlock(&app->run_lock);
  cj_read read = read_table(app, index, key, copy);
  pthread_rwlock_unlock(&app->run_lock);
  return read;
}
