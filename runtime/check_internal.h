/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the files of the checklist: check.c asks the cluster, check_topics.c judges points 1 to
 * 3, check_group.c point 4. */
#ifndef CJ_CHECK_INTERNAL_H
#define CJ_CHECK_INTERNAL_H

#include "runtime/check.h"

/* What the cluster says about a topic. */
typedef struct {
  int32_t partitions; /* 0: missing */
  cj_io_code code;
  char *nearest; /* of a missing one: names like it, or NULL */
} cj_check_topic;

typedef struct {
  cj_io *io;
  const cj_plan *plan;
  const cj_settings *settings;
  const cj_log *log;
  cj_check_cancelled_fn *cancelled;
  void *user;
  cj_check_result *out;
  cj_check_topic *topics; /* out->topic_count of them */
  int64_t deadline;       /* the io's clock */
  uint64_t id;            /* of the last request */
  cj_error *cause;        /* the client's own words on why nobody answers, or NULL */
  bool told;              /* a line about it was logged */
} cj_check;

/* The plan's topics, then the dead-letter topic. */
const char *cj_check_topic_name(const cj_check *c, size_t topic);
/* "stream", "table", "sink" or "dead letters". */
const char *cj_check_topic_kind(const cj_check *c, size_t topic);

/* Sets a point to broken. The error (consumed) is handed out by cj_check_enforce; the first one of
 * a point is kept. */
void cj_check_break(cj_check *c, cj_point point, cj_error *error, const char *remedy);

/* Points 1, 2 and 3, from c->topics and the plan. */
void cj_check_counts(cj_check *c);
void cj_check_declared(cj_check *c);
/* Point 4: the configuration; then the group as `described` says, or why it could not be described
 * (`described` NULL). */
void cj_check_scheme(cj_check *c);
void cj_check_group(cj_check *c, const cj_io_event *described, const cj_error *why);

#endif
