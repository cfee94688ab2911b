/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a partition starts: one row for each line of restore_plan.h, and for the trouble reports
 * (cases 46 to 49, 71, 72). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "runtime/restore_plan.h"

#define NONE CJ_OFFSET_NONE

typedef struct {
  const char *what;
  int64_t store, committed, start, end;
  int64_t from, to;
  bool rebuilt;
} table_row;

static const table_row table_rows[] = {
    {"first start, empty topic", NONE, NONE, 0, 0, 0, 0, false},
    {"first start, records there: read as input", NONE, NONE, 0, 100, 0, 0, false},
    {"case 46: empty with offsets", NONE, NONE, 22512, 22512, 22512, 22512, false},
    {"case 46: committed at the end of an empty log", NONE, 22512, 22512, 22512, 22512, 22512,
     false},
    {"lost disk: up to the committed offset only", NONE, 60, 0, 100, 0, 60, false},
    {"clean restart: nothing to restore", 60, 60, 0, 100, 60, 60, false},
    {"crash between group and store: forward", 40, 60, 0, 100, 40, 60, false},
    {"case 47: store past the end", 613400, 613400, 0, 613304, 0, 613304, true},
    {"committed past the end, store behind: up to the end", 50, 613400, 0, 100, 50, 100, false},
    {"case 48: store before the start", 50, 100, 80, 100, 80, 100, true},
    {"store at the start exactly", 80, 100, 80, 100, 80, 100, false},
    {"operator's reset to the beginning", 60, 0, 0, 100, 0, 0, true},
    {"operator's reset to the middle", 60, 30, 0, 100, 0, 30, true},
    {"case 71: offsets expired", 60, NONE, 0, 100, 0, 0, true},
    {"committed before the start, no store", NONE, 10, 80, 100, 80, 80, false},
};

static void table_start(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof table_rows / sizeof *table_rows; i++) {
    const table_row *row = &table_rows[i];
    cj_restore_plan plan = cj_plan_table_start(row->store, row->committed, row->start, row->end);
    if (plan.from != row->from || plan.to != row->to || (plan.rebuild != NULL) != row->rebuilt)
      fail_msg("%s: expected %lld to %lld%s, got %lld to %lld (%s)", row->what,
               (long long)row->from, (long long)row->to, row->rebuilt ? " rebuilt" : "",
               (long long)plan.from, (long long)plan.to, plan.rebuild ? plan.rebuild : "kept");
  }
}

typedef struct {
  const char *what;
  int64_t committed, start, end;
  cj_reset reset;
  int64_t from;
  bool told, refused;
} stream_row;

static const stream_row stream_rows[] = {
    {"committed", 50, 0, 100, CJ_RESET_LATEST, 50, false, false},
    {"committed at the end", 100, 0, 100, CJ_RESET_ERROR, 100, false, false},
    {"first start, earliest", NONE, 7, 100, CJ_RESET_EARLIEST, 7, false, false},
    {"case 72: first start, latest", NONE, 7, 100, CJ_RESET_LATEST, 100, false, false},
    {"first start, error", NONE, 7, 100, CJ_RESET_ERROR, 7, false, true},
    {"retention passed the committed offset", 5, 7, 100, CJ_RESET_EARLIEST, 7, true, false},
    {"truncated", 500, 0, 100, CJ_RESET_LATEST, 100, true, false},
    {"truncated, error", 500, 0, 100, CJ_RESET_ERROR, 0, true, true},
};

static void stream_start(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof stream_rows / sizeof *stream_rows; i++) {
    const stream_row *row = &stream_rows[i];
    cj_stream_start plan = cj_plan_stream_start(row->committed, row->start, row->end, row->reset);
    if ((!row->refused && plan.from != row->from) || (plan.reset != NULL) != row->told ||
        plan.refused != row->refused)
      fail_msg("%s: expected %lld told %d refused %d, got %lld told %d refused %d", row->what,
               (long long)row->from, row->told, row->refused, (long long)plan.from,
               plan.reset != NULL, plan.refused);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(table_start),
      cmocka_unit_test(stream_start),
  };
  return cmocka_run_group_tests_name("restore_plan", tests, NULL, NULL);
}
