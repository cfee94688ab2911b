/* SPDX-License-Identifier: BSD-2-Clause */
/* Points 1 to 3. Point 1 is settled by the cluster's metadata. For 2 and 3 the declarations are all
 * there is without sampled records: they can contradict each other, they cannot prove anything. */
#include <string.h>

#include "runtime/check_internal.h"

static const char *plural(int32_t n) {
  return n == 1 ? "" : "s";
}

/* ---- point 1: the same partition count ---- */

#define CREATE_TOPIC                                                                               \
  "Create the topic, or correct its name: none is ever created automatically. If it exists, this " \
  "client may lack the right to describe it."

#define SAME_COUNT                                                                                 \
  "Make a topic with the count of the others, copy the records into it by their keys with the "    \
  "producers' partitioner, and join that one. Raising the count of the smaller topic is no cure: " \
  "keys that are there already stay where they were."

static void missing(cj_check *c, size_t topic) {
  const char *name = cj_check_topic_name(c, topic), *nearest = c->topics[topic].nearest;
  const char *also = nearest ? "; the nearest names are: " : "; no topic has a name like it";
  cj_report_add(c->out->report, CJ_POINT_PARTITION_COUNT, "%s (%s): does not exist%s%s", name,
                cj_check_topic_kind(c, topic), also, nearest ? nearest : "");
  cj_report_set(c->out->report, CJ_POINT_PARTITION_COUNT, CJ_BROKEN, CREATE_TOPIC);
  if (!c->out->missing)
    c->out->missing = cj_error_new(CJ_ERR_TOPIC_MISSING, name, "the topic does not exist%s%s", also,
                                   nearest ? nearest : "");
}

/* The count that most topics of the set have; 0 where no count has more than the others (with two
 * topics nobody can say which one is wrong). Missing topics have no say. */
static int32_t majority(const cj_check *c, const cj_plan_group *group) {
  int32_t best = 0;
  size_t votes = 0;
  bool tie = false;
  for (size_t i = 0; i < group->topic_count; i++) {
    int32_t count = c->topics[group->topics[i]].partitions;
    size_t same = 0;
    for (size_t k = 0; k < group->topic_count; k++)
      same += c->topics[group->topics[k]].partitions == count;
    if (count == 0 || count == best || same < votes) continue;
    tie = same == votes;
    best = count;
    votes = same;
  }
  return tie ? 0 : best;
}

static bool counts_differ(const cj_check *c, const cj_plan_group *group) {
  int32_t first = 0;
  for (size_t i = 0; i < group->topic_count; i++) {
    int32_t count = c->topics[group->topics[i]].partitions;
    if (count && first && count != first) return true;
    if (!first) first = count;
  }
  return false;
}

/* "a, b and d" of the topics that have that count. */
static void add_names(cj_buf *out, const cj_check *c, const cj_plan_group *group, int32_t count) {
  size_t left = 0;
  for (size_t i = 0; i < group->topic_count; i++)
    left += c->topics[group->topics[i]].partitions == count;
  for (size_t i = 0, n = 0; i < group->topic_count; i++) {
    if (c->topics[group->topics[i]].partitions != count) continue;
    left--;
    cj_buf_printf(out, "%s%s",
                  n == 0 ? ""
                  : left ? ", "
                         : " and ",
                  cj_check_topic_name(c, (size_t)group->topics[i]));
    n++;
  }
}

/* Each topic apart, the odd ones first; then those that agree (case 31). */
static void describe_difference(cj_buf *out, const cj_check *c, const cj_plan_group *group,
                                int32_t agreed) {
  size_t n = 0;
  for (size_t i = 0; i < group->topic_count; i++) {
    size_t topic = (size_t)group->topics[i];
    int32_t count = c->topics[topic].partitions;
    if (count == 0 || count == agreed) continue;
    cj_buf_printf(out, "%s%s has %d partition%s", n++ ? ", " : "", cj_check_topic_name(c, topic),
                  (int)count, plural(count));
  }
  if (!agreed) return;
  cj_buf_append_str(out, ", ");
  size_t before = out->len;
  add_names(out, c, group, agreed);
  bool several = !out->failed && memmem(out->data + before, out->len - before, " and ", 5) != NULL;
  cj_buf_printf(out, " %s %d", several ? "have" : "has", (int)agreed);
}

static void break_counts(cj_check *c, const cj_plan_group *group) {
  int32_t agreed = majority(c, group);
  cj_buf text = CJ_BUF_INIT;
  describe_difference(&text, c, group, agreed);
  cj_buf_append(&text, "", 1);
  cj_error *error = text.failed
                        ? cj_error_no_memory()
                        : cj_error_new(CJ_ERR_NOT_COPARTITIONED, NULL,
                                       "%s; joined topics need the same number of partitions",
                                       (const char *)text.data);
  cj_buf_free(&text);
  cj_check_break(c, CJ_POINT_PARTITION_COUNT, error, c->out->missing ? CREATE_TOPIC : SAME_COUNT);
  if (c->settings->check[CJ_POINT_PARTITION_COUNT] != CJ_CHECK_WARN) return;
  for (size_t i = 0; i < group->topic_count; i++) {
    size_t topic = (size_t)group->topics[i];
    int32_t count = c->topics[topic].partitions, most = 0;
    for (size_t k = 0; k < group->topic_count; k++)
      if (c->topics[group->topics[k]].partitions > most)
        most = c->topics[group->topics[k]].partitions;
    if (count && count < most)
      cj_report_add(c->out->report, CJ_POINT_PARTITION_COUNT,
                    "policy warn: the tasks %d to %d run without %s", (int)count, (int)most - 1,
                    cj_check_topic_name(c, topic));
  }
}

static bool is_odd(const cj_check *c, size_t topic) {
  if (topic >= c->plan->input_count) return false;
  const cj_plan_group *group = &c->plan->groups[c->plan->topics[topic].group];
  int32_t agreed = majority(c, group);
  return agreed && c->topics[topic].partitions != agreed;
}

void cj_check_counts(cj_check *c) {
  cj_report_set(c->out->report, CJ_POINT_PARTITION_COUNT, CJ_HOLDS, NULL);
  for (size_t i = 0; i < c->out->topic_count; i++) {
    int32_t count = c->topics[i].partitions;
    if (count == 0)
      missing(c, i);
    else
      cj_report_add(c->out->report, CJ_POINT_PARTITION_COUNT, "%s (%s): %d partition%s%s",
                    cj_check_topic_name(c, i), cj_check_topic_kind(c, i), (int)count, plural(count),
                    is_odd(c, i) ? ", unlike the topics it is joined with" : "");
  }
  for (size_t g = 0; g < c->plan->group_count; g++)
    if (counts_differ(c, &c->plan->groups[g])) break_counts(c, &c->plan->groups[g]);
}

/* ---- points 2 and 3: what is declared ---- */

static const char *key_serde(const cj_plan_topic *topic) {
  return topic->key_serde ? topic->key_serde->name : "bytes";
}

/* Two declarations that cannot both be true of equal keys: built-in serdes of different forms. What
 * bytes hold, and what a serde of the user's writes, only the records tell. */
static bool serdes_clash(const cj_plan_topic *a, const cj_plan_topic *b) {
  const cj_serde *x = a->key_serde, *y = b->key_serde, *bytes = cj_serde_bytes();
  if (!x || !y || x == bytes || y == bytes || x == y) return false;
  return cj_serde_named(x->name) == x && cj_serde_named(y->name) == y;
}

static const cj_partitioner *declared(const cj_plan_topic *topic) {
  return topic->partitioner ? topic->partitioner : cj_partitioner_murmur2();
}

static bool partitioners_clash(const cj_plan_topic *a, const cj_plan_topic *b) {
  const cj_partitioner *x = declared(a), *y = declared(b);
  return x != y && cj_partitioner_named(x->name) == x && cj_partitioner_named(y->name) == y;
}

static void break_declared(cj_check *c, cj_point point, const cj_plan_topic *a,
                           const cj_plan_topic *b) {
  bool keys = point == CJ_POINT_KEYS;
  cj_check_break(c, point,
                 cj_error_new(CJ_ERR_NOT_COPARTITIONED, NULL,
                              keys ? "the keys of %s are declared %s, those of %s %s: equal keys "
                                     "would have different bytes"
                                   : "the producers of %s are declared %s, those of %s %s: equal "
                                     "keys would be in different partitions",
                              a->name, keys ? key_serde(a) : declared(a)->name, b->name,
                              keys ? key_serde(b) : declared(b)->name),
                 keys ? "Correct the declaration that is wrong, or write one topic anew with the "
                        "other's key serialization."
                      : "Correct the declaration that is wrong, or write one topic anew with the "
                        "other's partitioner.");
}

static void declared_group(cj_check *c, const cj_plan_group *group) {
  for (size_t i = 0; i < group->topic_count; i++) {
    const cj_plan_topic *topic = &c->plan->topics[group->topics[i]];
    cj_report_add(c->out->report, CJ_POINT_KEYS, "%s: keys declared as %s", topic->name,
                  key_serde(topic));
    cj_report_add(c->out->report, CJ_POINT_PARTITIONER, "%s: producers declared as %s", topic->name,
                  declared(topic)->name);
  }
  for (size_t i = 1; i < group->topic_count; i++) {
    const cj_plan_topic *first = &c->plan->topics[group->topics[0]];
    const cj_plan_topic *topic = &c->plan->topics[group->topics[i]];
    if (serdes_clash(first, topic)) break_declared(c, CJ_POINT_KEYS, first, topic);
    /* In a single partition every partitioner agrees. */
    if (partitioners_clash(first, topic) && c->topics[group->topics[i]].partitions != 1)
      break_declared(c, CJ_POINT_PARTITIONER, first, topic);
  }
}

void cj_check_declared(cj_check *c) {
  static const cj_point points[] = {CJ_POINT_KEYS, CJ_POINT_PARTITIONER};
  static const char *const settle[] = {
      "Compare the key bytes of a few records of each topic, hexadecimal: equal keys must be equal "
      "bytes.",
      "Find a key that is in both topics: it must be in the same partition of both."};
  cj_report *report = c->out->report;
  bool joined = false;
  for (size_t g = 0; g < c->plan->group_count; g++)
    joined |= c->plan->groups[g].topic_count > 1;
  for (size_t i = 0; i < 2; i++) {
    if (joined)
      cj_report_set(report, points[i], CJ_UNVERIFIED, settle[i]);
    else
      cj_report_set(report, points[i], CJ_HOLDS, NULL);
    cj_report_add(report, points[i],
                  joined ? "no record was sampled: only what is declared is known"
                         : "no topics are joined");
  }
  for (size_t g = 0; g < c->plan->group_count; g++)
    if (c->plan->groups[g].topic_count > 1) declared_group(c, &c->plan->groups[g]);
}
