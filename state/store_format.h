/* SPDX-License-Identifier: BSD-2-Clause */
/* What a task's store looks like on disk. Numbers have a fixed byte order, so that a state
 * directory can be moved to any machine.
 *
 *   key                       value
 *   "t" id(2, big-endian) K   timestamp(8, little-endian), the row's value
 *   "p" id(2, big-endian)     version(1), the position's five numbers (8 each, little-endian)
 *   "mf"                      format(1), the fingerprint: see store_format.c
 *   "mt" topic                id(2, big-endian) of that table
 */
#ifndef CJ_STORE_FORMAT_H
#define CJ_STORE_FORMAT_H

#include "state/task_store.h"

#define CJ_STORE_TABLE_PREFIX 3 /* bytes before a row's key */
#define CJ_STORE_TIMESTAMP    8 /* bytes before a row's value */
#define CJ_STORE_POSITION     41
#define CJ_STORE_TABLES_MAX   UINT16_MAX

typedef struct {
  unsigned char bytes[CJ_STORE_TABLE_PREFIX];
} cj_store_prefix;
cj_store_prefix cj_store_rows_prefix(uint16_t id);  /* of a table's rows */
cj_store_prefix cj_store_position_key(uint16_t id); /* the whole key of its position */

void cj_store_put_timestamp(unsigned char to[CJ_STORE_TIMESTAMP], int64_t timestamp);
/* Splits a row's bytes; false when they are too short to be one. */
bool cj_store_get_row(cj_bytes stored, cj_bytes *value, int64_t *timestamp);

void cj_store_put_position(unsigned char to[CJ_STORE_POSITION], const cj_position *position);
bool cj_store_get_position(cj_bytes stored, cj_position *position);

void cj_store_put_table_id(unsigned char to[2], uint16_t id);
bool cj_store_get_table_id(cj_bytes stored, uint16_t *id);

/* The fingerprint without its tables. Read back, the strings are views into the bytes, not ended by
 * a NUL. */
typedef struct {
  int format;
  cj_bytes cluster_id, anchor;
  int32_t partition, partition_count;
} cj_store_identity;
void cj_store_put_identity(cj_buf *to, const cj_fingerprint *fingerprint);
/* A format that this build does not know leaves all but `format` zero, and is no failure. */
bool cj_store_get_identity(cj_bytes stored, cj_store_identity *identity);

#endif
