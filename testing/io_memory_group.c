/* SPDX-License-Identifier: BSD-2-Clause */
/* The member's side of the group protocol, as librdkafka's rdkafka_cgrp.c plays it under an eager
 * assignor: a rebalance is noticed at a heartbeat, everything is revoked, and only after the
 * application has answered does the member join anew. */
#include <string.h>

#include "testing/io_memory_internal.h"

#define JOIN_RETRY_MS 1000

cj_error *cj_memory_subscribe(cj_io *base) {
  cj_memory_io *io = (cj_memory_io *)base;
  if (io->admin) cj_world_misuse("an admin io does not subscribe");
  if (io->group) cj_world_misuse("subscribed twice");
  if (!cj_world_assignor(io->protocol))
    return cj_error_new(CJ_ERR_UNSUPPORTED, io->protocol,
                        "the world in memory speaks the eager protocol only, with range and "
                        "roundrobin");
  io->group = cj_world_group_of(io->world, io->group_id);
  return NULL;
}

static void forget_membership(cj_memory_io *io) {
  cj_world_free(io->member_id);
  io->member_id = NULL;
  io->generation = -1;
}

static bool send_join(cj_memory_io *io) {
  if (io->world->clock < io->retry_at) return false;
  const char **topics = cj_world_alloc(io->topic_count * sizeof *topics);
  size_t count = 0;
  for (size_t i = 0; i < io->topic_count; i++)
    if (io->subscribed[i]) topics[count++] = io->topics[i];
  const cj_group_join_request request = {
      .member_id = io->member_id,
      .client_id = io->client_id,
      .protocol = io->protocol,
      .topics = topics,
      .topic_count = count,
      .session_timeout_ms = io->session_timeout_ms,
      .rebalance_timeout_ms = io->max_poll_ms,
  };
  cj_world_member *member;
  cj_io_code code = cj_group_join(io->group, &request, &member);
  cj_world_free(topics);
  if (code == CJ_IO_OK) {
    if (!io->member_id) io->member_id = cj_world_strdup(member->member_id);
    io->join = CJ_JOIN_WAITING;
    return true;
  }
  io->join = CJ_JOIN_OUT;
  forget_membership(io);
  if (code == CJ_IO_UNKNOWN_MEMBER) return true; /* joins as a new one at the next tick */
  cj_io_memory_fail(&io->io, code, false, "JoinGroup failed: inconsistent group protocol");
  io->retry_at = io->world->clock + JOIN_RETRY_MS;
  return true;
}

static void tell_assignment(cj_memory_io *io, const cj_world_member *member) {
  cj_world_free(io->dealt);
  io->dealt = cj_world_alloc(member->dealt_count * sizeof *io->dealt);
  io->dealt_count = 0;
  for (size_t i = 0; i < member->dealt_count; i++)
    for (size_t t = 0; t < io->topic_count; t++)
      if (io->subscribed[t] && strcmp(io->topics[t], member->dealt[i].topic->name) == 0)
        io->dealt[io->dealt_count++] =
            (cj_tp){.topic = (int32_t)t, .partition = member->dealt[i].partition};
  cj_memory_event *event = cj_memory_event_push(io, CJ_EV_ASSIGN);
  cj_tp *list = cj_memory_event_alloc(event, io->dealt_count * sizeof *list);
  if (io->dealt_count) memcpy(list, io->dealt, io->dealt_count * sizeof *list);
  event->event.list = list;
  event->event.count = io->dealt_count;
  io->assign_due = true;
  io->join = CJ_JOIN_STEADY;
  io->next_heartbeat = io->world->clock + io->heartbeat_ms;
}

static void tell_revocation(cj_memory_io *io) {
  cj_memory_event *event = cj_memory_event_push(io, CJ_EV_REVOKE);
  cj_tp *list = cj_memory_event_alloc(event, io->dealt_count * sizeof *list);
  memcpy(list, io->dealt, io->dealt_count * sizeof *list);
  event->event.list = list;
  event->event.count = io->dealt_count;
  io->revoke_due = true;
}

static bool leave(cj_memory_io *io) {
  if (io->world->down)
    cj_group_silence(io->group, io->member_id); /* the LeaveGroup does not arrive */
  else
    cj_group_leave(io->group, io->member_id);
  forget_membership(io);
  cj_memory_event_push(io, CJ_EV_CLOSED);
  io->join = CJ_JOIN_LEFT;
  return true;
}

void cj_memory_close(cj_io *base) {
  cj_memory_io *io = (cj_memory_io *)base;
  if (io->crashed || io->closing) return;
  io->closing = true;
  if (io->producer && io->epoch == io->producer->epoch) {
    cj_memory_drop_outputs(io, CJ_IO_PURGED);
    io->txn_failed = true; /* a commit under way is not one of the offsets alone */
    if (!io->world->down) cj_txn_end(io->producer, false);
  }
  if (io->group) return;
  cj_memory_event_push(io, CJ_EV_CLOSED); /* never subscribed */
  io->join = CJ_JOIN_LEFT;
}

/* Has the member been thrown out, and does it notice? */
static bool notice_eviction(cj_memory_io *io) {
  if (io->max_poll_exceeded) {
    io->max_poll_exceeded = false;
    cj_io_memory_fail(&io->io, CJ_IO_MAX_POLL, false, "application maximum poll interval exceeded");
    io->lost = true;
    return true;
  }
  if (!io->member_id || io->world->down || cj_group_find(io->group, io->member_id)) return false;
  forget_membership(io);
  io->lost = true;
  return true;
}

/* The heartbeats and answers of a member that has what it was dealt. */
static bool steady(cj_memory_io *io, const cj_world_member *member) {
  bool rebalance = member && io->group->state == CJ_GROUP_PREPARING && !member->joined;
  if (!io->closing && !rebalance) return false;
  if (io->dealt_count) {
    tell_revocation(io);
    return true;
  }
  return io->closing ? leave(io) : send_join(io);
}

static bool waiting(cj_memory_io *io, cj_world_member *member) {
  const cj_world_group *group = io->group;
  if (io->closing) return leave(io);
  if (group->state == CJ_GROUP_PREPARING) {
    if (io->join == CJ_JOIN_WAITING && member->joined) return false;
    io->generation = group->generation; /* the join was answered, the sync is refused */
    return send_join(io);
  }
  bool moved = io->join == CJ_JOIN_WAITING;
  io->generation = group->generation;
  io->join = CJ_JOIN_SYNCING;
  if (group->state == CJ_GROUP_COMPLETING && member == group->leader) {
    cj_group_sync(io->group, member);
    moved = true;
  }
  if (group->state != CJ_GROUP_STABLE) return moved;
  tell_assignment(io, member);
  return true;
}

/* A member that has what it was dealt learns of anything by its heartbeats. */
static bool between_heartbeats(cj_memory_io *io) {
  if (io->heartbeat_ms == 0 || io->join != CJ_JOIN_STEADY || io->closing || io->max_poll_exceeded)
    return false;
  if (io->world->clock < io->next_heartbeat) return true;
  io->next_heartbeat = io->world->clock + io->heartbeat_ms;
  return false;
}

bool cj_memory_group_tick(cj_memory_io *io) {
  if (!io->group || io->join == CJ_JOIN_LEFT || between_heartbeats(io)) return false;
  bool noticed = notice_eviction(io);
  if (io->assign_due || io->revoke_due) return noticed; /* the application's turn */
  if (io->lost) {
    if (io->dealt_count) {
      tell_revocation(io);
      return true;
    }
    io->lost = false;
    io->join = CJ_JOIN_OUT;
  }
  if (io->world->down && !io->closing) return noticed;
  cj_world_member *member = cj_group_find(io->group, io->member_id);
  switch (io->join) {
  case CJ_JOIN_OUT:
    return io->closing ? leave(io) : send_join(io) || noticed;
  case CJ_JOIN_WAITING:
  case CJ_JOIN_SYNCING:
    return waiting(io, member) || noticed;
  case CJ_JOIN_STEADY:
    return steady(io, member) || noticed;
  case CJ_JOIN_LEFT:
    break;
  }
  return noticed;
}

/* Is there something that the next heartbeat would tell? */
static bool news(const cj_memory_io *io) {
  const cj_world_member *member = cj_group_find(io->group, io->member_id);
  return !member || (io->group->state == CJ_GROUP_PREPARING && !member->joined);
}

int64_t cj_memory_group_deadline(const cj_memory_io *io) {
  int64_t next = INT64_MAX, now = io->world->clock;
  if (!io->group) return next;
  if (io->join == CJ_JOIN_OUT && io->retry_at > now) next = io->retry_at;
  if (io->join == CJ_JOIN_STEADY && io->next_heartbeat > now && io->next_heartbeat < next &&
      news(io))
    next = io->next_heartbeat;
  bool left_alone = io->polling_stopped_at >= 0 && io->member_id;
  if (left_alone && io->polling_stopped_at + io->max_poll_ms < next)
    next = io->polling_stopped_at + io->max_poll_ms;
  return next;
}

void cj_memory_group_assigned(cj_memory_io *io) {
  io->assign_due = io->assign_out = false;
}

void cj_memory_group_revoked(cj_memory_io *io) {
  io->revoke_due = io->revoke_out = false;
  io->lost = false;
  io->dealt_count = 0;
  io->join = CJ_JOIN_OUT; /* joins anew, under its old id if it still has one */
}
