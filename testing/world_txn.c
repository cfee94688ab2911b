/* SPDX-License-Identifier: BSD-2-Clause */
/* The transaction coordinator: epochs, markers, offsets that are committed with the outputs,
 * time-outs (KIP-98, KIP-447). Not KIP-890: an end that arrives late hits whatever is open under
 * its epoch, which is what librdkafka has to live with. */
#include "testing/world.h"

#include <string.h>

cj_world_producer *cj_world_producer_of(cj_world *world, const char *id) {
  for (size_t i = 0; i < world->producer_count; i++)
    if (strcmp(world->producers[i]->id, id) == 0) return world->producers[i];
  cj_world_producer *producer = cj_world_alloc(sizeof *producer);
  producer->id = cj_world_strdup(id);
  producer->epoch = -1;
  world->producers = cj_world_grow(world->producers, &world->producer_cap,
                                   world->producer_count + 1, sizeof(cj_world_producer *));
  world->producers[world->producer_count++] = producer;
  return producer;
}

int32_t cj_txn_init(cj_world_producer *producer) {
  cj_txn_end(producer, false);
  return ++producer->epoch;
}

static cj_world_txn *begin(cj_world *world) {
  cj_world_txn *txn = cj_world_alloc(sizeof *txn);
  txn->began = world->clock;
  world->txns =
      cj_world_grow(world->txns, &world->txn_cap, world->txn_count + 1, sizeof(cj_world_txn *));
  world->txns[world->txn_count++] = txn;
  return txn;
}

static void write_to(cj_world_txn *txn, cj_world_partition *partition) {
  for (size_t i = 0; i < txn->written_count; i++)
    if (txn->written[i] == partition) return;
  txn->written = cj_world_grow(txn->written, &txn->written_cap, txn->written_count + 1,
                               sizeof(cj_world_partition *));
  txn->written[txn->written_count++] = partition;
  partition->open++;
}

static cj_world_txn *open_txn(cj_world *world, cj_world_producer *producer) {
  if (!producer->open) producer->open = begin(world);
  return producer->open;
}

void cj_txn_append(cj_world *world, cj_world_producer *producer, cj_world_partition *partition,
                   cj_world_record *record) {
  cj_world_txn *txn = open_txn(world, producer);
  write_to(txn, partition);
  record->txn = txn;
  cj_world_append(partition, record);
}

void cj_txn_add_offset(cj_world *world, cj_world_producer *producer, cj_world_group *group,
                       const char *topic, int32_t partition, int64_t offset) {
  cj_world_txn *txn = open_txn(world, producer);
  txn->group = group;
  txn->offsets =
      cj_world_grow(txn->offsets, &txn->offset_cap, txn->offset_count + 1, sizeof *txn->offsets);
  txn->offsets[txn->offset_count++] =
      (cj_world_offset){.topic = cj_world_strdup(topic), .partition = partition, .offset = offset};
}

bool cj_txn_offset_pending(const cj_world_group *group, const char *topic, int32_t partition) {
  const cj_world *world = group->world;
  for (size_t i = 0; i < world->txn_count; i++) {
    const cj_world_txn *txn = world->txns[i];
    if (txn->state != CJ_TXN_OPEN || txn->group != group) continue;
    for (size_t n = 0; n < txn->offset_count; n++)
      if (txn->offsets[n].partition == partition && strcmp(txn->offsets[n].topic, topic) == 0)
        return true;
  }
  return false;
}

void cj_txn_end(cj_world_producer *producer, bool commit) {
  cj_world_txn *txn = producer->open;
  if (!txn) return;
  producer->open = NULL;
  commit = commit || txn->decided;
  txn->state = commit ? CJ_TXN_COMMITTED : CJ_TXN_ABORTED;
  for (size_t i = 0; i < txn->written_count; i++) {
    txn->written[i]->open--;
    cj_world_gap(txn->written[i], 1); /* the marker */
  }
  for (size_t i = 0; commit && i < txn->offset_count; i++)
    cj_group_set_committed(txn->group, txn->offsets[i].topic, txn->offsets[i].partition,
                           txn->offsets[i].offset);
}

void cj_txn_decide(cj_world_producer *producer) {
  if (producer->open) producer->open->decided = true;
}

void cj_txn_end_late(cj_world *world, cj_world_producer *producer, int32_t epoch, bool commit,
                     int64_t delay_ms) {
  world->late =
      cj_world_grow(world->late, &world->late_cap, world->late_count + 1, sizeof *world->late);
  world->late[world->late_count++] = (cj_world_late_end){
      .producer = producer, .epoch = epoch, .commit = commit, .at = world->clock + delay_ms};
}

static void late_ends(cj_world *world) {
  for (size_t i = 0; i < world->late_count; i++) {
    cj_world_late_end *late = &world->late[i];
    if (late->at < 0 || world->clock < late->at) continue;
    late->at = -1;
    if (late->epoch == late->producer->epoch) cj_txn_end(late->producer, late->commit);
  }
}

static int64_t expiry(const cj_world_producer *producer) {
  const cj_world_txn *txn = producer->open;
  return txn && !txn->decided ? txn->began + producer->timeout_ms : INT64_MAX;
}

void cj_txn_expire(cj_world *world) {
  late_ends(world);
  for (size_t i = 0; i < world->producer_count; i++) {
    cj_world_producer *producer = world->producers[i];
    if (world->clock < expiry(producer)) continue;
    cj_txn_end(producer, false);
    producer->epoch++;
  }
}

int64_t cj_txn_deadline(const cj_world *world) {
  int64_t next = INT64_MAX;
  for (size_t i = 0; i < world->late_count; i++)
    if (world->late[i].at >= 0 && world->late[i].at < next) next = world->late[i].at;
  for (size_t i = 0; i < world->producer_count; i++) {
    const cj_world_producer *producer = world->producers[i];
    if (expiry(producer) < next) next = expiry(producer);
  }
  return next;
}

void cj_txn_free(cj_world *world) {
  for (size_t i = 0; i < world->producer_count; i++) {
    cj_world_free(world->producers[i]->id);
    cj_world_free(world->producers[i]);
  }
  for (size_t i = 0; i < world->txn_count; i++) {
    for (size_t n = 0; n < world->txns[i]->offset_count; n++)
      cj_world_free(world->txns[i]->offsets[n].topic);
    cj_world_free(world->txns[i]->offsets);
    cj_world_free(world->txns[i]->written);
    cj_world_free(world->txns[i]);
  }
  cj_world_free(world->producers);
  cj_world_free(world->txns);
  cj_world_free(world->late);
}
