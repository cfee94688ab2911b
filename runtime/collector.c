/* SPDX-License-Identifier: BSD-2-Clause */
#include "runtime/collector.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define OFFSET_BITS    33
#define PARTITION_BITS 20
#define TOPIC_BITS     10
#define OFFSET_MASK    ((1ull << OFFSET_BITS) - 1)
#define PARTITION_MASK ((1ull << PARTITION_BITS) - 1)
#define TOPIC_MASK     ((1ull << TOPIC_BITS) - 1)

/* A failed delivery fails its whole transaction. When the work is done again after the abort, this
 * output is left to the policy instead of failing the next one too. */
struct cj_refused {
  cj_origin origin;
  int32_t topic;
  cj_io_code code;
};

struct cj_pending_output {
  cj_pending_output *next;
  cj_io_output output; /* its bytes and headers are copies behind this struct */
};

void cj_collector_init(cj_collector *collector) {
  collector->random = 0x9e3779b97f4a7c15u;
}

/* ---- tokens ---- */

/* Numbers that are too large lose their head, which only a message would show; the epoch stays. */
static uint64_t token_make(int epoch, cj_origin origin) {
  return (uint64_t)epoch << (OFFSET_BITS + PARTITION_BITS + TOPIC_BITS) |
         ((uint64_t)origin.topic & TOPIC_MASK) << (OFFSET_BITS + PARTITION_BITS) |
         ((uint64_t)origin.partition & PARTITION_MASK) << OFFSET_BITS |
         ((uint64_t)origin.offset & OFFSET_MASK);
}

static int token_epoch(uint64_t token) {
  return (int)(token >> (OFFSET_BITS + PARTITION_BITS + TOPIC_BITS) & 1);
}

static cj_origin token_origin(uint64_t token) {
  return (cj_origin){.topic = (int32_t)(token >> (OFFSET_BITS + PARTITION_BITS) & TOPIC_MASK),
                     .partition = (int32_t)(token >> OFFSET_BITS & PARTITION_MASK),
                     .offset = (int64_t)(token & OFFSET_MASK)};
}

void cj_collector_drop(cj_collector *collector) {
  while (collector->pending_first) {
    cj_pending_output *pending = collector->pending_first;
    collector->pending_first = pending->next;
    collector->outstanding[token_epoch(pending->output.token)]--;
    cj_free(pending);
  }
  collector->pending_last = NULL;
}

void cj_collector_free(cj_collector *collector) {
  cj_collector_drop(collector);
  cj_free(collector->refused);
  cj_error_destroy(collector->error);
  collector->error = NULL;
}

/* ---- partitions ---- */

/* Where any partition would do, records stay with one for a while, so that batches fill (KIP-480),
 * then go on to another. */
static int32_t any_partition(cj_collector *collector, int32_t count) {
  uint64_t turn = collector->random++ / 64;
  return (int32_t)(cj_hash64(&turn, sizeof turn) % (uint64_t)count);
}

static int32_t partition_of(cj_collector *collector, const cj_plan_node *sink, cj_bytes key) {
  int32_t count = collector->partition_counts[sink->topic];
  int32_t partition = sink->partitioner->partition(sink->partitioner->user, key, count);
  return partition == CJ_PARTITION_ANY ? any_partition(collector, count) : partition;
}

/* ---- waiting for room ---- */

static char *copy_bytes(char **at, cj_bytes bytes, cj_bytes *copy) {
  char *start = *at;
  if (bytes.len) memcpy(start, bytes.data, bytes.len);
  *copy = bytes.data ? cj_bytes_of(start, bytes.len) : cj_bytes_null();
  *at += bytes.len;
  return start;
}

static size_t headers_size(const cj_header *headers, size_t count) {
  size_t size = 0;
  for (size_t i = 0; i < count; i++)
    size += sizeof *headers + strlen(headers[i].name) + 1 + headers[i].value.len;
  return size;
}

static void copy_headers(char **at, cj_header *to, const cj_header *from, size_t count) {
  for (size_t i = 0; i < count; i++) {
    size_t length = strlen(from[i].name) + 1;
    to[i].name = memcpy(*at, from[i].name, length);
    *at += length;
    copy_bytes(at, from[i].value, &to[i].value);
  }
}

/* The source record may be released before there is room, so its headers are copied too. */
static cj_error *wait_for_room(cj_collector *collector, const cj_io_output *output) {
  cj_io *io = collector->io;
  size_t passed = output->headers_from ? io->ops->headers(io, output->headers_from, NULL, 0) : 0;
  cj_header *from = NULL;
  if (passed) {
    from = cj_alloc(passed * sizeof *from);
    if (!from) return cj_error_no_memory();
    io->ops->headers(io, output->headers_from, from, passed);
  }
  size_t size = sizeof(cj_pending_output) + headers_size(from, passed) +
                headers_size(output->headers, output->header_count) + output->key.len +
                output->value.len + 1;
  cj_pending_output *pending = cj_alloc(size);
  if (!pending) {
    cj_free(from);
    return cj_error_no_memory();
  }
  cj_header *headers = (cj_header *)(void *)(pending + 1);
  size_t count = passed + output->header_count;
  char *at = (char *)(headers + count);
  pending->output = *output;
  pending->output.headers_from = NULL;
  pending->output.headers = headers;
  pending->output.header_count = count;
  copy_headers(&at, headers, from, passed);
  copy_headers(&at, headers + passed, output->headers, output->header_count);
  copy_bytes(&at, output->key, &pending->output.key);
  copy_bytes(&at, output->value, &pending->output.value);
  cj_free(from);
  if (collector->pending_last)
    collector->pending_last->next = pending;
  else
    collector->pending_first = pending;
  collector->pending_last = pending;
  return NULL;
}

/* ---- failures ---- */

static const char *topic_name(const cj_collector *collector, int32_t topic) {
  return (size_t)topic < collector->plan->topic_count ? collector->plan->topics[topic].name
                                                      : collector->settings->dead_letter_topic;
}

static cj_error *send(cj_collector *collector, cj_io_output *output);

/* `source` is NULL where its bytes are gone: then the headers are all there is. `epoch` is that of
 * what the letter stands for: the commit that waits for the one waits for the other. */
static cj_error *dead_letter(cj_collector *collector, const cj_fetched *source, cj_origin origin,
                             int epoch, const char *why) {
  char partition[16], offset[24];
  snprintf(partition, sizeof partition, "%" PRId32, origin.partition);
  snprintf(offset, sizeof offset, "%" PRId64, origin.offset);
  const cj_header headers[] = {{"cojoin.error", cj_bytes_str(why)},
                               {"cojoin.topic", cj_bytes_str(topic_name(collector, origin.topic))},
                               {"cojoin.partition", cj_bytes_str(partition)},
                               {"cojoin.offset", cj_bytes_str(offset)}};
  int32_t topic = (int32_t)collector->plan->topic_count;
  cj_io_output output = {.topic = topic,
                         .partition = origin.partition % collector->partition_counts[topic],
                         .key = source ? source->key : cj_bytes_null(),
                         .value = source ? source->value : cj_bytes_null(),
                         .timestamp =
                             source ? source->timestamp : collector->io->ops->wall(collector->io),
                         .headers_from = source,
                         .headers = headers,
                         .header_count = sizeof headers / sizeof *headers,
                         .token = token_make(epoch, origin)};
  cj_counter_add(&collector->counters->dropped[CJ_DROP_DEAD_LETTER], 1);
  return send(collector, &output);
}

static bool same_origin(cj_origin a, cj_origin b) {
  return token_make(0, a) == token_make(0, b);
}

static const struct cj_refused *refused_find(const cj_collector *collector, int32_t topic,
                                             cj_origin origin) {
  for (size_t i = 0; i < collector->refused_count; i++)
    if (collector->refused[i].topic == topic && same_origin(collector->refused[i].origin, origin))
      return &collector->refused[i];
  return NULL;
}

static void refuse(cj_collector *collector, int32_t topic, cj_origin origin, cj_io_code code) {
  if (refused_find(collector, topic, origin)) return;
  if (collector->refused_count == collector->refused_room) {
    size_t room = collector->refused_room ? 2 * collector->refused_room : 8;
    struct cj_refused *more = cj_realloc(collector->refused, room * sizeof *more);
    if (!more) {
      if (!collector->error) collector->error = cj_error_no_memory();
      return;
    }
    collector->refused = more;
    collector->refused_room = room;
  }
  collector->refused[collector->refused_count++] = (struct cj_refused){origin, topic, code};
}

void cj_collector_forget(cj_collector *collector, cj_tp tp, int64_t before) {
  size_t kept = 0;
  for (size_t i = 0; i < collector->refused_count; i++) {
    const struct cj_refused *refused = &collector->refused[i];
    bool behind = refused->origin.topic == tp.topic && refused->origin.partition == tp.partition &&
                  refused->origin.offset < (before & (int64_t)OFFSET_MASK);
    if (!behind) collector->refused[kept++] = *refused;
  }
  collector->refused_count = kept;
}

/* An output that will not arrive. Its bytes may be gone already, so what the dead-letter topic gets
 * is where the source record lies. */
static void output_failed(cj_collector *collector, int32_t topic, uint64_t token, cj_io_code code) {
  cj_origin origin = token_origin(token);
  cj_error_policy policy = collector->settings->on_produce;
  bool last_resort = (size_t)topic == collector->plan->topic_count;
  if (policy == CJ_POLICY_FAIL || last_resort) {
    if (collector->error) return;
    collector->error =
        cj_error_new(CJ_ERR_PRODUCE, topic_name(collector, topic),
                     "the output of %s[%" PRId32 "]@%" PRId64 " could not be produced: %s",
                     topic_name(collector, origin.topic), origin.partition, origin.offset,
                     cj_io_code_name(code));
    return;
  }
  cj_logf(collector->log, CJ_LOG_WARN,
          "output of %s[%" PRId32 "]@%" PRId64 " to %s not produced: %s (errors.produce)",
          topic_name(collector, origin.topic), origin.partition, origin.offset,
          topic_name(collector, topic), cj_io_code_name(code));
  if (policy == CJ_POLICY_DEAD_LETTER) {
    cj_error *error =
        dead_letter(collector, NULL, origin, token_epoch(token), cj_io_code_name(code));
    if (error && !collector->error)
      collector->error = error;
    else
      cj_error_destroy(error);
  } else {
    cj_counter_add(&collector->counters->dropped[CJ_DROP_PRODUCE], 1);
  }
}

static bool in_transactions(const cj_collector *collector) {
  return collector->settings->guarantee == CJ_EXACTLY_ONCE;
}

/* A transaction's outputs have no longer to live than it has. That brokers were gone for so long,
 * or that it was aborted under us, says nothing of the output. */
static bool of_the_transaction(cj_io_code code) {
  return code == CJ_IO_ABORTABLE || code == CJ_IO_FENCED || code == CJ_IO_TIMED_OUT ||
         code == CJ_IO_RETRIABLE;
}

static void delivery_failed(cj_collector *collector, const cj_io_delivery *delivery) {
  bool last_resort = (size_t)delivery->topic == collector->plan->topic_count;
  if (!in_transactions(collector)) {
    output_failed(collector, delivery->topic, delivery->token, delivery->code);
    return;
  }
  collector->failed = true;
  if (of_the_transaction(delivery->code)) return;
  if (collector->settings->on_produce == CJ_POLICY_FAIL || last_resort)
    output_failed(collector, delivery->topic, delivery->token, delivery->code);
  else
    refuse(collector, delivery->topic, token_origin(delivery->token), delivery->code);
}

/* ---- the way down ---- */

static cj_io_code hand_over(cj_collector *collector, const cj_io_output *output) {
  cj_io_code code = collector->io->ops->produce(collector->io, output);
  if (in_transactions(collector) && of_the_transaction(code)) collector->failed = true;
  return code;
}

static void begin_transaction(cj_collector *collector) {
  if (collector->open) return;
  collector->open = true;
  if (in_transactions(collector)) collector->opened_at = collector->io->ops->now(collector->io);
}

static cj_error *send(cj_collector *collector, cj_io_output *output) {
  if (collector->failed) return NULL; /* it comes again, after the abort */
  begin_transaction(collector);
  /* Behind others that wait: order is kept. */
  cj_io_code code =
      cj_collector_blocked(collector) ? CJ_IO_QUEUE_FULL : hand_over(collector, output);
  if (collector->failed) return NULL;
  if (code == CJ_IO_OK || code == CJ_IO_QUEUE_FULL)
    collector->outstanding[token_epoch(output->token)]++;
  if (code == CJ_IO_QUEUE_FULL) return wait_for_room(collector, output);
  if (code != CJ_IO_OK) output_failed(collector, output->topic, output->token, code);
  return NULL;
}

cj_error *cj_collector_emit(cj_collector *collector, const cj_plan_node *sink,
                            const cj_record *record, const cj_fetched *source, cj_origin origin) {
  cj_io_output output = {.topic = sink->topic,
                         .partition = partition_of(collector, sink, record->key),
                         .key = record->key,
                         .value = record->value,
                         .timestamp = record->timestamp,
                         .headers_from = source,
                         .token = token_make(collector->epoch, origin)};
  const struct cj_refused *refused = refused_find(collector, sink->topic, origin);
  if (refused) {
    output_failed(collector, sink->topic, output.token, refused->code);
    return NULL;
  }
  int32_t count = collector->partition_counts[sink->topic];
  if (output.partition < 0 || output.partition >= count)
    return cj_error_new(
        CJ_ERR_PRODUCE, sink->name,
        "partitioner %s gave partition %" PRId32 " for topic %s, which has %" PRId32,
        sink->partitioner->name, output.partition, topic_name(collector, sink->topic), count);
  return send(collector, &output);
}

cj_error *cj_collector_dead_letter(cj_collector *collector, const cj_fetched *source,
                                   cj_origin origin, const char *why) {
  return dead_letter(collector, source, origin, collector->epoch, why);
}

bool cj_collector_retry(cj_collector *collector) {
  bool any = false;
  while (collector->pending_first && !collector->failed) {
    cj_pending_output *pending = collector->pending_first;
    cj_io_code code = hand_over(collector, &pending->output);
    if (code == CJ_IO_QUEUE_FULL || collector->failed) return any;
    collector->pending_first = pending->next;
    if (!collector->pending_first) collector->pending_last = NULL;
    if (code != CJ_IO_OK) {
      collector->outstanding[token_epoch(pending->output.token)]--;
      output_failed(collector, pending->output.topic, pending->output.token, code);
    }
    cj_free(pending);
    any = true;
  }
  return any;
}

void cj_collector_delivered(cj_collector *collector, const cj_io_delivery *deliveries,
                            size_t count) {
  for (size_t i = 0; i < count; i++) {
    collector->outstanding[token_epoch(deliveries[i].token)]--;
    if (deliveries[i].code != CJ_IO_OK && deliveries[i].code != CJ_IO_PURGED)
      delivery_failed(collector, &deliveries[i]);
  }
}

void cj_collector_cut(cj_collector *collector) {
  collector->epoch ^= 1;
}

bool cj_collector_settled(const cj_collector *collector) {
  return collector->outstanding[collector->epoch ^ 1] == 0;
}
