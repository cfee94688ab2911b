/* SPDX-License-Identifier: BSD-2-Clause */
/* The events that come up: from both clients, from requests, and the end. */
#include "rdkafka/io_internal.h"

/* Polling counts for max.poll.interval.ms, events or not. */
#define POLL_AT_LEAST_MS 100

/* ---- a client's events ---- */

static void forward_log(cj_rd_io *io, rd_kafka_event_t *event) {
  const char *facility, *text;
  int level;
  if (rd_kafka_event_log(event, &facility, &text, &level) || cj_rd_log_line_is_ours(text)) return;
  /* syslog's levels */
  cj_log_level ours = level <= 3   ? CJ_LOG_ERROR
                      : level == 4 ? CJ_LOG_WARN
                      : level <= 6 ? CJ_LOG_INFO
                                   : CJ_LOG_DEBUG;
  cj_logf(&io->log, ours, "librdkafka: %s: %s", facility, text);
}

static void on_error(rd_kafka_t *client, rd_kafka_event_t *event, cj_io_event *out) {
  rd_kafka_resp_err_t err = rd_kafka_event_error(event);
  bool fatal = rd_kafka_event_error_is_fatal(event);
  char why[256];
  if (err == RD_KAFKA_RESP_ERR__FATAL) err = rd_kafka_fatal_error(client, why, sizeof why);
  *out = (cj_io_event){.kind = CJ_EV_ERROR,
                       .code = cj_rd_code(err),
                       .fatal = fatal,
                       .text = rd_kafka_event_error_string(event)};
  if (!out->text) out->text = "";
}

/* A transactional producer is not the end of the client: the answers about its transaction say so,
 * and TXN_INIT makes another one. */
static bool ends_a_transaction(const cj_rd_io *io, const rd_kafka_t *client,
                               const cj_io_event *error) {
  if (!io->transactional || client != io->producer || !error->fatal) return false;
  cj_logf(&io->log, CJ_LOG_WARN, "producer: %s", error->text);
  return true;
}

/* One event of a client: true when it is for the runtime; `event` lives on while it is out. */
static bool take_event(cj_rd_io *io, rd_kafka_t *client, rd_kafka_event_t *event,
                       cj_io_event *out) {
  bool given = false;
  switch (rd_kafka_event_type(event)) {
  case RD_KAFKA_EVENT_REBALANCE:
    given = cj_rd_on_rebalance(io, event, out);
    break;
  case RD_KAFKA_EVENT_DR:
    given = cj_rd_on_delivered(io, event, out);
    break;
  case RD_KAFKA_EVENT_OFFSET_COMMIT:
    cj_rd_on_committed(io, event);
    break;
  case RD_KAFKA_EVENT_ERROR:
    on_error(client, event, out);
    given = !ends_a_transaction(io, client, out);
    break;
  case RD_KAFKA_EVENT_LOG:
    forward_log(io, event);
    break;
  case RD_KAFKA_EVENT_FETCH: /* every partition has its own queue: see slot_open */
    *out = (cj_io_event){.kind = CJ_EV_ERROR,
                         .code = CJ_IO_OTHER,
                         .fatal = true,
                         .text = "a record came outside of its partition's queue"};
    given = true;
    break;
  default:
    break;
  }
  return given;
}

static bool poll_client(cj_rd_io *io, rd_kafka_t *client, cj_rd_watch *watch, bool due,
                        cj_io_event *out) {
  if (!watch->queue) return false;
  while (atomic_load_explicit(&watch->ready, memory_order_relaxed) || due) {
    due = false;
    atomic_store(&watch->ready, false);
    rd_kafka_event_t *event = rd_kafka_queue_poll(watch->queue, 0);
    if (!event) return false;
    atomic_store(&watch->ready, true);
    bool given = take_event(io, client, event, out);
    /* Messages count against the producer's queue until their delivery event is destroyed, so it
     * must not outlive this call: an owner that was refused waits for room, not for the next poll.
     * Only an error's text is the event's. */
    if (given && out->kind == CJ_EV_ERROR)
      io->event = event;
    else
      rd_kafka_event_destroy(event);
    if (given) return true;
  }
  return false;
}

static bool poll_consumer(cj_rd_io *io, cj_io_event *out) {
  int64_t now = cj_rd_now();
  bool due = now - io->consumer_polled_ms >= POLL_AT_LEAST_MS;
  if (due) io->consumer_polled_ms = now;
  return poll_client(io, io->consumer, &io->consumer_events, due, out);
}

/* ---- leaving the group ---- */

/* The last revoke comes through the consumer's queue, as every other; librdkafka then leaves. Where
 * it does not get through to the broker the session's end tells the group. */
static void leave_group(cj_rd_io *io) {
  io->phase = CJ_RD_CLOSING;
  io->close_deadline = cj_rd_now() + io->request_timeout_ms;
  if (io->admin) {
    io->phase = CJ_RD_LEFT;
  } else {
    rd_kafka_error_t *error =
        rd_kafka_consumer_close_queue(io->consumer, io->consumer_events.queue);
    if (error) {
      cj_logf(&io->log, CJ_LOG_WARN, "the group could not be left: %s",
              rd_kafka_error_string(error));
      rd_kafka_error_destroy(error);
      io->phase = CJ_RD_LEFT;
    }
  }
  cj_rd_signal(io);
}

/* What an open transaction holds back from its readers is given up before the group is left. */
void cj_rd_close(cj_io *base) {
  cj_rd_io *io = cj_rd_of(base);
  if (io->phase != CJ_RD_OPEN) return;
  if (io->txn && cj_rd_abort_begin(io)) {
    io->phase = CJ_RD_ABORTING;
    io->close_deadline = cj_rd_now() + io->request_timeout_ms;
    return;
  }
  leave_group(io);
}

static bool left(cj_rd_io *io, cj_io_event *out) {
  if (io->phase == CJ_RD_ABORTING && (cj_rd_abort_ended(io) || cj_rd_now() >= io->close_deadline))
    leave_group(io);
  if (io->phase == CJ_RD_CLOSING) {
    if (rd_kafka_consumer_closed(io->consumer)) {
      io->phase = CJ_RD_LEFT;
    } else if (cj_rd_now() >= io->close_deadline && io->owed == CJ_RD_ANSWER_NONE) {
      cj_logf(&io->log, CJ_LOG_WARN,
              "the group was not left in time; it learns it by the session's end");
      io->phase = CJ_RD_LEFT;
    }
  }
  if (io->phase != CJ_RD_LEFT) return false;
  io->phase = CJ_RD_CLOSED;
  *out = (cj_io_event){.kind = CJ_EV_CLOSED, .text = ""};
  return true;
}

bool cj_rd_poll(cj_io *base, cj_io_event *out) {
  cj_rd_io *io = cj_rd_of(base);
  if (io->event) rd_kafka_event_destroy(io->event);
  io->event = NULL;
  cj_rd_request_free(io->answer);
  io->answer = NULL;
  io->more = poll_consumer(io, out) ||
             poll_client(io, io->producer, &io->producer_events, false, out) ||
             cj_rd_done(io, out) || (io->phase != CJ_RD_OPEN && left(io, out));
  return io->more;
}
