/* SPDX-License-Identifier: BSD-2-Clause */
/* The options that every command has, and how they become configurations of cojoin and of
 * librdkafka. */
#include "tools/tool.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char tool_common_help[] =
    "Connection and general options:\n"
    "  -b, --brokers HOST:PORT[,…]  bootstrap brokers (property bootstrap.servers)\n"
    "  -X, --property NAME=VALUE    any property of cojoin (commit.interval.ms=200) or of\n"
    "                               librdkafka (security.protocol=SASL_SSL); repeatable\n"
    "  -F, --properties-file FILE   properties, NAME=VALUE a line, # begins a comment line\n"
    "  -v, --verbose                what happens, on standard error; twice: librdkafka's too\n"
    "  -q, --quiet                  errors only\n"
    "  -h, --help                   this text\n"
    "  -V, --version                versions of cojoin, librdkafka and RocksDB\n";

static void print_version(void) {
  printf("cojoin %s\nlibrdkafka %s\nRocksDB %s\n", cj_version(), cj_rdkafka_version(),
         cj_rocksdb_version());
}

tool_exit tool_usage(const tool_common *common, const char *format, ...) {
  char *text = NULL;
  va_list args;
  va_start(args, format);
  int len = vasprintf(&text, format, args);
  va_end(args);
  if (len >= 0) {
    tool_error("%s: %s", common->command, text);
    free(text);
  }
  tool_error("try `cojoin %s --help`", common->command);
  return TOOL_FAILED;
}

static tool_option_result common_mistake(const tool_common *common, int option, char **argv,
                                         tool_exit *code) {
  /* optind is past a long option; within a group of short ones only optopt tells which it was. */
  bool is_long = optopt == 0 || optopt >= TOOL_OPTION_OWN ||
                 (optind > 1 && strncmp(argv[optind - 1], "--", 2) == 0);
  char short_name[] = {'-', (char)optopt, '\0'};
  const char *shown = is_long ? argv[optind - 1] : short_name;
  *code = tool_usage(common,
                     option == ':' ? "option %s needs a value"
                                   : "there is no option %s, or it takes no value",
                     shown);
  return TOOL_OPTION_EXIT;
}

tool_option_result tool_common_option(tool_common *common, int option, char **argv,
                                      const char *help, tool_exit *code) {
  *code = TOOL_FAILED;
  switch (option) {
  case 'b':
    free(common->brokers);
    common->brokers = tool_strdup(optarg);
    return TOOL_OPTION_TAKEN;
  case 'X':
    return tool_add_property(common, optarg, "-X") ? TOOL_OPTION_TAKEN : TOOL_OPTION_EXIT;
  case 'F':
    return tool_add_file(common, optarg) ? TOOL_OPTION_TAKEN : TOOL_OPTION_EXIT;
  case 'v':
    if (tool_get_verbosity() < TOOL_DEBUG) tool_set_verbosity(tool_get_verbosity() + 1);
    return TOOL_OPTION_TAKEN;
  case 'q':
    tool_set_verbosity(TOOL_QUIET);
    return TOOL_OPTION_TAKEN;
  case 'h':
    fputs(help, stdout);
    putchar('\n');
    fputs(tool_common_help, stdout);
    *code = TOOL_DONE;
    return TOOL_OPTION_EXIT;
  case 'V':
    print_version();
    *code = TOOL_DONE;
    return TOOL_OPTION_EXIT;
  case '?':
  case ':':
    return common_mistake(common, option, argv, code);
  default:
    return TOOL_OPTION_OTHER;
  }
}

void tool_common_free(tool_common *common) {
  free(common->brokers);
  for (size_t i = 0; i < common->property_count; i++) {
    free(common->properties[i].name);
    free(common->properties[i].value);
    free(common->properties[i].origin);
  }
  free(common->properties);
  *common = (tool_common){0};
}

/* ---- properties ---- */
/* Cuts white space off both ends, in place. */
static char *trim(char *text) {
  while (isspace((unsigned char)*text))
    text++;
  char *end = text + strlen(text);
  while (end > text && isspace((unsigned char)end[-1]))
    end--;
  *end = '\0';
  return text;
}

bool tool_add_property(tool_common *common, const char *assignment, const char *origin) {
  char *copy = tool_strdup(assignment);
  char *equals = strchr(copy, '=');
  if (equals) *equals = '\0';
  char *name = trim(copy);
  if (!equals || *name == '\0') {
    tool_error("%s: \"%s\" is not a property: write NAME=VALUE", origin, assignment);
    free(copy);
    return false;
  }
  common->properties =
      tool_realloc(common->properties, (common->property_count + 1) * sizeof *common->properties);
  common->properties[common->property_count++] =
      (tool_property){.name = tool_strdup(name),
                      .value = tool_strdup(trim(equals + 1)),
                      .origin = tool_strdup(origin)};
  free(copy);
  return true;
}

static bool add_lines(tool_common *common, FILE *file, const char *path) {
  char *line = NULL;
  size_t cap = 0;
  bool ok = true;
  for (unsigned number = 1; ok && getline(&line, &cap, file) >= 0; number++) {
    char *text = trim(line);
    if (*text == '\0' || *text == '#') continue;
    char *origin = tool_format("%s:%u", path, number);
    ok = tool_add_property(common, text, origin);
    free(origin);
  }
  if (ok && ferror(file)) {
    tool_error("%s: %s", path, strerror(errno));
    ok = false;
  }
  free(line);
  return ok;
}

bool tool_add_file(tool_common *common, const char *path) {
  FILE *file = fopen(path, "re");
  if (!file) {
    tool_error("%s: %s", path, strerror(errno));
    return false;
  }
  bool ok = add_lines(common, file, path);
  fclose(file);
  return ok;
}

/* ---- configurations ---- */
/* Is it a property of cojoin? Only the table knows, and it prints itself: `name` in the first
 * column. */
static bool is_own_property(const char *documentation, const char *name) {
  char *cell = tool_format("| `%s` |", name);
  bool found = strstr(documentation, cell) != NULL;
  free(cell);
  return found;
}

/* An option of the command stands for its property; a file or -X can hold any. */
static bool refuse(cj_error *error, const char *origin, const char *name) {
  if (strncmp(origin, "--", 2) == 0)
    tool_error("%s: %s", origin, cj_error_message(error));
  else
    tool_error("%s: %s: %s", origin, name, cj_error_message(error));
  cj_error_destroy(error);
  return false;
}

bool tool_set(cj_config *config, const char *name, const char *value, const char *option) {
  cj_error *error = cj_config_set(config, name, value);
  return error ? refuse(error, option, name) : true;
}

static bool client_knows(const char *name, const char *value) {
  char why[256];
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  bool known = rd_kafka_conf_set(conf, name, value, why, sizeof why) != RD_KAFKA_CONF_UNKNOWN;
  rd_kafka_conf_destroy(conf);
  return known;
}

static bool set_property(cj_config *config, tool_property *property, const char *documentation) {
  const char *name = property->name;
  property->to_client = strncmp(name, "rd.", 3) == 0;
  /* What nobody knows is refused in cojoin's words, which name its nearest property. */
  if (property->to_client || is_own_property(documentation, name) ||
      !client_knows(name, property->value))
    return tool_set(config, name, property->value, property->origin);
  property->to_client = true;
  char *prefixed = tool_format("rd.%s", name);
  cj_error *error = cj_config_set(config, prefixed, property->value);
  free(prefixed);
  return error ? refuse(error, property->origin, name) : true;
}

bool tool_configure(tool_common *common, cj_config *config) {
  char *documentation = cj_config_documentation();
  if (!documentation) {
    tool_error("no memory left");
    return false;
  }
  bool ok = true;
  for (size_t i = 0; ok && i < common->property_count; i++)
    ok = set_property(config, &common->properties[i], documentation);
  free(documentation);
  if (ok && common->brokers) ok = tool_set(config, "bootstrap.servers", common->brokers, "-b");
  return ok;
}

bool tool_client_set(rd_kafka_conf_t *conf, const char *name, const char *value) {
  char why[256];
  if (rd_kafka_conf_set(conf, name, value, why, sizeof why) == RD_KAFKA_CONF_OK) return true;
  tool_error("%s: %s", name, why);
  return false;
}

rd_kafka_conf_t *tool_client_conf(const tool_common *common, const cj_config *config) {
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  rd_kafka_conf_set_log_cb(conf, tool_rd_log);
  const char *brokers = cj_config_get(config, "bootstrap.servers");
  bool ok = !brokers || *brokers == '\0' || tool_client_set(conf, "bootstrap.servers", brokers);
  for (size_t i = 0; ok && i < common->property_count; i++) {
    const tool_property *property = &common->properties[i];
    const char *name = property->name;
    if (property->to_client)
      ok = tool_client_set(conf, strncmp(name, "rd.", 3) == 0 ? name + 3 : name, property->value);
  }
  if (ok) return conf;
  rd_kafka_conf_destroy(conf);
  return NULL;
}

rd_kafka_t *tool_client_new(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
  char why[256];
  rd_kafka_t *rk = rd_kafka_new(type, conf, why, sizeof why);
  if (rk) return rk;
  rd_kafka_conf_destroy(conf);
  tool_error("the Kafka client could not be made: %s", why);
  return NULL;
}
