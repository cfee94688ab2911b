/* SPDX-License-Identifier: BSD-2-Clause */
/* The io over librdkafka: its life, waiting and waking. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "rdkafka/io_internal.h"

/* A wait is never longer, whatever was asked: polling counts for max.poll.interval.ms. */
#define WAIT_AT_MOST_MS 500
#define DESTROY_MS      10000

/* ---- small things ---- */

static int64_t clock_ms(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t cj_rd_now(void) {
  return clock_ms(CLOCK_MONOTONIC);
}

static int64_t io_now(cj_io *io) {
  (void)io;
  return cj_rd_now();
}

static int64_t io_wall(cj_io *io) {
  (void)io;
  return clock_ms(CLOCK_REALTIME);
}

bool cj_rd_grow(void **array, size_t *room, size_t need, size_t size) {
  if (need <= *room) return true;
  size_t more = *room ? *room : 16;
  while (more < need)
    more *= 2;
  void *grown = cj_realloc(*array, more * size);
  if (!grown) return false;
  *array = grown;
  *room = more;
  return true;
}

#define MOST_PARTITIONS 1000000

bool cj_rd_known(const cj_rd_io *io, cj_tp tp) {
  return tp.topic >= 0 && (size_t)tp.topic < io->topic_count && tp.partition >= 0 &&
         tp.partition < MOST_PARTITIONS;
}

int32_t cj_rd_find_topic(const cj_rd_io *io, const char *name) {
  for (size_t i = 0; i < io->topic_count; i++)
    if (strcmp(io->topics[i].name, name) == 0) return (int32_t)i;
  return -1;
}

rd_kafka_topic_partition_list_t *cj_rd_list(const cj_rd_io *io, const cj_io_offset *list,
                                            size_t count, int64_t time) {
  rd_kafka_topic_partition_list_t *made = rd_kafka_topic_partition_list_new((int)count);
  if (!made) return NULL;
  for (size_t i = 0; i < count; i++)
    rd_kafka_topic_partition_list_add(made, io->topics[list[i].tp.topic].name, list[i].tp.partition)
        ->offset = time ? time : list[i].offset;
  return made;
}

rd_kafka_t *cj_rd_asker(cj_rd_io *io) {
  return atomic_load_explicit(&io->asker, memory_order_relaxed);
}

/* With a handle the client knows the topic as its own and follows its leaders; 2.0.2 goes on asking
 * a former leader otherwise (case 56). */
rd_kafka_topic_t *cj_rd_topic_handle(cj_rd_io *io, int32_t index) {
  cj_rd_topic *topic = &io->topics[index];
  if (topic->handle) return topic->handle;
  rd_kafka_t *client = io->producer ? io->producer : io->consumer;
  rd_kafka_topic_conf_t *conf = rd_kafka_default_topic_conf_dup(client);
  rd_kafka_topic_conf_set_opaque(conf, (void *)(intptr_t)index);
  topic->handle = rd_kafka_topic_new(client, topic->name, conf);
  if (!topic->handle) rd_kafka_topic_conf_destroy(conf);
  return topic->handle;
}

/* ---- waiting ---- */

/* One write for all signals until the next wait: nothing is written while the owner is busy. A
 * signal that comes after the wait took the flag is written again; one that comes before was seen,
 * since the owner looks everywhere after a wait. */
void cj_rd_signal(cj_rd_io *io) {
  if (atomic_exchange(&io->signalled, true)) return;
  int saved = errno;
  const uint64_t one = 1;
  ssize_t written = write(io->wake_fd, &one, sizeof one);
  (void)written; /* fails only where the counter is full, which wakes as well */
  errno = saved;
}

static void on_queue(rd_kafka_t *client, void *opaque) {
  (void)client;
  cj_rd_watch *watch = opaque;
  atomic_store(&watch->ready, true);
  cj_rd_signal(watch->io);
}

cj_error *cj_rd_watch_open(cj_rd_watch *watch, cj_rd_io *io, rd_kafka_queue_t *queue) {
  if (!queue) return cj_error_no_memory();
  watch->io = io;
  watch->queue = queue;
  rd_kafka_queue_cb_event_enable(queue, on_queue, watch);
  atomic_store(&watch->ready, true); /* what came before the callback was there */
  return NULL;
}

/* Returns when no callback runs any more: librdkafka calls back under the queue's lock. */
void cj_rd_watch_close(cj_rd_watch *watch) {
  if (!watch->queue) return;
  rd_kafka_queue_cb_event_enable(watch->queue, NULL, NULL);
  rd_kafka_queue_destroy(watch->queue);
  watch->queue = NULL;
  atomic_store(&watch->ready, false);
}

static void io_wake(cj_io *base) {
  cj_rd_signal(cj_rd_of(base));
}

static void io_wait(cj_io *base, int64_t timeout_ms) {
  cj_rd_io *io = cj_rd_of(base);
  if (io->more) return;
  int64_t now = cj_rd_now();
  if (timeout_ms > WAIT_AT_MOST_MS) timeout_ms = WAIT_AT_MOST_MS;
  if (io->next_deadline - now < timeout_ms) timeout_ms = io->next_deadline - now;
  if (timeout_ms < 0) timeout_ms = 0;
  struct pollfd fd = {.fd = io->wake_fd, .events = POLLIN};
  if (poll(&fd, 1, (int)timeout_ms) > 0) {
    uint64_t count;
    ssize_t got = read(io->wake_fd, &count, sizeof count);
    (void)got;
    atomic_store(&io->signalled, false);
  }
}

/* ---- life ---- */

static cj_error *io_subscribe(cj_io *base) {
  cj_rd_io *io = cj_rd_of(base);
  if (io->admin) return cj_error_new(CJ_ERR_STATE, NULL, "an admin io joins no group");
  rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)io->topic_count);
  for (size_t i = 0; i < io->topic_count; i++)
    if (io->topics[i].subscribed)
      rd_kafka_topic_partition_list_add(list, io->topics[i].name, RD_KAFKA_PARTITION_UA);
  rd_kafka_resp_err_t err = rd_kafka_subscribe(io->consumer, list);
  rd_kafka_topic_partition_list_destroy(list);
  return err ? cj_rd_error(err, io->group_id, "the group could not be joined") : NULL;
}

static void free_shell(cj_rd_io *io) {
  if (io->wake_fd >= 0) close(io->wake_fd);
  pthread_mutex_destroy(&io->lock);
  pthread_cond_destroy(&io->changed);
  pthread_cond_destroy(&io->ended);
  cj_free(io);
}

static void free_topics(cj_rd_io *io) {
  for (size_t i = 0; i < io->topic_count; i++) {
    cj_rd_topic *topic = &io->topics[i];
    for (size_t p = 0; p < topic->slot_count; p++)
      cj_free(topic->slots[p]);
    cj_free(topic->slots);
    cj_free(topic->merged);
    cj_free(topic->name);
  }
  cj_free(io->topics);
}

/* Without a close the broker thread must not wait for one: the group learns it by the session's
 * end. */
static void free_clients(cj_rd_io *io) {
  for (size_t i = 0; i < io->topic_count; i++)
    if (io->topics[i].handle) rd_kafka_topic_destroy(io->topics[i].handle);
  if (io->producer) rd_kafka_destroy(io->producer);
  if (io->consumer) rd_kafka_destroy_flags(io->consumer, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}

void cj_rd_free(cj_rd_io *io) {
  free_clients(io);
  for (cj_rd_request *next; io->pending; io->pending = next) {
    next = io->pending->next;
    cj_rd_request_free(io->pending);
  }
  if (io->kick_list) rd_kafka_topic_partition_list_destroy(io->kick_list);
  free_topics(io);
  cj_free(io->group_id);
  cj_free(io->tps);
  cj_free(io->deliveries);
  cj_free(io->assigned);
  cj_free(io->batch);
  cj_rd_request_free(io->last_abort);
  cj_free(io->txn);
  pthread_mutex_lock(&io->lock);
  io->stopped = true;
  bool leaked = io->leaked;
  pthread_cond_signal(&io->ended);
  pthread_mutex_unlock(&io->lock);
  if (leaked) free_shell(io);
}

static bool wait_for_helper(cj_rd_io *io) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += DESTROY_MS / 1000;
  pthread_mutex_lock(&io->lock);
  io->stop = true;
  pthread_cond_signal(&io->changed);
  while (!io->stopped && pthread_cond_timedwait(&io->ended, &io->lock, &until) != ETIMEDOUT)
    continue;
  bool stopped = io->stopped;
  io->leaked = !stopped;
  pthread_mutex_unlock(&io->lock);
  return stopped;
}

/* The helper, which may be inside a blocking call, frees the clients, so that this is bounded. A
 * commit without a coordinator holds librdkafka for session.timeout.ms (seen on 2.0.2). */
static void io_destroy(cj_io *base) {
  if (!base) return;
  cj_rd_io *io = cj_rd_of(base);
  cj_log log = io->log;
  if (io->event) rd_kafka_event_destroy(io->event);
  cj_rd_request_free(io->answer);
  cj_rd_drop_assignment(io);
  cj_rd_watch_close(&io->consumer_events);
  cj_rd_watch_close(&io->producer_events);
  if (!io->helper_runs) {
    cj_rd_free(io);
    free_shell(io);
    return;
  }
  pthread_t helper = io->helper;
  if (wait_for_helper(io)) {
    pthread_join(helper, NULL);
    free_shell(io);
    return;
  }
  pthread_detach(helper);
  cj_logf(&log, CJ_LOG_WARN, "librdkafka did not end within %d s; it is left to end by itself",
          DESTROY_MS / 1000);
}

static const cj_io_ops ops = {
    .now = io_now,
    .wall = io_wall,
    .subscribe = io_subscribe,
    .poll = cj_rd_poll,
    .assign = cj_rd_assign,
    .assign_add = cj_rd_assign_add,
    .assign_remove = cj_rd_assign_remove,
    .fetch = cj_rd_fetch,
    .release = cj_rd_release,
    .headers = cj_rd_headers,
    .produce = cj_rd_produce,
    .submit = cj_rd_submit,
    .close = cj_rd_close,
    .wait = io_wait,
    .wake = io_wake,
    .destroy = io_destroy,
};

static cj_error *client_new(const cj_io_setup *setup, cj_rd_scope scope, rd_kafka_t **client) {
  rd_kafka_conf_t *conf;
  cj_error *error = cj_rd_conf(setup, scope, &conf);
  if (error) return error;
  char why[512];
  *client = rd_kafka_new(scope == CJ_RD_CONSUMER ? RD_KAFKA_CONSUMER : RD_KAFKA_PRODUCER, conf, why,
                         sizeof why);
  if (*client) return NULL;
  rd_kafka_resp_err_t err = rd_kafka_last_error();
  rd_kafka_conf_destroy(conf);
  return cj_error_new(err == RD_KAFKA_RESP_ERR__INVALID_ARG ? CJ_ERR_CONFIG : CJ_ERR_KAFKA,
                      scope == CJ_RD_CONSUMER ? "consumer" : "producer", "%s", why);
}

static cj_error *copy_setup(cj_rd_io *io, const cj_io_setup *setup) {
  io->log = setup->log;
  io->admin = setup->admin;
  io->request_timeout_ms =
      setup->settings->request_timeout_ms > 0 ? setup->settings->request_timeout_ms : 10000;
  io->group_id = cj_strdup(setup->settings->application_id);
  io->topics = cj_alloc((setup->topic_count + 1) * sizeof *io->topics);
  io->batch = cj_alloc(CJ_RD_BATCH * sizeof(rd_kafka_message_t *));
  if (!io->group_id || !io->topics || !io->batch) return cj_error_no_memory();
  for (; io->topic_count < setup->topic_count; io->topic_count++) {
    const cj_io_setup_topic *from = &setup->topics[io->topic_count];
    cj_rd_topic *topic = &io->topics[io->topic_count];
    topic->subscribed = from->subscribed;
    topic->name = cj_strdup(from->name);
    if (!topic->name) return cj_error_no_memory();
  }
  return NULL;
}

/* As configured, defaults or the user's. */
static size_t configured(const cj_rd_io *io, const char *name) {
  char text[32];
  size_t len = sizeof text;
  rd_kafka_conf_res_t found = rd_kafka_conf_get(rd_kafka_conf(io->consumer), name, text, &len);
  return found == RD_KAFKA_CONF_OK ? strtoul(text, NULL, 10) : 0;
}

/* A batch that is a quarter of what a queue may hold came from one that was about full. */
static void set_kicks(cj_rd_io *io) {
  io->needs_kick = !io->admin && rd_kafka_version() < CJ_RD_VERSION(2, 2, 0);
  io->kick_messages = configured(io, "queued.min.messages") / 4 + 1;
  io->kick_bytes = configured(io, "queued.max.messages.kbytes") * 256 + 1;
}

static cj_error *open_clients(cj_rd_io *io, const cj_io_setup *setup) {
  cj_error *error = client_new(setup, CJ_RD_CONSUMER, &io->consumer);
  if (error) return error;
  rd_kafka_poll_set_consumer(io->consumer);
  rd_kafka_set_log_queue(io->consumer, NULL);
  error = cj_rd_watch_open(&io->consumer_events, io, rd_kafka_queue_get_consumer(io->consumer));
  if (error) return error;
  set_kicks(io);
  atomic_store(&io->asker, io->consumer);
  if (io->admin) return NULL;
  error = client_new(setup, CJ_RD_PRODUCER, &io->producer);
  if (error) return error;
  io->transactional = setup->transactional_id != NULL;
  if (!io->transactional) atomic_store(&io->asker, io->producer);
  rd_kafka_set_log_queue(io->producer, NULL);
  return cj_rd_watch_open(&io->producer_events, io, rd_kafka_queue_get_main(io->producer));
}

/* No signal is ever handled on the helper: the application's handlers run on its own threads. */
static cj_error *start_helper(cj_rd_io *io) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = pthread_create(&io->helper, NULL, cj_rd_helper, io);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) return cj_error_errno(failed, "io", "its helper thread could not be started");
  io->helper_runs = true;
  return NULL;
}

static cj_error *check_assignment(const cj_settings *settings) {
  if (settings->assignment == CJ_ASSIGN_STICKY)
    return cj_error_new(CJ_ERR_UNSUPPORTED, "assignment",
                        "sticky needs librdkafka 2.10 or newer (this is %s) and incremental "
                        "rebalances, which cojoin does not have yet: use range or spread",
                        rd_kafka_version_str());
  if (settings->assignment == CJ_ASSIGN_BROKER)
    return cj_error_new(CJ_ERR_UNSUPPORTED, "assignment",
                        "broker needs librdkafka 2.12 or newer (this is %s), Kafka 4.0 and its "
                        "group protocol, which cojoin does not have yet: use range or spread",
                        rd_kafka_version_str());
  return NULL;
}

static cj_rd_io *shell_new(void) {
  cj_rd_io *io = cj_alloc(sizeof *io);
  if (!io) return NULL;
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&io->changed, &monotonic);
  pthread_cond_init(&io->ended, &monotonic);
  pthread_condattr_destroy(&monotonic);
  pthread_mutex_init(&io->lock, NULL);
  io->base.ops = &ops;
  io->next_deadline = INT64_MAX;
  atomic_init(&io->kick_from_ms, INT64_MIN / 2);
  io->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  return io;
}

cj_error *cj_io_rdkafka_new(const cj_io_setup *setup, cj_io **out) {
  *out = NULL;
  cj_error *error = check_assignment(setup->settings);
  if (error) return error;
  cj_rd_io *io = shell_new();
  if (!io) return cj_error_no_memory();
  if (io->wake_fd < 0) error = cj_error_errno(errno, "io", "no event descriptor can be had");
  if (!error) error = copy_setup(io, setup);
  if (!error) error = open_clients(io, setup);
  if (!error) error = start_helper(io);
  if (error) {
    io_destroy(&io->base);
    return error;
  }
  *out = &io->base;
  return NULL;
}
