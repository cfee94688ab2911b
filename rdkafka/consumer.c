/* SPDX-License-Identifier: BSD-2-Clause */
/* Assignment and the records that come up.
 *
 * Each partition has a queue of its own, which is not forwarded to the consumer's: not draining it
 * is the back-pressure. librdkafka marks what it fetched with the assignment's version and drops
 * what is older inside of rd_kafka_consume_batch_queue, so nothing stale comes up after assign
 * returned; `next` guards that all the same.
 *
 * Below librdkafka 2.2 a broker thread whose partitions all have full queues sleeps for up to a
 * second, however soon they are drained, and now and then it sleeps through an assignment likewise.
 * Any request wakes it: the helper sends one every 20 ms after an assignment and while batches come
 * from queues that were full (kick_*; requests.c). */
#include <string.h>

#include "rdkafka/io_internal.h"

/* ---- slots ---- */

static cj_rd_slot *slot_find(const cj_rd_io *io, cj_tp tp) {
  if (!cj_rd_known(io, tp)) return NULL;
  const cj_rd_topic *topic = &io->topics[tp.topic];
  return (size_t)tp.partition < topic->slot_count ? topic->slots[tp.partition] : NULL;
}

static cj_rd_slot *slot_get(cj_rd_io *io, cj_tp tp) {
  cj_rd_topic *topic = &io->topics[tp.topic];
  size_t need = (size_t)tp.partition + 1;
  if (need > topic->slot_count) {
    size_t room = topic->slot_count, before = topic->slot_count;
    if (!cj_rd_grow((void **)&topic->slots, &room, need, sizeof(cj_rd_slot *))) return NULL;
    memset(topic->slots + before, 0, (room - before) * sizeof(cj_rd_slot *));
    topic->slot_count = room;
  }
  cj_rd_slot **slot = &topic->slots[tp.partition];
  if (!*slot) *slot = cj_alloc(sizeof **slot);
  return *slot;
}

/* The queue is taken before the partition is assigned, or its first records would go to the
 * consumer's queue. */
static cj_error *slot_open(cj_rd_io *io, const cj_io_offset *entry) {
  cj_rd_slot *slot = slot_get(io, entry->tp);
  if (!slot) return cj_error_no_memory();
  if (!slot->listed) {
    if (!cj_rd_grow((void **)&io->assigned, &io->assigned_room, io->assigned_count + 1,
                    sizeof(cj_rd_slot *)))
      return cj_error_no_memory();
    io->assigned[io->assigned_count++] = slot;
    slot->listed = true;
  }
  cj_rd_watch_close(&slot->watch);
  rd_kafka_queue_t *queue = rd_kafka_queue_get_partition(
      io->consumer, io->topics[entry->tp.topic].name, entry->tp.partition);
  if (!queue)
    return cj_rd_error(rd_kafka_last_error(), io->topics[entry->tp.topic].name,
                       "the partition's queue cannot be had");
  rd_kafka_queue_forward(queue, NULL);
  cj_error *error = cj_rd_watch_open(&slot->watch, io, queue);
  if (error) return error;
  slot->next = entry->offset;
  slot->failed = false;
  return NULL;
}

static void slot_close(cj_rd_slot *slot) {
  cj_rd_watch_close(&slot->watch);
  slot->listed = false;
}

void cj_rd_drop_assignment(cj_rd_io *io) {
  for (size_t i = 0; i < io->assigned_count; i++)
    slot_close(io->assigned[i]);
  io->assigned_count = 0;
}

/* ---- the helper's list for waking broker threads ---- */

static void kick_list_set(cj_rd_io *io, const cj_io_offset *list, size_t count) {
  if (!io->needs_kick) return;
  rd_kafka_topic_partition_list_t *kicks =
      count ? cj_rd_list(io, list, count, RD_KAFKA_OFFSET_END) : NULL;
  pthread_mutex_lock(&io->lock);
  rd_kafka_topic_partition_list_t *before = io->kick_list;
  io->kick_list = kicks;
  pthread_mutex_unlock(&io->lock);
  if (before) rd_kafka_topic_partition_list_destroy(before);
}

static void kick(cj_rd_io *io) {
  int64_t now = cj_rd_now();
  /* The helper sleeps without a bound while there is nothing to wake. */
  if (now - atomic_exchange(&io->kick_from_ms, now) < 500) return;
  pthread_mutex_lock(&io->lock);
  pthread_cond_signal(&io->changed);
  pthread_mutex_unlock(&io->lock);
}

static void note_throttled(cj_rd_io *io, const cj_rd_slot *slot, size_t bytes, bool full) {
  if (bytes >= io->kick_bytes ||
      (full && rd_kafka_queue_length(slot->watch.queue) >= io->kick_messages))
    kick(io);
}

/* ---- rebalances ---- */

bool cj_rd_on_rebalance(cj_rd_io *io, rd_kafka_event_t *event, cj_io_event *out) {
  rd_kafka_resp_err_t err = rd_kafka_event_error(event);
  if (err != RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS && err != RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS) {
    /* librdkafka wants to be told that nothing is assigned. */
    cj_rd_drop_assignment(io);
    rd_kafka_assign(io->consumer, NULL);
    *out = (cj_io_event){
        .kind = CJ_EV_ERROR, .code = cj_rd_code(err), .text = rd_kafka_event_error_string(event)};
    return true;
  }
  const rd_kafka_topic_partition_list_t *list = rd_kafka_event_topic_partition_list(event);
  size_t dealt = list && list->cnt > 0 ? (size_t)list->cnt : 0, count = 0;
  bool room = cj_rd_grow((void **)&io->tps, &io->tp_room, dealt, sizeof *io->tps);
  for (size_t i = 0; room && i < dealt; i++) {
    int32_t topic = cj_rd_find_topic(io, list->elems[i].topic);
    if (topic >= 0) io->tps[count++] = (cj_tp){topic, list->elems[i].partition};
  }
  bool assign = err == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
  io->owed = assign ? CJ_RD_ANSWER_ASSIGN : CJ_RD_ANSWER_REVOKE;
  *out = (cj_io_event){.kind = assign ? CJ_EV_ASSIGN : CJ_EV_REVOKE,
                       .list = io->tps,
                       .count = count,
                       .text = "",
                       .lost = !assign && (io->lost || rd_kafka_assignment_lost(io->consumer))};
  io->lost = false;
  if (room) return true;
  *out = (cj_io_event){.kind = CJ_EV_ERROR,
                       .code = CJ_IO_OTHER,
                       .fatal = true,
                       .text = "no memory for the list of a rebalance"};
  return true;
}

/* ---- assign ---- */

static cj_error *check_list(const cj_rd_io *io, const cj_io_offset *list, size_t count) {
  if (io->admin) return cj_error_new(CJ_ERR_STATE, NULL, "an admin io is assigned nothing");
  for (size_t i = 0; i < count; i++) {
    if (!cj_rd_known(io, list[i].tp))
      return cj_error_new(CJ_ERR_ARGUMENT, NULL, "partition %d of topic index %d is not one",
                          (int)list[i].tp.partition, (int)list[i].tp.topic);
    if (list[i].offset < 0)
      return cj_error_new(CJ_ERR_ARGUMENT, io->topics[list[i].tp.topic].name,
                          "partition %d has no offset to start at", (int)list[i].tp.partition);
  }
  return NULL;
}

/* librdkafka waits for the answer that fits: a revoke is over with the assignment of NULL only, an
 * assignment with that of a list only, be it empty (read in rdkafka_cgrp.c of 2.0.2). */
static cj_error *assign_list(cj_rd_io *io, const cj_io_offset *list, size_t count) {
  rd_kafka_topic_partition_list_t *partitions = NULL;
  if (io->owed != CJ_RD_ANSWER_REVOKE) {
    partitions = cj_rd_list(io, list, count, 0);
    if (!partitions) return cj_error_no_memory();
  }
  rd_kafka_resp_err_t err = rd_kafka_assign(io->consumer, partitions);
  if (partitions) rd_kafka_topic_partition_list_destroy(partitions);
  if (err) return cj_rd_error(err, "assign", "the assignment was not taken");
  io->owed = CJ_RD_ANSWER_NONE;
  return NULL;
}

cj_error *cj_rd_assign(cj_io *base, const cj_io_offset *list, size_t count) {
  cj_rd_io *io = cj_rd_of(base);
  cj_error *error = check_list(io, list, count);
  if (error) return error;
  if (io->owed == CJ_RD_ANSWER_REVOKE && count)
    return cj_error_new(CJ_ERR_STATE, "assign", "a revoke is answered by an empty assignment");
  cj_rd_drop_assignment(io);
  kick_list_set(io, list, count);
  /* A loss that was not told yet: to assign now would clear the mark, and the revoke would look
   * like one that still allows a commit. */
  if (io->owed == CJ_RD_ANSWER_NONE && rd_kafka_assignment_lost(io->consumer)) {
    io->lost = true;
    return NULL;
  }
  for (size_t i = 0; i < count && !error; i++)
    error = slot_open(io, &list[i]);
  if (!error) error = assign_list(io, list, count);
  if (error) cj_rd_drop_assignment(io);
  if (!error && count && io->needs_kick) kick(io);
  return error;
}

static cj_error *take_error(rd_kafka_error_t *error, const char *what) {
  if (!error) return NULL;
  cj_error *ours = cj_error_new(CJ_ERR_KAFKA, "assign", "%s: librdkafka says: %s", what,
                                rd_kafka_error_string(error));
  rd_kafka_error_destroy(error);
  return ours;
}

cj_error *cj_rd_assign_add(cj_io *base, const cj_io_offset *list, size_t count) {
  cj_rd_io *io = cj_rd_of(base);
  cj_error *error = check_list(io, list, count);
  for (size_t i = 0; i < count && !error; i++)
    error = slot_open(io, &list[i]);
  if (error) return error;
  rd_kafka_topic_partition_list_t *partitions = cj_rd_list(io, list, count, 0);
  if (!partitions) return cj_error_no_memory();
  error = take_error(rd_kafka_incremental_assign(io->consumer, partitions),
                     "partitions were not added");
  rd_kafka_topic_partition_list_destroy(partitions);
  if (!error) io->owed = CJ_RD_ANSWER_NONE;
  return error;
}

/* One partition that is not assigned would fail the whole list and stall the group, so those are
 * left out. */
cj_error *cj_rd_assign_remove(cj_io *base, const cj_tp *list, size_t count) {
  cj_rd_io *io = cj_rd_of(base);
  rd_kafka_topic_partition_list_t *partitions = rd_kafka_topic_partition_list_new((int)count);
  for (size_t i = 0; i < count; i++) {
    cj_rd_slot *slot = slot_find(io, list[i]);
    if (!slot || !slot->listed) continue;
    rd_kafka_topic_partition_list_add(partitions, io->topics[list[i].topic].name,
                                      list[i].partition);
    slot_close(slot);
  }
  size_t left = 0;
  for (size_t i = 0; i < io->assigned_count; i++)
    if (io->assigned[i]->listed) io->assigned[left++] = io->assigned[i];
  io->assigned_count = left;
  cj_error *error = take_error(rd_kafka_incremental_unassign(io->consumer, partitions),
                               "partitions were not removed");
  rd_kafka_topic_partition_list_destroy(partitions);
  if (!error) io->owed = CJ_RD_ANSWER_NONE;
  return error;
}

/* ---- records ---- */

/* What it returns: whether the entry is handed out. */
static bool take_message(cj_rd_slot *slot, rd_kafka_message_t *message, cj_fetched *out) {
  if (!message->err) {
    if (message->offset < slot->next) return false;
    slot->next = message->offset + 1;
    rd_kafka_timestamp_type_t type;
    *out = (cj_fetched){.key = cj_bytes_of(message->key, message->key_len),
                        .value = cj_bytes_of(message->payload, message->len),
                        .offset = message->offset,
                        .timestamp = rd_kafka_message_timestamp(message, &type),
                        .handle = message,
                        .kind = CJ_FETCHED_RECORD};
    return true;
  }
  *out = (cj_fetched){.offset = message->offset};
  if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
    out->kind = CJ_FETCHED_EOF;
    if (message->offset < slot->next) return false;
    slot->next = message->offset;
    return true;
  }
  out->kind = CJ_FETCHED_ERROR;
  out->code = cj_rd_code(message->err);
  slot->failed = true;
  return true;
}

/* The flag is cleared before the look and set again unless the queue was found empty: librdkafka
 * calls back when a record enters an empty queue, under the queue's lock. */
size_t cj_rd_fetch(cj_io *base, cj_tp tp, cj_fetched *out, size_t max) {
  cj_rd_io *io = cj_rd_of(base);
  cj_rd_slot *slot = slot_find(io, tp);
  if (!slot || !slot->watch.queue || slot->failed || !max) return 0;
  if (!atomic_load_explicit(&slot->watch.ready, memory_order_relaxed)) return 0;
  atomic_store(&slot->watch.ready, false);
  size_t waiting = rd_kafka_queue_length(slot->watch.queue);
  if (!waiting) return 0;
  atomic_store_explicit(&slot->watch.ready, true, memory_order_relaxed);
  /* Asking for more than there is would end in a system call. */
  size_t want = waiting < max ? waiting : max;
  if (want > CJ_RD_BATCH) want = CJ_RD_BATCH;
  ssize_t got = rd_kafka_consume_batch_queue(slot->watch.queue, 0, io->batch, want);
  size_t count = 0, bytes = 0;
  for (ssize_t i = 0; i < got; i++) {
    rd_kafka_message_t *message = io->batch[i];
    bool kept = !slot->failed && take_message(slot, message, &out[count]);
    if (kept) {
      bytes += out[count].key.len + out[count].value.len;
      count++;
    }
    if (!kept || !out[count - 1].handle) rd_kafka_message_destroy(message);
  }
  if (io->needs_kick && count) note_throttled(io, slot, bytes, count == max);
  return count;
}

void cj_rd_release(cj_io *base, cj_fetched *entries, size_t count) {
  (void)base;
  for (size_t i = 0; i < count; i++) {
    if (!entries[i].handle) continue;
    rd_kafka_message_destroy(entries[i].handle);
    entries[i].handle = NULL;
  }
}

size_t cj_rd_headers(cj_io *base, const cj_fetched *record, cj_header *out, size_t max) {
  (void)base;
  rd_kafka_headers_t *headers;
  if (!record->handle || rd_kafka_message_headers(record->handle, &headers)) return 0;
  size_t count = rd_kafka_header_cnt(headers);
  for (size_t i = 0; i < count && i < max; i++) {
    const char *name;
    const void *value;
    size_t len;
    if (rd_kafka_header_get_all(headers, i, &name, &value, &len)) return i;
    out[i] = (cj_header){.name = name, .value = cj_bytes_of(value, len)};
  }
  return count;
}
