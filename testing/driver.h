/* SPDX-License-Identifier: BSD-2-Clause */
/* The test driver's inside (cojoin/testing.h): driver.c steps, driver_member.c starts and ends
 * members, driver_topics.c is the broker's side. */
#ifndef CJ_DRIVER_H
#define CJ_DRIVER_H

#include <cojoin/testing.h>

#include "operators/plan.h"
#include "runtime/worker.h"
#include "testing/io_memory.h"

typedef struct {
  cj_io *io;
  cj_worker *worker;
  int64_t deadline; /* as its last idle step said */
  bool finished;
} cj_test_worker;

/* A process, of which the disk outlives the rest. */
typedef struct {
  cj_test *t;
  char *name;
  cj_log log;
  cj_kv_source *disk;
  bool running, frozen, stalled;
  cj_state *state;
  cj_test_worker *workers;
  size_t worker_count;
  size_t turn;
  cj_error *error;
} cj_test_member;

struct cj_test {
  const cj_plan *plan;
  cj_config *config;
  cj_settings settings;
  cj_world *world;
  char **lines;
  size_t line_count, line_cap;
  bool print_log;
  bool in_transaction; /* cj_test_transaction */
  cj_test_member **members;
  size_t member_count, member_cap;
  size_t turn;
  cj_test_watch_fn *watch; /* or NULL */
  void *watch_user;
};

/* Keeps a log line of a member. */
void cj_driver_log(cj_test *t, const char *member, cj_log_level level, const char *line);
/* Aborts when it is no table of the plan. */
const cj_plan_topic *cj_driver_table(cj_test *t, const char *name);

/* ---- driver_member.c ---- */
cj_test_member *cj_driver_member(cj_test *t, const char *name); /* or NULL */
/* One step of one of its workers, or of its store pool. False: all of them are idle. */
bool cj_driver_member_step(cj_test_member *member);
int64_t cj_driver_member_deadline(const cj_test_member *member);
/* Everything in memory is gone; the disk stays. */
void cj_driver_member_end(cj_test_member *member, bool crash);
void cj_driver_member_free(cj_test_member *member);
/* The worker of the member that owns the index, or NULL. */
const cj_test_worker *cj_driver_owner(const cj_test_member *member, int group, int32_t partition);

/* ---- driver_topics.c ---- */
/* Aborts when it does not exist. */
cj_world_topic *cj_driver_topic(cj_test *t, const char *name);
int32_t cj_driver_partition_for(cj_test *t, const char *topic, cj_bytes key);
/* Makes the sinks and the dead-letter topic where they are missing. */
void cj_driver_make_sinks(cj_test *t);

#endif
