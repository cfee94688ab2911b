/* SPDX-License-Identifier: BSD-2-Clause */
/* The client id of a member: what keeps its place, and what tells others who it is.
 *
 *   1f2e3d4c-000-orders-cj1.range.price.9f3c11aa.5a6b7c8d
 *   └ process └ worker └ client.id    └ scheme └ anchor, hash of all anchors, hash of the topology
 *
 * A broker makes the member id from the client id and a random part, and the assignors `range` and
 * `roundrobin` sort by it: with the stable part in front a restarted process gets its old indices
 * back. Everybody who may describe the group can read the rest: a member without a stamp is no
 * cojoin member, one with another scheme or other anchors would deal the indices otherwise.
 *
 * Only [A-Za-z0-9._-] is used, which every client, quota and metrics tool takes. */
#ifndef CJ_STAMP_H
#define CJ_STAMP_H

#include "operators/plan.h"
#include "runtime/config.h"

#define CJ_STAMP_ANCHOR_MAX 48

typedef struct {
  cj_assignment scheme;
  char anchor[CJ_STAMP_ANCHOR_MAX + 1]; /* of the first set, cut: for a person */
  uint32_t anchors;                     /* hash of the anchors of all sets, whatever their order */
  uint32_t topology;                    /* hash of the topology */
} cj_stamp;

/* The anchor of a set, an index in plan.topics: the topic that the property `anchor` pins if it is
 * one of the set, otherwise the first by name. */
int cj_stamp_anchor(const cj_plan *plan, size_t group, const cj_settings *settings);
/* The same where the counts are known. Only under the policy `warn` may they differ: then the
 * topic with most partitions has to be the anchor, or its last ones would be nobody's. */
int cj_stamp_anchor_counted(const cj_plan *plan, size_t group, const cj_settings *settings,
                            const int32_t *partition_counts);

void cj_stamp_of(const cj_plan *plan, const cj_settings *settings, cj_stamp *stamp);

/* The whole client id; freed with cj_free, NULL without memory. `client_id` may be "". */
CJ_MUST_CHECK char *cj_stamp_client_id(const cj_stamp *stamp, const char *process_id, int worker,
                                       const char *client_id);

/* A worker's transactional id. Without the stamp: a restarted process ends what it left open,
 * whatever version of the topology it runs. *id is freed with cj_free, and NULL where no
 * transactions are wanted. */
CJ_MUST_CHECK cj_error *cj_stamp_transactional_id(const cj_settings *settings,
                                                  const char *process_id, int worker, char **id);

/* Reads the stamp back; false: there is none of this version. */
bool cj_stamp_parse(const char *client_id, cj_stamp *stamp);

#endif
