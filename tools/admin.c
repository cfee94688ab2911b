/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/admin.h"

#include <stdlib.h>
#include <string.h>

/* ---- one request ---- */
typedef struct {
  rd_kafka_queue_t *queue;
  rd_kafka_AdminOptions_t *options;
} request;

static request request_new(rd_kafka_t *rk, rd_kafka_admin_op_t op) {
  request r = {rd_kafka_queue_new(rk), rd_kafka_AdminOptions_new(rk, op)};
  char why[256];
  rd_kafka_AdminOptions_set_request_timeout(r.options, TOOL_REQUEST_MS, why, sizeof why);
  if (op == RD_KAFKA_ADMIN_OP_CREATETOPICS || op == RD_KAFKA_ADMIN_OP_DELETETOPICS)
    rd_kafka_AdminOptions_set_operation_timeout(r.options, TOOL_REQUEST_MS, why, sizeof why);
  return r;
}

/* The answer, or NULL, reported as `what` that failed. Ends the request. The caller destroys the
 * event. */
static rd_kafka_event_t *request_wait(request *r, const char *what) {
  rd_kafka_event_t *event = rd_kafka_queue_poll(r->queue, 2 * TOOL_REQUEST_MS);
  if (!event) {
    tool_error("%s: no answer from the brokers", what);
  } else if (rd_kafka_event_error(event)) {
    tool_error("%s: %s", what, rd_kafka_event_error_string(event));
    rd_kafka_event_destroy(event);
    event = NULL;
  }
  rd_kafka_AdminOptions_destroy(r->options);
  rd_kafka_queue_destroy(r->queue);
  return event;
}

/* ---- topics ---- */
/* Asks for all topics: asking for one by its name may create it. */
bool tool_partition_count(rd_kafka_t *rk, const char *topic, int *partitions) {
  const struct rd_kafka_metadata *all;
  rd_kafka_resp_err_t err = rd_kafka_metadata(rk, 1, NULL, &all, TOOL_REQUEST_MS);
  if (err) {
    tool_error("the list of topics: %s", rd_kafka_err2str(err));
    return false;
  }
  *partitions = 0;
  for (int i = 0; i < all->topic_cnt; i++)
    if (strcmp(all->topics[i].topic, topic) == 0) *partitions = all->topics[i].partition_cnt;
  rd_kafka_metadata_destroy(all);
  return true;
}

bool tool_topic_is_empty(rd_kafka_t *rk, const char *topic, int partitions, bool *empty) {
  *empty = true;
  for (int p = 0; p < partitions; p++) {
    int64_t low, high;
    rd_kafka_resp_err_t err =
        rd_kafka_query_watermark_offsets(rk, topic, p, &low, &high, TOOL_REQUEST_MS);
    if (err) {
      tool_error("the offsets of %s [%d]: %s", topic, p, rd_kafka_err2str(err));
      return false;
    }
    if (low != high) *empty = false;
  }
  return true;
}

static bool topic_results(const rd_kafka_topic_result_t **results, size_t count, const char *what) {
  bool ok = true;
  for (size_t i = 0; i < count; i++) {
    if (!rd_kafka_topic_result_error(results[i])) continue;
    const char *why = rd_kafka_topic_result_error_string(results[i]);
    tool_error("topic %s could not be %s: %s", rd_kafka_topic_result_name(results[i]), what,
               why ? why : rd_kafka_err2str(rd_kafka_topic_result_error(results[i])));
    ok = false;
  }
  return ok;
}

bool tool_create_topic(rd_kafka_t *rk, const char *topic, int partitions) {
  char why[256];
  rd_kafka_NewTopic_t *new_topic = rd_kafka_NewTopic_new(topic, partitions, -1, why, sizeof why);
  if (!new_topic) {
    tool_error("topic %s could not be created: %s", topic, why);
    return false;
  }
  request r = request_new(rk, RD_KAFKA_ADMIN_OP_CREATETOPICS);
  rd_kafka_CreateTopics(rk, &new_topic, 1, r.options, r.queue);
  rd_kafka_event_t *event = request_wait(&r, "creating a topic");
  rd_kafka_NewTopic_destroy(new_topic);
  if (!event) return false;
  size_t count;
  const rd_kafka_topic_result_t **results =
      rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count);
  bool ok = topic_results(results, count, "created");
  rd_kafka_event_destroy(event);
  return ok;
}

static bool delete_topic(rd_kafka_t *rk, const char *name) {
  rd_kafka_DeleteTopic_t *topic = rd_kafka_DeleteTopic_new(name);
  request r = request_new(rk, RD_KAFKA_ADMIN_OP_DELETETOPICS);
  rd_kafka_DeleteTopics(rk, &topic, 1, r.options, r.queue);
  rd_kafka_event_t *event = request_wait(&r, "deleting a topic");
  rd_kafka_DeleteTopic_destroy(topic);
  if (!event) return false;
  size_t count;
  const rd_kafka_topic_result_t **results =
      rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(event), &count);
  bool ok = topic_results(results, count, "deleted");
  rd_kafka_event_destroy(event);
  return ok;
}

bool tool_delete_topics(rd_kafka_t *rk, const tool_strings *topics) {
  bool ok = true;
  for (size_t i = 0; i < topics->count; i++)
    if (!delete_topic(rk, topics->items[i])) ok = false;
  return ok;
}

/* ---- groups ---- */
static bool group_results(const rd_kafka_group_result_t **results, size_t count, const char *what) {
  bool ok = true;
  for (size_t i = 0; i < count; i++) {
    const rd_kafka_error_t *error = rd_kafka_group_result_error(results[i]);
    if (error) {
      tool_error("group %s: %s: %s", rd_kafka_group_result_name(results[i]), what,
                 rd_kafka_error_string(error));
      ok = false;
    }
    const rd_kafka_topic_partition_list_t *list = rd_kafka_group_result_partitions(results[i]);
    for (int p = 0; list && p < list->cnt; p++) {
      if (!list->elems[p].err) continue;
      tool_error("group %s: %s: %s [%d]: %s", rd_kafka_group_result_name(results[i]), what,
                 list->elems[p].topic, list->elems[p].partition,
                 rd_kafka_err2str(list->elems[p].err));
      ok = false;
    }
  }
  return ok;
}

bool tool_delete_groups(rd_kafka_t *rk, const tool_strings *groups) {
  bool ok = true;
  for (size_t i = 0; i < groups->count; i++) {
    rd_kafka_DeleteGroup_t *group = rd_kafka_DeleteGroup_new(groups->items[i]);
    request r = request_new(rk, RD_KAFKA_ADMIN_OP_DELETEGROUPS);
    rd_kafka_DeleteGroups(rk, &group, 1, r.options, r.queue);
    rd_kafka_event_t *event = request_wait(&r, "deleting a group");
    rd_kafka_DeleteGroup_destroy(group);
    if (!event) return false;
    size_t count;
    const rd_kafka_group_result_t **results =
        rd_kafka_DeleteGroups_result_groups(rd_kafka_event_DeleteGroups_result(event), &count);
    if (!group_results(results, count, "deleting it")) ok = false;
    rd_kafka_event_destroy(event);
  }
  return ok;
}

static void add_members(const rd_kafka_ConsumerGroupDescription_t *group, tool_strings *members) {
  for (size_t i = 0; i < rd_kafka_ConsumerGroupDescription_member_count(group); i++) {
    const rd_kafka_MemberDescription_t *member = rd_kafka_ConsumerGroupDescription_member(group, i);
    const char *host = rd_kafka_MemberDescription_host(member);
    char *text = tool_format("%s at %s", rd_kafka_MemberDescription_client_id(member),
                             *host == '/' ? host + 1 : host);
    tool_strings_add(members, text);
    free(text);
  }
}

bool tool_group_members(rd_kafka_t *rk, const char *group, tool_strings *members) {
  request r = request_new(rk, RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS);
  rd_kafka_DescribeConsumerGroups(rk, &group, 1, r.options, r.queue);
  rd_kafka_event_t *event = request_wait(&r, "looking at the group");
  if (!event) return false;
  size_t count;
  const rd_kafka_ConsumerGroupDescription_t **groups =
      rd_kafka_DescribeConsumerGroups_result_groups(
          rd_kafka_event_DescribeConsumerGroups_result(event), &count);
  bool ok = true;
  for (size_t i = 0; ok && i < count; i++) {
    const rd_kafka_error_t *error = rd_kafka_ConsumerGroupDescription_error(groups[i]);
    /* Kafka 4 answers so for a group that does not exist; older ones describe it as dead. */
    ok = !error || rd_kafka_error_code(error) == RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND;
    if (!ok) tool_error("group %s: %s", group, rd_kafka_error_string(error));
    if (!error) add_members(groups[i], members);
  }
  rd_kafka_event_destroy(event);
  return ok;
}

bool tool_group_offsets(rd_kafka_t *rk, const char *group, rd_kafka_topic_partition_list_t **list) {
  rd_kafka_ListConsumerGroupOffsets_t *wanted = rd_kafka_ListConsumerGroupOffsets_new(group, NULL);
  request r = request_new(rk, RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS);
  rd_kafka_ListConsumerGroupOffsets(rk, &wanted, 1, r.options, r.queue);
  rd_kafka_event_t *event = request_wait(&r, "reading the group's offsets");
  rd_kafka_ListConsumerGroupOffsets_destroy(wanted);
  if (!event) return false;
  size_t count;
  const rd_kafka_group_result_t **results = rd_kafka_ListConsumerGroupOffsets_result_groups(
      rd_kafka_event_ListConsumerGroupOffsets_result(event), &count);
  bool ok = group_results(results, count, "reading its offsets");
  const rd_kafka_topic_partition_list_t *found =
      ok && count ? rd_kafka_group_result_partitions(results[0]) : NULL;
  *list = found ? rd_kafka_topic_partition_list_copy(found) : rd_kafka_topic_partition_list_new(0);
  if (!ok) rd_kafka_topic_partition_list_destroy(*list);
  rd_kafka_event_destroy(event);
  return ok;
}

bool tool_alter_offsets(rd_kafka_t *rk, const char *group,
                        const rd_kafka_topic_partition_list_t *list) {
  rd_kafka_AlterConsumerGroupOffsets_t *wanted =
      rd_kafka_AlterConsumerGroupOffsets_new(group, list);
  request r = request_new(rk, RD_KAFKA_ADMIN_OP_ALTERCONSUMERGROUPOFFSETS);
  rd_kafka_AlterConsumerGroupOffsets(rk, &wanted, 1, r.options, r.queue);
  rd_kafka_event_t *event = request_wait(&r, "setting the group's offsets");
  rd_kafka_AlterConsumerGroupOffsets_destroy(wanted);
  if (!event) return false;
  size_t count;
  const rd_kafka_group_result_t **results = rd_kafka_AlterConsumerGroupOffsets_result_groups(
      rd_kafka_event_AlterConsumerGroupOffsets_result(event), &count);
  bool ok = group_results(results, count, "setting its offsets");
  rd_kafka_event_destroy(event);
  return ok;
}

bool tool_delete_offsets(rd_kafka_t *rk, const char *group,
                         const rd_kafka_topic_partition_list_t *list) {
  rd_kafka_DeleteConsumerGroupOffsets_t *wanted =
      rd_kafka_DeleteConsumerGroupOffsets_new(group, list);
  request r = request_new(rk, RD_KAFKA_ADMIN_OP_DELETECONSUMERGROUPOFFSETS);
  rd_kafka_DeleteConsumerGroupOffsets(rk, &wanted, 1, r.options, r.queue);
  rd_kafka_event_t *event = request_wait(&r, "deleting the group's offsets");
  rd_kafka_DeleteConsumerGroupOffsets_destroy(wanted);
  if (!event) return false;
  size_t count;
  const rd_kafka_group_result_t **results = rd_kafka_DeleteConsumerGroupOffsets_result_groups(
      rd_kafka_event_DeleteConsumerGroupOffsets_result(event), &count);
  bool ok = group_results(results, count, "deleting its offsets");
  rd_kafka_event_destroy(event);
  return ok;
}
