/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/reset_plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/admin.h"

static void add(reset_plan *plan, const char *topic, int32_t partition, int64_t before,
                int64_t after) {
  plan->changes = tool_realloc(plan->changes, (plan->count + 1) * sizeof *plan->changes);
  plan->changes[plan->count++] = (reset_change){
      .topic = tool_strdup(topic), .partition = partition, .before = before, .after = after};
}

void reset_plan_free(reset_plan *plan) {
  for (size_t i = 0; i < plan->count; i++)
    free(plan->changes[i].topic);
  free(plan->changes);
  *plan = (reset_plan){0};
}

/* ---- where the target lies ---- */
static bool first_not_older(rd_kafka_t *rk, const char *topic, int32_t partition, int64_t timestamp,
                            int64_t end, int64_t *offset) {
  rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
  rd_kafka_topic_partition_t *entry = rd_kafka_topic_partition_list_add(list, topic, partition);
  entry->offset = timestamp;
  rd_kafka_resp_err_t err = rd_kafka_offsets_for_times(rk, list, TOOL_REQUEST_MS);
  if (!err) err = entry->err;
  if (err)
    tool_error("the offset of %s [%d] at %" PRId64 ": %s", topic, partition, timestamp,
               rd_kafka_err2str(err));
  /* Negative: every record is older. */
  *offset = entry->offset >= 0 ? entry->offset : end;
  rd_kafka_topic_partition_list_destroy(list);
  return !err;
}

static bool find_target(rd_kafka_t *rk, const char *topic, int32_t partition,
                        const reset_wish *wish, int64_t *offset) {
  int64_t start, end;
  rd_kafka_resp_err_t err =
      rd_kafka_query_watermark_offsets(rk, topic, partition, &start, &end, TOOL_REQUEST_MS);
  if (err) {
    tool_error("the offsets of %s [%d]: %s", topic, partition, rd_kafka_err2str(err));
    return false;
  }
  *offset = wish->target == RESET_LATEST ? end : start;
  return wish->target != RESET_TIMESTAMP ||
         first_not_older(rk, topic, partition, wish->timestamp, end, offset);
}

/* ---- which partitions ---- */
static int64_t committed(rd_kafka_topic_partition_list_t *offsets, const char *topic, int32_t p) {
  const rd_kafka_topic_partition_t *entry = rd_kafka_topic_partition_list_find(offsets, topic, p);
  return entry && entry->offset >= 0 ? entry->offset : -1;
}

static bool add_topic(reset_plan *plan, rd_kafka_t *rk, const char *topic, const reset_wish *wish,
                      rd_kafka_topic_partition_list_t *offsets) {
  int partitions;
  if (!tool_partition_count(rk, topic, &partitions)) return false;
  if (partitions == 0) {
    tool_error("there is no topic %s", topic);
    return false;
  }
  for (int32_t p = 0; p < partitions; p++) {
    int64_t target;
    if (!find_target(rk, topic, p, wish, &target)) return false;
    add(plan, topic, p, committed(offsets, topic, p), target);
  }
  return true;
}

static void add_table(reset_plan *plan, const char *topic,
                      const rd_kafka_topic_partition_list_t *offsets) {
  for (int i = 0; i < offsets->cnt; i++) {
    const rd_kafka_topic_partition_t *entry = &offsets->elems[i];
    if (entry->offset >= 0 && strcmp(entry->topic, topic) == 0)
      add(plan, topic, entry->partition, entry->offset, -1);
  }
}

/* Every topic that the group knows. A table's offset at the target is right too: the table is
 * restored up to it before the stream goes on from there. */
static bool add_known(reset_plan *plan, rd_kafka_t *rk, const reset_wish *wish,
                      rd_kafka_topic_partition_list_t *offsets) {
  const char *topic = "";
  int partitions = 0;
  rd_kafka_topic_partition_list_sort(offsets, NULL, NULL);
  for (int i = 0; i < offsets->cnt; i++) {
    const rd_kafka_topic_partition_t *entry = &offsets->elems[i];
    if (entry->offset < 0) continue;
    if (strcmp(entry->topic, topic) != 0) {
      topic = entry->topic;
      if (!tool_partition_count(rk, topic, &partitions)) return false;
    }
    int64_t target = -1; /* a topic that is gone: so goes its offset */
    if (entry->partition < partitions && !find_target(rk, topic, entry->partition, wish, &target))
      return false;
    add(plan, topic, entry->partition, entry->offset, target);
  }
  return true;
}

bool reset_plan_make(reset_plan *plan, rd_kafka_t *rk, const char *group, const reset_wish *wish) {
  rd_kafka_topic_partition_list_t *offsets;
  if (!tool_group_offsets(rk, group, &offsets)) return false;
  bool ok = true;
  if (wish->topics.count + wish->tables.count == 0) ok = add_known(plan, rk, wish, offsets);
  for (size_t i = 0; ok && i < wish->topics.count; i++)
    ok = add_topic(plan, rk, wish->topics.items[i], wish, offsets);
  for (size_t i = 0; ok && i < wish->tables.count; i++)
    add_table(plan, wish->tables.items[i], offsets);
  rd_kafka_topic_partition_list_destroy(offsets);
  return ok;
}

/* ---- the change ---- */
bool reset_plan_apply(const reset_plan *plan, rd_kafka_t *rk, const char *group) {
  rd_kafka_topic_partition_list_t *set = rd_kafka_topic_partition_list_new(0);
  rd_kafka_topic_partition_list_t *gone = rd_kafka_topic_partition_list_new(0);
  for (size_t i = 0; i < plan->count; i++) {
    const reset_change *change = &plan->changes[i];
    rd_kafka_topic_partition_list_t *list = change->after < 0 ? gone : set;
    rd_kafka_topic_partition_list_add(list, change->topic, change->partition)->offset =
        change->after;
  }
  bool ok = (set->cnt == 0 || tool_alter_offsets(rk, group, set)) &&
            (gone->cnt == 0 || tool_delete_offsets(rk, group, gone));
  rd_kafka_topic_partition_list_destroy(set);
  rd_kafka_topic_partition_list_destroy(gone);
  return ok;
}
