/* SPDX-License-Identifier: BSD-2-Clause */
/* Records as text: JSON and tab-separated lines that can be told apart from their neighbours
 * whatever bytes the records hold. */
#ifndef COJOIN_TOOL_ENCODE_H
#define COJOIN_TOOL_ENCODE_H

#include <cojoin/record.h>

/* A stream record and the row that it met. */
typedef struct {
  const char *topic;
  int32_t partition;
  int64_t offset;
  int64_t timestamp;
  cj_bytes key;
  cj_bytes stream; /* the stream record's value */
  cj_bytes table;  /* the row's value; null without a row */
  const cj_header *headers;
  size_t header_count;
} tool_joined;

/* Well-formed UTF-8 as RFC 3629 has it: no overlong form, no surrogate, nothing past U+10FFFF. */
bool tool_utf8_valid(const void *data, size_t len);
/* The length of the well-formed character at the front, or 0. */
size_t tool_utf8_char(const unsigned char *data, size_t len);

/* RFC 4648, with padding. */
void tool_base64(cj_buf *out, cj_bytes in);

/* Appends one JSON object, without a line end, with exactly the members topic, partition, offset,
 * timestamp, key, stream, table, headers, in this order. A part that is not UTF-8 is
 * {"base64":"…"}, an absent one null; headers are an array of [name, value], empty without any.
 * Control characters (C0, DEL and C1) are always escaped. False: no memory. */
bool tool_joined_json(const tool_joined *joined, cj_buf *out);

/* Appends topic, partition, offset, timestamp, key, stream, table with a tab between each two. In a
 * field a backslash, tab, line feed and carriage return are \\ \t \n \r; other control characters
 * and bytes that are not UTF-8 are \xNN; an absent field is \N, as databases' copy formats have it.
 * Headers are not shown. */
void tool_joined_tsv(const tool_joined *joined, cj_buf *out);
/* One field of it. */
void tool_escape(cj_buf *out, cj_bytes in);
/* The same for messages, where a backslash stands for itself. */
void tool_printable(cj_buf *out, const char *text, size_t len);

#endif
