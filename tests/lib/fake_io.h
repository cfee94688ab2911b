/* SPDX-License-Identifier: BSD-2-Clause */
/* A cj_io by script, for what only sends requests: answers come from the lists that the test fills
 * in, faults when it says so, and waiting moves the clock. */
#ifndef CJ_TEST_FAKE_IO_H
#define CJ_TEST_FAKE_IO_H

#include "runtime/io.h"

#define FAKE_KINDS (CJ_REQ_GROUP + 1)

typedef struct {
  cj_io_code code; /* of the request as a whole */
  bool silent;     /* no answer before the request's own timeout */
  int64_t until;   /* the fault holds before this time; INT64_MAX: for ever */
} fake_fault;

typedef struct {
  cj_io io;
  int64_t clock, waited; /* milliseconds; waited: in all */
  int submitted[FAKE_KINDS];
  /* The cluster. */
  const char *cluster_id;
  cj_io_topic topics[16];
  size_t topic_count;
  struct {
    int64_t at;
    cj_io_topic topic;
  } appears; /* a topic that exists from then on */
  const cj_io_member *members;
  size_t member_count;
  const char *group_state;
  int64_t ends[8][16]; /* by the io's topic number and partition; negative: code RETRIABLE */
  int64_t committed[8][16];
  /* Faults, by kind of request; and an event of the client, once, from then on. */
  fake_fault faults[FAKE_KINDS];
  cj_io_event event;
  int64_t event_at;
  bool event_told;
  /* Under way. */
  cj_io_request request;
  cj_io_offset list[128];
  int64_t answer_at;
  bool pending;
  cj_io_topic seen[17];
} fake_io;

static inline int64_t fake_now(cj_io *io) {
  return ((fake_io *)io)->clock;
}

static inline cj_error *fake_submit(cj_io *io, const cj_io_request *request) {
  fake_io *f = (fake_io *)io;
  const fake_fault *fault = &f->faults[request->kind];
  f->submitted[request->kind]++;
  f->request = *request;
  for (size_t i = 0; i < request->count; i++)
    f->list[i] = request->list[i];
  f->pending = true;
  f->answer_at = f->clock + (f->clock < fault->until && fault->silent ? request->timeout_ms : 1);
  return NULL;
}

static inline void fake_answer(fake_io *f, cj_io_event *event) {
  const fake_fault *fault = &f->faults[f->request.kind];
  *event = (cj_io_event){
      .kind = CJ_EV_DONE, .id = f->request.id, .request = f->request.kind, .text = ""};
  if (f->clock <= fault->until && fault->until > 0 && (fault->code || fault->silent)) {
    event->code = fault->silent ? CJ_IO_TIMED_OUT : fault->code;
    return;
  }
  for (size_t i = 0; i < f->request.count; i++) {
    cj_io_offset *o = &f->list[i];
    bool ends = f->request.kind == CJ_REQ_ENDS;
    o->offset = (ends ? f->ends : f->committed)[o->tp.topic][o->tp.partition];
    o->code = ends && o->offset < 0 ? CJ_IO_RETRIABLE : CJ_IO_OK;
  }
  event->offsets = f->list;
  event->offset_count = f->request.count;
  event->cluster_id = f->cluster_id;
  event->topic_count = 0;
  for (size_t i = 0; i < f->topic_count; i++)
    f->seen[event->topic_count++] = f->topics[i];
  if (f->appears.topic.name && f->clock >= f->appears.at)
    f->seen[event->topic_count++] = f->appears.topic;
  event->topics = f->seen;
  event->members = f->members;
  event->member_count = f->member_count;
  event->group_state = f->group_state;
  event->group_protocol = "";
}

static inline bool fake_poll(cj_io *io, cj_io_event *event) {
  fake_io *f = (fake_io *)io;
  if (f->event.kind && !f->event_told && f->clock >= f->event_at) {
    f->event_told = true;
    *event = f->event;
    return true;
  }
  if (!f->pending || f->clock < f->answer_at) return false;
  f->pending = false;
  fake_answer(f, event);
  return true;
}

static inline void fake_wait(cj_io *io, int64_t timeout_ms) {
  fake_io *f = (fake_io *)io;
  int64_t until = f->clock + timeout_ms;
  if (f->pending && f->answer_at < until) until = f->answer_at;
  if (until <= f->clock) until = f->clock + 1;
  f->waited += until - f->clock;
  f->clock = until;
}

static inline void fake_io_init(fake_io *f) {
  static const cj_io_ops ops = {
      .now = fake_now, .submit = fake_submit, .poll = fake_poll, .wait = fake_wait};
  *f = (fake_io){
      .io = {.ops = &ops}, .clock = 1000, .cluster_id = "fake-cluster", .group_state = "Dead"};
}

static inline void fake_io_topic(fake_io *f, const char *name, int32_t partitions) {
  f->topics[f->topic_count++] = (cj_io_topic){.name = name, .partitions = partitions};
}

#endif
