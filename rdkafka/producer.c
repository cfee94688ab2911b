/* SPDX-License-Identifier: BSD-2-Clause */
/* Records that go down, and their deliveries. */
#include "rdkafka/io_internal.h"

_Static_assert(sizeof(void *) >= sizeof(uint64_t), "a token travels as a message's opaque");

/* librdkafka takes 0 for "now". One millisecond after it is the nearest that it can send; a
 * negative one goes through as it is (case 61). */
static int64_t sendable(int64_t timestamp) {
  return timestamp ? timestamp : 1;
}

/* The copy of a fetched record's headers, and the added ones behind them; NULL where there are
 * none. */
static rd_kafka_resp_err_t make_headers(const cj_io_output *output, rd_kafka_headers_t **made) {
  rd_kafka_headers_t *from = NULL, *headers = NULL;
  *made = NULL;
  if (output->headers_from && output->headers_from->handle &&
      rd_kafka_message_headers(output->headers_from->handle, &from) == RD_KAFKA_RESP_ERR_NO_ERROR)
    headers = rd_kafka_headers_copy(from);
  if (!headers && !output->header_count) return RD_KAFKA_RESP_ERR_NO_ERROR;
  if (!headers) headers = rd_kafka_headers_new(output->header_count);
  for (size_t i = 0; i < output->header_count; i++) {
    const cj_header *header = &output->headers[i];
    rd_kafka_resp_err_t err = rd_kafka_header_add(headers, header->name, -1, header->value.data,
                                                  (ssize_t)header->value.len);
    if (!err) continue;
    rd_kafka_headers_destroy(headers);
    return err;
  }
  *made = headers;
  return RD_KAFKA_RESP_ERR_NO_ERROR;
}

/* An array instead of the argument list of producev: as fast, and its macros are not ISO C. */
static rd_kafka_resp_err_t hand_over(rd_kafka_t *producer, rd_kafka_topic_t *topic,
                                     const cj_io_output *output, rd_kafka_headers_t *headers) {
  const rd_kafka_vu_t parts[] = {
      {.vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = topic},
      {.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = output->partition},
      {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
      /* Only read, since it is copied, though the type is of what is not const. */
      {.vtype = RD_KAFKA_VTYPE_VALUE,
       .u.mem = {(void *)(uintptr_t)output->value.data, output->value.len}},
      {.vtype = RD_KAFKA_VTYPE_KEY,
       .u.mem = {(void *)(uintptr_t)output->key.data, output->key.len}},
      {.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = sendable(output->timestamp)},
      {.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = (void *)(uintptr_t)output->token},
      {.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers},
  };
  size_t count = sizeof parts / sizeof *parts;
  rd_kafka_error_t *error = rd_kafka_produceva(producer, parts, headers ? count : count - 1);
  if (!error) return RD_KAFKA_RESP_ERR_NO_ERROR;
  rd_kafka_resp_err_t err = rd_kafka_error_code(error);
  rd_kafka_error_destroy(error);
  return err;
}

/* A transaction that has failed takes nothing any more; nor does a producer that is fenced. */
static cj_io_code output_code(const cj_rd_io *io, rd_kafka_resp_err_t err) {
  if (io->transactional && err == RD_KAFKA_RESP_ERR__STATE) return CJ_IO_ABORTABLE;
  if (io->transactional && err == RD_KAFKA_RESP_ERR__FATAL) return CJ_IO_FENCED;
  return cj_rd_code(err);
}

cj_io_code cj_rd_produce(cj_io *base, const cj_io_output *output) {
  cj_rd_io *io = cj_rd_of(base);
  if (!io->producer || !cj_rd_known(io, (cj_tp){output->topic, output->partition}))
    return CJ_IO_OTHER;
  rd_kafka_topic_t *topic = cj_rd_topic_handle(io, output->topic);
  if (!topic) return CJ_IO_OTHER;
  rd_kafka_headers_t *headers;
  rd_kafka_resp_err_t err = io->transactional ? cj_rd_txn_begin(io) : RD_KAFKA_RESP_ERR_NO_ERROR;
  if (!err) err = make_headers(output, &headers);
  if (err) return output_code(io, err);
  err = hand_over(io->producer, topic, output, headers);
  if (err && headers) rd_kafka_headers_destroy(headers);
  return output_code(io, err);
}

bool cj_rd_on_delivered(cj_rd_io *io, rd_kafka_event_t *event, cj_io_event *out) {
  size_t count = 0, all = rd_kafka_event_message_count(event);
  if (!cj_rd_grow((void **)&io->deliveries, &io->delivery_room, all, sizeof *io->deliveries)) {
    *out = (cj_io_event){.kind = CJ_EV_ERROR,
                         .code = CJ_IO_OTHER,
                         .fatal = true,
                         .text = "no memory for a list of deliveries"};
    return true;
  }
  const rd_kafka_message_t *message;
  while (count < all && (message = rd_kafka_event_message_next(event)))
    io->deliveries[count++] =
        (cj_io_delivery){.token = (uint64_t)(uintptr_t)message->_private,
                         .topic = (int32_t)(intptr_t)rd_kafka_topic_opaque(message->rkt),
                         .code = output_code(io, message->err)};
  *out = (cj_io_event){
      .kind = CJ_EV_DELIVERED, .deliveries = io->deliveries, .delivery_count = count, .text = ""};
  return count > 0;
}
