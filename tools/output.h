/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines to standard output from several worker threads, such that a line is with the operating
 * system before the library may commit the offset of the record it came from. */
#ifndef COJOIN_TOOL_OUTPUT_H
#define COJOIN_TOOL_OUTPUT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
  int fd;
  pthread_mutex_t lock;
  int error; /* errno of the write that failed; nothing is written after it */
} tool_output;

void tool_output_init(tool_output *output, int fd);
void tool_output_finish(tool_output *output);
/* Writes the bytes, which end with a line end. Returns 0 or the errno of this or an earlier
 * failure. Waits for a slow reader. Any thread. */
int tool_output_write(tool_output *output, const void *data, size_t len);
/* What the errno means for a person. Static. */
const char *tool_output_reason(int error);

#endif
