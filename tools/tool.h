/* SPDX-License-Identifier: BSD-2-Clause */
/* What the commands of the tool share: exit codes, messages, the common options.
 *
 * Threads: messages may be written from any thread; everything else is the main thread's. */
#ifndef COJOIN_TOOL_H
#define COJOIN_TOOL_H

#include <getopt.h>
#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <cojoin/cojoin.h>

/* The exit codes of every command, a contract with scripts. */
typedef enum {
  TOOL_DONE = 0,
  TOOL_FAILED = 1,     /* could not run: usage, connection, a failure on the way */
  TOOL_BROKEN = 2,     /* a point of the checklist is broken */
  TOOL_UNVERIFIED = 3, /* of check: nothing is broken, something is unverified */
} tool_exit;

typedef struct {
  const char *name;
  const char *summary; /* one line, for `cojoin --help` */
  tool_exit (*run)(int argc, char **argv);
} tool_command;

extern const tool_command tool_demo, tool_join, tool_check, tool_reset;

/* ---- messages (message.c) ---- */
typedef enum { TOOL_QUIET = -1, TOOL_NORMAL, TOOL_VERBOSE, TOOL_DEBUG } tool_verbosity;

void tool_set_verbosity(int verbosity);
int tool_get_verbosity(void);
/* "cojoin: " and the text, a line on standard error. Bytes that a terminal could obey are escaped,
 * whoever wrote them: an argument, a topic's name, a broker's answer. */
void tool_error(const char *format, ...) CJ_PRINTF(1, 2);
void tool_warn(const char *format, ...) CJ_PRINTF(1, 2);
/* Said unless -q was given; without the "cojoin: ". */
void tool_note(const char *format, ...) CJ_PRINTF(1, 2);
/* A text of several lines, whose line ends are kept. */
void tool_print_text(FILE *to, const char *text);
/* tool_error with the error's text; its report follows in full. Destroys the error. */
void tool_report_error(cj_error *error);
/* The exit code for an error that refused or ended a run. */
tool_exit tool_exit_of(const cj_error *error);
/* For cj_app_options.on_log: lines of the library, those that the verbosity lets through. */
void tool_on_log(void *user, cj_log_level level, const char *line);
/* For rd_kafka_conf_set_log_cb of the tool's own clients: shown with -vv only. */
void tool_rd_log(const rd_kafka_t *rk, int level, const char *facility, const char *text);
/* Colour: the stream is a terminal, TERM is not dumb and NO_COLOR (no-color.org) is not set. */
bool tool_colour(FILE *stream);
/* The stream is a terminal that can move its cursor. */
bool tool_terminal(FILE *stream);
/* A line on standard error that replaces itself: only if that is a terminal. Other messages go
 * above it. An empty text ends it. */
void tool_progress(const char *format, ...) CJ_PRINTF(1, 2);
/* Closes standard output; false, with a message, when something written to it was lost. */
bool tool_close_stdout(void);

/* ---- memory: a command line tool that has none left says so and ends ---- */
void *tool_owned(void *p);     /* p, unless it is NULL */
void *tool_alloc(size_t size); /* zeroed */
void *tool_realloc(void *p, size_t size);
char *tool_strdup(const char *text);
char *tool_format(const char *format, ...) CJ_PRINTF(1, 2);
/* A list of strings, owned. */
typedef struct {
  char **items;
  size_t count;
} tool_strings;
void tool_strings_add(tool_strings *list, const char *text);
bool tool_strings_has(const tool_strings *list, const char *text);
void tool_strings_free(tool_strings *list);

/* ---- the common options (options.c) ---- */
typedef struct {
  char *name, *value;
  char *origin;   /* "-X", "file.properties:3": shown when the value is refused */
  bool to_client; /* it went to librdkafka */
} tool_property;

typedef struct {
  const char *command; /* "join" */
  char *brokers;       /* -b, or NULL */
  tool_property *properties;
  size_t property_count;
} tool_common;

/* Put into each command's option string and option table. The numbers of a command's own long
 * options begin at TOOL_OPTION_OWN. */
#define TOOL_COMMON_SHORT ":b:X:F:vqhV"
#define TOOL_COMMON_LONG                                                                           \
  {"brokers", required_argument, NULL, 'b'}, {"property", required_argument, NULL, 'X'},           \
      {"properties-file", required_argument, NULL, 'F'}, {"verbose", no_argument, NULL, 'v'},      \
      {"quiet", no_argument, NULL, 'q'}, {"help", no_argument, NULL, 'h'}, {                       \
    "version", no_argument, NULL, 'V'                                                              \
  }
#define TOOL_OPTION_OWN 256

/* The lines of the common options, for the end of each command's help. */
extern const char tool_common_help[];

typedef enum {
  TOOL_OPTION_TAKEN, /* it was a common one */
  TOOL_OPTION_OTHER, /* the command's own */
  TOOL_OPTION_EXIT,  /* end now with *code: help, version, or a mistake that was reported */
} tool_option_result;

/* Deals with what getopt_long returned, the mistakes included. `help` is the command's text. */
tool_option_result tool_common_option(tool_common *common, int option, char **argv,
                                      const char *help, tool_exit *code);
void tool_common_free(tool_common *common);
/* Reports a mistake in the usage; returns TOOL_FAILED. */
tool_exit tool_usage(const tool_common *common, const char *format, ...) CJ_PRINTF(2, 3);

/* Adds a property "name=value". False, reported, if it is not one. */
bool tool_add_property(tool_common *common, const char *assignment, const char *origin);
/* Adds all properties of a file: name=value lines, blank lines, # comments. False, reported with
 * file and line. */
bool tool_add_file(tool_common *common, const char *path);

/* Sets the properties given and the brokers in the configuration. A name of cojoin's own is set as
 * such; any other goes to librdkafka as rd.NAME. False, reported with the property's origin. */
bool tool_configure(tool_common *common, cj_config *config);
/* Sets one, for options of a command; `option` is shown when it is refused. */
bool tool_set(cj_config *config, const char *name, const char *value, const char *option);
/* A client configuration of librdkafka with the same brokers and properties, after tool_configure.
 * NULL, reported, when it cannot be made. */
rd_kafka_conf_t *tool_client_conf(const tool_common *common, const cj_config *config);
bool tool_client_set(rd_kafka_conf_t *conf, const char *name, const char *value);
/* Makes a client; takes the conf in any case. NULL, reported, when it cannot be made. */
rd_kafka_t *tool_client_new(rd_kafka_type_t type, rd_kafka_conf_t *conf);

#endif
