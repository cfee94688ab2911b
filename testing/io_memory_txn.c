/* SPDX-License-Identifier: BSD-2-Clause */
/* The producer's side of transactions, as librdkafka's rdkafka_txnmgr.c plays it. */
#include "testing/io_memory_internal.h"

bool cj_memory_is_txn(cj_io_request_kind kind) {
  return kind == CJ_REQ_TXN_INIT || kind == CJ_REQ_TXN_COMMIT || kind == CJ_REQ_TXN_ABORT;
}

/* A newer producer of the same id is there, or its transaction timed out: this one will not work
 * again. */
static bool fenced(cj_memory_io *io) {
  io->fenced = io->fenced || io->epoch != io->producer->epoch;
  return io->fenced;
}

cj_io_code cj_memory_append(cj_memory_io *io, cj_world_partition *partition,
                            cj_world_record *record) {
  if (!io->producer) {
    cj_world_append(partition, record);
    return CJ_IO_OK;
  }
  if (fenced(io)) return CJ_IO_FENCED;
  cj_txn_append(io->world, io->producer, partition, record);
  return CJ_IO_OK;
}

/* Checked against the generation in which the request was made (KIP-447): in a later one the
 * partitions may be another member's. From then on readers of committed offsets wait. Who is no
 * member would not be checked at all by a broker, and must be refused before. */
static cj_io_code send_offsets(cj_memory_io *io, cj_memory_request *request) {
  if (request->offsets_sent) return CJ_IO_OK;
  cj_world_group *group = cj_world_group_of(io->world, io->group_id);
  cj_io_code code = request->member_id
                        ? cj_group_may_commit(group, request->member_id, request->generation)
                        : CJ_IO_UNKNOWN_MEMBER;
  for (size_t i = 0; i < request->count; i++)
    cj_logf(&io->log, CJ_LOG_DEBUG, "group: in transaction %s[%d] = %lld: code %d",
            io->topics[request->list[i].tp.topic], (int)request->list[i].tp.partition,
            (long long)request->list[i].offset, (int)code);
  for (size_t i = 0; code == CJ_IO_OK && i < request->count; i++)
    cj_txn_add_offset(io->world, io->producer, group, io->topics[request->list[i].tp.topic],
                      request->list[i].tp.partition, request->list[i].offset);
  request->offsets_sent = code == CJ_IO_OK;
  io->txn_failed = code != CJ_IO_OK;
  return code;
}

/* The offsets are sent at once, the end when all outputs are there. False: not yet. */
static bool may_commit(cj_memory_io *io, cj_memory_request *request, cj_io_code *code) {
  *code = fenced(io) ? CJ_IO_FENCED : io->txn_failed ? CJ_IO_ABORTABLE : CJ_IO_OK;
  if (*code == CJ_IO_OK) *code = send_offsets(io, request);
  return *code != CJ_IO_OK || io->output_count == 0;
}

static bool commit(cj_memory_io *io, cj_memory_request *request, cj_io_code *code) {
  if (!may_commit(io, request, code)) return false;
  if (*code == CJ_IO_OK) cj_txn_end(io->producer, true);
  return true;
}

static cj_io_code begin_anew(cj_memory_io *io) {
  cj_memory_drop_outputs(io, CJ_IO_OK); /* they went with the producer before */
  io->epoch = cj_txn_init(io->producer);
  io->txn_failed = io->txn_unclear = io->fenced = false;
  return CJ_IO_OK;
}

static cj_io_code abort_open(cj_memory_io *io) {
  cj_memory_drop_outputs(io, CJ_IO_PURGED);
  if (fenced(io)) return CJ_IO_FENCED;
  cj_txn_end(io->producer, false);
  io->txn_failed = false;
  return CJ_IO_OK;
}

bool cj_memory_txn_do(cj_memory_io *io, cj_memory_request *request, cj_io_code *code) {
  if (!io->producer) cj_world_misuse("a transaction without a transactional id");
  if (request->kind == CJ_REQ_TXN_COMMIT) return commit(io, request, code);
  *code = request->kind == CJ_REQ_TXN_ABORT ? abort_open(io) : begin_anew(io);
  return true;
}

void cj_memory_txn_unclear(cj_memory_io *io) {
  io->txn_unclear = true;
}

bool cj_memory_txn_late(cj_memory_io *io, cj_memory_request *request) {
  bool ends_with_commit = request->kind == CJ_REQ_TXN_COMMIT;
  cj_io_code code = CJ_IO_OK;
  if (ends_with_commit && !may_commit(io, request, &code)) return false;
  if (code != CJ_IO_OK) return true;
  if (ends_with_commit && request->fault.effect == CJ_FAULT_DECIDED) cj_txn_decide(io->producer);
  cj_txn_end_late(io->world, io->producer, io->epoch, ends_with_commit, request->fault.delay_ms);
  return true;
}
