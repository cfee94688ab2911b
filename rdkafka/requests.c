/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests: each ends in exactly one DONE, by its answer or by its deadline. A commit is
 * asynchronous in librdkafka; for the rest there are only blocking calls, which run one after the
 * other on a helper thread and may overrun their own timeout (case 56), so the deadline is kept
 * here and an answer that comes after it is dropped.
 *
 * Requests for ends come by the thousand: those that wait are merged into one call. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "rdkafka/io_internal.h"

#define KICK_MS 20 /* 5 to 50 measured alike */
/* How long after a full queue was seen its broker thread may be asleep. */
#define KICK_FOR_MS 1200

void cj_rd_request_free(cj_rd_request *request) {
  if (!request) return;
  if (request->old_producer) rd_kafka_destroy(request->old_producer);
  cj_free(request->old_txn);
  if (request->group) rd_kafka_consumer_group_metadata_destroy(request->group);
  cj_arena_free(&request->arena);
  cj_free(request->offsets);
  cj_free(request);
}

/* ---- the owner's list ---- */

static void pending_add(cj_rd_io *io, cj_rd_request *request) {
  if (io->pending_last)
    io->pending_last->next = request;
  else
    io->pending = request;
  io->pending_last = request;
  if (request->deadline < io->next_deadline) io->next_deadline = request->deadline;
}

static void pending_remove(cj_rd_io *io, cj_rd_request *before, cj_rd_request *request) {
  if (before)
    before->next = request->next;
  else
    io->pending = request->next;
  if (io->pending_last == request) io->pending_last = before;
  request->next = NULL;
}

static void queued_remove(cj_rd_io *io, cj_rd_request *request) {
  cj_rd_request *before = NULL;
  for (cj_rd_request *r = io->queued; r; before = r, r = r->queued_next) {
    if (r != request) continue;
    if (before)
      before->queued_next = r->queued_next;
    else
      io->queued = r->queued_next;
    if (io->queued_last == r) io->queued_last = before;
    return;
  }
}

static bool tell(cj_rd_io *io, cj_rd_request *request, cj_io_event *out) {
  *out = (cj_io_event){.kind = CJ_EV_DONE,
                       .id = request->id,
                       .request = request->kind,
                       .code = request->code,
                       .text = request->text,
                       .offsets = request->offsets,
                       .offset_count = request->count,
                       .cluster_id = request->cluster_id,
                       .topics = request->topics,
                       .topic_count = request->topic_count,
                       .group_state = request->group_state,
                       .group_protocol = request->group_protocol,
                       .members = request->members,
                       .member_count = request->member_count};
  io->answer = request;
  return true;
}

/* The request is with another thread that may write to it at any moment: what is told is a new one
 * that looks alike. */
static bool tell_timed_out(cj_rd_io *io, cj_rd_request *request, cj_io_event *out) {
  *out = (cj_io_event){.kind = CJ_EV_DONE,
                       .id = request->id,
                       .request = request->kind,
                       .code = CJ_IO_TIMED_OUT,
                       .text = "no answer in time"};
  pthread_mutex_lock(&io->lock);
  bool waiting = request->state == CJ_RD_QUEUED, with_helper = false;
  if (waiting) queued_remove(io, request);
  with_helper = request->state == CJ_RD_RUNNING && request->kind != CJ_REQ_COMMIT;
  request->abandoned = true;
  pthread_mutex_unlock(&io->lock);
  if (!with_helper) io->answer = request;
  return true;
}

bool cj_rd_done(cj_rd_io *io, cj_io_event *out) {
  bool answers = atomic_exchange(&io->answers, false);
  bool late = io->pending && cj_rd_now() >= io->next_deadline;
  if (!answers && !late) return false;
  int64_t now = cj_rd_now();
  cj_rd_request *before = NULL, *found = NULL;
  io->next_deadline = INT64_MAX;
  for (cj_rd_request *r = io->pending, *previous = NULL; r; previous = r, r = r->next) {
    pthread_mutex_lock(&io->lock);
    bool due = r->state == CJ_RD_ANSWERED || r->deadline <= now;
    pthread_mutex_unlock(&io->lock);
    if (due && !found) {
      before = previous;
      found = r;
    } else if (r->deadline < io->next_deadline) {
      io->next_deadline = r->deadline;
    }
  }
  if (!found) return false;
  atomic_store(&io->answers, true); /* there may be another */
  pending_remove(io, before, found);
  pthread_mutex_lock(&io->lock);
  bool answered = found->state == CJ_RD_ANSWERED;
  pthread_mutex_unlock(&io->lock);
  return answered ? tell(io, found, out) : tell_timed_out(io, found, out);
}

/* ---- commits ---- */

static cj_error *commit_start(cj_rd_io *io, cj_rd_request *request) {
  rd_kafka_topic_partition_list_t *list = cj_rd_list(io, request->offsets, request->count, 0);
  if (!list) return cj_error_no_memory();
  request->serial = ++io->serial;
  request->state = CJ_RD_RUNNING;
  rd_kafka_resp_err_t err = rd_kafka_commit_queue(io->consumer, list, io->consumer_events.queue,
                                                  NULL, (void *)(uintptr_t)request->serial);
  rd_kafka_topic_partition_list_destroy(list);
  if (!err) return NULL;
  request->state = CJ_RD_ANSWERED;
  request->code = cj_rd_code(err);
  snprintf(request->text, sizeof request->text, "%s", rd_kafka_err2str(err));
  atomic_store(&io->answers, true);
  return NULL;
}

static cj_io_offset *find_entry(const cj_rd_io *io, cj_rd_request *request,
                                const rd_kafka_topic_partition_t *partition) {
  for (size_t i = 0; i < request->count; i++) {
    cj_io_offset *entry = &request->offsets[i];
    if (entry->tp.partition == partition->partition &&
        strcmp(io->topics[entry->tp.topic].name, partition->topic) == 0)
      return entry;
  }
  return NULL;
}

void cj_rd_on_committed(cj_rd_io *io, rd_kafka_event_t *event) {
  uint64_t serial = (uint64_t)(uintptr_t)rd_kafka_event_opaque(event);
  cj_rd_request *request = io->pending;
  while (request && !(request->kind == CJ_REQ_COMMIT && request->serial == serial))
    request = request->next;
  if (!request) return; /* its deadline was faster */
  rd_kafka_resp_err_t err = rd_kafka_event_error(event);
  const rd_kafka_topic_partition_list_t *list = rd_kafka_event_topic_partition_list(event);
  request->code = cj_rd_code(err);
  if (err) snprintf(request->text, sizeof request->text, "%s", rd_kafka_err2str(err));
  for (size_t i = 0; i < request->count; i++)
    request->offsets[i].code = request->code;
  for (int i = 0; list && i < list->cnt; i++) {
    /* Answers come in the order of the question, nearly always. */
    cj_io_offset *entry = find_entry(io, request, &list->elems[i]);
    if (!entry || !list->elems[i].err) continue;
    entry->code = cj_rd_code(list->elems[i].err);
    if (request->code == CJ_IO_OK) request->code = entry->code;
  }
  request->state = CJ_RD_ANSWERED;
  atomic_store(&io->answers, true);
}

/* ---- submit ---- */

static cj_error *check_request(const cj_rd_io *io, const cj_io_request *request) {
  if (io->admin && request->kind == CJ_REQ_COMMIT)
    return cj_error_new(CJ_ERR_STATE, NULL, "an admin io is no member and commits nothing");
  bool txn = request->kind >= CJ_REQ_TXN_INIT && request->kind <= CJ_REQ_TXN_ABORT;
  if (txn && !io->transactional)
    return cj_error_new(CJ_ERR_STATE, NULL, "this io has no transactional id");
  if (request->kind > CJ_REQ_TXN_ABORT)
    return cj_error_new(CJ_ERR_UNSUPPORTED, NULL, "request %d is not one of librdkafka's io",
                        (int)request->kind);
  for (size_t i = 0; i < request->count; i++)
    if (!cj_rd_known(io, request->list[i].tp))
      return cj_error_new(CJ_ERR_ARGUMENT, NULL, "partition %d of topic index %d is not one",
                          (int)request->list[i].tp.partition, (int)request->list[i].tp.topic);
  return NULL;
}

static cj_rd_request *request_new(const cj_io_request *asked) {
  cj_rd_request *request = cj_alloc(sizeof *request);
  if (!request) return NULL;
  request->offsets = cj_alloc((asked->count ? asked->count : 1) * sizeof *request->offsets);
  if (!request->offsets) {
    cj_free(request);
    return NULL;
  }
  if (asked->count) memcpy(request->offsets, asked->list, asked->count * sizeof *asked->list);
  for (size_t i = 0; i < asked->count; i++)
    request->offsets[i].code = CJ_IO_OK;
  request->count = asked->count;
  request->id = asked->id;
  request->kind = asked->kind;
  request->deadline = cj_rd_now() + (asked->timeout_ms > 0 ? asked->timeout_ms : 0);
  return request;
}

static void enqueue(cj_rd_io *io, cj_rd_request *request) {
  pthread_mutex_lock(&io->lock);
  if (io->queued_last)
    io->queued_last->queued_next = request;
  else
    io->queued = request;
  io->queued_last = request;
  pthread_cond_signal(&io->changed);
  pthread_mutex_unlock(&io->lock);
}

cj_error *cj_rd_submit(cj_io *base, const cj_io_request *asked) {
  cj_rd_io *io = cj_rd_of(base);
  cj_error *error = check_request(io, asked);
  if (error) return error;
  cj_rd_request *request = request_new(asked);
  if (!request) return cj_error_no_memory();
  bool about_partitions = asked->kind != CJ_REQ_METADATA && asked->kind < CJ_REQ_GROUP;
  if (asked->kind == CJ_REQ_TXN_INIT) error = cj_rd_txn_prepare(io, request);
  request->txn = io->txn;
  if (error) {
    cj_rd_request_free(request);
    return error;
  }
  bool refused = asked->kind == CJ_REQ_TXN_COMMIT && !cj_rd_txn_join_group(io, request);
  if (refused || (about_partitions && !asked->count)) {
    request->state = CJ_RD_ANSWERED;
    atomic_store(&io->answers, true);
    cj_rd_signal(io);
  } else if (asked->kind == CJ_REQ_COMMIT) {
    error = commit_start(io, request);
    if (error) {
      cj_rd_request_free(request);
      return error;
    }
  }
  /* So that the client keeps an eye on the topic's leaders. */
  if (asked->kind == CJ_REQ_ENDS || asked->kind == CJ_REQ_BOUNDS)
    for (size_t i = 0; i < asked->count; i++)
      cj_rd_topic_handle(io, asked->list[i].tp.topic);
  pending_add(io, request);
  if (request->state == CJ_RD_QUEUED) enqueue(io, request);
  return NULL;
}

bool cj_rd_abort_begin(cj_rd_io *io) {
  const cj_io_request asked = {.kind = CJ_REQ_TXN_ABORT, .timeout_ms = io->request_timeout_ms};
  cj_rd_request *request = request_new(&asked);
  if (!request) return false;
  request->txn = io->txn;
  io->last_abort = request;
  enqueue(io, request);
  return true;
}

bool cj_rd_abort_ended(cj_rd_io *io) {
  pthread_mutex_lock(&io->lock);
  bool ended = io->last_abort->state == CJ_RD_ANSWERED;
  pthread_mutex_unlock(&io->lock);
  return ended;
}

/* ---- the helper ---- */

static void answer_all(cj_rd_io *io, cj_rd_request *first) {
  pthread_mutex_lock(&io->lock);
  for (cj_rd_request *next; first; first = next) {
    next = first->queued_next;
    if (first->abandoned)
      cj_rd_request_free(first);
    else
      first->state = CJ_RD_ANSWERED;
  }
  pthread_mutex_unlock(&io->lock);
  atomic_store(&io->answers, true);
  cj_rd_signal(io);
}

/* The oldest request; where it asks for ends, all that do. */
static cj_rd_request *take_queued(cj_rd_io *io) {
  cj_rd_request *first = io->queued;
  if (!first) return NULL;
  cj_rd_request *taken = NULL, **taken_end = &taken, *kept = NULL, *kept_last = NULL;
  for (cj_rd_request *r = first, *next; r; r = next) {
    next = r->queued_next;
    r->queued_next = NULL;
    if (r == first || (first->kind == CJ_REQ_ENDS && r->kind == CJ_REQ_ENDS)) {
      r->state = CJ_RD_RUNNING;
      *taken_end = r;
      taken_end = &r->queued_next;
      continue;
    }
    if (kept_last)
      kept_last->queued_next = r;
    else
      kept = r;
    kept_last = r;
  }
  io->queued = kept;
  io->queued_last = kept_last;
  return taken;
}

static void run(cj_rd_io *io, cj_rd_request *first) {
  switch (first->kind) {
  case CJ_REQ_COMMITTED:
    cj_rd_run_committed(io, first);
    break;
  case CJ_REQ_ENDS:
    cj_rd_run_ends(io, first);
    break;
  case CJ_REQ_BOUNDS:
    cj_rd_run_bounds(io, first);
    break;
  case CJ_REQ_METADATA:
    cj_rd_run_metadata(io, first);
    break;
  case CJ_REQ_GROUP:
    cj_rd_run_group(io, first);
    break;
  case CJ_REQ_TXN_INIT:
    cj_rd_run_txn_init(io, first);
    break;
  case CJ_REQ_TXN_COMMIT:
    cj_rd_run_txn_commit(io, first);
    break;
  case CJ_REQ_TXN_ABORT:
    cj_rd_run_txn_abort(io, first);
    break;
  default: /* COMMIT never gets here, and submit refuses what is not above */
    break;
  }
  answer_all(io, first);
}

/* Any request wakes a broker thread; its answer is of no interest. */
static void kick(cj_rd_io *io) {
  rd_kafka_topic_partition_list_t *list = io->kick_list;
  if (!list) return;
  io->kick_list = NULL; /* so that the owner may replace it meanwhile */
  pthread_mutex_unlock(&io->lock);
  for (int i = 0; i < list->cnt; i++)
    list->elems[i].offset = RD_KAFKA_OFFSET_END;
  rd_kafka_offsets_for_times(io->consumer, list, KICK_MS);
  pthread_mutex_lock(&io->lock);
  if (io->kick_list)
    rd_kafka_topic_partition_list_destroy(list);
  else
    io->kick_list = list;
}

static bool throttled(cj_rd_io *io) {
  return io->needs_kick && io->kick_list &&
         cj_rd_now() - atomic_load(&io->kick_from_ms) < KICK_FOR_MS;
}

static void sleep_for(cj_rd_io *io, int64_t ms) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += (long)ms * 1000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_cond_timedwait(&io->changed, &io->lock, &until);
}

/* The helper outlives the io where a call of librdkafka does not come back in time: then it frees
 * everything itself, whenever that call ends. */
void *cj_rd_helper(void *user) {
  cj_rd_io *io = user;
  int64_t kick_at = 0;
  pthread_mutex_lock(&io->lock);
  while (!io->stop) {
    cj_rd_request *taken = take_queued(io);
    if (taken) {
      pthread_mutex_unlock(&io->lock);
      run(io, taken);
      pthread_mutex_lock(&io->lock);
    }
    if (throttled(io)) {
      int64_t now = cj_rd_now();
      if (now >= kick_at) {
        kick(io);
        kick_at = cj_rd_now() + KICK_MS;
      } else if (!io->queued && !io->stop) {
        sleep_for(io, kick_at - now);
      }
    } else if (!io->queued && !io->stop) {
      pthread_cond_wait(&io->changed, &io->lock);
    }
  }
  pthread_mutex_unlock(&io->lock);
  cj_rd_free(io);
  return NULL;
}
