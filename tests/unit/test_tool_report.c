/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "tools/report.h"

static cj_report *broken_report(void) {
  cj_report *report = cj_report_new();
  assert_non_null(report);
  cj_report_set(report, CJ_POINT_PARTITION_COUNT, CJ_BROKEN, "give both topics the same count");
  cj_report_add(report, CJ_POINT_PARTITION_COUNT, "notif has %d partitions", 6);
  cj_report_add(report, CJ_POINT_PARTITION_COUNT, "price has %d partitions", 4);
  cj_report_add(report, CJ_POINT_KEYS, "a key: \x1b[31m\xff");
  cj_report_set(report, CJ_POINT_ASSIGNMENT, CJ_HOLDS, "");
  return report;
}

static char *printed(const cj_report *report, bool json, bool colour) {
  char *text = NULL;
  size_t len;
  FILE *to = open_memstream(&text, &len);
  assert_non_null(to);
  if (json)
    assert_true(tool_report_json(to, report));
  else
    tool_report_print(to, report, colour);
  fclose(to);
  return text;
}

static void check_member(json_t *object, const char *name, const char *expected) {
  const char *got = json_string_value(json_object_get(object, name));
  assert_non_null(got);
  assert_string_equal(got, expected);
}

static void json_has_the_four_points(void **state) {
  (void)state;
  cj_report *report = broken_report();
  char *text = printed(report, true, false);
  json_t *whole = json_loads(text, 0, NULL);
  assert_non_null(whole);
  assert_int_equal(json_object_size(whole), 2);
  check_member(whole, "verdict", "broken");
  json_t *points = json_object_get(whole, "points");
  assert_int_equal(json_array_size(points), 4);
  static const char *const verdicts[] = {"broken", "unverified", "unverified", "holds"};
  for (size_t i = 0; i < 4; i++) {
    json_t *point = json_array_get(points, i);
    assert_int_equal(json_object_size(point), 5);
    assert_int_equal(json_integer_value(json_object_get(point, "point")), i + 1);
    check_member(point, "name", cj_point_name((cj_point)i));
    check_member(point, "verdict", verdicts[i]);
    check_member(point, "remedy", i == 0 ? "give both topics the same count" : "");
  }
  json_t *evidence = json_object_get(json_array_get(points, 0), "evidence");
  assert_int_equal(json_array_size(evidence), 2);
  assert_string_equal(json_string_value(json_array_get(evidence, 1)), "price has 4 partitions");
  evidence = json_object_get(json_array_get(points, 1), "evidence");
  assert_string_equal(json_string_value(json_array_get(evidence, 0)), "a key: \\x1B[31m\\xFF");
  json_decref(whole);
  free(text);
  cj_report_destroy(report);
}

static void text_is_plain_unless_colour_is_asked_for(void **state) {
  (void)state;
  cj_report *report = broken_report();
  char *plain = printed(report, false, false);
  assert_string_equal(plain, "1  same partition count: broken\n"
                             "   notif has 6 partitions\n"
                             "   price has 4 partitions\n"
                             "   to do: give both topics the same count\n"
                             "2  same key and serialization: unverified\n"
                             "   a key: \\x1B[31m\\xFF\n"
                             "3  same partitioner on every producer: unverified\n"
                             "4  co-locating assignment: holds\n"
                             "checklist: broken\n");
  char *coloured = printed(report, false, true);
  assert_non_null(strstr(coloured, "\033[1;31mbroken\033[0m\n"));
  assert_non_null(strstr(coloured, "\033[32mholds\033[0m\n"));
  free(plain);
  free(coloured);
  cj_report_destroy(report);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(json_has_the_four_points),
      cmocka_unit_test(text_is_plain_unless_colour_is_asked_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
