/* SPDX-License-Identifier: BSD-2-Clause */
/* The demo's parts: a place to run in, and what runs there. */
#ifndef COJOIN_TOOL_DEMO_H
#define COJOIN_TOOL_DEMO_H

#include "tools/tool.h"

#define DEMO_MEMBERS       4
#define DEMO_PARTITIONS    6
#define DEMO_SYMBOLS       10
#define DEMO_NOTIFICATIONS 3 /* a symbol */
#define DEMO_LOOKUPS       (DEMO_SYMBOLS * DEMO_NOTIFICATIONS)
#define DEMO_TIMEOUT_MS    40000 /* of anything that is waited for */

/* ---- the cluster (demo_cluster.c) ---- */
typedef struct {
  tool_common *common;
  cj_config *config; /* how to connect, for cojoin and for plain clients */
  const char *prefix;
  bool keep;
  rd_kafka_t *mock_host; /* NULL on a real broker */
  struct rd_kafka_mock_cluster_s *mock;
  rd_kafka_t *producer;
  tool_strings created; /* topics and groups that this run made on a real broker */
  tool_strings groups;
  int failed_deliveries;
} demo_cluster;

/* The mock cluster inside this process, or, if brokers are configured, those. False, reported. */
bool demo_open(demo_cluster *cluster);
/* Removes what was made on a real broker, unless it is to be kept. */
void demo_close(demo_cluster *cluster);
/* Makes the topic with DEMO_PARTITIONS partitions. On a real broker one that exists is taken if it
 * has as many and is empty. Returns its name with the prefix, or NULL, reported. The caller frees
 * it. */
char *demo_topic(demo_cluster *cluster, const char *name);
/* A group id that no other run of the demo uses. The caller frees it. */
char *demo_group(demo_cluster *cluster, const char *name);
/* Produces a record; the client's murmur2_random places it. False, reported. */
bool demo_send(demo_cluster *cluster, const char *topic, const char *key, const char *value,
               int64_t timestamp);
/* Waits until all are acknowledged. */
bool demo_flush(demo_cluster *cluster);
/* What makes members join and fetch quickly. */
bool demo_tune_client(const demo_cluster *cluster, rd_kafka_conf_t *conf);
bool demo_tune_app(const demo_cluster *cluster, cj_config *config);
/* From now on SIGINT and SIGTERM only ask: what was made is removed first. A second one ends the
 * process at once. */
void demo_catch_signals(void);
/* For loops that wait: true, reported, when a signal came, or with the message given when the time
 * (of demo_tick_ms) has passed. */
bool demo_give_up(int64_t end_ms, const char *format, ...) CJ_PRINTF(2, 3);
int64_t demo_now_ms(void);  /* wall clock */
int64_t demo_tick_ms(void); /* monotonic */
void demo_sleep_ms(int ms);

/* ---- part 1: the co-location experiment (demo_colocation.c) ---- */
typedef struct {
  const char *symbol;
  const char *price;
} demo_quote;
extern const demo_quote demo_market[DEMO_SYMBOLS];
int demo_symbol_index(const void *key, size_t len); /* or -1 */

typedef struct {
  char *updates, *notifications; /* topics */
} demo_topics;

/* The member that owns a partition; -1: none. */
typedef struct {
  int updates[DEMO_PARTITIONS], notifications[DEMO_PARTITIONS];
} demo_owners;
void demo_owners_clear(demo_owners *owners);
void demo_print_owners(const demo_topics *topics, const demo_owners *owners);

/* Both runs use the same topics. A notification says which run it is for, so that none is counted
 * in the other. */
#define DEMO_RUN_PLAIN  'p'
#define DEMO_RUN_COJOIN 'c'
/* One price for each symbol, then its notifications. */
bool demo_produce(demo_cluster *cluster, const demo_topics *topics, char run);
/* Which of its symbol's notifications of the run the value is, or -1. */
int demo_notification_index(const void *value, size_t len, char run);

/* Each runs its experiment, prints who owns what and sets *local to the number of the DEMO_LOOKUPS
 * notifications that found their price where they were. False, reported: it could not be run. */
bool demo_run_plain(demo_cluster *cluster, const demo_topics *topics, int *local);
bool demo_run_cojoin(demo_cluster *cluster, const demo_topics *topics, int *local);

/* ---- a cojoin application in the demo (demo_app.c) ---- */
typedef struct {
  cj_app *app;
  char *group;
  char *state_dir; /* removed at the end */
} demo_app;
void demo_on_log(void *user, cj_log_level level, const char *line);
/* Takes the plan. Starts `threads` members. False, reported. */
bool demo_app_start(demo_app *app, demo_cluster *cluster, cj_plan *plan, const char *name,
                    int threads, const cj_app_options *options);
/* Does it still run? False, reported, when it ended. */
bool demo_app_runs(demo_app *app);
/* Stops it and removes its state. False, reported, when it did not end well. */
bool demo_app_stop(demo_app *app);

/* ---- part 2: the price-alert join (demo_alerts.c) ---- */
bool demo_run_alerts(demo_cluster *cluster);

#endif
