/* SPDX-License-Identifier: BSD-2-Clause */
/* A cj_io by script for the worker: events come when the test pushes them, in whatever order it
 * likes, and answers when it lets them. What the worker asked for and was told is looked at here.
 *
 * Topics are numbered as in the plan. Logs hold what the test appended, and end in EOF. */
#ifndef CJ_TEST_SCRIPT_IO_H
#define CJ_TEST_SCRIPT_IO_H

#include "lib/unit.h"

#include "runtime/io.h"

enum {
  SCRIPT_KINDS = CJ_REQ_TXN_ABORT + 1,
  SCRIPT_TOPICS = 4,
  SCRIPT_PARTITIONS = 4,
  SCRIPT_RECORDS = 64,
  SCRIPT_EVENTS = 64,
  SCRIPT_LIST = 32,
  SCRIPT_OUTPUTS = 256,
};

typedef struct {
  const char *key, *value; /* static, or NULL */
  int64_t timestamp;
} script_record;

typedef struct {
  script_record records[SCRIPT_RECORDS];
  int64_t start, end, committed;
  int64_t next; /* to be fetched */
  bool assigned, eof_told;
  cj_io_code error; /* comes instead of the next record, once */
} script_log;

typedef struct {
  cj_io_event event;
  cj_tp list[SCRIPT_LIST];
  cj_io_offset offsets[SCRIPT_LIST];
  cj_io_delivery deliveries[SCRIPT_OUTPUTS];
} script_event;

typedef struct {
  uint64_t id;
  cj_io_request_kind kind;
  cj_io_offset list[SCRIPT_LIST];
  size_t count;
} script_request;

typedef struct {
  cj_io io;
  int64_t clock;
  bool incremental;
  script_log logs[SCRIPT_TOPICS][SCRIPT_PARTITIONS];
  script_event events[SCRIPT_EVENTS];
  size_t event_count;
  script_event current;
  script_request requests[SCRIPT_LIST]; /* under way */
  size_t request_count;
  bool held[SCRIPT_KINDS];              /* not answered until let go */
  cj_io_code code[SCRIPT_KINDS];        /* of the answers */
  int submitted[SCRIPT_KINDS];          /* how many */
  script_request last[SCRIPT_KINDS];    /* the last one of the kind */
  cj_io_output outputs[SCRIPT_OUTPUTS]; /* not acknowledged: only topic and token are kept */
  size_t output_count, produced;
  char values[SCRIPT_OUTPUTS][16]; /* of all that were produced */
  bool outputs_held;
  int assigns, adds, removes; /* calls */
  bool closed, close_held;
} script_io;

static inline script_io *script_of(cj_io *io) {
  return (script_io *)io;
}

static inline script_event *script_push(script_io *s, cj_io_event_kind kind) {
  if (s->event_count == SCRIPT_EVENTS) fail_msg("too many events for the script");
  script_event *event = &s->events[s->event_count++];
  memset(event, 0, sizeof *event);
  event->event.kind = kind;
  event->event.text = "";
  event->event.incremental = s->incremental;
  return event;
}

/* ---- what the test does ---- */

/* ASSIGN or REVOKE of one topic's partitions 0 … count - 1. */
static inline void script_rebalance(script_io *s, cj_io_event_kind kind, int32_t topic,
                                    int32_t first, int32_t count, bool lost) {
  script_event *event = script_push(s, kind);
  for (int32_t p = 0; p < count; p++)
    event->list[p] = (cj_tp){topic, first + p};
  event->event.count = (size_t)count;
  event->event.lost = lost;
}

static inline int64_t script_append(script_io *s, int32_t topic, int32_t partition, const char *key,
                                    const char *value, int64_t timestamp) {
  script_log *log = &s->logs[topic][partition];
  if (log->end == SCRIPT_RECORDS) fail_msg("too many records for the script");
  log->records[log->end] = (script_record){key, value, timestamp};
  return log->end++;
}

static inline void script_answer(script_io *s, const script_request *request, cj_io_code code) {
  script_event *event = script_push(s, CJ_EV_DONE);
  event->event.id = request->id;
  event->event.request = request->kind;
  event->event.code = code;
  event->event.offset_count = request->count;
  for (size_t i = 0; i < request->count; i++) {
    cj_io_offset *entry = &event->offsets[i];
    *entry = request->list[i];
    script_log *log = &s->logs[entry->tp.topic][entry->tp.partition];
    entry->code = code;
    if (request->kind == CJ_REQ_COMMIT || request->kind == CJ_REQ_TXN_COMMIT) {
      if (code == CJ_IO_OK) log->committed = entry->offset;
      continue;
    }
    entry->offset = code != CJ_IO_OK                    ? CJ_OFFSET_NONE
                    : request->kind == CJ_REQ_COMMITTED ? log->committed
                                                        : log->end;
    entry->start = code == CJ_IO_OK ? log->start : CJ_OFFSET_NONE;
  }
}

/* Answers those that are not held. */
static inline bool script_answer_all(script_io *s) {
  size_t kept = 0, count = s->request_count;
  for (size_t i = 0; i < count; i++) {
    cj_io_request_kind kind = s->requests[i].kind;
    if (s->held[kind])
      s->requests[kept++] = s->requests[i];
    else
      script_answer(s, &s->requests[i], s->code[kind]);
  }
  s->request_count = kept;
  return kept < count;
}

/* The first `count` outputs that are under way. */
static inline void script_deliver(script_io *s, size_t count, cj_io_code code) {
  if (count > s->output_count) count = s->output_count;
  if (!count) return;
  script_event *event = script_push(s, CJ_EV_DELIVERED);
  for (size_t i = 0; i < count; i++)
    event->deliveries[i] =
        (cj_io_delivery){.token = s->outputs[i].token, .topic = s->outputs[i].topic, .code = code};
  event->event.delivery_count = count;
  s->output_count -= count;
  memmove(s->outputs, s->outputs + count, s->output_count * sizeof s->outputs[0]);
}

/* ---- what the worker calls ---- */

static inline int64_t script_now(cj_io *io) {
  return script_of(io)->clock;
}

static inline int64_t script_wall(cj_io *io) {
  return script_of(io)->clock + 1700000000000;
}

static inline cj_error *script_subscribe(cj_io *io) {
  (void)io;
  return NULL;
}

static inline bool script_poll(cj_io *io, cj_io_event *out) {
  script_io *s = script_of(io);
  script_answer_all(s);
  if (!s->outputs_held) script_deliver(s, s->output_count, CJ_IO_OK);
  if (!s->event_count) return false;
  s->current = s->events[0];
  memmove(s->events, s->events + 1, --s->event_count * sizeof s->events[0]);
  *out = s->current.event;
  out->list = s->current.list;
  out->offsets = s->current.offsets;
  out->deliveries = s->current.deliveries;
  return true;
}

static inline void script_start(script_io *s, const cj_io_offset *list, size_t count) {
  for (size_t i = 0; i < count; i++) {
    script_log *log = &s->logs[list[i].tp.topic][list[i].tp.partition];
    if (list[i].offset < 0) fail_msg("assigned without an offset");
    log->assigned = true;
    log->eof_told = false;
    log->next = list[i].offset;
  }
}

static inline cj_error *script_assign(cj_io *io, const cj_io_offset *list, size_t count) {
  script_io *s = script_of(io);
  s->assigns++;
  for (int t = 0; t < SCRIPT_TOPICS; t++)
    for (int p = 0; p < SCRIPT_PARTITIONS; p++)
      s->logs[t][p].assigned = false;
  script_start(s, list, count);
  return NULL;
}

static inline cj_error *script_assign_add(cj_io *io, const cj_io_offset *list, size_t count) {
  script_of(io)->adds++;
  for (size_t i = 0; i < count; i++)
    if (script_of(io)->logs[list[i].tp.topic][list[i].tp.partition].assigned)
      return cj_error_new(CJ_ERR_STATE, NULL, "added twice");
  script_start(script_of(io), list, count);
  return NULL;
}

static inline cj_error *script_assign_remove(cj_io *io, const cj_tp *list, size_t count) {
  script_io *s = script_of(io);
  s->removes++;
  for (size_t i = 0; i < count; i++) {
    if (!s->logs[list[i].topic][list[i].partition].assigned)
      return cj_error_new(CJ_ERR_STATE, NULL, "removed, and was not there");
    s->logs[list[i].topic][list[i].partition].assigned = false;
  }
  return NULL;
}

static inline size_t script_fetch(cj_io *io, cj_tp tp, cj_fetched *out, size_t max) {
  script_log *log = &script_of(io)->logs[tp.topic][tp.partition];
  size_t n = 0;
  if (!log->assigned) return 0;
  if (log->error) {
    out[0] = (cj_fetched){.kind = CJ_FETCHED_ERROR, .code = log->error, .offset = log->next};
    log->error = CJ_IO_OK;
    return 1;
  }
  for (; n < max && log->next < log->end; n++, log->next++) {
    const script_record *record = &log->records[log->next];
    out[n] = (cj_fetched){.kind = CJ_FETCHED_RECORD,
                          .key = record->key ? cj_bytes_str(record->key) : cj_bytes_null(),
                          .value = record->value ? cj_bytes_str(record->value) : cj_bytes_null(),
                          .offset = log->next,
                          .timestamp = record->timestamp};
    log->eof_told = false;
  }
  if (n < max && !log->eof_told) {
    log->eof_told = true;
    out[n++] = (cj_fetched){.kind = CJ_FETCHED_EOF, .offset = log->end};
  }
  return n;
}

static inline void script_release(cj_io *io, cj_fetched *entries, size_t count) {
  (void)io;
  (void)entries;
  (void)count;
}

static inline size_t script_headers(cj_io *io, const cj_fetched *record, cj_header *out,
                                    size_t max) {
  (void)io;
  (void)record;
  (void)out;
  (void)max;
  return 0;
}

static inline cj_io_code script_produce(cj_io *io, const cj_io_output *output) {
  script_io *s = script_of(io);
  if (s->output_count == SCRIPT_OUTPUTS) return CJ_IO_QUEUE_FULL;
  for (size_t i = 0; i < s->request_count; i++)
    if (s->requests[i].kind >= CJ_REQ_TXN_INIT)
      fail_msg("an output while a transaction is begun or ended");
  s->outputs[s->output_count++] = *output;
  snprintf(s->values[s->produced++ % SCRIPT_OUTPUTS], sizeof s->values[0], "%.*s",
           (int)output->value.len, output->value.data ? (const char *)output->value.data : "");
  return CJ_IO_OK;
}

static inline cj_error *script_submit(cj_io *io, const cj_io_request *request) {
  script_io *s = script_of(io);
  if (s->request_count == SCRIPT_LIST || request->count > SCRIPT_LIST)
    fail_msg("too many requests for the script");
  script_request *queued = &s->requests[s->request_count++];
  *queued = (script_request){.id = request->id, .kind = request->kind, .count = request->count};
  for (size_t i = 0; i < request->count; i++)
    queued->list[i] = request->list[i];
  s->submitted[request->kind]++;
  s->last[request->kind] = *queued;
  return NULL;
}

static inline void script_close(cj_io *io) {
  script_io *s = script_of(io);
  s->closed = true;
  if (!s->close_held) script_push(s, CJ_EV_CLOSED);
}

static inline void script_wake(cj_io *io) {
  (void)io;
}

static inline void script_io_init(script_io *s) {
  static const cj_io_ops ops = {
      .now = script_now,
      .wall = script_wall,
      .subscribe = script_subscribe,
      .poll = script_poll,
      .assign = script_assign,
      .assign_add = script_assign_add,
      .assign_remove = script_assign_remove,
      .fetch = script_fetch,
      .release = script_release,
      .headers = script_headers,
      .produce = script_produce,
      .submit = script_submit,
      .close = script_close,
      .wake = script_wake,
  };
  memset(s, 0, sizeof *s);
  s->io.ops = &ops;
  s->clock = 5000;
  for (int t = 0; t < SCRIPT_TOPICS; t++)
    for (int p = 0; p < SCRIPT_PARTITIONS; p++)
      s->logs[t][p].committed = CJ_OFFSET_NONE;
}

#endif
