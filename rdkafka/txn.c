/* SPDX-License-Identifier: BSD-2-Clause */
/* Transactions. librdkafka's calls block, so they run on the helper; the owner goes on polling, or
 * the deliveries that a commit flushes for would never be served.
 *
 * A producer is in a transaction from its first output on. TXN_INIT makes a new one: the owner puts
 * it in place, the helper ends the one before it (which may be inside a call that never comes back)
 * and raises the epoch. librdkafka does not speak KIP-890, so this is the only way out of a commit
 * or abort whose answer is not known. */
#include <stdio.h>

#include "rdkafka/io_internal.h"

static int remaining(const cj_rd_request *request) {
  /* Ends before the request's own deadline does, so that its answer is still wanted. */
  int64_t left = request->deadline - cj_rd_now();
  left -= left / 10;
  return left < 1 ? 1 : left > 1000000 ? 1000000 : (int)left;
}

/* ---- the owner's side ---- */

static cj_error *producer_new(cj_rd_io *io, rd_kafka_t **made) {
  char why[512];
  rd_kafka_conf_t *conf = rd_kafka_conf_dup(rd_kafka_conf(io->producer));
  *made = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
  if (*made) return NULL;
  rd_kafka_conf_destroy(conf);
  return cj_error_new(CJ_ERR_KAFKA, "producer", "%s", why);
}

/* The first TXN_INIT starts the producer that the io was made with. */
cj_error *cj_rd_txn_prepare(cj_rd_io *io, cj_rd_request *request) {
  if (io->txn) {
    rd_kafka_t *producer;
    cj_error *error = producer_new(io, &producer);
    if (error) return error;
    for (size_t i = 0; i < io->topic_count; i++) {
      if (io->topics[i].handle) rd_kafka_topic_destroy(io->topics[i].handle);
      io->topics[i].handle = NULL;
    }
    cj_rd_watch_close(&io->producer_events);
    request->old_txn = io->txn;
    request->old_producer = io->producer;
    io->producer = producer;
    rd_kafka_set_log_queue(producer, NULL);
    error = cj_rd_watch_open(&io->producer_events, io, rd_kafka_queue_get_main(producer));
    if (error) return error;
  }
  io->txn = cj_alloc(sizeof *io->txn);
  if (!io->txn) return cj_error_no_memory();
  io->txn->producer = io->producer;
  return NULL;
}

/* The metadata is taken anew for each commit: it carries the generation that fences a zombie
 * (KIP-447). It is taken when the commit is asked for, by the owner's thread: when the helper comes
 * to it, the member may be in the next generation, and its partitions another's. Who is no member
 * has generation -1, which a broker does not check; as only the owner's answer to the revoke lets
 * the member join again, it is seen to be none after the metadata was taken too. */
bool cj_rd_txn_join_group(cj_rd_io *io, cj_rd_request *request) {
  request->group = rd_kafka_consumer_group_metadata(io->consumer);
  char *member = rd_kafka_memberid(io->consumer);
  bool is_member = member && *member;
  if (member) rd_kafka_mem_free(io->consumer, member);
  if (request->group && is_member) return true;
  request->code = CJ_IO_UNKNOWN_MEMBER;
  snprintf(request->text, sizeof request->text, "not a member of the group any more");
  return false;
}

rd_kafka_resp_err_t cj_rd_txn_begin(cj_rd_io *io) {
  if (!io->txn) return RD_KAFKA_RESP_ERR__STATE;
  if (io->txn->open) return RD_KAFKA_RESP_ERR_NO_ERROR;
  rd_kafka_error_t *error = rd_kafka_begin_transaction(io->producer);
  rd_kafka_resp_err_t err = error ? rd_kafka_error_code(error) : RD_KAFKA_RESP_ERR_NO_ERROR;
  if (error) rd_kafka_error_destroy(error);
  io->txn->open = !err;
  return err;
}

/* ---- the helper's side ---- */

static cj_io_code code_of(const rd_kafka_error_t *error) {
  cj_io_code code = cj_rd_code(rd_kafka_error_code(error));
  if (rd_kafka_error_is_fatal(error))
    return code == CJ_IO_AUTH || code == CJ_IO_UNSUPPORTED ? code : CJ_IO_FENCED;
  if (code == CJ_IO_ILLEGAL_GENERATION || code == CJ_IO_UNKNOWN_MEMBER || code == CJ_IO_REBALANCE)
    return code;
  if (rd_kafka_error_txn_requires_abort(error)) return CJ_IO_ABORTABLE;
  if (rd_kafka_error_is_retriable(error)) return CJ_IO_TIMED_OUT;
  return code;
}

/* Takes the error. True: the call went through. */
static bool went_through(cj_rd_request *request, rd_kafka_error_t *error, const char *what) {
  if (!error) return true;
  request->code = code_of(error);
  snprintf(request->text, sizeof request->text, "%s: %s", what, rd_kafka_error_string(error));
  rd_kafka_error_destroy(error);
  return false;
}

void cj_rd_run_txn_init(cj_rd_io *io, cj_rd_request *request) {
  if (request->old_producer) {
    rd_kafka_purge(request->old_producer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    rd_kafka_destroy(request->old_producer);
    cj_free(request->old_txn);
    request->old_producer = NULL;
    request->old_txn = NULL;
  }
  atomic_store(&io->asker, request->txn->producer);
  went_through(request, rd_kafka_init_transactions(request->txn->producer, remaining(request)),
               "starting transactions");
}

static bool send_offsets(cj_rd_io *io, cj_rd_request *request) {
  rd_kafka_topic_partition_list_t *list = cj_rd_list(io, request->offsets, request->count, 0);
  bool sent = false;
  if (list) {
    sent = went_through(request,
                        rd_kafka_send_offsets_to_transaction(request->txn->producer, list,
                                                             request->group, remaining(request)),
                        "sending offsets to the transaction");
    /* Nothing is committed before the commit: out of time is no doubt here. */
    if (!sent && request->code == CJ_IO_TIMED_OUT) request->code = CJ_IO_ABORTABLE;
    rd_kafka_topic_partition_list_destroy(list);
  } else {
    request->code = CJ_IO_ABORTABLE;
    snprintf(request->text, sizeof request->text, "no memory");
  }
  return sent;
}

void cj_rd_run_txn_commit(cj_rd_io *io, cj_rd_request *request) {
  cj_rd_txn *txn = request->txn;
  if (!txn->open &&
      !went_through(request, rd_kafka_begin_transaction(txn->producer), "beginning a transaction"))
    return;
  txn->open = true;
  if (!send_offsets(io, request)) return;
  if (went_through(request, rd_kafka_commit_transaction(txn->producer, remaining(request)),
                   "committing the transaction"))
    txn->open = false;
}

void cj_rd_run_txn_abort(cj_rd_io *io, cj_rd_request *request) {
  (void)io;
  cj_rd_txn *txn = request->txn;
  if (!txn) return;
  /* Fenced before anything was open, there is nothing to abort, and nothing to go on with. */
  if (rd_kafka_fatal_error(txn->producer, request->text, sizeof request->text)) {
    request->code = CJ_IO_FENCED;
    return;
  }
  if (!txn->open) return;
  if (went_through(request, rd_kafka_abort_transaction(txn->producer, remaining(request)),
                   "aborting the transaction"))
    txn->open = false;
}
