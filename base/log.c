/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/base.h"

#include <stdio.h>

/* Lines up to this length need no allocation; a longer one without memory is cut here. */
#define USUAL_LINE 1024

void cj_logf(const cj_log *log, cj_log_level level, const char *format, ...) {
  if (!log || !log->line || level > log->level) return;
  char usual[USUAL_LINE];
  char *line = usual, *longer = NULL;
  va_list args;
  va_start(args, format);
  int len = vsnprintf(usual, sizeof usual, format, args);
  va_end(args);
  if (len < 0) return;
  if ((size_t)len >= sizeof usual && (longer = cj_alloc((size_t)len + 1))) {
    va_start(args, format);
    vsnprintf(longer, (size_t)len + 1, format, args);
    va_end(args);
    line = longer;
  }
  /* One call is one line, whatever a topic's name or a broker's words bring along. */
  for (char *c = line; *c; c++)
    if ((unsigned char)*c < ' ') *c = ' ';
  log->line(log->user, level, line);
  cj_free(longer);
}
