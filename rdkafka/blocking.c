/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of librdkafka that block, on the helper's thread.
 *
 * They go through the producer where there is one: a broker answers the requests of a connection in
 * order, and on the consumer's connection one would wait behind a fetch that waits for records. */
#include <stdio.h>
#include <string.h>

#include "rdkafka/io_internal.h"

static int remaining(const cj_rd_request *request) {
  int64_t left = request->deadline - cj_rd_now();
  return left < 1 ? 1 : left > 1000000 ? 1000000 : (int)left;
}

static void fail(cj_rd_request *request, rd_kafka_resp_err_t err, const char *text) {
  request->code = cj_rd_code(err);
  snprintf(request->text, sizeof request->text, "%s", text ? text : rd_kafka_err2str(err));
  for (size_t i = 0; i < request->count; i++)
    request->offsets[i].code = request->code;
}

static void fail_memory(cj_rd_request *request) {
  fail(request, RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, "no memory");
}

/* ---- committed ---- */

void cj_rd_run_committed(cj_rd_io *io, cj_rd_request *request) {
  rd_kafka_topic_partition_list_t *list = cj_rd_list(io, request->offsets, request->count, 0);
  if (!list) {
    fail_memory(request);
    return;
  }
  rd_kafka_resp_err_t err = rd_kafka_committed(io->consumer, list, remaining(request));
  if (err) fail(request, err, NULL);
  for (size_t i = 0; !err && i < request->count; i++) {
    const rd_kafka_topic_partition_t *answer = &list->elems[i];
    cj_io_offset *entry = &request->offsets[i];
    entry->code = cj_rd_code(answer->err);
    entry->offset = !answer->err && answer->offset >= 0 ? answer->offset : CJ_OFFSET_NONE;
    if (request->code == CJ_IO_OK) request->code = entry->code;
  }
  rd_kafka_topic_partition_list_destroy(list);
}

/* ---- starts and ends ---- */

/* The offset that a special timestamp stands for. One partition that fails fails the call in 2.0.2,
 * and what was not answered keeps its question: neither may pass for an offset (case 51). */
static rd_kafka_resp_err_t ask(cj_rd_io *io, rd_kafka_topic_partition_list_t *list, int64_t time,
                               int timeout_ms) {
  for (int i = 0; i < list->cnt; i++) {
    list->elems[i].offset = time;
    list->elems[i].err = RD_KAFKA_RESP_ERR_NO_ERROR;
  }
  return rd_kafka_offsets_for_times(cj_rd_asker(io), list, timeout_ms);
}

static cj_io_code answered(const rd_kafka_topic_partition_t *partition, int64_t *offset) {
  *offset = CJ_OFFSET_NONE;
  if (partition->err) return cj_rd_code(partition->err);
  if (partition->offset < 0) return CJ_IO_RETRIABLE;
  *offset = partition->offset;
  return CJ_IO_OK;
}

static void take_ends(cj_rd_request *request, const rd_kafka_topic_partition_list_t *list,
                      const int *places) {
  for (size_t i = 0; i < request->count; i++) {
    cj_io_offset *entry = &request->offsets[i];
    entry->code = answered(&list->elems[places ? places[i] : (int)i], &entry->offset);
    if (request->code == CJ_IO_OK) request->code = entry->code;
  }
}

static void run_one_ends(cj_rd_io *io, cj_rd_request *request) {
  rd_kafka_topic_partition_list_t *list = cj_rd_list(io, request->offsets, request->count, 0);
  if (!list) {
    fail_memory(request);
    return;
  }
  rd_kafka_resp_err_t err = ask(io, list, RD_KAFKA_OFFSET_END, remaining(request));
  if (err)
    fail(request, err, NULL);
  else
    take_ends(request, list, NULL);
  rd_kafka_topic_partition_list_destroy(list);
}

/* Where the partition stands in the merged list; -1 without memory. */
static int place(cj_rd_io *io, rd_kafka_topic_partition_list_t *list, cj_tp tp) {
  cj_rd_topic *topic = &io->topics[tp.topic];
  size_t need = (size_t)tp.partition + 1;
  if (need > topic->merged_count) {
    size_t room = topic->merged_count, before = topic->merged_count;
    if (!cj_rd_grow((void **)&topic->merged, &room, need, sizeof *topic->merged)) return -1;
    memset(topic->merged + before, 0, (room - before) * sizeof *topic->merged);
    topic->merged_count = room;
  }
  if (topic->merged[tp.partition].stamp != io->merge_stamp) {
    topic->merged[tp.partition].stamp = io->merge_stamp;
    topic->merged[tp.partition].index = list->cnt;
    rd_kafka_topic_partition_list_add(list, topic->name, tp.partition);
  }
  return topic->merged[tp.partition].index;
}

static bool merge(cj_rd_io *io, cj_rd_request *first, rd_kafka_topic_partition_list_t *list,
                  int *places, int *timeout_ms) {
  size_t n = 0;
  io->merge_stamp++;
  *timeout_ms = 1;
  for (const cj_rd_request *r = first; r; r = r->queued_next) {
    if (remaining(r) > *timeout_ms) *timeout_ms = remaining(r);
    for (size_t i = 0; i < r->count; i++, n++)
      if ((places[n] = place(io, list, r->offsets[i].tp)) < 0) return false;
  }
  return true;
}

void cj_rd_run_ends(cj_rd_io *io, cj_rd_request *first) {
  if (!first->queued_next) {
    run_one_ends(io, first);
    return;
  }
  size_t entries = 0;
  for (const cj_rd_request *r = first; r; r = r->queued_next)
    entries += r->count;
  rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)entries);
  int *places = cj_alloc(entries * sizeof *places), timeout_ms;
  bool merged = places && merge(io, first, list, places, &timeout_ms) &&
                !ask(io, list, RD_KAFKA_OFFSET_END, timeout_ms);
  size_t n = 0;
  for (cj_rd_request *r = first; r; r = r->queued_next) {
    /* Each on its own where the whole failed, so that a bad partition fails its asker only. */
    if (merged)
      take_ends(r, list, places + n);
    else if (r->deadline > cj_rd_now())
      run_one_ends(io, r);
    else
      fail(r, RD_KAFKA_RESP_ERR__TIMED_OUT, NULL);
    n += r->count;
  }
  cj_free(places);
  rd_kafka_topic_partition_list_destroy(list);
}

void cj_rd_run_bounds(cj_rd_io *io, cj_rd_request *request) {
  rd_kafka_topic_partition_list_t *list = cj_rd_list(io, request->offsets, request->count, 0);
  if (!list) {
    fail_memory(request);
    return;
  }
  rd_kafka_resp_err_t err = ask(io, list, RD_KAFKA_OFFSET_BEGINNING, remaining(request));
  for (size_t i = 0; !err && i < request->count; i++) {
    cj_io_offset *entry = &request->offsets[i];
    entry->code = answered(&list->elems[i], &entry->start);
  }
  if (!err) err = ask(io, list, RD_KAFKA_OFFSET_END, remaining(request));
  for (size_t i = 0; !err && i < request->count; i++) {
    cj_io_offset *entry = &request->offsets[i];
    cj_io_code code = answered(&list->elems[i], &entry->offset);
    if (entry->code == CJ_IO_OK) entry->code = code;
    if (request->code == CJ_IO_OK) request->code = entry->code;
  }
  if (err) fail(request, err, NULL);
  rd_kafka_topic_partition_list_destroy(list);
}

/* ---- metadata ---- */

static const char *keep(cj_rd_request *request, const char *text) {
  size_t len = strlen(text ? text : "") + 1;
  char *copy = cj_arena_alloc(&request->arena, len);
  if (copy) memcpy(copy, text ? text : "", len);
  return copy;
}

static bool keep_topics(cj_rd_request *request, const rd_kafka_metadata_t *metadata) {
  size_t count = metadata->topic_cnt > 0 ? (size_t)metadata->topic_cnt : 0;
  cj_io_topic *topics = cj_arena_alloc(&request->arena, (count + 1) * sizeof *topics);
  if (!topics) return false;
  for (size_t i = 0; i < count; i++) {
    const rd_kafka_metadata_topic_t *topic = &metadata->topics[i];
    topics[i] = (cj_io_topic){.name = keep(request, topic->topic),
                              .partitions = topic->partition_cnt,
                              .code = cj_rd_code(topic->err)};
    if (!topics[i].name) return false;
  }
  request->topics = topics;
  request->topic_count = count;
  return true;
}

void cj_rd_run_metadata(cj_rd_io *io, cj_rd_request *request) {
  const rd_kafka_metadata_t *metadata;
  rd_kafka_resp_err_t err =
      rd_kafka_metadata(cj_rd_asker(io), 1, NULL, &metadata, remaining(request));
  if (err) {
    fail(request, err, NULL);
    return;
  }
  bool kept = keep_topics(request, metadata);
  rd_kafka_metadata_destroy(metadata);
  char *cluster_id = rd_kafka_clusterid(cj_rd_asker(io), remaining(request));
  request->cluster_id = keep(request, cluster_id);
  if (cluster_id) rd_kafka_mem_free(cj_rd_asker(io), cluster_id);
  if (!kept || !request->cluster_id) fail_memory(request);
}

/* ---- group ---- */

/* A member's subscription is the list in its metadata of the consumer protocol: int16 version,
 * int32 count, then int16 length and bytes of each topic, big-endian. */
typedef struct {
  const unsigned char *at;
  size_t left;
} bytes_view;

static bool read_int(bytes_view *view, size_t size, int64_t *value) {
  if (view->left < size) return false;
  uint64_t read = 0;
  for (size_t i = 0; i < size; i++)
    read = read << 8 | view->at[i];
  view->at += size;
  view->left -= size;
  *value = (int64_t)read;
  return true;
}

static void keep_subscription(cj_rd_request *request, cj_io_member *member, const void *metadata,
                              int size) {
  bytes_view view = {metadata, metadata && size > 0 ? (size_t)size : 0};
  int64_t version, count, len;
  if (!read_int(&view, 2, &version) || !read_int(&view, 4, &count)) return;
  if (count > (int64_t)view.left / 2) return;
  const char **topics = cj_arena_alloc(&request->arena, ((size_t)count + 1) * sizeof *topics);
  if (!topics) return;
  size_t read = 0;
  while (read < (size_t)count && read_int(&view, 2, &len) && len <= (int64_t)view.left) {
    char *name = cj_arena_alloc(&request->arena, (size_t)len + 1);
    if (!name) break;
    memcpy(name, view.at, (size_t)len);
    name[len] = '\0';
    view.at += len;
    view.left -= (size_t)len;
    topics[read++] = name;
  }
  member->topics = topics;
  member->topic_count = read;
}

static bool keep_members(cj_rd_request *request, const struct rd_kafka_group_info *group) {
  size_t count = group->member_cnt > 0 ? (size_t)group->member_cnt : 0;
  cj_io_member *members = cj_arena_alloc(&request->arena, (count + 1) * sizeof *members);
  if (!members) return false;
  for (size_t i = 0; i < count; i++) {
    const struct rd_kafka_group_member_info *from = &group->members[i];
    members[i] = (cj_io_member){.client_id = keep(request, from->client_id),
                                .member_id = keep(request, from->member_id),
                                .host = keep(request, from->client_host)};
    if (!members[i].client_id || !members[i].member_id || !members[i].host) return false;
    keep_subscription(request, &members[i], from->member_metadata, from->member_metadata_size);
  }
  request->members = members;
  request->member_count = count;
  return true;
}

static void keep_instances(cj_rd_request *request,
                           const rd_kafka_ConsumerGroupDescription_t *group) {
  for (size_t i = 0; i < rd_kafka_ConsumerGroupDescription_member_count(group); i++) {
    const rd_kafka_MemberDescription_t *from = rd_kafka_ConsumerGroupDescription_member(group, i);
    const char *instance = rd_kafka_MemberDescription_group_instance_id(from);
    for (size_t m = 0; instance && m < request->member_count; m++)
      if (!strcmp(request->members[m].member_id, rd_kafka_MemberDescription_consumer_id(from)))
        request->members[m].instance_id = keep(request, instance);
  }
}

/* The older call knows the subscriptions, the newer one the instance ids. */
static void ask_instances(cj_rd_io *io, cj_rd_request *request) {
  rd_kafka_t *client = cj_rd_asker(io);
  rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
  rd_kafka_AdminOptions_t *options =
      rd_kafka_AdminOptions_new(client, RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS);
  char why[256];
  const char *groups[] = {io->group_id};
  rd_kafka_AdminOptions_set_request_timeout(options, remaining(request), why, sizeof why);
  rd_kafka_DescribeConsumerGroups(client, groups, 1, options, queue);
  rd_kafka_event_t *event = rd_kafka_queue_poll(queue, remaining(request));
  if (event && !rd_kafka_event_error(event)) {
    size_t count = 0;
    const rd_kafka_ConsumerGroupDescription_t **described =
        rd_kafka_DescribeConsumerGroups_result_groups(
            rd_kafka_event_DescribeConsumerGroups_result(event), &count);
    for (size_t i = 0; i < count; i++)
      if (!rd_kafka_ConsumerGroupDescription_error(described[i]))
        keep_instances(request, described[i]);
  }
  if (event) rd_kafka_event_destroy(event);
  rd_kafka_AdminOptions_destroy(options);
  rd_kafka_queue_destroy(queue);
}

void cj_rd_run_group(cj_rd_io *io, cj_rd_request *request) {
  const struct rd_kafka_group_list *list = NULL;
  rd_kafka_resp_err_t err =
      rd_kafka_list_groups(cj_rd_asker(io), io->group_id, &list, remaining(request));
  if (err) {
    if (list) rd_kafka_group_list_destroy(list);
    fail(request, err, NULL);
    return;
  }
  bool kept = true;
  request->group_state = "Dead"; /* what a broker calls a group that does not exist */
  request->group_protocol = "";
  if (list->group_cnt > 0) {
    const struct rd_kafka_group_info *group = &list->groups[0];
    request->group_state = keep(request, group->state);
    request->group_protocol = keep(request, group->protocol);
    kept = request->group_state && request->group_protocol && keep_members(request, group);
    if (group->err) fail(request, group->err, NULL);
  }
  rd_kafka_group_list_destroy(list);
  if (!kept)
    fail_memory(request);
  else if (request->member_count)
    ask_instances(io, request);
}
