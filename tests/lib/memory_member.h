/* SPDX-License-Identifier: BSD-2-Clause */
/* A world in memory with topics notif, price and out, and members that answer every event at once
 * and remember what they were told. */
#ifndef CJ_TEST_MEMORY_MEMBER_H
#define CJ_TEST_MEMORY_MEMBER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "testing/io_memory.h"

enum { NOTIF, PRICE, OUT, TOPICS };
static const cj_io_setup_topic topics[TOPICS] = {
    [NOTIF] = {"notif", true}, [PRICE] = {"price", true}, [OUT] = {"out", false}};

static inline cj_io *io_new(cj_world *world, const char *client_id, cj_assignment assignment) {
  static const cj_rd_property limits[] = {{"session.timeout.ms", "6000"},
                                          {"max.poll.interval.ms", "20000"},
                                          {"queue.buffering.max.messages", "2"},
                                          {"message.timeout.ms", "3000"},
                                          {"message.max.bytes", "100"}};
  const cj_settings settings = {
      .application_id = "app", .assignment = assignment, .rd = limits, .rd_count = 5};
  const cj_io_setup setup = {
      .settings = &settings, .topics = topics, .topic_count = TOPICS, .client_id = client_id};
  cj_io *io;
  assert_null(cj_io_memory_new(world, &setup, &io));
  return io;
}

static inline cj_io *admin_new(cj_world *world) {
  const cj_settings settings = {.application_id = "app"};
  const cj_io_setup setup = {.settings = &settings,
                             .topics = topics,
                             .topic_count = TOPICS,
                             .client_id = "admin",
                             .admin = true};
  cj_io *io;
  assert_null(cj_io_memory_new(world, &setup, &io));
  return io;
}

static inline cj_world *world_new(int32_t partitions) {
  cj_world *world = cj_world_new();
  for (int i = 0; i < TOPICS; i++)
    cj_world_topic_make(world, topics[i].name, partitions);
  return world;
}

/* ---- a member that answers at once, and remembers what it was told ---- */
typedef struct {
  cj_io *io;
  cj_tp list[64];
  size_t count;
  int assigns, revokes, lost, max_poll, errors;
  cj_io_code last_error;
  cj_io_code done; /* of the last request */
  cj_io_offset offsets[64];
  int dones;
  bool closed;
} member;

static inline void take(member *m, const cj_io_event *event) {
  cj_io_offset starts[64] = {0};
  switch (event->kind) {
  case CJ_EV_ASSIGN:
    m->assigns++;
    m->count = event->count;
    for (size_t i = 0; i < event->count; i++)
      m->list[i] = starts[i].tp = event->list[i];
    assert_null(m->io->ops->assign(m->io, starts, event->count));
    break;
  case CJ_EV_REVOKE:
    m->revokes++;
    m->lost += event->lost;
    m->count = 0;
    assert_null(m->io->ops->assign(m->io, NULL, 0));
    break;
  case CJ_EV_ERROR:
    m->errors++;
    m->max_poll += event->code == CJ_IO_MAX_POLL;
    m->last_error = event->code;
    break;
  case CJ_EV_DONE:
    m->dones++;
    m->done = event->code;
    for (size_t i = 0; i < event->offset_count; i++)
      m->offsets[i] = event->offsets[i];
    break;
  case CJ_EV_CLOSED:
    m->closed = true;
    break;
  default:
    break;
  }
}

static inline bool serve(member *m) {
  cj_io_event event;
  if (!m->io->ops->poll(m->io, &event)) return false;
  take(m, &event);
  return true;
}

/* In turn, until nobody has anything to do for some rounds. */
static inline void settle(member *members, size_t count) {
  for (int quiet = 0; quiet < 4;) {
    quiet++;
    for (size_t i = 0; i < count; i++)
      while (members[i].io && serve(&members[i]))
        quiet = 0;
  }
}

static inline void end(member *members, size_t count, cj_world *world) {
  for (size_t i = 0; i < count; i++)
    if (members[i].io) members[i].io->ops->destroy(members[i].io);
  cj_world_destroy(world);
}

static inline void ask(member *m, cj_io_request_kind kind, const cj_io_offset *list, size_t count) {
  static uint64_t id;
  const cj_io_request request = {
      .id = ++id, .kind = kind, .list = list, .count = count, .timeout_ms = 1000};
  assert_null(m->io->ops->submit(m->io, &request));
}

static const cj_io_offset at_seven = {.tp = {NOTIF, 0}, .offset = 7};

#endif
