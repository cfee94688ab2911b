/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "testing/driver.h"

cj_world_topic *cj_driver_topic(cj_test *t, const char *name) {
  cj_world_topic *topic = cj_world_topic_find(t->world, name);
  if (!topic) cj_world_misuse("there is no topic %s: make it with cj_test_topic", name);
  return topic;
}

static cj_world_partition *partition_of(cj_test *t, const char *name, int32_t p) {
  cj_world_topic *topic = cj_driver_topic(t, name);
  cj_world_partition *partition = cj_world_partition_of(topic, p);
  if (!partition)
    cj_world_misuse("topic %s has no partition %d, it has %d of them", name, (int)p,
                    (int)topic->partition_count);
  return partition;
}

void cj_driver_make_sinks(cj_test *t) {
  const cj_world_topic *first = cj_world_topic_find(t->world, t->plan->topics[0].name);
  const char *dead = t->settings.dead_letter_topic;
  if (!first) return; /* the checklist will say so */
  int32_t partitions = first->partition_count;
  for (size_t i = t->plan->input_count; i < t->plan->topic_count; i++)
    if (!cj_world_topic_find(t->world, t->plan->topics[i].name))
      cj_world_topic_make(t->world, t->plan->topics[i].name, partitions);
  if (dead && *dead && !cj_world_topic_find(t->world, dead))
    cj_world_topic_make(t->world, dead, partitions);
}

int32_t cj_driver_partition_for(cj_test *t, const char *name, cj_bytes key) {
  int32_t count = cj_driver_topic(t, name)->partition_count;
  int index = cj_plan_find_topic(t->plan, name);
  const cj_partitioner *declared = index < 0 ? NULL : t->plan->topics[index].partitioner;
  const cj_partitioner *partitioner = declared ? declared : cj_partitioner_murmur2();
  if (!key.data) return 0;
  int32_t p = partitioner->partition(partitioner->user, key, count);
  return p == CJ_PARTITION_ANY ? 0 : p;
}

/* ---- logs ---- */

void cj_test_topic(cj_test *t, const char *topic, int32_t partitions) {
  cj_world_topic_make(t->world, topic, partitions);
}

void cj_test_delete_topic(cj_test *t, const char *topic) {
  cj_driver_topic(t, topic);
  cj_world_topic_delete(t->world, topic);
}

void cj_test_recreate_topic(cj_test *t, const char *topic) {
  int32_t partitions = cj_driver_topic(t, topic)->partition_count;
  cj_world_topic_delete(t->world, topic);
  cj_world_topic_make(t->world, topic, partitions);
}

int64_t cj_test_pipe(cj_test *t, const char *topic, cj_bytes key, cj_bytes value,
                     int64_t timestamp) {
  return cj_test_pipe_to(t, topic, cj_driver_partition_for(t, topic, key), key, value, timestamp,
                         NULL, 0);
}

static cj_world_producer *piping(cj_test *t) {
  cj_world_producer *producer = cj_world_producer_of(t->world, "the test's own");
  producer->timeout_ms = INT64_MAX / 4;
  return producer;
}

void cj_test_transaction(cj_test *t) {
  if (t->in_transaction) cj_world_misuse("a transaction is open already");
  t->in_transaction = true;
}

void cj_test_transaction_end(cj_test *t, bool commit) {
  if (!t->in_transaction) cj_world_misuse("no transaction is open");
  t->in_transaction = false;
  cj_txn_end(piping(t), commit);
}

int64_t cj_test_pipe_to(cj_test *t, const char *topic, int32_t partition, cj_bytes key,
                        cj_bytes value, int64_t timestamp, const cj_header *headers,
                        size_t header_count) {
  cj_header *copy = cj_world_alloc(header_count * sizeof *copy);
  if (header_count) memcpy(copy, headers, header_count * sizeof *copy);
  cj_world_record record = {.key = key,
                            .value = value,
                            .timestamp = timestamp,
                            .headers = copy,
                            .header_count = header_count};
  cj_world_partition *log = partition_of(t, topic, partition);
  int64_t offset = log->end;
  if (t->in_transaction)
    cj_txn_append(t->world, piping(t), log, &record);
  else
    cj_world_append(log, &record);
  cj_world_free(copy);
  return offset;
}

void cj_test_gap(cj_test *t, const char *topic, int32_t partition, int64_t count) {
  cj_world_gap(partition_of(t, topic, partition), count);
}

void cj_test_delete_records(cj_test *t, const char *topic, int32_t partition, int64_t before) {
  cj_world_delete_before(partition_of(t, topic, partition), before);
}

void cj_test_compact(cj_test *t, const char *topic, int32_t partition) {
  cj_world_compact(partition_of(t, topic, partition));
}

void cj_test_truncate(cj_test *t, const char *topic, int32_t partition, int64_t end) {
  cj_world_truncate(partition_of(t, topic, partition), end);
}

int64_t cj_test_end(cj_test *t, const char *topic, int32_t partition) {
  return partition_of(t, topic, partition)->end;
}

bool cj_test_read(cj_test *t, const char *topic, int32_t partition, size_t i, cj_record *record) {
  const cj_world_partition *log = partition_of(t, topic, partition);
  const cj_world_record *from = NULL;
  for (size_t n = 0; n < log->all_count && !from; n++)
    if (cj_world_visible(log->all[n], true) && i-- == 0) from = log->all[n];
  if (!from) return false;
  *record = (cj_record){
      .key = from->key,
      .value = from->value,
      .timestamp = from->timestamp,
      .topic = cj_driver_topic(t, topic)->name,
      .partition = partition,
      .offset = from->offset,
      .headers = &from->reader,
  };
  return true;
}

size_t cj_test_count(cj_test *t, const char *topic, int32_t partition) {
  const cj_world_partition *log = partition_of(t, topic, partition);
  size_t count = 0;
  for (size_t n = 0; n < log->all_count; n++)
    count += cj_world_visible(log->all[n], true);
  return count;
}

/* ---- offsets ---- */

static cj_world_group *group_of(cj_test *t) {
  return cj_world_group_of(t->world, t->settings.application_id);
}

int64_t cj_test_committed(cj_test *t, const char *topic, int32_t partition) {
  partition_of(t, topic, partition);
  return cj_group_committed(group_of(t), topic, partition);
}

void cj_test_set_committed(cj_test *t, const char *topic, int32_t partition, int64_t offset) {
  partition_of(t, topic, partition);
  cj_group_set_committed(group_of(t), topic, partition, offset);
}

void cj_test_rebalance(cj_test *t) {
  cj_group_rebalance(group_of(t));
}

/* ---- faults ---- */

void cj_test_broker_up(cj_test *t, bool up) {
  cj_world_set_down(t->world, !up);
}

void cj_test_hold(cj_test *t, const char *topic, int32_t partition, bool held) {
  partition_of(t, topic, partition)->held = held;
}

void cj_test_fail_request(cj_test *t, cj_test_request request, cj_test_fault fault, size_t times) {
  static const cj_io_request_kind kinds[] = {
      [CJ_TEST_COMMIT] = CJ_REQ_COMMIT,         [CJ_TEST_COMMITTED] = CJ_REQ_COMMITTED,
      [CJ_TEST_BOUNDS] = CJ_REQ_BOUNDS,         [CJ_TEST_ENDS] = CJ_REQ_ENDS,
      [CJ_TEST_METADATA] = CJ_REQ_METADATA,     [CJ_TEST_GROUP] = CJ_REQ_GROUP,
      [CJ_TEST_TXN_COMMIT] = CJ_REQ_TXN_COMMIT, [CJ_TEST_TXN_INIT] = CJ_REQ_TXN_INIT,
      [CJ_TEST_TXN_ABORT] = CJ_REQ_TXN_ABORT,
  };
  static const cj_world_fault faults[] = {
      [CJ_TEST_REFUSED] = {.effect = CJ_FAULT_REFUSE, .code = CJ_IO_RETRIABLE},
      [CJ_TEST_UNANSWERED] = {.effect = CJ_FAULT_HANG, .delay_ms = INT64_MAX / 4},
      [CJ_TEST_DONE_UNTOLD] = {.effect = CJ_FAULT_DONE_UNTOLD, .code = CJ_IO_TIMED_OUT},
      [CJ_TEST_DONE_LATE] = {.effect = CJ_FAULT_LATE, .delay_ms = 500},
      [CJ_TEST_DECIDED] = {.effect = CJ_FAULT_DECIDED, .delay_ms = 500},
  };
  bool of_transaction = request == CJ_TEST_TXN_COMMIT || request == CJ_TEST_TXN_ABORT;
  if (fault == CJ_TEST_DONE_LATE && !of_transaction)
    cj_world_misuse("only the end of a transaction can be done late");
  if (fault == CJ_TEST_DECIDED && request != CJ_TEST_TXN_COMMIT)
    cj_world_misuse("only a transaction's commit can be decided and not done");
  cj_world_fault added = faults[fault];
  added.kind = kinds[request];
  added.times = times;
  cj_world_fault_add(t->world, &added);
}

void cj_test_fail_fetch(cj_test *t, const char *topic, int32_t partition) {
  partition_of(t, topic, partition)->fail_fetch = true;
}

void cj_test_fail_delivery(cj_test *t, const char *name, size_t times) {
  cj_world_topic *topic = cj_driver_topic(t, name);
  topic->refuse_next = times;
  topic->refuse_code = CJ_IO_TOO_LARGE;
}
