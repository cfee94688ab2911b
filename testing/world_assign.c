/* SPDX-License-Identifier: BSD-2-Clause */
/* The assignors `range` and `roundrobin` as librdkafka's rdkafka_range_assignor.c and
 * rdkafka_roundrobin_assignor.c deal: topics by name, members by group.instance.id where both have
 * one and by member id otherwise. */
#include "testing/world.h"

#include <stdlib.h>
#include <string.h>

void cj_world_deal(cj_world_member *member, cj_world_topic *topic, int32_t partition) {
  member->dealt = cj_world_grow(member->dealt, &member->dealt_cap, member->dealt_count + 1,
                                sizeof *member->dealt);
  member->dealt[member->dealt_count++] = (cj_world_tp){topic, partition};
}

static int by_id(const void *a, const void *b) {
  const cj_world_member *x = *(cj_world_member *const *)a, *y = *(cj_world_member *const *)b;
  if (x->instance_id && y->instance_id) return strcmp(x->instance_id, y->instance_id);
  return strcmp(x->member_id, y->member_id);
}

static bool subscribes(const cj_world_member *member, const cj_world_topic *topic) {
  for (size_t i = 0; i < member->topic_count; i++)
    if (strcmp(member->topics[i], topic->name) == 0) return true;
  return false;
}

static cj_world_member **sorted(cj_world_member *const *members, size_t count) {
  cj_world_member **copy = cj_world_alloc(count * sizeof(cj_world_member *));
  memcpy(copy, members, count * sizeof(cj_world_member *));
  qsort(copy, count, sizeof(cj_world_member *), by_id);
  return copy;
}

/* Each topic by itself: every member gets a run of partitions, the first ones one more where they
 * do not divide evenly. */
static void range(cj_world *world, cj_world_member *const *members, size_t count) {
  cj_world_member **order = sorted(members, count);
  for (size_t t = 0; t < world->topic_count; t++) {
    cj_world_topic *topic = world->topics[t];
    if (topic->deleted) continue;
    int32_t eligible = 0;
    for (size_t i = 0; i < count; i++)
      if (subscribes(order[i], topic)) eligible++;
    if (eligible == 0) continue;
    int32_t place = 0, partition = 0;
    for (size_t i = 0; i < count; i++) {
      if (!subscribes(order[i], topic)) continue;
      int32_t share = topic->partition_count / eligible;
      if (place++ < topic->partition_count % eligible) share++;
      for (int32_t end = partition + share; partition < end; partition++)
        cj_world_deal(order[i], topic, partition);
    }
  }
  cj_world_free(order);
}

/* All partitions of all topics in one row, dealt in turn; who does not subscribe is passed over. */
static void roundrobin(cj_world *world, cj_world_member *const *members, size_t count) {
  cj_world_member **order = sorted(members, count);
  size_t next = count - 1;
  for (size_t t = 0; t < world->topic_count; t++) {
    cj_world_topic *topic = world->topics[t];
    bool wanted = false;
    for (size_t i = 0; i < count && !topic->deleted; i++)
      wanted = wanted || subscribes(order[i], topic);
    for (int32_t p = 0; wanted && p < topic->partition_count; p++) {
      do {
        next = (next + 1) % count;
      } while (!subscribes(order[next], topic));
      cj_world_deal(order[next], topic, p);
    }
  }
  cj_world_free(order);
}

cj_world_assign_fn *cj_world_assignor(const char *name) {
  if (strcmp(name, "range") == 0) return range;
  if (strcmp(name, "roundrobin") == 0) return roundrobin;
  return NULL;
}
