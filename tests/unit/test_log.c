/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/unit.h"

#include "base/base.h"

typedef struct {
  int lines;
  cj_log_level level;
  size_t len;
  char start[64];
} taken;

static void take(void *user, cj_log_level level, const char *line) {
  taken *t = user;
  t->lines++;
  t->level = level;
  t->len = strlen(line);
  snprintf(t->start, sizeof t->start, "%s", line);
}

static void one_call_is_one_line(void **state) {
  (void)state;
  taken t = {0};
  cj_log log = {.user = &t, .level = CJ_LOG_WARN, .line = take};
  cj_logf(&log, CJ_LOG_WARN, "topic %s: %d\nsecond", "price", 3);
  assert_int_equal(t.lines, 1);
  assert_int_equal(t.level, CJ_LOG_WARN);
  assert_string_equal(t.start, "topic price: 3 second");
  cj_logf(&log, CJ_LOG_INFO, "not made");
  assert_int_equal(t.lines, 1);
  cj_logf(&log, CJ_LOG_ERROR, "\x1b[31mred");
  assert_string_equal(t.start, " [31mred");
}

static void nobody_listens(void **state) {
  (void)state;
  cj_logf(NULL, CJ_LOG_ERROR, "x");
  cj_logf(&(cj_log){.level = CJ_LOG_DEBUG}, CJ_LOG_ERROR, "x");
}

static void a_long_line_is_whole_or_cut(void **state) {
  (void)state;
  taken t = {0};
  cj_log log = {.user = &t, .level = CJ_LOG_DEBUG, .line = take};
  cj_logf(&log, CJ_LOG_DEBUG, "%05000d", 1);
  assert_int_equal(t.len, 5000);
  cj_alloc_fail_after(0);
  cj_logf(&log, CJ_LOG_DEBUG, "%05000d", 1);
  cj_alloc_fail_after(-1);
  assert_int_equal(t.lines, 2);
  assert_in_range(t.len, 500, 4999);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_call_is_one_line),
      cmocka_unit_test(nobody_listens),
      cmocka_unit_test(a_long_line_is_whole_or_cut),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
