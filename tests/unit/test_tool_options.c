/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "tools/tool.h"

/* ---- what goes to standard error ---- */
typedef struct {
  int saved;
  FILE *file;
  char text[2048];
} capture;

static void capture_begin(capture *c) {
  fflush(stderr);
  c->saved = dup(STDERR_FILENO);
  c->file = tmpfile();
  assert_true(c->saved >= 0 && c->file);
  dup2(fileno(c->file), STDERR_FILENO);
}

static const char *capture_end(capture *c) {
  fflush(stderr);
  dup2(c->saved, STDERR_FILENO);
  close(c->saved);
  rewind(c->file);
  c->text[fread(c->text, 1, sizeof c->text - 1, c->file)] = '\0';
  fclose(c->file);
  return c->text;
}

static void assert_says(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("\"%s\" is not in: %s", part, text);
}

/* ---- properties ---- */
static char *write_file(const char *text) {
  char *path = strdup("/tmp/cojoin-test-XXXXXX");
  assert_non_null(path);
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), strlen(text));
  close(fd);
  return path;
}

static void a_file_is_read_line_by_line(void **state) {
  (void)state;
  char *path = write_file("# a comment\r\n"
                          "\n"
                          "  bootstrap.servers = a:9092,b:9092 \r\n"
                          "sasl.password=se=cret#1\n"
                          "client.id=");
  tool_common common = {.command = "join"};
  assert_true(tool_add_file(&common, path));
  assert_int_equal(common.property_count, 3);
  assert_string_equal(common.properties[0].name, "bootstrap.servers");
  assert_string_equal(common.properties[0].value, "a:9092,b:9092");
  assert_string_equal(common.properties[1].value, "se=cret#1");
  assert_string_equal(common.properties[2].name, "client.id");
  assert_string_equal(common.properties[2].value, "");
  char *origin = tool_format("%s:3", path);
  assert_string_equal(common.properties[0].origin, origin);
  free(origin);
  tool_common_free(&common);
  unlink(path);
  free(path);
}

static void a_bad_line_is_named_with_file_and_number(void **state) {
  (void)state;
  static const char *const bad[] = {"a=b\n\nnonsense\nc=d\n", "a=b\n#\n=x\n"};
  for (size_t i = 0; i < 2; i++) {
    char *path = write_file(bad[i]);
    tool_common common = {.command = "join"};
    capture c;
    capture_begin(&c);
    bool taken = tool_add_file(&common, path);
    const char *said = capture_end(&c);
    assert_false(taken);
    char *place = tool_format("%s:3: ", path);
    assert_says(said, place);
    free(place);
    tool_common_free(&common);
    unlink(path);
    free(path);
  }
}

static void a_missing_file_is_named(void **state) {
  (void)state;
  tool_common common = {.command = "join"};
  capture c;
  capture_begin(&c);
  bool taken = tool_add_file(&common, "/nonexistent/p.properties");
  const char *said = capture_end(&c);
  assert_false(taken);
  assert_says(said, "/nonexistent/p.properties: No such file");
}

static bool configure(const char *const *assignments, size_t count, cj_config *config,
                      tool_common *common, capture *c) {
  *common = (tool_common){.command = "join"};
  bool ok = true;
  capture_begin(c);
  for (size_t i = 0; ok && i < count; i++)
    ok = tool_add_property(common, assignments[i], "-X");
  ok = ok && tool_configure(common, config);
  capture_end(c);
  return ok;
}

static void names_go_to_whom_they_belong(void **state) {
  (void)state;
  static const char *const given[] = {"commit.interval.ms=200", "socket.timeout.ms=5000",
                                      "rd.socket.keepalive.enable=true", "client.id=me"};
  cj_config *config = cj_config_new();
  tool_common common;
  capture c;
  if (!configure(given, 4, config, &common, &c)) fail_msg("refused: %s", c.text);
  assert_string_equal(cj_config_get(config, "commit.interval.ms"), "200");
  assert_string_equal(cj_config_get(config, "rd.socket.timeout.ms"), "5000");
  assert_string_equal(cj_config_get(config, "rd.socket.keepalive.enable"), "true");
  assert_string_equal(cj_config_get(config, "client.id"), "me");
  /* And the tool's own clients get what is librdkafka's. */
  rd_kafka_conf_t *conf = tool_client_conf(&common, config);
  assert_non_null(conf);
  char value[64];
  size_t size = sizeof value;
  assert_int_equal(rd_kafka_conf_get(conf, "socket.timeout.ms", value, &size), RD_KAFKA_CONF_OK);
  assert_string_equal(value, "5000");
  size = sizeof value;
  assert_int_equal(rd_kafka_conf_get(conf, "socket.keepalive.enable", value, &size),
                   RD_KAFKA_CONF_OK);
  assert_string_equal(value, "true");
  rd_kafka_conf_destroy(conf);
  tool_common_free(&common);
  cj_config_destroy(config);
}

static void what_is_refused_is_named(void **state) {
  (void)state;
  static const struct {
    const char *given, *says;
  } cases[] = {
      {"nonsense", "-X: \"nonsense\""},
      {"commit.intervall.ms=200", "the nearest is commit.interval.ms"},
      {"commit.interval.ms=soon", "-X: commit.interval.ms"},
      {"socket.timeout.ms=soon", "-X: socket.timeout.ms"},
      {"enable.auto.commit=true", "-X: enable.auto.commit"},
      {"group.id=other", "-X: group.id"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cj_config *config = cj_config_new();
    tool_common common;
    capture c;
    if (configure(&cases[i].given, 1, config, &common, &c)) fail_msg("taken: %s", cases[i].given);
    assert_says(c.text, cases[i].says);
    tool_common_free(&common);
    cj_config_destroy(config);
  }
}

static void the_option_wins_over_the_property(void **state) {
  (void)state;
  cj_config *config = cj_config_new();
  tool_common common = {.command = "join", .brokers = tool_strdup("b:1")};
  assert_true(tool_add_property(&common, "bootstrap.servers=a:1", "-X"));
  assert_true(tool_configure(&common, config));
  assert_string_equal(cj_config_get(config, "bootstrap.servers"), "b:1");
  tool_common_free(&common);
  cj_config_destroy(config);
}

/* ---- messages ---- */
static void a_message_is_one_line_without_control_bytes(void **state) {
  (void)state;
  capture c;
  capture_begin(&c);
  tool_error("topic %s", "a\nb\x1b[2J\xff");
  assert_string_equal(capture_end(&c), "cojoin: topic a\\nb\\x1B[2J\\xFF\n");
}

static void exit_codes_tell_the_checklist_from_the_rest(void **state) {
  (void)state;
  static const struct {
    cj_code code;
    tool_exit exit;
  } cases[] = {
      {CJ_ERR_NOT_COPARTITIONED, TOOL_BROKEN},
      {CJ_ERR_TOPIC_MISSING, TOOL_BROKEN},
      {CJ_ERR_ASSIGNMENT, TOOL_BROKEN},
      {CJ_ERR_PARTITIONS_CHANGED, TOOL_BROKEN},
      {CJ_ERR_BROKER, TOOL_FAILED},
      {CJ_ERR_PROCESS, TOOL_FAILED},
  };
  assert_int_equal(tool_exit_of(NULL), TOOL_DONE);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cj_error *error = cj_error_new(cases[i].code, "subject", "why");
    assert_int_equal(tool_exit_of(error), cases[i].exit);
    cj_error_destroy(error);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_file_is_read_line_by_line),
      cmocka_unit_test(a_bad_line_is_named_with_file_and_number),
      cmocka_unit_test(a_missing_file_is_named),
      cmocka_unit_test(names_go_to_whom_they_belong),
      cmocka_unit_test(what_is_refused_is_named),
      cmocka_unit_test(the_option_wins_over_the_property),
      cmocka_unit_test(a_message_is_one_line_without_control_bytes),
      cmocka_unit_test(exit_codes_tell_the_checklist_from_the_rest),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
