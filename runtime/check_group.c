/* SPDX-License-Identifier: BSD-2-Clause */
/* Point 4: what this member will do, and whether the group's living members do the same. The stamp
 * in a member's client id tells; one without a stamp deals indices as it likes. */
#include <stdio.h>
#include <string.h>

#include "runtime/check_internal.h"
#include "runtime/stamp.h"

#define ROWS_MAX 20 /* members that are named one by one */

static const char *assignor_name(cj_assignment scheme) {
  static const char *const names[] = {[CJ_ASSIGN_RANGE] = "range",
                                      [CJ_ASSIGN_SPREAD] = "roundrobin",
                                      [CJ_ASSIGN_STICKY] = "cooperative-sticky",
                                      [CJ_ASSIGN_BROKER] = "range"};
  return names[scheme];
}

void cj_check_scheme(cj_check *c) {
  cj_report *report = c->out->report;
  cj_report_set(report, CJ_POINT_ASSIGNMENT, CJ_HOLDS, NULL);
  cj_report_add(report, CJ_POINT_ASSIGNMENT,
                "assignment %s: the assignor %s deals all topics, and only the anchor's partitions "
                "count",
                cj_assignment_name(c->settings->assignment),
                assignor_name(c->settings->assignment));
  for (size_t g = 0; g < c->plan->group_count; g++) {
    const cj_plan_group *group = &c->plan->groups[g];
    int anchor = cj_stamp_anchor_counted(c->plan, g, c->settings, c->out->partition_counts);
    const char *name = c->plan->topics[anchor].name;
    cj_buf names = CJ_BUF_INIT;
    for (size_t i = 0; i < group->topic_count; i++)
      cj_buf_printf(&names, "%s%s", i ? ", " : "", c->plan->topics[group->topics[i]].name);
    cj_buf_append(&names, "", 1);
    cj_report_add(report, CJ_POINT_ASSIGNMENT, "anchor of {%s}: %s, %s",
                  names.failed ? "…" : (const char *)names.data, name,
                  anchor == cj_stamp_anchor(c->plan, g, c->settings)
                      ? (strcmp(name, c->settings->anchor) == 0 ? "pinned by the property anchor"
                                                                : "the first by name")
                      : "the one with most partitions");
    cj_buf_free(&names);
  }
}

/* ---- members ---- */

typedef enum { FITS, OTHER_TOPOLOGY, OTHER_ANCHOR, OTHER_SCHEME, FOREIGN, KINDS } kind;

static kind kind_of(const cj_io_member *member, const cj_stamp *ours, cj_stamp *theirs) {
  if (!cj_stamp_parse(member->client_id, theirs)) return FOREIGN;
  if (theirs->scheme != ours->scheme) return OTHER_SCHEME;
  if (theirs->anchors != ours->anchors) return OTHER_ANCHOR;
  return theirs->topology == ours->topology ? FITS : OTHER_TOPOLOGY;
}

static void describe(char *out, size_t size, kind k, const cj_io_member *member,
                     const cj_stamp *ours, const cj_stamp *theirs) {
  char why[160] = "";
  switch (k) {
  case FOREIGN:
    snprintf(why, sizeof why, "is no member of cojoin and would take partitions for itself");
    break;
  case OTHER_SCHEME:
    snprintf(why, sizeof why, "uses assignment %s, this one %s", cj_assignment_name(theirs->scheme),
             cj_assignment_name(ours->scheme));
    break;
  case OTHER_ANCHOR:
    snprintf(why, sizeof why, "has the anchor %s%s, this one %s", theirs->anchor,
             strcmp(theirs->anchor, ours->anchor) == 0 ? " but others for other topics" : "",
             ours->anchor);
    break;
  default:
    snprintf(why, sizeof why, "runs another version of the topology (%08x, this one %08x)",
             (unsigned)theirs->topology, (unsigned)ours->topology);
  }
  snprintf(out, size, "member %s at %s %s", member->client_id ? member->client_id : "",
           member->host ? member->host : "an unknown host", why);
}

static const char *remedy_of(kind k) {
  switch (k) {
  case FOREIGN:
    return "Give that client a group of its own, or this application another application.id. A "
           "member that was killed is listed until its session times out.";
  case OTHER_SCHEME:
    return "Use the same assignment on every member; to change it, stop all of them first. A "
           "member that was killed is listed until its session times out.";
  case OTHER_ANCHOR:
    return "Set the property anchor to the topic that the others use, or stop all members first. A "
           "member that was killed is listed until its session times out.";
  default:
    return "Nothing, in a rolling deploy: the versions deal the indices alike. Until the last old "
           "member is gone, its tasks do what its version does.";
  }
}

static void judge_members(cj_check *c, const cj_io_event *group) {
  cj_stamp ours, theirs;
  cj_stamp_of(c->plan, c->settings, &ours);
  size_t count[KINDS] = {0}, rows = 0;
  char line[700], first[700] = "";
  kind worst = FITS;
  for (size_t i = 0; i < group->member_count; i++) {
    const cj_io_member *member = &group->members[i];
    kind k = kind_of(member, &ours, &theirs);
    count[k]++;
    if (k == FITS) continue;
    describe(line, sizeof line, k, member, &ours, &theirs);
    if (rows++ < ROWS_MAX) cj_report_add(c->out->report, CJ_POINT_ASSIGNMENT, "%s", line);
    if (k <= worst) continue;
    worst = k;
    memcpy(first, line, sizeof first);
  }
  if (rows > ROWS_MAX)
    cj_report_add(c->out->report, CJ_POINT_ASSIGNMENT, "and %zu more", rows - ROWS_MAX);
  cj_report_add(c->out->report, CJ_POINT_ASSIGNMENT,
                "group %s: %zu of %zu members use this assignment, anchor and topology",
                c->settings->application_id, count[FITS], group->member_count);
  if (worst == OTHER_TOPOLOGY)
    cj_report_set(c->out->report, CJ_POINT_ASSIGNMENT, CJ_UNVERIFIED, remedy_of(worst));
  else if (worst != FITS)
    cj_check_break(c, CJ_POINT_ASSIGNMENT,
                   cj_error_new(CJ_ERR_ASSIGNMENT, c->settings->application_id, "%s", first),
                   remedy_of(worst));
}

/* A group whose members have all left may still have its protocol named. */
void cj_check_group(cj_check *c, const cj_io_event *group, const cj_error *why) {
  if (!group) {
    const cj_error *cause = cj_error_cause(why);
    cj_report_set(c->out->report, CJ_POINT_ASSIGNMENT, CJ_UNVERIFIED,
                  "See to it that no other client uses this group. Each member asserts by itself "
                  "that its partitions are the same of every topic.");
    cj_report_add(c->out->report, CJ_POINT_ASSIGNMENT, "group %s could not be described: %s",
                  c->settings->application_id, cj_error_message(cause ? cause : why));
    return;
  }
  if (group->member_count == 0) {
    cj_report_add(c->out->report, CJ_POINT_ASSIGNMENT, "group %s has no members",
                  c->settings->application_id);
    return;
  }
  judge_members(c, group);
}
