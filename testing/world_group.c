/* SPDX-License-Identifier: BSD-2-Clause */
/* The group coordinator: the classic protocol (JoinGroup, SyncGroup, heartbeats) as the broker's
 * group coordinator runs it, with group.initial.rebalance.delay.ms 0, and the committed offsets. */
#include "testing/world.h"

#include <stdio.h>
#include <string.h>

static void member_free(cj_world_member *member) {
  for (size_t i = 0; i < member->topic_count; i++)
    cj_world_free(member->topics[i]);
  cj_world_free(member->topics);
  cj_world_free(member->member_id);
  cj_world_free(member->client_id);
  cj_world_free(member->instance_id);
  cj_world_free(member->protocol);
  cj_world_free(member->dealt);
  cj_world_free(member);
}

cj_world_group *cj_world_group_of(cj_world *world, const char *id) {
  for (size_t i = 0; i < world->group_count; i++)
    if (strcmp(world->groups[i]->id, id) == 0) return world->groups[i];
  cj_world_group *group = cj_world_alloc(sizeof *group);
  group->world = world;
  group->id = cj_world_strdup(id);
  world->groups = cj_world_grow(world->groups, &world->group_cap, world->group_count + 1,
                                sizeof(cj_world_group *));
  world->groups[world->group_count++] = group;
  return group;
}

void cj_world_group_free(cj_world_group *group) {
  for (size_t i = 0; i < group->member_count; i++)
    member_free(group->members[i]);
  for (size_t i = 0; i < group->offset_count; i++)
    cj_world_free(group->offsets[i].topic);
  cj_world_free(group->members);
  cj_world_free(group->offsets);
  cj_world_free(group->id);
  cj_world_free(group);
}

const char *cj_group_state_name(cj_group_state state) {
  static const char *const names[] = {
      [CJ_GROUP_EMPTY] = "Empty",
      [CJ_GROUP_PREPARING] = "PreparingRebalance",
      [CJ_GROUP_COMPLETING] = "CompletingRebalance",
      [CJ_GROUP_STABLE] = "Stable",
  };
  return names[state];
}

cj_world_member *cj_group_find(const cj_world_group *group, const char *member_id) {
  for (size_t i = 0; member_id && i < group->member_count; i++)
    if (strcmp(group->members[i]->member_id, member_id) == 0) return group->members[i];
  return NULL;
}

/* ---- the rebalance ---- */

static void prepare(cj_world_group *group) {
  if (group->state == CJ_GROUP_PREPARING) return;
  group->state = CJ_GROUP_PREPARING;
  int64_t longest = 0;
  for (size_t i = 0; i < group->member_count; i++) {
    cj_world_member *member = group->members[i];
    member->joined = false;
    if (member->rebalance_timeout_ms > longest) longest = member->rebalance_timeout_ms;
  }
  group->rebalance_deadline = group->world->clock + longest;
}

/* Everyone has joined: a new generation, whose leader is to hand in the assignment. */
static void complete_join(cj_world_group *group) {
  group->generation++;
  group->state = group->member_count ? CJ_GROUP_COMPLETING : CJ_GROUP_EMPTY;
  for (size_t i = 0; i < group->member_count; i++) {
    cj_world_member *member = group->members[i];
    member->dealt_count = 0;
    /* Who waits for the answer of its join is not asked for heartbeats. */
    if (member->silent_since >= 0) member->silent_since = group->world->clock;
  }
  if (!group->leader && group->member_count) group->leader = group->members[0];
}

static void complete_join_if_all_are_here(cj_world_group *group) {
  if (group->state != CJ_GROUP_PREPARING) return;
  for (size_t i = 0; i < group->member_count; i++)
    if (!group->members[i]->joined) return;
  complete_join(group);
}

static void remove_member(cj_world_group *group, size_t at) {
  cj_world_member *member = group->members[at];
  if (group->leader == member) group->leader = NULL;
  group->member_count--;
  memmove(group->members + at, group->members + at + 1,
          (group->member_count - at) * sizeof(cj_world_member *));
  member_free(member);
}

/* After members were removed. */
static void go_on(cj_world_group *group) {
  prepare(group);
  complete_join_if_all_are_here(group);
}

static void subscription_set(cj_world_member *member, const cj_group_join_request *request) {
  for (size_t i = 0; i < member->topic_count; i++)
    cj_world_free(member->topics[i]);
  cj_world_free(member->topics);
  member->topic_count = request->topic_count;
  member->topics = cj_world_alloc(request->topic_count * sizeof(char *));
  for (size_t i = 0; i < request->topic_count; i++)
    member->topics[i] = cj_world_strdup(request->topics[i]);
  member->session_timeout_ms = request->session_timeout_ms;
  member->rebalance_timeout_ms = request->rebalance_timeout_ms;
}

static cj_world_member *add_member(cj_world_group *group, const cj_group_join_request *request) {
  cj_world_member *member = cj_world_alloc(sizeof *member);
  /* The part after the client id is a random UUID on a broker: here it is no order of arrival. */
  uint32_t n = ++group->world->member_ids;
  char id[512];
  snprintf(id, sizeof id, "%s-%08x-%04x", request->client_id, (unsigned)(n * 2654435761u),
           (unsigned)n);
  member->member_id = cj_world_strdup(id);
  member->client_id = cj_world_strdup(request->client_id);
  if (request->instance_id) member->instance_id = cj_world_strdup(request->instance_id);
  member->protocol = cj_world_strdup(request->protocol);
  member->silent_since = -1;
  group->members = cj_world_grow(group->members, &group->member_cap, group->member_count + 1,
                                 sizeof(cj_world_member *));
  group->members[group->member_count++] = member;
  return member;
}

cj_io_code cj_group_join(cj_world_group *group, const cj_group_join_request *request,
                         cj_world_member **out) {
  cj_world_member *member = cj_group_find(group, request->member_id);
  *out = NULL;
  if (request->member_id && !member) return CJ_IO_UNKNOWN_MEMBER;
  for (size_t i = 0; i < group->member_count; i++)
    if (group->members[i] != member && strcmp(group->members[i]->protocol, request->protocol) != 0)
      return CJ_IO_INCONSISTENT_GROUP;
  prepare(group);
  if (!member) {
    member = add_member(group, request);
    int64_t deadline = group->world->clock + request->rebalance_timeout_ms;
    if (deadline > group->rebalance_deadline) group->rebalance_deadline = deadline;
  }
  subscription_set(member, request);
  member->joined = true;
  member->silent_since = -1;
  *out = member;
  complete_join_if_all_are_here(group);
  return CJ_IO_OK;
}

void cj_group_sync(cj_world_group *group, cj_world_member *member) {
  if (group->state != CJ_GROUP_COMPLETING || member != group->leader) return;
  cj_world_assign_fn *deal = group->deal ? group->deal : cj_world_assignor(member->protocol);
  if (!deal) cj_world_misuse("no assignor %s in this world", member->protocol);
  deal(group->world, group->members, group->member_count);
  group->state = CJ_GROUP_STABLE;
}

void cj_group_leave(cj_world_group *group, const char *member_id) {
  for (size_t i = 0; member_id && i < group->member_count; i++) {
    if (strcmp(group->members[i]->member_id, member_id) != 0) continue;
    remove_member(group, i);
    go_on(group);
    return;
  }
}

void cj_group_rebalance(cj_world_group *group) {
  if (group->member_count) prepare(group);
}

/* ---- time ---- */

void cj_group_silence(cj_world_group *group, const char *member_id) {
  cj_world_member *member = cj_group_find(group, member_id);
  if (member) member->silent_since = group->world->clock;
}

/* When the member's session ends; INT64_MAX while heartbeats come or are not asked for. */
static int64_t session_end(const cj_world_group *group, const cj_world_member *member) {
  bool awaits_join = group->state == CJ_GROUP_PREPARING && member->joined;
  if (member->silent_since < 0 || awaits_join) return INT64_MAX;
  return member->silent_since + member->session_timeout_ms;
}

void cj_group_expire(cj_world_group *group) {
  int64_t now = group->world->clock;
  bool late = group->state == CJ_GROUP_PREPARING && now >= group->rebalance_deadline;
  bool removed = false;
  for (size_t i = group->member_count; i-- > 0;) {
    cj_world_member *member = group->members[i];
    if (now < session_end(group, member) && !(late && !member->joined)) continue;
    remove_member(group, i);
    removed = true;
  }
  if (removed) go_on(group);
}

int64_t cj_group_deadline(const cj_world_group *group) {
  int64_t next = group->state == CJ_GROUP_PREPARING ? group->rebalance_deadline : INT64_MAX;
  for (size_t i = 0; i < group->member_count; i++) {
    int64_t at = session_end(group, group->members[i]);
    if (at < next) next = at;
  }
  return next;
}

/* ---- offsets ---- */

cj_io_code cj_group_may_commit(const cj_world_group *group, const char *member_id,
                               int32_t generation) {
  if (!member_id && generation < 0)
    return group->state == CJ_GROUP_EMPTY ? CJ_IO_OK : CJ_IO_UNKNOWN_MEMBER;
  if (!cj_group_find(group, member_id)) return CJ_IO_UNKNOWN_MEMBER;
  if (generation != group->generation) return CJ_IO_ILLEGAL_GENERATION;
  return group->state == CJ_GROUP_COMPLETING ? CJ_IO_REBALANCE : CJ_IO_OK;
}

static size_t offset_index(const cj_world_group *group, const char *topic, int32_t partition) {
  size_t i = 0;
  for (; i < group->offset_count; i++)
    if (group->offsets[i].partition == partition && strcmp(group->offsets[i].topic, topic) == 0)
      break;
  return i;
}

int64_t cj_group_committed(const cj_world_group *group, const char *topic, int32_t partition) {
  size_t i = offset_index(group, topic, partition);
  return i < group->offset_count ? group->offsets[i].offset : CJ_OFFSET_NONE;
}

void cj_group_set_committed(cj_world_group *group, const char *topic, int32_t partition,
                            int64_t offset) {
  size_t i = offset_index(group, topic, partition);
  if (offset < 0) {
    if (i == group->offset_count) return;
    cj_world_free(group->offsets[i].topic);
    group->offsets[i] = group->offsets[--group->offset_count];
    return;
  }
  if (i == group->offset_count) {
    group->offsets = cj_world_grow(group->offsets, &group->offset_cap, group->offset_count + 1,
                                   sizeof *group->offsets);
    group->offsets[group->offset_count++] =
        (cj_world_offset){.topic = cj_world_strdup(topic), .partition = partition};
  }
  group->offsets[i].offset = offset;
}
