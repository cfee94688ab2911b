/* SPDX-License-Identifier: BSD-2-Clause */
/* Everything that the tool says on standard error, and memory that it cannot do without. */
#include "tools/encode.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int verbosity;
static atomic_bool progress_shown;

void tool_set_verbosity(int value) {
  verbosity = value;
}

int tool_get_verbosity(void) {
  return verbosity;
}

/* One write a line, so that lines of several threads do not mix. `keep_lines`: the text's own line
 * ends are meant. */
static void write_text(FILE *to, const char *prefix, const char *text, bool keep_lines) {
  cj_buf line = CJ_BUF_INIT;
  if (to == stderr && atomic_exchange(&progress_shown, false)) cj_buf_append_str(&line, "\r\033[K");
  cj_buf_append_str(&line, prefix);
  for (;;) {
    size_t len = keep_lines ? strcspn(text, "\n") : strlen(text);
    tool_printable(&line, text, len);
    cj_buf_append(&line, "\n", 1);
    text += len;
    if (*text == '\0' || *++text == '\0') break;
  }
  if (!line.failed) fwrite(line.data, 1, line.len, to);
  fflush(to);
  cj_buf_free(&line);
}

static void say(const char *prefix, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int len = vsnprintf(NULL, 0, format, args);
  char *text = len < 0 ? NULL : malloc((size_t)len + 1);
  if (text) {
    vsnprintf(text, (size_t)len + 1, format, again);
    write_text(stderr, prefix, text, false);
    free(text);
  }
  va_end(again);
}

void tool_error(const char *format, ...) {
  va_list args;
  va_start(args, format);
  say("cojoin: ", format, args);
  va_end(args);
}

void tool_warn(const char *format, ...) {
  if (verbosity < TOOL_NORMAL) return;
  va_list args;
  va_start(args, format);
  say("cojoin: warning: ", format, args);
  va_end(args);
}

void tool_note(const char *format, ...) {
  if (verbosity < TOOL_NORMAL) return;
  va_list args;
  va_start(args, format);
  say("", format, args);
  va_end(args);
}

void tool_print_text(FILE *to, const char *text) {
  write_text(to, "", text, true);
}

void tool_report_error(cj_error *error) {
  tool_error("%s", cj_error_text(error));
  const cj_report *report = cj_error_report(error);
  if (report) tool_print_text(stderr, cj_report_text(report));
  cj_error_destroy(error);
}

tool_exit tool_exit_of(const cj_error *error) {
  switch (cj_error_code(error)) {
  case CJ_OK:
    return TOOL_DONE;
  case CJ_ERR_TOPIC_MISSING: /* a missing topic is point 1 broken */
  case CJ_ERR_NOT_COPARTITIONED:
  case CJ_ERR_PARTITIONS_CHANGED:
  case CJ_ERR_ASSIGNMENT:
    return TOOL_BROKEN;
  default:
    return TOOL_FAILED;
  }
}

void tool_on_log(void *user, cj_log_level level, const char *line) {
  (void)user;
  static const int needs[] = {[CJ_LOG_ERROR] = TOOL_QUIET,
                              [CJ_LOG_WARN] = TOOL_NORMAL,
                              [CJ_LOG_INFO] = TOOL_VERBOSE,
                              [CJ_LOG_DEBUG] = TOOL_DEBUG};
  if (verbosity < needs[level]) return;
  write_text(stderr,
             level == CJ_LOG_ERROR  ? "cojoin: "
             : level == CJ_LOG_WARN ? "cojoin: warning: "
                                    : "",
             line, false);
}

void tool_rd_log(const rd_kafka_t *rk, int level, const char *facility, const char *text) {
  (void)rk;
  (void)level;
  if (verbosity < TOOL_DEBUG) return;
  char *line = tool_format("librdkafka: %s: %s", facility, text);
  write_text(stderr, "", line, false);
  free(line);
}

bool tool_terminal(FILE *stream) {
  const char *term = getenv("TERM");
  return term && strcmp(term, "dumb") != 0 && isatty(fileno(stream));
}

bool tool_colour(FILE *stream) {
  const char *no_color = getenv("NO_COLOR");
  return !(no_color && *no_color) && tool_terminal(stream);
}

void tool_progress(const char *format, ...) {
  if (!tool_terminal(stderr)) return;
  char text[256];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (*text == '\0' && !atomic_load(&progress_shown)) return;
  fprintf(stderr, "\r%s\033[K", text);
  fflush(stderr);
  atomic_store(&progress_shown, *text != '\0');
}

bool tool_close_stdout(void) {
  bool failed = ferror(stdout) != 0;
  if (fclose(stdout) != 0) failed = true;
  if (failed) tool_error("standard output: %s", errno ? strerror(errno) : "could not be written");
  return !failed;
}

/* ---- memory ---- */
void *tool_owned(void *p) {
  if (p) return p;
  fputs("cojoin: no memory left\n", stderr);
  exit(TOOL_FAILED);
}

void *tool_alloc(size_t size) {
  return tool_owned(calloc(1, size ? size : 1));
}

void *tool_realloc(void *p, size_t size) {
  return tool_owned(realloc(p, size ? size : 1));
}

char *tool_strdup(const char *text) {
  return tool_owned(strdup(text));
}

char *tool_format(const char *format, ...) {
  char *text = NULL;
  va_list args;
  va_start(args, format);
  int len = vasprintf(&text, format, args);
  va_end(args);
  return tool_owned(len < 0 ? NULL : text);
}

void tool_strings_add(tool_strings *list, const char *text) {
  list->items = tool_realloc(list->items, (list->count + 1) * sizeof *list->items);
  list->items[list->count++] = tool_strdup(text);
}

bool tool_strings_has(const tool_strings *list, const char *text) {
  for (size_t i = 0; i < list->count; i++)
    if (strcmp(list->items[i], text) == 0) return true;
  return false;
}

void tool_strings_free(tool_strings *list) {
  for (size_t i = 0; i < list->count; i++)
    free(list->items[i]);
  free(list->items);
  *list = (tool_strings){0};
}
