/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COJOIN_TOOL_TIMESTAMP_H
#define COJOIN_TOOL_TIMESTAMP_H

#include <stdbool.h>
#include <stdint.h>

/* Milliseconds since the epoch: as such ("1714521600000"), or as ISO 8601: "2024-05-01",
 * "2024-05-01T12:00", "…:30", "….250", with "Z", "+07:00" or nothing (UTC) behind. */
bool tool_parse_timestamp(const char *text, int64_t *ms);

#endif
