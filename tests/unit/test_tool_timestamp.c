/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/timestamp.h"

/* The right-hand sides are those of GNU date. */
static void times_are_read(void **state) {
  (void)state;
  const struct {
    const char *text;
    int64_t ms;
  } cases[] = {
      {"0", 0},
      {"1714521600000", 1714521600000},
      {"1970-01-01", 0},
      {"1970-03-01", 5097600000},
      {"2024-05-01", 1714521600000},
      {"2024-05-01T12:00", 1714564800000},
      {"2024-05-01 12:00:30", 1714564830000},
      {"2024-05-01T12:00:30.25Z", 1714564830250},
      {"2024-05-01T12:00:30.2509999", 1714564830250},
      {"2024-05-01T12:00:00+07:00", 1714539600000},
      {"2024-05-01T12:00:00-0330", 1714577400000},
      {"2024-02-29", 1709164800000},
      {"2000-02-29", 951782400000},
      {"1969-12-31T23:59:59.999", -1},
      {"9999-12-31", 253402214400000},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t ms = -12345;
    if (!tool_parse_timestamp(cases[i].text, &ms)) fail_msg("%s was refused", cases[i].text);
    assert_int_equal(ms, cases[i].ms);
  }
}

static void what_is_no_time_is_refused(void **state) {
  (void)state;
  static const char *const bad[] = {
      "",
      "yesterday",
      "-1",
      "2024-13-01",
      "2024-00-01",
      "2023-02-29",
      "1900-02-29",
      "2024-04-31",
      "2024-05-1",
      "2024-05-01T",
      "2024-05-01T24:00",
      "2024-05-01T12:60",
      "2024-05-01T12:00:60",
      "2024-05-01T12:00:00.",
      "2024-05-01T12:00:00+25:00",
      "2024-05-01T12:00:00Zulu",
      "2024-05-01Z",
      "99999999999999999999",
      "1714521600000 ",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    int64_t ms;
    if (tool_parse_timestamp(bad[i], &ms)) fail_msg("%s was taken", bad[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(times_are_read),
      cmocka_unit_test(what_is_no_time_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
