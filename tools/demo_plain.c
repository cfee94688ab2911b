/* SPDX-License-Identifier: BSD-2-Clause */
/* The experiment with plain librdkafka consumers: what a group does with two topics when nobody
 * looks after co-location. With `roundrobin` over 2 topics of 6 partitions, partition p of the
 * second topic goes 6 mod 4 = 2 members further than partition p of the first: no index is aligned,
 * whatever the order of the members. */
#include "tools/demo.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  rd_kafka_t *members[DEMO_MEMBERS];
  const demo_topics *topics;
  int price_at[DEMO_SYMBOLS]; /* the member that received the symbol's price; -1: none yet */
  int notification_at[DEMO_SYMBOLS][DEMO_NOTIFICATIONS];
  int received; /* of the prices and notifications */
} plain_run;

#define ALL_RECEIVED (DEMO_SYMBOLS + DEMO_LOOKUPS)

static rd_kafka_t *new_member(demo_cluster *cluster, const char *group) {
  rd_kafka_conf_t *conf = tool_client_conf(cluster->common, cluster->config);
  if (!conf) return NULL;
  if (tool_client_set(conf, "group.id", group) &&
      tool_client_set(conf, "partition.assignment.strategy", "roundrobin") &&
      tool_client_set(conf, "auto.offset.reset", "earliest") &&
      tool_client_set(conf, "enable.auto.commit", "false") && demo_tune_client(cluster, conf))
    return tool_client_new(RD_KAFKA_CONSUMER, conf);
  rd_kafka_conf_destroy(conf);
  return NULL;
}

static bool subscribe(rd_kafka_t *member, const demo_topics *topics) {
  rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(2);
  rd_kafka_topic_partition_list_add(list, topics->updates, RD_KAFKA_PARTITION_UA);
  rd_kafka_topic_partition_list_add(list, topics->notifications, RD_KAFKA_PARTITION_UA);
  rd_kafka_resp_err_t err = rd_kafka_subscribe(member, list);
  rd_kafka_topic_partition_list_destroy(list);
  if (err) tool_error("subscribing: %s", rd_kafka_err2str(err));
  return !err;
}

static void receive(plain_run *run, int member, const rd_kafka_message_t *message) {
  int symbol = demo_symbol_index(message->key, message->key_len);
  if (symbol < 0) return;
  int *at = &run->price_at[symbol];
  if (strcmp(rd_kafka_topic_name(message->rkt), run->topics->notifications) == 0) {
    int n = demo_notification_index(message->payload, message->len, DEMO_RUN_PLAIN);
    if (n < 0) return;
    at = &run->notification_at[symbol][n];
  }
  if (*at == -1) run->received++;
  *at = member;
}

/* Each member polls once, as each would in its own process. */
static void poll_all(plain_run *run) {
  for (int m = 0; m < DEMO_MEMBERS; m++) {
    rd_kafka_message_t *message = rd_kafka_consumer_poll(run->members[m], 5);
    if (!message) continue;
    if (!message->err) receive(run, m, message);
    rd_kafka_message_destroy(message);
  }
}

/* Who owns what now; true when every partition has an owner and every member its share. */
static bool read_owners(const plain_run *run, demo_owners *owners) {
  const int share = 2 * DEMO_PARTITIONS / DEMO_MEMBERS;
  bool settled = true;
  demo_owners_clear(owners);
  for (int m = 0; m < DEMO_MEMBERS; m++) {
    rd_kafka_topic_partition_list_t *list;
    if (rd_kafka_assignment(run->members[m], &list) != RD_KAFKA_RESP_ERR_NO_ERROR) return false;
    if (list->cnt != share) settled = false;
    for (int i = 0; i < list->cnt; i++) {
      bool update = strcmp(list->elems[i].topic, run->topics->updates) == 0;
      int partition = list->elems[i].partition;
      if (partition < 0 || partition >= DEMO_PARTITIONS) continue;
      (update ? owners->updates : owners->notifications)[partition] = m;
    }
    rd_kafka_topic_partition_list_destroy(list);
  }
  return settled;
}

static bool wait_settled(plain_run *run, demo_owners *owners) {
  int64_t end = demo_tick_ms() + DEMO_TIMEOUT_MS;
  do {
    if (demo_give_up(end, "the group of plain clients did not settle")) return false;
    poll_all(run);
  } while (!read_owners(run, owners));
  return true;
}

static bool wait_received(plain_run *run) {
  int64_t end = demo_tick_ms() + DEMO_TIMEOUT_MS;
  while (run->received < ALL_RECEIVED) {
    if (demo_give_up(end, "the plain clients received %d of %d records", run->received,
                     ALL_RECEIVED))
      return false;
    poll_all(run);
  }
  return true;
}

static int count_local(const plain_run *run) {
  int local = 0;
  for (int s = 0; s < DEMO_SYMBOLS; s++)
    for (int n = 0; n < DEMO_NOTIFICATIONS; n++)
      if (run->price_at[s] >= 0 && run->notification_at[s][n] == run->price_at[s]) local++;
  return local;
}

/* The data is produced once the group has settled: what a member reads stays with it. */
static bool run_members(plain_run *run, demo_cluster *cluster, const char *group) {
  demo_owners owners;
  for (int m = 0; m < DEMO_MEMBERS; m++) {
    run->members[m] = new_member(cluster, group);
    if (!run->members[m] || !subscribe(run->members[m], run->topics)) return false;
  }
  if (!wait_settled(run, &owners)) return false;
  demo_print_owners(run->topics, &owners);
  return demo_produce(cluster, run->topics, DEMO_RUN_PLAIN) && wait_received(run);
}

bool demo_run_plain(demo_cluster *cluster, const demo_topics *topics, int *local) {
  plain_run run = {.topics = topics};
  memset(run.price_at, -1, sizeof run.price_at);
  memset(run.notification_at, -1, sizeof run.notification_at);
  char *group = demo_group(cluster, "plain");
  bool ok = run_members(&run, cluster, group);
  for (int m = 0; m < DEMO_MEMBERS; m++) {
    if (!run.members[m]) continue;
    rd_kafka_consumer_close(run.members[m]);
    rd_kafka_destroy(run.members[m]);
  }
  free(group);
  *local = count_local(&run);
  return ok;
}
