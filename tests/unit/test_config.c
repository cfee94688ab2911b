/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/config.h"
#include "runtime/config_table.h"
#include "runtime/nearest.h"

static cj_config *fresh(void) {
  cj_config *config = cj_config_new();
  assert_non_null(config);
  return config;
}

static void set(cj_config *config, const char *name, const char *value) {
  cj_error *error = cj_config_set(config, name, value);
  if (error) fail_msg("%s", cj_error_text(error));
}

/* Refused with that code, for that subject, and the message holds `says`. */
static void expect(cj_error *error, cj_code code, const char *subject, const char *says) {
  assert_non_null(error);
  assert_string_equal(cj_code_name(cj_error_code(error)), cj_code_name(code));
  assert_string_equal(cj_error_subject(error), subject);
  if (!strstr(cj_error_message(error), says))
    fail_msg("\"%s\" does not say \"%s\"", cj_error_message(error), says);
  cj_error_destroy(error);
}

static void refuse(cj_config *config, const char *name, const char *value, const char *says) {
  expect(cj_config_set(config, name, value), CJ_ERR_CONFIG, name, says);
}

static cj_settings settings_of(const cj_config *config) {
  cj_settings settings;
  cj_error *error = cj_config_settings(config, &settings);
  if (error) fail_msg("%s", cj_error_text(error));
  return settings;
}

static void test_defaults(void **state) {
  (void)state;
  cj_config *config = fresh();
  set(config, "application.id", "orders");
  cj_settings s = settings_of(config);
  assert_string_equal(s.application_id, "orders");
  assert_null(s.bootstrap_servers);
  assert_string_equal(s.client_id, "");
  assert_int_equal(s.threads, 1);
  assert_int_equal(s.assignment, CJ_ASSIGN_RANGE);
  assert_int_equal(s.order, CJ_ORDER_TIMESTAMP);
  assert_int_equal(s.max_task_idle_ms, 0);
  assert_int_equal(s.guarantee, CJ_AT_LEAST_ONCE);
  assert_int_equal(s.commit_interval_ms, 1000);
  assert_int_equal(s.auto_offset_reset, CJ_RESET_EARLIEST);
  assert_false(s.read_committed);
  assert_int_equal(s.memory_bytes, 256 * 1024 * 1024);
  assert_int_equal(s.overlay_bytes, 32 * 1024 * 1024);
  for (int i = 0; i < 4; i++)
    assert_int_equal(s.check[i], CJ_CHECK_ENFORCE);
  assert_int_equal(s.on_deserialize, CJ_POLICY_FAIL);
  assert_int_equal(s.on_process, CJ_POLICY_FAIL);
  assert_int_equal(s.on_produce, CJ_POLICY_FAIL);
  assert_int_equal(s.check_timeout_ms, 30000);
  assert_int_equal(s.shutdown_timeout_ms, 30000);
  assert_int_equal(s.revoke_timeout_ms, 10000);
  assert_int_equal(s.request_timeout_ms, 10000);
  assert_int_equal(s.store_lock_wait_ms, 60000);
  assert_false(s.store_in_memory);
  assert_false(s.stop_at_end);
  assert_int_equal(s.log_level, CJ_LOG_INFO);
  assert_int_equal(s.rd_count, 0);
  cj_config_destroy(config);
}

static void expect_others(cj_settings s) {
  assert_string_equal(s.bootstrap_servers, "b:1");
  assert_string_equal(s.state_dir, "/x");
  assert_string_equal(s.client_id, "me");
  assert_int_equal(s.threads, 3);
  assert_int_equal(s.assignment, CJ_ASSIGN_SPREAD);
  assert_string_equal(s.anchor, "price");
  assert_int_equal(s.order, CJ_ORDER_TABLE_FIRST);
  assert_int_equal(s.max_task_idle_ms, -1);
  assert_int_equal(s.commit_interval_ms, 7);
  assert_int_equal(s.auto_offset_reset, CJ_RESET_ERROR);
  assert_true(s.read_committed);
  assert_int_equal(s.memory_bytes, 64 << 20);
  assert_int_equal(s.overlay_bytes, 1 << 30);
  assert_int_equal(s.open_files_max, 99);
  for (int i = 0; i < 4; i++)
    assert_int_equal(s.check[i], CJ_CHECK_WARN);
  assert_int_equal(s.check_timeout_ms, 100);
  assert_int_equal(s.on_deserialize, CJ_POLICY_SKIP);
  assert_int_equal(s.on_process, CJ_POLICY_DEAD_LETTER);
  assert_int_equal(s.on_produce, CJ_POLICY_SKIP);
  assert_string_equal(s.dead_letter_topic, "dead");
  assert_int_equal(s.shutdown_timeout_ms, 101);
  assert_int_equal(s.revoke_timeout_ms, 102);
  assert_int_equal(s.request_timeout_ms, 103);
  assert_int_equal(s.store_lock_wait_ms, 0);
  assert_true(s.store_in_memory);
  assert_true(s.stop_at_end);
  assert_int_equal(s.log_level, CJ_LOG_DEBUG);
}

/* Every line of the table: its own default passes its own check, and reaches its own field. */
static void test_every_property_has_its_field(void **state) {
  (void)state;
  const struct {
    const char *name, *value;
  } other[] = {
      {"bootstrap.servers", "b:1"},
      {"state.dir", "/x"},
      {"client.id", "me"},
      {"threads", "3"},
      {"assignment", "spread"},
      {"anchor", "price"},
      {"order", "table_first"},
      {"max.task.idle.ms", "-1"},
      {"commit.interval.ms", "7"},
      {"auto.offset.reset", "error"},
      {"isolation.level", "read_committed"},
      {"memory.bytes", "64M"},
      {"overlay.bytes", "1g"},
      {"open.files.max", "99"},
      {"check.partition.count", "warn"},
      {"check.keys", "warn"},
      {"check.partitioner", "warn"},
      {"check.assignment", "warn"},
      {"check.timeout.ms", "100"},
      {"errors.deserialize", "skip"},
      {"errors.process", "dead_letter"},
      {"errors.produce", "skip"},
      {"errors.dead.letter.topic", "dead"},
      {"shutdown.timeout.ms", "101"},
      {"revoke.timeout.ms", "102"},
      {"request.timeout.ms", "103"},
      {"store.lock.wait.ms", "0"},
      {"store", "memory"},
      {"stop.at.end", "true"},
      {"log.level", "debug"},
  };
  cj_config *config = fresh();
  set(config, "application.id", "a");
  for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
    set(config, other[i].name, other[i].value);
    assert_string_equal(cj_config_get(config, other[i].name), other[i].value);
  }
  /* processing.guarantee has one legal value so far, application.id was set. */
  assert_int_equal(sizeof other / sizeof other[0] + 2, cj_property_count);
  expect_others(settings_of(config));
  cj_config_destroy(config);
}

static void test_numbers_are_read_strictly(void **state) {
  (void)state;
  cj_config *config = fresh();
  const char *not_numbers[] = {"", " 1", "1 ", "1x", "+1", "0x10", "1.5", "--1", "-", "1e3", "ten"};
  for (size_t i = 0; i < sizeof not_numbers / sizeof not_numbers[0]; i++) {
    refuse(config, "threads", not_numbers[i], "from 1 to 256");
    refuse(config, "commit.interval.ms", not_numbers[i], "milliseconds");
    refuse(config, "memory.bytes", not_numbers[i], "bytes");
  }
  refuse(config, "threads", "0", "from 1 to 256");
  refuse(config, "threads", "257", "from 1 to 256");
  refuse(config, "threads", "1k", "from 1 to 256");
  refuse(config, "max.task.idle.ms", "-2", "from -1");
  refuse(config, "commit.interval.ms", "99999999999999999999", "from 0");
  /* Overflow by the unit, and into a value that would look legal. */
  refuse(config, "memory.bytes", "17592186044416m", "bytes");
  refuse(config, "memory.bytes", "9223372036854775807k", "bytes");
  refuse(config, "memory.bytes", "32kb", "bytes");
  refuse(config, "memory.bytes", "32t", "bytes");
  refuse(config, "memory.bytes", "1m", "from 16777216");
  assert_string_equal(cj_config_get(config, "threads"), "1"); /* a refusal changes nothing */
  set(config, "threads", "256");
  set(config, "memory.bytes", "16777216");
  set(config, "memory.bytes", "1G");
  cj_config_destroy(config);
}

static void test_words_and_names(void **state) {
  (void)state;
  cj_config *config = fresh();
  refuse(config, "assignment", "Range", "range, spread, sticky, broker");
  refuse(config, "assignment", "", "range, spread, sticky, broker");
  refuse(config, "stop.at.end", "yes", "false, true");
  refuse(config, "application.id", "", "group");
  refuse(config, "application.id", "..", "group");
  refuse(config, "application.id", "a/b", "directory");
  refuse(config, "application.id", "a b", "directory");
  refuse(config, "client.id", "k\xc3\xa4se", "at most 100");
  refuse(config, "anchor", "no topic!", "topic");
  refuse(config, "bootstrap.servers", "", "not empty");
  set(config, "application.id", "Orders_2.join-a");
  set(config, "anchor", "");
  char longest[202];
  memset(longest, 'a', 201);
  longest[201] = '\0';
  refuse(config, "application.id", longest, "1 to 200");
  set(config, "application.id", longest + 1);
  cj_config_destroy(config);
}

static void test_unknown_names_get_the_nearest(void **state) {
  (void)state;
  cj_config *config = fresh();
  refuse(config, "comit.interval.ms", "1", "the nearest is commit.interval.ms");
  refuse(config, "thread", "1", "the nearest is threads");
  refuse(config, "application_id", "a", "the nearest is application.id");
  refuse(config, "sasl.username", "me", "those of librdkafka begin with rd.");
  expect(cj_config_set(config, NULL, "x"), CJ_ERR_ARGUMENT, "", "name");
  expect(cj_config_set(config, "threads", NULL), CJ_ERR_ARGUMENT, "threads", "value");
  assert_null(cj_config_get(config, "thread"));
  cj_config_destroy(config);
}

static void test_librdkafka_properties(void **state) {
  (void)state;
  cj_config *config = fresh();
  set(config, "application.id", "a");
  set(config, "rd.fetch.wait.max.ms", "50");
  set(config, "rd.session.timeout.ms", "6000");
  set(config, "rd.fetch.wait.max.ms", "20"); /* again: replaced, not added */
  assert_string_equal(cj_config_get(config, "rd.fetch.wait.max.ms"), "20");
  assert_null(cj_config_get(config, "rd.fetch.max.bytes"));
  cj_error *error = cj_config_set(config, "rd.no.such.property", "1");
  assert_int_equal(cj_error_code(error), CJ_ERR_CONFIG);
  cj_error_destroy(error);
  error = cj_config_set(config, "rd.enable.auto.commit", "true");
  assert_int_equal(cj_error_code(error), CJ_ERR_CONFIG);
  cj_error_destroy(error);
  cj_settings s = settings_of(config);
  assert_int_equal(s.rd_count, 2);
  assert_string_equal(s.rd[0].name, "fetch.wait.max.ms");
  assert_string_equal(s.rd[0].value, "20");
  assert_string_equal(s.rd[1].name, "session.timeout.ms");
  cj_config_destroy(config);
}

static void test_the_whole_is_checked(void **state) {
  (void)state;
  cj_config *config = fresh();
  cj_settings s;
  expect(cj_config_settings(config, &s), CJ_ERR_CONFIG, "application.id", "required");
  set(config, "application.id", "a");
  set(config, "errors.process", "dead_letter");
  expect(cj_config_settings(config, &s), CJ_ERR_CONFIG, "errors.process",
         "errors.dead.letter.topic");
  set(config, "errors.dead.letter.topic", "dead");
  settings_of(config);
  set(config, "processing.guarantee", "exactly_once");
  assert_int_equal(CJ_EXACTLY_ONCE, settings_of(config).guarantee);
  set(config, "commit.interval.ms", "10000");
  expect(cj_config_settings(config, &s), CJ_ERR_CONFIG, "commit.interval.ms",
         "transaction.timeout.ms");
  set(config, "rd.transaction.timeout.ms", "10001");
  settings_of(config);
  set(config, "processing.guarantee", "at_least_once");
  set(config, "assignment", "sticky");
  expect(cj_config_settings(config, &s), CJ_ERR_UNSUPPORTED, "assignment", "2.10");
  set(config, "assignment", "broker");
  expect(cj_config_settings(config, &s), CJ_ERR_UNSUPPORTED, "assignment", "KIP-848");
  set(config, "assignment", "range");
  set(config, "revoke.timeout.ms", "300000");
  expect(cj_config_settings(config, &s), CJ_ERR_CONFIG, "revoke.timeout.ms",
         "max.poll.interval.ms");
  set(config, "rd.max.poll.interval.ms", "300001");
  settings_of(config);
  cj_config_destroy(config);
}

static void test_defaults_that_depend(void **state) {
  (void)state;
  cj_config *config = fresh();
  set(config, "application.id", "a");
  assert_string_equal(cj_config_get(config, "commit.interval.ms"), "1000");
  assert_string_equal(cj_config_get(config, "isolation.level"), "read_uncommitted");
  set(config, "processing.guarantee", "exactly_once");
  assert_string_equal(cj_config_get(config, "commit.interval.ms"), "100");
  assert_string_equal(cj_config_get(config, "isolation.level"), "read_committed");
  set(config, "commit.interval.ms", "500");
  assert_string_equal(cj_config_get(config, "commit.interval.ms"), "500");
  cj_config_destroy(config);
}

static char *saved(const char *name) {
  const char *value = getenv(name);
  return value ? strdup(value) : NULL;
}

static void test_state_dir_comes_from_the_environment(void **state) {
  (void)state;
  char *home = saved("HOME"), *xdg = saved("XDG_STATE_HOME");
  setenv("XDG_STATE_HOME", "/var/state", 1);
  setenv("HOME", "/home/me", 1);
  cj_config *config = fresh();
  assert_string_equal(cj_config_get(config, "state.dir"), "/var/state/cojoin");
  cj_config_destroy(config);
  setenv("XDG_STATE_HOME", "relative", 1); /* to be ignored, says the XDG specification */
  config = fresh();
  assert_string_equal(cj_config_get(config, "state.dir"), "/home/me/.local/state/cojoin");
  cj_config_destroy(config);
  unsetenv("XDG_STATE_HOME");
  unsetenv("HOME");
  config = fresh();
  set(config, "application.id", "a");
  cj_settings s;
  expect(cj_config_settings(config, &s), CJ_ERR_CONFIG, "state.dir", "HOME");
  set(config, "store", "memory"); /* needs none */
  assert_null(settings_of(config).state_dir);
  cj_config_destroy(config);
  if (home) setenv("HOME", home, 1);
  if (xdg) setenv("XDG_STATE_HOME", xdg, 1);
  free(home);
  free(xdg);
}

static void test_copy_is_deep(void **state) {
  (void)state;
  cj_config *config = fresh();
  set(config, "application.id", "a");
  set(config, "rd.client.rack", "r1");
  cj_config *copy = cj_config_copy(config);
  assert_non_null(copy);
  set(config, "application.id", "b");
  set(config, "rd.client.rack", "r2");
  cj_config_destroy(config);
  assert_string_equal(cj_config_get(copy, "application.id"), "a");
  assert_string_equal(cj_config_get(copy, "rd.client.rack"), "r1");
  cj_config_destroy(copy);
  assert_null(cj_config_copy(NULL));
  cj_config_destroy(NULL);
}

/* Each property once, in a table whose lines have as many columns as its head. */
static void test_documentation(void **state) {
  (void)state;
  char *text = cj_config_documentation();
  assert_non_null(text);
  size_t lines = 0;
  char *rest = text;
  for (char *line = strsep(&rest, "\n"); line && *line; line = strsep(&rest, "\n"), lines++) {
    size_t columns = 0;
    for (char *c = line; *c; c++)
      columns += *c == '|';
    if (columns != 6) fail_msg("not five columns: %s", line);
    if (lines < 2 || lines - 2 == cj_property_count) continue;
    assert_non_null(strstr(line, cj_properties[lines - 2].name));
  }
  assert_int_equal(lines, cj_property_count + 3);
  free(text);
}

/* docs/CONFIGURATION.md is what the table prints. COJOIN_WRITE_DOCS=1 writes it anew. */
static void test_documentation_file(void **state) {
  (void)state;
  static const char head[] = "# Properties\n\nPrinted from the table in `runtime/config_table.c`; "
                             "a test holds this file to "
                             "it.\n\n";
  char path[4096];
  const char *slash = strrchr(__FILE__, '/');
  snprintf(path, sizeof path, "%.*s/../../docs/CONFIGURATION.md",
           slash ? (int)(slash - __FILE__) : 1, slash ? __FILE__ : ".");
  char *text = cj_config_documentation();
  assert_non_null(text);
  if (getenv("COJOIN_WRITE_DOCS")) {
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fprintf(out, "%s%s", head, text);
    fclose(out);
  }
  FILE *in = fopen(path, "r");
  if (!in) fail_msg("%s is missing: run this test with COJOIN_WRITE_DOCS=1", path);
  static char found[1 << 16];
  size_t len = fread(found, 1, sizeof found - 1, in);
  fclose(in);
  found[len] = '\0';
  size_t skip = sizeof head - 1;
  if (len < skip || strcmp(found + skip, text) != 0)
    fail_msg("%s is not what the table prints: run this test with COJOIN_WRITE_DOCS=1", path);
  free(text);
}

static void test_memory_is_shared_out(void **state) {
  (void)state;
  cj_settings s = {.memory_bytes = 64 << 20};
  cj_memory_share share = cj_config_memory(&s);
  assert_int_equal(share.cache_bytes, 32 << 20);
  assert_int_equal(share.write_buffer_bytes, 16 << 20);
}

/* Whatever allocation fails: an error or NULL, no crash, no leak, and what was set stays. */
static void test_no_memory(void **state) {
  (void)state;
  for (long n = 0;; n++) {
    cj_alloc_fail_after(n);
    cj_config *config = cj_config_new();
    cj_error *error = config ? cj_config_set(config, "application.id", "a") : NULL;
    cj_config *copy = config && !error ? cj_config_copy(config) : NULL;
    cj_alloc_fail_after(-1);
    bool done = copy != NULL;
    if (config && error) assert_null(cj_config_get(config, "application.id"));
    if (error) assert_int_equal(cj_error_code(error), CJ_ERR_NO_MEMORY);
    cj_error_destroy(error);
    cj_config_destroy(copy);
    cj_config_destroy(config);
    if (done) break;
    assert_true(n < 1000);
  }
}

static void test_edit_distance(void **state) {
  (void)state;
  assert_int_equal(cj_edit_distance("price", "price"), 0);
  assert_int_equal(cj_edit_distance("price", "prices"), 1);
  assert_int_equal(cj_edit_distance("price", "prcie"), 1);
  assert_int_equal(cj_edit_distance("price", "PRICE"), 1);
  assert_int_equal(cj_edit_distance("", "abc"), 3);
  assert_int_equal(cj_edit_distance("kitten", "sitting"), 3);
  cj_nearest nearest = {.wanted = "prices"};
  const char *names[] = {"volume", "price-feed", "pricing", "price", "prices2", "PRICES"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    cj_nearest_consider(&nearest, names[i]);
  assert_int_equal(nearest.count, 3);
  assert_string_equal(nearest.name[0], "price");
  assert_string_equal(nearest.name[1], "prices2");
  assert_string_equal(nearest.name[2], "PRICES");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_defaults),
      cmocka_unit_test(test_every_property_has_its_field),
      cmocka_unit_test(test_numbers_are_read_strictly),
      cmocka_unit_test(test_words_and_names),
      cmocka_unit_test(test_unknown_names_get_the_nearest),
      cmocka_unit_test(test_librdkafka_properties),
      cmocka_unit_test(test_the_whole_is_checked),
      cmocka_unit_test(test_defaults_that_depend),
      cmocka_unit_test(test_state_dir_comes_from_the_environment),
      cmocka_unit_test(test_copy_is_deep),
      cmocka_unit_test(test_documentation),
      cmocka_unit_test(test_documentation_file),
      cmocka_unit_test(test_memory_is_shared_out),
      cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_edit_distance),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
