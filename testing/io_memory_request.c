/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests: taken in submit, answered when the io is polled, unless a fault or brokers that are
 * gone keep them. */
#include <string.h>

#include "testing/io_memory_internal.h"

cj_error *cj_memory_submit(cj_io *base, const cj_io_request *request) {
  cj_memory_io *io = (cj_memory_io *)base;
  if (io->crashed) return NULL;
  for (size_t i = 0; i < io->request_count; i++)
    if (io->requests[i].id == request->id)
      cj_world_misuse("request %llu is under way already", (unsigned long long)request->id);
  bool needs_init = request->kind == CJ_REQ_TXN_COMMIT || request->kind == CJ_REQ_TXN_ABORT;
  if (needs_init && (!io->producer || io->epoch < 0 || io->txn_unclear))
    cj_world_misuse("a transaction is ended whose producer was not begun (anew) with TXN_INIT");
  io->requests =
      cj_world_grow(io->requests, &io->request_cap, io->request_count + 1, sizeof *io->requests);
  cj_memory_request *queued = &io->requests[io->request_count++];
  *queued = (cj_memory_request){
      .id = request->id,
      .kind = request->kind,
      .count = request->count,
      .deadline = io->world->clock + request->timeout_ms,
      .member_id = io->member_id ? cj_world_strdup(io->member_id) : NULL,
      .generation = io->generation,
  };
  queued->list = cj_world_alloc(request->count * sizeof *queued->list);
  if (request->count) memcpy(queued->list, request->list, request->count * sizeof *queued->list);
  queued->faulty = cj_world_fault_take(io->world, request->kind, &queued->fault);
  queued->ready_at = io->world->clock;
  if (queued->faulty && queued->fault.effect == CJ_FAULT_HANG)
    queued->ready_at += queued->fault.delay_ms;
  return NULL;
}

static void request_free(cj_memory_request *request) {
  cj_world_free(request->list);
  cj_world_free(request->member_id);
}

void cj_memory_requests_free(cj_memory_io *io) {
  for (size_t i = 0; i < io->request_count; i++)
    request_free(&io->requests[i]);
  cj_world_free(io->requests);
}

/* ---- what the broker does ---- */

static void fill_offset(cj_memory_io *io, const cj_memory_request *request, cj_io_offset *entry,
                        cj_io_code commit) {
  const cj_world_partition *partition = cj_memory_partition(io, entry->tp);
  const char *topic = io->topics[entry->tp.topic];
  cj_world_group *group = cj_world_group_of(io->world, io->group_id);
  entry->code = CJ_IO_OK;
  switch (request->kind) {
  case CJ_REQ_COMMITTED:
    entry->offset = cj_group_committed(group, topic, entry->tp.partition);
    /* UNSTABLE_OFFSET_COMMIT (KIP-447) */
    if (io->read_committed && cj_txn_offset_pending(group, topic, entry->tp.partition))
      entry->code = CJ_IO_RETRIABLE;
    break;
  case CJ_REQ_COMMIT:
    entry->code = commit != CJ_IO_OK ? commit : partition ? CJ_IO_OK : CJ_IO_UNKNOWN_TOPIC;
    if (entry->code == CJ_IO_OK)
      cj_group_set_committed(group, topic, entry->tp.partition, entry->offset);
    break;
  default:
    entry->code = partition ? CJ_IO_OK : CJ_IO_UNKNOWN_TOPIC;
    entry->offset =
        partition ? cj_world_readable_end(partition, io->read_committed) : CJ_OFFSET_NONE;
    entry->start = partition && request->kind == CJ_REQ_BOUNDS ? partition->start : CJ_OFFSET_NONE;
  }
}

static void do_offsets(cj_memory_io *io, const cj_memory_request *request, cj_memory_event *event) {
  cj_io_code commit = CJ_IO_OK;
  if (request->kind == CJ_REQ_COMMIT)
    commit = cj_group_may_commit(cj_world_group_of(io->world, io->group_id), request->member_id,
                                 request->generation);
  cj_io_offset *list = cj_memory_event_alloc(event, request->count * sizeof *list);
  for (size_t i = 0; i < request->count; i++) {
    list[i] = request->list[i];
    if (list[i].tp.topic < 0 || (size_t)list[i].tp.topic >= io->topic_count)
      cj_world_misuse("a request for topic number %d", (int)list[i].tp.topic);
    fill_offset(io, request, &list[i], commit);
  }
  if (request->kind == CJ_REQ_COMMIT)
    for (size_t i = 0; i < request->count; i++)
      cj_logf(&io->log, CJ_LOG_DEBUG, "group: commit %s[%d] = %lld: code %d",
              io->topics[list[i].tp.topic], (int)list[i].tp.partition, (long long)list[i].offset,
              (int)list[i].code);
  event->event.code = commit;
  event->event.offsets = list;
  event->event.offset_count = request->count;
}

static void do_metadata(cj_memory_io *io, cj_memory_event *event) {
  cj_io_topic *topics = cj_memory_event_alloc(event, io->world->topic_count * sizeof *topics);
  size_t count = 0;
  for (size_t i = 0; i < io->world->topic_count; i++) {
    const cj_world_topic *topic = io->world->topics[i];
    if (topic->deleted) continue;
    topics[count++] = (cj_io_topic){.name = topic->name, .partitions = topic->partition_count};
  }
  event->event.cluster_id = CJ_WORLD_CLUSTER_ID;
  event->event.topics = topics;
  event->event.topic_count = count;
}

static const char *text_copy(cj_memory_event *event, const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = cj_memory_event_alloc(event, size);
  memcpy(copy, text, size);
  return copy;
}

static void do_group(cj_memory_io *io, cj_memory_event *event) {
  const cj_world_group *group = cj_world_group_of(io->world, io->group_id);
  bool dead = group->member_count == 0 && group->offset_count == 0;
  cj_io_member *members = cj_memory_event_alloc(event, group->member_count * sizeof *members);
  for (size_t i = 0; i < group->member_count; i++) {
    const cj_world_member *member = group->members[i];
    const char **topics = cj_memory_event_alloc(event, member->topic_count * sizeof *topics);
    for (size_t t = 0; t < member->topic_count; t++)
      topics[t] = text_copy(event, member->topics[t]);
    members[i] = (cj_io_member){
        .client_id = text_copy(event, member->client_id),
        .member_id = text_copy(event, member->member_id),
        .host = "/127.0.0.1",
        .instance_id = member->instance_id ? text_copy(event, member->instance_id) : NULL,
        .topics = topics,
        .topic_count = member->topic_count,
    };
  }
  event->event.group_state = dead ? "Dead" : cj_group_state_name(group->state);
  event->event.group_protocol =
      group->member_count ? text_copy(event, group->members[0]->protocol) : "";
  event->event.members = members;
  event->event.member_count = group->member_count;
}

static void request_do(cj_memory_io *io, const cj_memory_request *request, cj_memory_event *event) {
  if (request->kind == CJ_REQ_METADATA)
    do_metadata(io, event);
  else if (request->kind == CJ_REQ_GROUP)
    do_group(io, event);
  else
    do_offsets(io, request, event);
}

/* ---- answers ---- */

/* An answer without results: the list goes back with the code on each entry. */
static void refuse(const cj_memory_request *request, cj_memory_event *event, cj_io_code code) {
  cj_io_offset *list = cj_memory_event_alloc(event, request->count * sizeof *list);
  for (size_t i = 0; i < request->count; i++) {
    list[i] = request->list[i];
    list[i].code = code;
    if (request->kind != CJ_REQ_COMMIT && !cj_memory_is_txn(request->kind))
      list[i].offset = list[i].start = CJ_OFFSET_NONE;
  }
  event->event.code = code;
  event->event.offsets = list;
  event->event.offset_count = request->count;
}

static void done_untold(cj_memory_io *io, const cj_memory_request *request) {
  cj_memory_event untold = {.owned = NULL};
  request_do(io, request, &untold);
  for (size_t i = 0; i < untold.owned_count; i++)
    cj_world_free(untold.owned[i]);
  cj_world_free(untold.owned);
}

static cj_memory_event *push_done(cj_memory_io *io, const cj_memory_request *request) {
  cj_memory_event *event = cj_memory_event_push(io, CJ_EV_DONE);
  event->event.id = request->id;
  event->event.request = request->kind;
  return event;
}

/* False: not yet. */
static bool txn_answer(cj_memory_io *io, cj_memory_request *request, bool over) {
  cj_io_code code = CJ_IO_TIMED_OUT;
  bool refused = request->faulty && request->fault.effect == CJ_FAULT_REFUSE;
  bool untold = request->faulty && request->fault.effect == CJ_FAULT_DONE_UNTOLD;
  bool late = request->faulty &&
              (request->fault.effect == CJ_FAULT_LATE || request->fault.effect == CJ_FAULT_DECIDED);
  if (late && !over && !cj_memory_txn_late(io, request)) return false;
  if (refused)
    code = request->kind == CJ_REQ_TXN_COMMIT ? CJ_IO_ABORTABLE : request->fault.code;
  else if (!late && !over && !cj_memory_txn_do(io, request, &code))
    return false;
  if (untold && code == CJ_IO_OK) code = request->fault.code;
  if (code == CJ_IO_TIMED_OUT) cj_memory_txn_unclear(io);
  if (code == CJ_IO_ABORTABLE) io->txn_failed = true;
  refuse(request, push_done(io, request), code);
  return true;
}

static bool request_answer(cj_memory_io *io, cj_memory_request *request) {
  bool waits = io->world->down || io->world->clock < request->ready_at;
  bool over = io->world->clock >= request->deadline;
  if (waits && !over) return false;
  if (cj_memory_is_txn(request->kind)) {
    /* A commit waits for its outputs too, as long as it may. */
    return txn_answer(io, request, waits) || (over && txn_answer(io, request, true));
  }
  cj_memory_event *event = push_done(io, request);
  if (waits) {
    refuse(request, event, CJ_IO_TIMED_OUT);
  } else if (request->faulty && request->fault.effect == CJ_FAULT_REFUSE) {
    refuse(request, event, request->fault.code);
  } else if (request->faulty && request->fault.effect == CJ_FAULT_DONE_UNTOLD) {
    done_untold(io, request);
    refuse(request, event, request->fault.code);
  } else {
    request_do(io, request, event);
  }
  return true;
}

bool cj_memory_answer(cj_memory_io *io) {
  size_t kept = 0, count = io->request_count;
  for (size_t i = 0; i < count; i++) {
    if (request_answer(io, &io->requests[i]))
      request_free(&io->requests[i]);
    else
      io->requests[kept++] = io->requests[i];
  }
  io->request_count = kept;
  return kept < count;
}

bool cj_memory_request_ready(const cj_memory_io *io) {
  for (size_t i = 0; i < io->request_count; i++) {
    const cj_memory_request *request = &io->requests[i];
    bool waits = io->world->down || io->world->clock < request->ready_at;
    if (!waits || io->world->clock >= request->deadline) return true;
  }
  return false;
}

int64_t cj_memory_request_deadline(const cj_memory_io *io) {
  int64_t next = INT64_MAX;
  for (size_t i = 0; i < io->request_count; i++) {
    const cj_memory_request *request = &io->requests[i];
    if (request->deadline < next) next = request->deadline;
    if (!io->world->down && request->ready_at > io->world->clock && request->ready_at < next)
      next = request->ready_at;
  }
  return next;
}
