/* SPDX-License-Identifier: BSD-2-Clause */
#include "runtime/stamp.h"

#include <cojoin/partitioner.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Raised when members of the old and the new form must not work in one group. */
#define MARK "cj1."

int cj_stamp_anchor(const cj_plan *plan, size_t group, const cj_settings *settings) {
  const cj_plan_group *g = &plan->groups[group];
  if (settings->anchor && settings->anchor[0])
    for (size_t i = 0; i < g->topic_count; i++)
      if (strcmp(plan->topics[g->topics[i]].name, settings->anchor) == 0) return g->topics[i];
  return g->anchor;
}

int cj_stamp_anchor_counted(const cj_plan *plan, size_t group, const cj_settings *settings,
                            const int32_t *partition_counts) {
  const cj_plan_group *g = &plan->groups[group];
  int anchor = cj_stamp_anchor(plan, group, settings);
  for (size_t i = 0; i < g->topic_count; i++)
    if (partition_counts[g->topics[i]] > partition_counts[anchor]) anchor = g->topics[i];
  return anchor;
}

void cj_stamp_of(const cj_plan *plan, const cj_settings *settings, cj_stamp *stamp) {
  *stamp = (cj_stamp){.scheme = settings->assignment, .topology = plan->hash};
  for (size_t g = 0; g < plan->group_count; g++) {
    const char *name = plan->topics[cj_stamp_anchor(plan, g, settings)].name;
    /* Exclusive or: the order in which a version numbers its sets means nothing. */
    stamp->anchors ^= cj_fnv1a(name, strlen(name));
    if (g == 0) snprintf(stamp->anchor, sizeof stamp->anchor, "%s", name);
  }
}

char *cj_stamp_client_id(const cj_stamp *stamp, const char *process_id, int worker,
                         const char *client_id) {
  bool named = client_id && client_id[0];
  return cj_asprintf("%s-%03d-%s%s" MARK "%s.%s.%08x.%08x", process_id, worker,
                     named ? client_id : "", named ? "-" : "", cj_assignment_name(stamp->scheme),
                     stamp->anchor, stamp->anchors, stamp->topology);
}

cj_error *cj_stamp_transactional_id(const cj_settings *settings, const char *process_id, int worker,
                                    char **id) {
  *id = NULL;
  if (settings->guarantee != CJ_EXACTLY_ONCE) return NULL;
  *id = cj_asprintf("%s-%s-%d", settings->application_id, process_id, worker);
  return *id ? NULL : cj_error_no_memory();
}

static bool read_scheme(const char **at, cj_assignment *scheme) {
  for (cj_assignment a = CJ_ASSIGN_RANGE; a <= CJ_ASSIGN_BROKER; a++) {
    const char *name = cj_assignment_name(a);
    size_t len = strlen(name);
    if (strncmp(*at, name, len) != 0 || (*at)[len] != '.') continue;
    *scheme = a;
    *at += len + 1;
    return true;
  }
  return false;
}

static bool read_hash(const char *text, uint32_t *hash) {
  if (text[0] != '.' || strspn(text + 1, "0123456789abcdef") < 8) return false;
  char digits[9] = "";
  memcpy(digits, text + 1, 8);
  *hash = (uint32_t)strtoul(digits, NULL, 16);
  return true;
}

/* The anchor may hold dots: the hashes are found from the end. */
static bool read_from(const char *at, cj_stamp *stamp) {
  *stamp = (cj_stamp){0};
  if (!read_scheme(&at, &stamp->scheme)) return false;
  const size_t hashes = 2 * strlen(".00000000");
  size_t len = strlen(at);
  if (len < hashes || len - hashes > CJ_STAMP_ANCHOR_MAX) return false;
  const char *tail = at + len - hashes;
  memcpy(stamp->anchor, at, len - hashes);
  return read_hash(tail, &stamp->anchors) && read_hash(tail + hashes / 2, &stamp->topology);
}

bool cj_stamp_parse(const char *client_id, cj_stamp *stamp) {
  if (!client_id) return false;
  /* The user's part may hold the mark too; the stamp is the last that reads as one. */
  bool found = false;
  for (const char *at = client_id; (at = strstr(at, "-" MARK)); at++) {
    cj_stamp candidate;
    if (!read_from(at + 1 + strlen(MARK), &candidate)) continue;
    *stamp = candidate;
    found = true;
  }
  return found;
}
