/* SPDX-License-Identifier: BSD-2-Clause */
/* Records: fetched from the world's logs, produced into them. */
#include <string.h>

#include "testing/io_memory_internal.h"

/* ---- up ---- */

/* What an entry's handle points at. The bytes are a copy, so that a use after the release is one
 * that the address sanitizer sees. */
typedef struct {
  cj_tp tp;
  const cj_world_record *record;
  unsigned char bytes[];
} lent_entry;

static cj_memory_slot *slot_find(cj_memory_io *io, cj_tp tp) {
  for (size_t i = 0; i < io->slot_count; i++)
    if (io->slots[i].tp.topic == tp.topic && io->slots[i].tp.partition == tp.partition)
      return &io->slots[i];
  return NULL;
}

static void fetched_error(cj_memory_slot *slot, cj_fetched *out, cj_io_code code) {
  slot->failed = true;
  *out = (cj_fetched){.kind = CJ_FETCHED_ERROR, .code = code, .offset = slot->position};
}

static void fetched_record(cj_memory_slot *slot, cj_fetched *out, const cj_world_record *record) {
  lent_entry *entry = cj_world_alloc(sizeof *entry + record->key.len + record->value.len);
  entry->tp = slot->tp;
  entry->record = record;
  unsigned char *at = entry->bytes;
  *out = (cj_fetched){
      .kind = CJ_FETCHED_RECORD,
      .offset = record->offset,
      .timestamp = record->timestamp,
      .handle = entry,
  };
  if (record->key.data) {
    memcpy(at, record->key.data, record->key.len);
    out->key = cj_bytes_of(at, record->key.len);
  }
  if (record->value.data) {
    memcpy(at + record->key.len, record->value.data, record->value.len);
    out->value = cj_bytes_of(at + record->key.len, record->value.len);
  }
  slot->lent++;
  slot->position = record->offset + 1;
}

/* Writes the next entry of the partition; false: there is none now. */
static bool fetch_next(cj_memory_io *io, cj_memory_slot *slot, cj_fetched *out) {
  cj_world_partition *partition = cj_memory_partition(io, slot->tp);
  if (!partition) {
    fetched_error(slot, out, CJ_IO_UNKNOWN_TOPIC);
    return true;
  }
  if (partition->held) return false;
  if (partition->fail_fetch) {
    partition->fail_fetch = false;
    fetched_error(slot, out, CJ_IO_RETRIABLE);
    return true;
  }
  if (slot->position < partition->start || slot->position > partition->end) {
    fetched_error(slot, out, CJ_IO_OUT_OF_RANGE);
    return true;
  }
  int64_t end = cj_world_readable_end(partition, io->read_committed);
  const cj_world_record *record = cj_world_record_at(partition, slot->position);
  while (record && record->offset < end && !cj_world_visible(record, io->read_committed))
    record = cj_world_record_at(partition, record->offset + 1);
  if (record && record->offset < end) {
    fetched_record(slot, out, record);
    return true;
  }
  /* Nothing but holes up to the end: the fetcher's position goes past them, as it does past control
   * records and what compaction took from the end of a batch. */
  if (slot->position < end) slot->position = end;
  if (slot->position > end || slot->eof_at == end) return false;
  slot->eof_at = end;
  *out = (cj_fetched){.kind = CJ_FETCHED_EOF, .offset = end};
  return true;
}

size_t cj_memory_fetch(cj_io *base, cj_tp tp, cj_fetched *out, size_t max) {
  cj_memory_io *io = (cj_memory_io *)base;
  cj_memory_slot *slot = slot_find(io, tp);
  /* From a rebalance event to its answer all partitions are paused (librdkafka). */
  if (!slot || io->crashed || io->stalled || io->world->down || io->assign_due || io->revoke_due)
    return 0;
  size_t n = 0;
  while (n < max && !slot->failed && fetch_next(io, slot, &out[n]))
    n++;
  return n;
}

void cj_memory_release(cj_io *base, cj_fetched *entries, size_t count) {
  cj_memory_io *io = (cj_memory_io *)base;
  for (size_t i = 0; i < count; i++) {
    lent_entry *entry = entries[i].handle;
    if (!entry) continue;
    cj_memory_slot *slot = slot_find(io, entry->tp);
    if (slot) slot->lent--;
    cj_world_free(entry);
    entries[i].handle = NULL;
  }
}

size_t cj_memory_headers(cj_io *base, const cj_fetched *fetched, cj_header *out, size_t max) {
  (void)base;
  const lent_entry *entry = fetched->handle;
  if (!entry) return 0;
  size_t count = entry->record->header_count;
  for (size_t i = 0; i < count && i < max; i++)
    out[i] = entry->record->headers[i];
  return count;
}

/* ---- down ---- */

static void output_copy(cj_memory_output *to, const cj_io_output *from) {
  const lent_entry *source = from->headers_from ? from->headers_from->handle : NULL;
  size_t passed_on = source ? source->record->header_count : 0;
  cj_world_record *record = &to->record;
  record->timestamp = from->timestamp;
  record->key = cj_world_bytes_copy(from->key);
  record->value = cj_world_bytes_copy(from->value);
  record->header_count = passed_on + from->header_count;
  if (!record->header_count) return;
  record->headers = cj_world_alloc(record->header_count * sizeof *record->headers);
  for (size_t i = 0; i < record->header_count; i++) {
    const cj_header *header =
        i < passed_on ? &source->record->headers[i] : &from->headers[i - passed_on];
    record->headers[i].name = cj_world_strdup(header->name);
    record->headers[i].value = cj_world_bytes_copy(header->value);
  }
}

void cj_memory_output_free(cj_memory_output *output) {
  cj_world_record *record = &output->record;
  for (size_t i = 0; i < record->header_count; i++) {
    cj_world_free(record->headers[i].name);
    cj_world_free(record->headers[i].value.data);
  }
  cj_world_free(record->headers);
  cj_world_free(record->key.data);
  cj_world_free(record->value.data);
}

cj_io_code cj_memory_produce(cj_io *base, const cj_io_output *output) {
  cj_memory_io *io = (cj_memory_io *)base;
  if (io->admin) cj_world_misuse("an admin io does not produce");
  if (io->crashed) return CJ_IO_OK; /* nobody will know */
  if (io->producer && (io->epoch < 0 || io->txn_unclear))
    cj_world_misuse("an output before the producer was begun (anew) with TXN_INIT");
  for (size_t i = 0; i < io->request_count; i++)
    if (cj_memory_is_txn(io->requests[i].kind))
      cj_world_misuse("an output while a transaction is being ended");
  if (output->topic < 0 || (size_t)output->topic >= io->topic_count)
    cj_world_misuse("produce to topic number %d", (int)output->topic);
  if (io->producer && io->fenced) return CJ_IO_FENCED;
  if (io->producer && io->txn_failed) return CJ_IO_ABORTABLE;
  const cj_world_topic *topic = cj_memory_topic(io, output->topic);
  if (!topic || output->partition < 0 || output->partition >= topic->partition_count)
    return CJ_IO_UNKNOWN_TOPIC;
  if (output->key.len + output->value.len > io->message_max_bytes) return CJ_IO_TOO_LARGE;
  if (io->output_count >= io->queue_limit) return CJ_IO_QUEUE_FULL;
  io->outputs =
      cj_world_grow(io->outputs, &io->output_cap, io->output_count + 1, sizeof *io->outputs);
  cj_memory_output *queued = &io->outputs[io->output_count++];
  *queued = (cj_memory_output){
      .topic = output->topic,
      .partition = output->partition,
      .token = output->token,
      .expires = io->world->clock + io->message_timeout_ms,
  };
  output_copy(queued, output);
  return CJ_IO_OK;
}

/* The broker's word on one output; false: it has none yet. */
static bool output_settle(cj_memory_io *io, cj_memory_output *output, cj_io_code *code) {
  cj_world_topic *topic = cj_memory_topic(io, output->topic);
  cj_world_partition *partition = cj_world_partition_of(topic, output->partition);
  bool reachable = !io->world->down && !(partition && partition->held);
  size_t size = output->record.key.len + output->record.value.len;
  if (!reachable && io->world->clock < output->expires) return false;
  if (!reachable) {
    *code = CJ_IO_TIMED_OUT;
    io->txn_failed = true;
  } else if (!partition) {
    *code = CJ_IO_UNKNOWN_TOPIC;
    io->txn_failed = true;
  } else if (topic->refuse_next) {
    topic->refuse_next--;
    *code = topic->refuse_code;
    io->txn_failed = true;
  } else if (topic->max_message_bytes && size > topic->max_message_bytes) {
    *code = CJ_IO_TOO_LARGE;
    io->txn_failed = true;
  } else {
    *code = cj_memory_append(io, partition, &output->record);
  }
  return true;
}

/* The list is taken. */
static void tell_delivered(cj_memory_io *io, cj_io_delivery *done, size_t count) {
  if (count) {
    cj_memory_event *event = cj_memory_event_push(io, CJ_EV_DELIVERED);
    cj_io_delivery *list = cj_memory_event_alloc(event, count * sizeof *list);
    memcpy(list, done, count * sizeof *list);
    event->event.deliveries = list;
    event->event.delivery_count = count;
  }
  cj_world_free(done);
}

static cj_io_delivery delivery_of(const cj_memory_output *output, cj_io_code code) {
  return (cj_io_delivery){.token = output->token, .topic = output->topic, .code = code};
}

bool cj_memory_deliver(cj_memory_io *io) {
  cj_io_delivery *done = NULL;
  size_t count = 0, cap = 0, kept = 0;
  for (size_t i = 0; i < io->output_count; i++) {
    cj_io_code code;
    if (!output_settle(io, &io->outputs[i], &code)) {
      io->outputs[kept++] = io->outputs[i];
      continue;
    }
    done = cj_world_grow(done, &cap, count + 1, sizeof *done);
    done[count++] = delivery_of(&io->outputs[i], code);
    cj_memory_output_free(&io->outputs[i]);
  }
  io->output_count = kept;
  tell_delivered(io, done, count);
  return count > 0;
}

void cj_memory_drop_outputs(cj_memory_io *io, cj_io_code code) {
  cj_io_delivery *done = cj_world_alloc(io->output_count * sizeof *done);
  size_t count = 0;
  for (size_t i = 0; i < io->output_count; i++) {
    if (code != CJ_IO_OK) done[count++] = delivery_of(&io->outputs[i], code);
    cj_memory_output_free(&io->outputs[i]);
  }
  io->output_count = 0;
  tell_delivered(io, done, count);
}

int64_t cj_memory_data_deadline(const cj_memory_io *io) {
  int64_t next = INT64_MAX;
  for (size_t i = 0; i < io->output_count; i++)
    if (io->outputs[i].expires < next) next = io->outputs[i].expires;
  return next;
}

void cj_memory_data_free(cj_memory_io *io) {
  for (size_t i = 0; i < io->output_count; i++)
    cj_memory_output_free(&io->outputs[i]);
  cj_world_free(io->outputs);
}
