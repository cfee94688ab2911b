/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests to the brokers that the library has no call for, one at a time and waited for. All
 * report their failures and return false then. */
#ifndef COJOIN_TOOL_ADMIN_H
#define COJOIN_TOOL_ADMIN_H

#include "tools/tool.h"

#define TOOL_REQUEST_MS 15000

/* 0 partitions: there is no such topic. Creates none by asking. */
bool tool_partition_count(rd_kafka_t *rk, const char *topic, int *partitions);
bool tool_topic_is_empty(rd_kafka_t *rk, const char *topic, int partitions, bool *empty);
/* With the brokers' default replication. */
bool tool_create_topic(rd_kafka_t *rk, const char *topic, int partitions);
bool tool_delete_topics(rd_kafka_t *rk, const tool_strings *topics);
bool tool_delete_groups(rd_kafka_t *rk, const tool_strings *groups);

/* ---- a group's offsets; its members must be gone for a change ---- */
/* The group's members, each as "client id at host"; none if it is empty or unknown. */
bool tool_group_members(rd_kafka_t *rk, const char *group, tool_strings *members);
/* All offsets that the group has committed; the caller destroys the list. */
bool tool_group_offsets(rd_kafka_t *rk, const char *group, rd_kafka_topic_partition_list_t **list);
/* Sets the offsets of the list. */
bool tool_alter_offsets(rd_kafka_t *rk, const char *group,
                        const rd_kafka_topic_partition_list_t *list);
/* Deletes the offsets of the list. */
bool tool_delete_offsets(rd_kafka_t *rk, const char *group,
                         const rd_kafka_topic_partition_list_t *list);

#endif
