/* SPDX-License-Identifier: BSD-2-Clause */
#include "testing/io_memory.h"

#include <stdlib.h>
#include <string.h>

#include "testing/io_memory_internal.h"

/* ---- events ---- */

cj_memory_event *cj_memory_event_push(cj_memory_io *io, cj_io_event_kind kind) {
  io->events = cj_world_grow(io->events, &io->event_cap, io->event_count + 1, sizeof *io->events);
  cj_memory_event *event = &io->events[io->event_count++];
  memset(event, 0, sizeof *event);
  event->event.kind = kind;
  event->event.text = "";
  return event;
}

void *cj_memory_event_alloc(cj_memory_event *event, size_t size) {
  event->owned =
      cj_world_grow(event->owned, &event->owned_cap, event->owned_count + 1, sizeof *event->owned);
  void *p = cj_world_alloc(size);
  event->owned[event->owned_count++] = p;
  return p;
}

static void event_free(cj_memory_event *event) {
  for (size_t i = 0; i < event->owned_count; i++)
    cj_world_free(event->owned[i]);
  cj_world_free(event->owned);
  memset(event, 0, sizeof *event);
}

static bool tick(cj_memory_io *io) {
  if (io->crashed || io->stalled) return false;
  bool delivered = cj_memory_deliver(io);
  bool answered = cj_memory_answer(io);
  bool moved = cj_memory_group_tick(io);
  bool any = delivered || answered || moved;
  if (any) io->world->changes++;
  return any;
}

static bool memory_poll(cj_io *base, cj_io_event *event) {
  cj_memory_io *io = (cj_memory_io *)base;
  if (io->has_current) event_free(&io->current);
  io->has_current = false;
  if (io->crashed) return false;
  tick(io);
  if (io->event_count == 0) return false;
  io->current = io->events[0];
  io->has_current = true;
  memmove(io->events, io->events + 1, --io->event_count * sizeof *io->events);
  if (io->current.event.kind == CJ_EV_ASSIGN) io->assign_out = true;
  if (io->current.event.kind == CJ_EV_REVOKE) {
    io->revoke_out = true;
    /* As rd_kafka_assignment_lost: what is so when it is asked, not when the event was made. */
    io->current.event.lost = io->lost;
  }
  *event = io->current.event;
  return true;
}

/* ---- assignment ---- */

static cj_memory_slot *slot_find(cj_memory_io *io, cj_tp tp) {
  for (size_t i = 0; i < io->slot_count; i++)
    if (io->slots[i].tp.topic == tp.topic && io->slots[i].tp.partition == tp.partition)
      return &io->slots[i];
  return NULL;
}

static void slot_must_be_released(const cj_memory_io *io, const cj_memory_slot *slot) {
  if (slot->lent)
    cj_world_misuse("%s [%d] leaves the assignment with %zu entries that were not released",
                    io->topics[slot->tp.topic], (int)slot->tp.partition, slot->lent);
}

static void slot_start(cj_memory_io *io, const cj_io_offset *from) {
  if (from->tp.topic < 0 || (size_t)from->tp.topic >= io->topic_count)
    cj_world_misuse("assign of topic number %d", (int)from->tp.topic);
  if (from->offset < 0)
    cj_world_misuse("%s [%d] assigned without an explicit offset", io->topics[from->tp.topic],
                    (int)from->tp.partition);
  cj_memory_slot *slot = slot_find(io, from->tp);
  if (!slot) {
    io->slots = cj_world_grow(io->slots, &io->slot_cap, io->slot_count + 1, sizeof *io->slots);
    slot = &io->slots[io->slot_count++];
    *slot = (cj_memory_slot){.tp = from->tp};
  }
  slot->position = from->offset;
  slot->eof_at = -1;
  slot->failed = false;
}

/* Which event did this answer? */
static void answered(cj_memory_io *io, bool add, bool empty_or_remove) {
  if (io->revoke_out) {
    if (!empty_or_remove) cj_world_misuse("a revoke is answered by assign({}) or assign_remove");
    cj_memory_group_revoked(io);
  } else if (io->assign_out && add) {
    cj_memory_group_assigned(io);
  }
}

static cj_error *memory_assign(cj_io *base, const cj_io_offset *list, size_t count) {
  cj_memory_io *io = (cj_memory_io *)base;
  if (io->crashed) return NULL;
  size_t kept = 0;
  for (size_t i = 0; i < io->slot_count; i++) {
    bool stays = false;
    for (size_t j = 0; j < count && !stays; j++)
      stays = list[j].tp.topic == io->slots[i].tp.topic &&
              list[j].tp.partition == io->slots[i].tp.partition;
    if (!stays)
      slot_must_be_released(io, &io->slots[i]);
    else
      io->slots[kept++] = io->slots[i];
  }
  io->slot_count = kept;
  for (size_t i = 0; i < count; i++)
    slot_start(io, &list[i]);
  answered(io, true, count == 0);
  return NULL;
}

/* The error cases are librdkafka's: nothing is applied then, and the event stays unanswered. */
static cj_error *memory_assign_add(cj_io *base, const cj_io_offset *list, size_t count) {
  cj_memory_io *io = (cj_memory_io *)base;
  if (io->crashed) return NULL;
  if (!io->incremental)
    return cj_error_new(CJ_ERR_STATE, io->client_id,
                        "_STATE: incremental assign under an eager protocol");
  for (size_t i = 0; i < count; i++)
    if (slot_find(io, list[i].tp))
      return cj_error_new(CJ_ERR_STATE, io->topics[list[i].tp.topic],
                          "_CONFLICT: partition %d is assigned already", list[i].tp.partition);
  for (size_t i = 0; i < count; i++)
    slot_start(io, &list[i]);
  answered(io, true, false);
  return NULL;
}

static cj_error *memory_assign_remove(cj_io *base, const cj_tp *list, size_t count) {
  cj_memory_io *io = (cj_memory_io *)base;
  if (io->crashed) return NULL;
  if (!io->incremental)
    return cj_error_new(CJ_ERR_STATE, io->client_id,
                        "_STATE: incremental unassign under an eager protocol");
  for (size_t i = 0; i < count; i++)
    if (!slot_find(io, list[i]))
      return cj_error_new(CJ_ERR_ARGUMENT, io->topics[list[i].topic],
                          "_INVALID_ARG: partition %d is not assigned", list[i].partition);
  for (size_t i = 0; i < count; i++) {
    cj_memory_slot *slot = slot_find(io, list[i]);
    if (!slot) continue; /* named twice */
    slot_must_be_released(io, slot);
    *slot = io->slots[--io->slot_count];
  }
  answered(io, false, true);
  return NULL;
}

/* ---- the clock, and what waits ---- */

static int64_t memory_now(cj_io *base) {
  return cj_world_monotonic(((cj_memory_io *)base)->world);
}

static int64_t memory_wall(cj_io *base) {
  return cj_world_wall(((cj_memory_io *)base)->world);
}

/* A member is stepped from outside, so that its wait returns at once. An admin io serves loops
 * that block, the checklist's: time has to pass in them, or their deadline never comes. */
static void memory_wait(cj_io *base, int64_t timeout_ms) {
  cj_memory_io *io = (cj_memory_io *)base;
  if (!io->admin || io->event_count || cj_memory_request_ready(io)) return;
  int64_t until = cj_memory_io_deadline(io);
  int64_t ms = until == INT64_MAX ? timeout_ms : until - io->world->clock;
  if (timeout_ms >= 0 && ms > timeout_ms) ms = timeout_ms;
  if (ms < 0) cj_world_misuse("a wait for ever: nothing is under way");
  cj_world_advance(io->world, ms);
}

static void memory_wake(cj_io *base) {
  (void)base; /* nothing sleeps */
}

int64_t cj_memory_io_deadline(const cj_memory_io *io) {
  if (io->crashed || io->stalled) return INT64_MAX;
  int64_t next = cj_memory_request_deadline(io), at = cj_memory_data_deadline(io);
  if (at < next) next = at;
  at = cj_memory_group_deadline(io);
  if (at < next) next = at;
  return next;
}

void cj_memory_io_expire(cj_memory_io *io) {
  if (io->crashed || io->stalled || io->polling_stopped_at < 0 || !io->member_id) return;
  if (io->world->clock < io->polling_stopped_at + io->max_poll_ms) return;
  cj_group_leave(io->group, io->member_id);
  cj_world_free(io->member_id);
  io->member_id = NULL;
  io->generation = -1;
  io->max_poll_exceeded = true;
}

/* ---- faults ---- */

void cj_io_memory_crash(cj_io *base) {
  cj_memory_io *io = (cj_memory_io *)base;
  if (io->crashed) return;
  io->crashed = true;
  if (io->group && io->join != CJ_JOIN_LEFT) cj_group_silence(io->group, io->member_id);
}

void cj_io_memory_stop_polling(cj_io *base, bool stopped) {
  cj_memory_io *io = (cj_memory_io *)base;
  io->polling_stopped_at = stopped ? io->world->clock : -1;
}

void cj_io_memory_stall(cj_io *base, bool stalled) {
  cj_memory_io *io = (cj_memory_io *)base;
  io->stalled = stalled;
  cj_world_member *member = io->group ? cj_group_find(io->group, io->member_id) : NULL;
  if (member) member->silent_since = stalled ? io->world->clock : -1;
  /* It goes on in the belief that nothing has happened. */
  io->next_heartbeat = io->world->clock + io->heartbeat_ms;
}

void cj_io_memory_fail(cj_io *base, cj_io_code code, bool fatal, const char *text) {
  cj_memory_event *event = cj_memory_event_push((cj_memory_io *)base, CJ_EV_ERROR);
  char *copy = cj_memory_event_alloc(event, strlen(text) + 1);
  memcpy(copy, text, strlen(text) + 1);
  event->event.code = code;
  event->event.fatal = fatal;
  event->event.text = copy;
}

bool cj_io_memory_is_member(const cj_io *base) {
  const cj_memory_io *io = (const cj_memory_io *)base;
  return !io->crashed && io->group && cj_group_find(io->group, io->member_id);
}

bool cj_io_memory_background(cj_io *base) {
  return tick((cj_memory_io *)base);
}

/* ---- life ---- */

cj_world_topic *cj_memory_topic(const cj_memory_io *io, int32_t topic) {
  if (topic < 0 || (size_t)topic >= io->topic_count) return NULL;
  return cj_world_topic_find(io->world, io->topics[topic]);
}

cj_world_partition *cj_memory_partition(const cj_memory_io *io, cj_tp tp) {
  return cj_world_partition_of(cj_memory_topic(io, tp.topic), tp.partition);
}

static void memory_destroy(cj_io *base) {
  cj_memory_io *io = (cj_memory_io *)base;
  cj_io_memory_crash(base);
  for (size_t i = 0; i < io->slot_count; i++)
    slot_must_be_released(io, &io->slots[i]);
  for (size_t i = 0; i < io->world->io_count; i++)
    if (io->world->ios[i] == io) {
      io->world->io_count--;
      memmove(io->world->ios + i, io->world->ios + i + 1,
              (io->world->io_count - i) * sizeof(cj_memory_io *));
      break;
    }
  if (io->has_current) event_free(&io->current);
  for (size_t i = 0; i < io->event_count; i++)
    event_free(&io->events[i]);
  cj_memory_data_free(io);
  cj_memory_requests_free(io);
  for (size_t i = 0; i < io->topic_count; i++)
    cj_world_free(io->topics[i]);
  cj_world_free(io->topics);
  cj_world_free(io->subscribed);
  cj_world_free(io->client_id);
  cj_world_free(io->group_id);
  cj_world_free(io->member_id);
  cj_world_free(io->events);
  cj_world_free(io->slots);
  cj_world_free(io->dealt);
  cj_world_free(io);
}

static const cj_io_ops memory_ops = {
    .now = memory_now,
    .wall = memory_wall,
    .subscribe = cj_memory_subscribe,
    .poll = memory_poll,
    .assign = memory_assign,
    .assign_add = memory_assign_add,
    .assign_remove = memory_assign_remove,
    .fetch = cj_memory_fetch,
    .release = cj_memory_release,
    .headers = cj_memory_headers,
    .produce = cj_memory_produce,
    .submit = cj_memory_submit,
    .close = cj_memory_close,
    .wait = memory_wait,
    .wake = memory_wake,
    .destroy = memory_destroy,
};

static int64_t property(const cj_settings *settings, const char *name, int64_t otherwise) {
  for (size_t i = 0; i < settings->rd_count; i++)
    if (strcmp(settings->rd[i].name, name) == 0) return strtoll(settings->rd[i].value, NULL, 10);
  return otherwise;
}

static void limits_set(cj_memory_io *io, const cj_settings *settings) {
  io->session_timeout_ms = property(settings, "session.timeout.ms", 45000);
  io->max_poll_ms = property(settings, "max.poll.interval.ms", 300000);
  io->heartbeat_ms = property(settings, "heartbeat.interval.ms", 0);
  int64_t longest = io->producer ? io->producer->timeout_ms : 300000;
  io->message_timeout_ms = property(settings, "message.timeout.ms", longest);
  io->message_max_bytes = (size_t)property(settings, "message.max.bytes", 1000000);
  io->queue_limit = (size_t)property(settings, "queue.buffering.max.messages", 100000);
}

cj_error *cj_io_memory_new(cj_world *world, const cj_io_setup *setup, cj_io **out) {
  static const char *const protocols[] = {
      [CJ_ASSIGN_RANGE] = "range",
      [CJ_ASSIGN_SPREAD] = "roundrobin",
      [CJ_ASSIGN_STICKY] = "cooperative-sticky",
      [CJ_ASSIGN_BROKER] = "broker",
  };
  cj_memory_io *io = cj_world_alloc(sizeof *io);
  io->io.ops = &memory_ops;
  io->world = world;
  io->log = setup->log;
  io->admin = setup->admin;
  io->read_committed = setup->read_committed;
  io->epoch = -1;
  if (setup->transactional_id && !setup->admin) {
    io->producer = cj_world_producer_of(world, setup->transactional_id);
    io->producer->timeout_ms = property(setup->settings, "transaction.timeout.ms", 10000);
  }
  io->protocol = protocols[setup->settings->assignment];
  io->incremental = setup->settings->assignment == CJ_ASSIGN_STICKY ||
                    setup->settings->assignment == CJ_ASSIGN_BROKER;
  io->client_id = cj_world_strdup(setup->client_id ? setup->client_id : "");
  io->group_id = cj_world_strdup(setup->settings->application_id);
  io->topic_count = setup->topic_count;
  io->topics = cj_world_alloc(setup->topic_count * sizeof(char *));
  io->subscribed = cj_world_alloc(setup->topic_count * sizeof(bool));
  for (size_t i = 0; i < setup->topic_count; i++) {
    io->topics[i] = cj_world_strdup(setup->topics[i].name);
    io->subscribed[i] = setup->topics[i].subscribed;
  }
  limits_set(io, setup->settings);
  io->generation = -1;
  io->polling_stopped_at = -1;
  world->ios =
      cj_world_grow(world->ios, &world->io_cap, world->io_count + 1, sizeof(cj_memory_io *));
  world->ios[world->io_count++] = io;
  *out = &io->io;
  return NULL;
}
