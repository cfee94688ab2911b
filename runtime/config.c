/* SPDX-License-Identifier: BSD-2-Clause */
/* One table says all there is about a property; checking, reading and the documentation come from
 * it. What concerns several properties at once is in cj_config_settings. */
#include "runtime/config.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/config_table.h"
#include "runtime/io.h"
#include "runtime/nearest.h"

#define RD_PREFIX "rd."

struct cj_config {
  char **values;   /* as set, NULL where not; one for each line of the table */
  char *state_dir; /* what state.dir is where it is not set; NULL: nothing is known */
  cj_rd_property *rd;
  size_t rd_count, rd_cap;
};

/* ---- making and copying ---- */

/* XDG Base Directory Specification: a relative path in the variable is to be ignored. */
static char *default_state_dir(bool *failed) {
  const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  char *dir = NULL;
  bool known = true;
  if (xdg && xdg[0] == '/')
    dir = cj_asprintf("%s/cojoin", xdg);
  else if (home && home[0] == '/')
    dir = cj_asprintf("%s/.local/state/cojoin", home);
  else
    known = false;
  *failed = known && !dir;
  return dir;
}

cj_config *cj_config_new(void) {
  cj_config *config = cj_alloc(sizeof *config);
  if (!config) return NULL;
  bool failed;
  config->values = cj_alloc(cj_property_count * sizeof *config->values);
  config->state_dir = default_state_dir(&failed);
  if (config->values && !failed) return config;
  cj_config_destroy(config);
  return NULL;
}

void cj_config_destroy(cj_config *config) {
  if (!config) return;
  for (size_t i = 0; config->values && i < cj_property_count; i++)
    cj_free(config->values[i]);
  for (size_t i = 0; i < config->rd_count; i++) {
    cj_free((char *)(uintptr_t)config->rd[i].name);
    cj_free((char *)(uintptr_t)config->rd[i].value);
  }
  cj_free(config->values);
  cj_free(config->state_dir);
  cj_free(config->rd);
  cj_free(config);
}

static bool add_rd(cj_config *config, const char *name, const char *value) {
  if (config->rd_count == config->rd_cap) {
    size_t cap = config->rd_cap ? config->rd_cap * 2 : 8;
    cj_rd_property *rd = cj_realloc(config->rd, cap * sizeof *rd);
    if (!rd) return false;
    config->rd = rd;
    config->rd_cap = cap;
  }
  cj_rd_property property = {cj_strdup(name), cj_strdup(value)};
  if (!property.name || !property.value) {
    cj_free((char *)(uintptr_t)property.name);
    cj_free((char *)(uintptr_t)property.value);
    return false;
  }
  config->rd[config->rd_count++] = property;
  return true;
}

cj_config *cj_config_copy(const cj_config *config) {
  if (!config) return NULL;
  cj_config *copy = cj_alloc(sizeof *copy);
  if (copy) copy->values = cj_alloc(cj_property_count * sizeof *copy->values);
  bool ok = copy && copy->values;
  for (size_t i = 0; ok && i < cj_property_count; i++)
    if (config->values[i]) ok = (copy->values[i] = cj_strdup(config->values[i])) != NULL;
  if (ok && config->state_dir) ok = (copy->state_dir = cj_strdup(config->state_dir)) != NULL;
  for (size_t i = 0; ok && i < config->rd_count; i++)
    ok = add_rd(copy, config->rd[i].name, config->rd[i].value);
  if (ok) return copy;
  cj_config_destroy(copy);
  return NULL;
}

/* ---- setting ---- */

static cj_error *set_rd(cj_config *config, const char *name, const char *value) {
  const char *bare = name + strlen(RD_PREFIX);
  cj_error *error = cj_io_rdkafka_check_property(bare, value);
  if (error) return error;
  for (size_t i = 0; i < config->rd_count; i++) {
    if (strcmp(config->rd[i].name, bare) != 0) continue;
    char *copy = cj_strdup(value);
    if (!copy) return cj_error_no_memory();
    cj_free((char *)(uintptr_t)config->rd[i].value);
    config->rd[i].value = copy;
    return NULL;
  }
  return add_rd(config, bare, value) ? NULL : cj_error_no_memory();
}

static cj_error *unknown_property(const char *name) {
  cj_nearest nearest = {.wanted = name};
  for (size_t i = 0; i < cj_property_count; i++)
    cj_nearest_consider(&nearest, cj_properties[i].name);
  return cj_error_new(CJ_ERR_CONFIG, name,
                      "there is no such property%s%s; those of librdkafka begin with " RD_PREFIX,
                      nearest.count ? "; the nearest is " : "",
                      nearest.count ? nearest.name[0] : "");
}

static const cj_property *find(const char *name, size_t *index) {
  for (size_t i = 0; i < cj_property_count; i++) {
    if (strcmp(cj_properties[i].name, name) != 0) continue;
    *index = i;
    return &cj_properties[i];
  }
  return NULL;
}

cj_error *cj_config_set(cj_config *config, const char *name, const char *value) {
  if (!config || !name || !value)
    return cj_error_new(CJ_ERR_ARGUMENT, name, "cj_config_set takes a config, a name and a value");
  if (strncmp(name, RD_PREFIX, strlen(RD_PREFIX)) == 0) return set_rd(config, name, value);
  size_t i;
  const cj_property *property = find(name, &i);
  if (!property) return unknown_property(name);
  cj_error *error = cj_property_read(property, value, NULL);
  if (error) return error;
  char *copy = cj_strdup(value);
  if (!copy) return cj_error_no_memory();
  cj_free(config->values[i]);
  config->values[i] = copy;
  return NULL;
}

/* ---- reading ---- */

static const char *get_rd(const cj_config *config, const char *name) {
  for (size_t i = 0; i < config->rd_count; i++)
    if (strcmp(config->rd[i].name, name) == 0) return config->rd[i].value;
  return NULL;
}

/* The defaults that are not a constant. */
static const char *dependent_default(const cj_config *config, const char *name) {
  bool exactly_once = strcmp(cj_config_get(config, "processing.guarantee"), "exactly_once") == 0;
  if (strcmp(name, "state.dir") == 0) return config->state_dir;
  if (strcmp(name, "commit.interval.ms") == 0) return exactly_once ? "100" : "1000";
  if (strcmp(name, "isolation.level") == 0)
    return exactly_once ? "read_committed" : "read_uncommitted";
  return NULL;
}

static const char *value_of(const cj_config *config, size_t i) {
  if (config->values[i]) return config->values[i];
  if (cj_properties[i].value) return cj_properties[i].value;
  return dependent_default(config, cj_properties[i].name);
}

const char *cj_config_get(const cj_config *config, const char *name) {
  if (!config || !name) return NULL;
  if (strncmp(name, RD_PREFIX, strlen(RD_PREFIX)) == 0)
    return get_rd(config, name + strlen(RD_PREFIX));
  size_t i;
  return find(name, &i) ? value_of(config, i) : NULL;
}

/* ---- the whole ---- */

/* librdkafka's default, for the bound that a revoke has to stay under. */
#define MAX_POLL_INTERVAL_MS 300000
/* Ours (rdkafka/properties.c), for the bound that a commit interval has to stay under. */
#define TRANSACTION_TIMEOUT_MS 10000

static cj_error *check_supported(const cj_settings *settings) {
  if (settings->assignment == CJ_ASSIGN_STICKY)
    return cj_error_new(
        CJ_ERR_UNSUPPORTED, "assignment",
        "sticky needs incremental assignment, which this version of cojoin does "
        "not have yet (and librdkafka 2.10 or newer, which it would need because "
        "older ones lose partitions under cooperative-sticky): use range or spread");
  if (settings->assignment == CJ_ASSIGN_BROKER)
    return cj_error_new(CJ_ERR_UNSUPPORTED, "assignment",
                        "broker needs the group protocol of KIP-848, which this version of cojoin "
                        "does not have yet: use range or spread");
  return NULL;
}

static cj_error *check_dead_letter(const cj_settings *settings) {
  const struct {
    const char *name;
    cj_error_policy policy;
  } policies[] = {{"errors.deserialize", settings->on_deserialize},
                  {"errors.process", settings->on_process},
                  {"errors.produce", settings->on_produce}};
  for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++)
    if (policies[i].policy == CJ_POLICY_DEAD_LETTER && !settings->dead_letter_topic[0])
      return cj_error_new(CJ_ERR_CONFIG, policies[i].name,
                          "dead_letter needs a topic: set errors.dead.letter.topic");
  return NULL;
}

static long long rd_ms(const cj_config *config, const char *name, long long otherwise) {
  const char *value = get_rd(config, name);
  return value ? strtoll(value, NULL, 10) : otherwise;
}

/* The broker aborts a transaction that is open for longer than that, and fences its producer. */
static cj_error *check_transaction(const cj_settings *settings) {
  if (settings->guarantee != CJ_EXACTLY_ONCE ||
      settings->commit_interval_ms < settings->transaction_timeout_ms)
    return NULL;
  return cj_error_new(CJ_ERR_CONFIG, "commit.interval.ms",
                      "%lld ms is not less than transaction.timeout.ms, %lld ms: no transaction "
                      "would live long enough to be committed",
                      (long long)settings->commit_interval_ms,
                      (long long)settings->transaction_timeout_ms);
}

static cj_error *check_settings(const cj_config *config, const cj_settings *settings) {
  if (!settings->application_id)
    return cj_error_new(CJ_ERR_CONFIG, "application.id",
                        "it is required: it names the consumer group and the state's directory");
  if (!settings->state_dir && !settings->store_in_memory)
    return cj_error_new(CJ_ERR_CONFIG, "state.dir",
                        "it is not set, and neither XDG_STATE_HOME nor HOME gives a default");
  cj_error *error = check_supported(settings);
  if (!error) error = check_dead_letter(settings);
  if (!error) error = check_transaction(settings);
  if (error) return error;
  long long poll_ms = rd_ms(config, "max.poll.interval.ms", MAX_POLL_INTERVAL_MS);
  if (settings->revoke_timeout_ms >= poll_ms)
    return cj_error_new(CJ_ERR_CONFIG, "revoke.timeout.ms",
                        "%lld ms is not less than max.poll.interval.ms, %lld ms: the group would "
                        "evict the member before it answers",
                        (long long)settings->revoke_timeout_ms, poll_ms);
  return NULL;
}

cj_error *cj_config_settings(const cj_config *config, cj_settings *settings) {
  *settings = (cj_settings){.transaction_timeout_ms =
                                rd_ms(config, "transaction.timeout.ms", TRANSACTION_TIMEOUT_MS),
                            .rd = config->rd,
                            .rd_count = config->rd_count};
  for (size_t i = 0; i < cj_property_count; i++) {
    const char *value = value_of(config, i);
    cj_error *error = value ? cj_property_read(&cj_properties[i], value, settings) : NULL;
    if (error) return error;
  }
  return check_settings(config, settings);
}

cj_memory_share cj_config_memory(const cj_settings *settings) {
  uint64_t bytes = (uint64_t)settings->memory_bytes;
  return (cj_memory_share){.cache_bytes = bytes / 2, .write_buffer_bytes = bytes / 4};
}
