/* SPDX-License-Identifier: BSD-2-Clause */
/* The configuration as the runtime reads it: checked, typed, with defaults filled in. The table of
 * properties that it comes from is in config.c. */
#ifndef CJ_CONFIG_INTERNAL_H
#define CJ_CONFIG_INTERNAL_H

#include <cojoin/config.h>

#include "base/base.h"

typedef enum {
  CJ_ASSIGN_RANGE,
  CJ_ASSIGN_SPREAD,
  CJ_ASSIGN_STICKY,
  CJ_ASSIGN_BROKER
} cj_assignment;
typedef enum { CJ_ORDER_TIMESTAMP, CJ_ORDER_TABLE_FIRST } cj_order;
typedef enum { CJ_AT_LEAST_ONCE, CJ_EXACTLY_ONCE } cj_guarantee;
typedef enum { CJ_RESET_EARLIEST, CJ_RESET_LATEST, CJ_RESET_ERROR } cj_reset;
typedef enum { CJ_POLICY_FAIL, CJ_POLICY_SKIP, CJ_POLICY_DEAD_LETTER } cj_error_policy;
typedef enum { CJ_CHECK_ENFORCE, CJ_CHECK_WARN } cj_check_policy;

/* A property for librdkafka, without the `rd.`. */
typedef struct {
  const char *name, *value;
} cj_rd_property;

typedef struct {
  const char *application_id;    /* application.id: the group id; required */
  const char *bootstrap_servers; /* bootstrap.servers; required by io_rdkafka */
  const char *state_dir;      /* state.dir; default $XDG_STATE_HOME/cojoin, ~/.local/state/cojoin;
                                 NULL where neither is known and store is memory */
  const char *client_id;      /* client.id: "" or a name that the stable id is put before */
  int threads;                /* threads: 1 (1 … 256) */
  cj_assignment assignment;   /* assignment: range */
  const char *anchor;         /* anchor: "" or the topic that is to be a set's anchor */
  cj_order order;             /* order: timestamp */
  int64_t max_task_idle_ms;   /* max.task.idle.ms: 0; -1 does not wait for anything */
  cj_guarantee guarantee;     /* processing.guarantee: at_least_once */
  int64_t commit_interval_ms; /* commit.interval.ms: 1,000 (100 exactly-once) */
  cj_reset auto_offset_reset; /* auto.offset.reset, streams only: earliest */
  bool read_committed;        /* isolation.level: read_uncommitted (exactly-once: read_committed) */
  int64_t memory_bytes;       /* memory.bytes: 256 MiB for caches, write buffers and queues */
  int64_t overlay_bytes;      /* overlay.bytes: 32 MiB of uncommitted updates force a commit */
  int open_files_max;         /* open.files.max: 0, from the process's limit */
  cj_check_policy check[4];   /* check.partition.count, check.keys, check.partitioner,
                                 check.assignment: enforce | warn */
  int64_t check_timeout_ms;   /* check.timeout.ms: 30,000 */
  cj_error_policy on_deserialize; /* errors.deserialize: fail | skip | dead_letter */
  cj_error_policy on_process;     /* errors.process */
  cj_error_policy on_produce;     /* errors.produce */
  const char *dead_letter_topic;  /* errors.dead.letter.topic: "" ; required by dead_letter */
  int64_t shutdown_timeout_ms;    /* shutdown.timeout.ms: 30,000 */
  int64_t revoke_timeout_ms;      /* revoke.timeout.ms: 10,000 */
  int64_t request_timeout_ms;     /* request.timeout.ms: 10,000, of one request to the broker */
  int64_t transaction_timeout_ms; /* rd.transaction.timeout.ms: 10,000 */
  int64_t store_lock_wait_ms;     /* store.lock.wait.ms: 60,000 */
  bool store_in_memory;           /* store: rocksdb | memory */
  bool stop_at_end;       /* stop.at.end: false; stop once every input was read and committed
                             to the end offset that it had at the start */
  cj_log_level log_level; /* log.level: info */
  const cj_rd_property *rd;
  size_t rd_count;
} cj_settings;

/* Checks the whole (what one property alone cannot tell, such as a dead-letter policy without a
 * topic) and fills `settings`, whose strings are owned by the config and valid until it changes. */
CJ_MUST_CHECK cj_error *cj_config_settings(const cj_config *config, cj_settings *settings);

/* "range" …: the word that the property takes for it. Static. */
const char *cj_assignment_name(cj_assignment assignment);

/* How memory.bytes is shared out among the stores; the last quarter is for the queues of fetched
 * records (rdkafka/properties.c). The uncommitted overlays come on top, bounded by overlay.bytes.
 */
typedef struct {
  uint64_t cache_bytes;        /* half: the block cache of all stores */
  uint64_t write_buffer_bytes; /* a quarter: the write buffers of all stores */
} cj_memory_share;
cj_memory_share cj_config_memory(const cj_settings *settings);

#endif
