/* SPDX-License-Identifier: BSD-2-Clause */
#include "testing/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testing/io_memory.h"

void *cj_world_alloc(size_t size) {
  void *p = calloc(1, size ? size : 1);
  if (!p) cj_world_misuse("no memory for the world (%zu bytes)", size);
  return p;
}

void cj_world_free(const void *p) {
  /* Views are const, their memory is not. */
  free((void *)(uintptr_t)p);
}

char *cj_world_strdup(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = cj_world_alloc(size);
  memcpy(copy, text, size);
  return copy;
}

cj_bytes cj_world_bytes_copy(cj_bytes bytes) {
  if (!bytes.data) return cj_bytes_null();
  char *copy = cj_world_alloc(bytes.len);
  if (bytes.len) memcpy(copy, bytes.data, bytes.len);
  return cj_bytes_of(copy, bytes.len);
}

void *cj_world_grow(void *items, size_t *cap, size_t need, size_t size) {
  if (need <= *cap) return items;
  size_t wanted = *cap ? *cap * 2 : 8;
  if (wanted < need) wanted = need;
  items = realloc(items, wanted * size);
  if (!items) cj_world_misuse("no memory for the world (%zu items)", wanted);
  *cap = wanted;
  return items;
}

void cj_world_misuse(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("cojoin test: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  abort();
}

/* ---- the whole ---- */

cj_world *cj_world_new(void) {
  return cj_world_alloc(sizeof(cj_world));
}

static void topic_free(cj_world_topic *topic);

void cj_world_destroy(cj_world *world) {
  if (!world) return;
  if (world->io_count) cj_world_misuse("the world ends before its ios");
  for (size_t i = 0; i < world->topic_count; i++)
    topic_free(world->topics[i]);
  for (size_t i = 0; i < world->group_count; i++)
    cj_world_group_free(world->groups[i]);
  cj_txn_free(world);
  cj_world_free(world->topics);
  cj_world_free(world->groups);
  cj_world_free(world->faults);
  cj_world_free(world->ios);
  cj_world_free(world);
}

int64_t cj_world_monotonic(const cj_world *world) {
  return world->clock + CJ_WORLD_MONOTONIC_AT;
}

int64_t cj_world_wall(const cj_world *world) {
  return world->clock + CJ_WORLD_WALL_START;
}

void cj_world_advance(cj_world *world, int64_t ms) {
  if (ms < 0) cj_world_misuse("the clock cannot go back");
  world->clock += ms;
  for (size_t i = 0; i < world->io_count; i++)
    cj_memory_io_expire(world->ios[i]);
  for (size_t i = 0; i < world->group_count && !world->down; i++)
    cj_group_expire(world->groups[i]);
  if (!world->down) cj_txn_expire(world);
}

int64_t cj_world_deadline(const cj_world *world) {
  int64_t next = world->down ? INT64_MAX : cj_txn_deadline(world);
  for (size_t i = 0; i < world->group_count && !world->down; i++) {
    int64_t at = cj_group_deadline(world->groups[i]);
    if (at < next) next = at;
  }
  for (size_t i = 0; i < world->io_count; i++) {
    int64_t at = cj_memory_io_deadline(world->ios[i]);
    if (at < next) next = at;
  }
  return next == INT64_MAX ? next : next + CJ_WORLD_MONOTONIC_AT;
}

void cj_world_set_down(cj_world *world, bool down) {
  bool back = world->down && !down;
  world->down = down;
  for (size_t g = 0; back && g < world->group_count; g++) {
    cj_world_group *group = world->groups[g];
    for (size_t i = 0; i < group->member_count; i++)
      if (group->members[i]->silent_since >= 0) group->members[i]->silent_since = world->clock;
    if (group->rebalance_deadline < world->clock) group->rebalance_deadline = world->clock;
  }
}

/* ---- topics ---- */

static void record_free(cj_world_record *record) {
  for (size_t i = 0; i < record->header_count; i++) {
    cj_world_free(record->headers[i].name);
    cj_world_free(record->headers[i].value.data);
  }
  cj_world_free(record->headers);
  cj_world_free(record->key.data);
  cj_world_free(record->value.data);
  cj_world_free(record);
}

static void topic_free(cj_world_topic *topic) {
  for (int32_t p = 0; p < topic->partition_count; p++) {
    cj_world_partition *partition = topic->partitions[p];
    for (size_t i = 0; i < partition->all_count; i++)
      record_free(partition->all[i]);
    cj_world_free(partition->all);
    cj_world_free(partition->live);
    cj_world_free(partition);
  }
  cj_world_free(topic->partitions);
  cj_world_free(topic->name);
  cj_world_free(topic);
}

cj_world_topic *cj_world_topic_find(const cj_world *world, const char *name) {
  for (size_t i = 0; i < world->topic_count; i++)
    if (!world->topics[i]->deleted && strcmp(world->topics[i]->name, name) == 0)
      return world->topics[i];
  return NULL;
}

static cj_world_topic *topic_add(cj_world *world, const char *name) {
  cj_world_topic *topic = cj_world_alloc(sizeof *topic);
  topic->name = cj_world_strdup(name);
  world->topics = cj_world_grow(world->topics, &world->topic_cap, world->topic_count + 1,
                                sizeof(cj_world_topic *));
  size_t at = world->topic_count++;
  for (; at > 0 && strcmp(world->topics[at - 1]->name, name) > 0; at--)
    world->topics[at] = world->topics[at - 1];
  world->topics[at] = topic;
  return topic;
}

cj_world_topic *cj_world_topic_make(cj_world *world, const char *name, int32_t partitions) {
  if (partitions < 1) cj_world_misuse("topic %s: at least one partition", name);
  cj_world_topic *topic = cj_world_topic_find(world, name);
  if (!topic) topic = topic_add(world, name);
  if (partitions < topic->partition_count)
    cj_world_misuse("topic %s: %d partitions cannot become %d", name, (int)topic->partition_count,
                    (int)partitions);
  size_t cap = (size_t)topic->partition_count;
  topic->partitions =
      cj_world_grow(topic->partitions, &cap, (size_t)partitions, sizeof(cj_world_partition *));
  while (topic->partition_count < partitions)
    topic->partitions[topic->partition_count++] = cj_world_alloc(sizeof(cj_world_partition));
  return topic;
}

void cj_world_topic_delete(cj_world *world, const char *name) {
  cj_world_topic *topic = cj_world_topic_find(world, name);
  if (!topic) cj_world_misuse("no topic %s to delete", name);
  topic->deleted = true;
  for (size_t g = 0; g < world->group_count; g++)
    for (int32_t p = 0; p < topic->partition_count; p++)
      cj_group_set_committed(world->groups[g], name, p, CJ_OFFSET_NONE);
}

cj_world_partition *cj_world_partition_of(cj_world_topic *topic, int32_t p) {
  return topic && p >= 0 && p < topic->partition_count ? topic->partitions[p] : NULL;
}

/* ---- logs ---- */

static size_t record_headers(const cj_headers *headers, const cj_header **out) {
  const cj_world_record *record = (const cj_world_record *)(const void *)headers;
  *out = record->headers;
  return record->header_count;
}

static cj_world_record *record_copy(const cj_world_record *from) {
  cj_world_record *record = cj_world_alloc(sizeof *record);
  record->reader.read = record_headers;
  record->timestamp = from->timestamp;
  record->txn = from->txn;
  record->key = cj_world_bytes_copy(from->key);
  record->value = cj_world_bytes_copy(from->value);
  record->header_count = from->header_count;
  if (from->header_count)
    record->headers = cj_world_alloc(from->header_count * sizeof *record->headers);
  for (size_t i = 0; i < from->header_count; i++) {
    record->headers[i].name = cj_world_strdup(from->headers[i].name);
    record->headers[i].value = cj_world_bytes_copy(from->headers[i].value);
  }
  return record;
}

int64_t cj_world_append(cj_world_partition *partition, const cj_world_record *from) {
  cj_world_record *record = record_copy(from);
  record->offset = partition->end++;
  partition->all = cj_world_grow(partition->all, &partition->all_cap, partition->all_count + 1,
                                 sizeof(cj_world_record *));
  partition->all[partition->all_count++] = record;
  partition->live = cj_world_grow(partition->live, &partition->live_cap, partition->live_count + 1,
                                  sizeof(cj_world_record *));
  partition->live[partition->live_count++] = record;
  return record->offset;
}

void cj_world_gap(cj_world_partition *partition, int64_t count) {
  if (count < 0) cj_world_misuse("a gap of %lld offsets", (long long)count);
  partition->end += count;
}

/* Index of the first live record at or after the offset. */
static size_t live_index(const cj_world_partition *partition, int64_t offset) {
  size_t low = 0, high = partition->live_count;
  while (low < high) {
    size_t mid = low + (high - low) / 2;
    if (partition->live[mid]->offset < offset)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

void cj_world_delete_before(cj_world_partition *partition, int64_t before) {
  if (before > partition->end)
    cj_world_misuse("records before %lld cannot go: the log ends at %lld", (long long)before,
                    (long long)partition->end);
  if (before <= partition->start) return;
  size_t gone = live_index(partition, before);
  partition->live_count -= gone;
  if (gone)
    memmove(partition->live, partition->live + gone,
            partition->live_count * sizeof(cj_world_record *));
  partition->start = before;
}

void cj_world_truncate(cj_world_partition *partition, int64_t end) {
  if (end > partition->end || end < 0)
    cj_world_misuse("a log that ends at %lld cannot be cut to %lld", (long long)partition->end,
                    (long long)end);
  partition->live_count = live_index(partition, end);
  partition->end = end;
  if (partition->start > end) partition->start = end;
}

void cj_world_compact(cj_world_partition *partition) {
  size_t kept = 0;
  for (size_t i = 0; i < partition->live_count; i++) {
    bool later = false;
    for (size_t j = i + 1; j < partition->live_count && !later; j++)
      later = cj_bytes_equal(partition->live[i]->key, partition->live[j]->key);
    if (!later && partition->live[i]->value.data) partition->live[kept++] = partition->live[i];
  }
  partition->live_count = kept;
}

const cj_world_record *cj_world_record_at(const cj_world_partition *partition, int64_t offset) {
  size_t i = live_index(partition, offset);
  return i < partition->live_count ? partition->live[i] : NULL;
}

int64_t cj_world_readable_end(const cj_world_partition *partition, bool read_committed) {
  if (!read_committed || !partition->open) return partition->end;
  for (size_t i = 0; i < partition->live_count; i++) {
    const cj_world_txn *txn = partition->live[i]->txn;
    if (txn && txn->state == CJ_TXN_OPEN) return partition->live[i]->offset;
  }
  return partition->end;
}

bool cj_world_visible(const cj_world_record *record, bool read_committed) {
  return !read_committed || !record->txn || record->txn->state == CJ_TXN_COMMITTED;
}

/* ---- faults ---- */

void cj_world_fault_add(cj_world *world, const cj_world_fault *fault) {
  world->faults = cj_world_grow(world->faults, &world->fault_cap, world->fault_count + 1,
                                sizeof *world->faults);
  world->faults[world->fault_count++] = *fault;
}

bool cj_world_fault_take(cj_world *world, cj_io_request_kind kind, cj_world_fault *fault) {
  for (size_t i = 0; i < world->fault_count; i++) {
    if (world->faults[i].kind != kind || world->faults[i].times == 0) continue;
    world->faults[i].times--;
    *fault = world->faults[i];
    return true;
  }
  return false;
}
