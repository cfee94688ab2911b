/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/unit.h"

#include <pthread.h>

#include <cojoin/report.h>

#include "base/base.h"

static cj_report *broken(void) {
  cj_report *report = cj_report_new();
  if (!report) return NULL;
  cj_report_set(report, CJ_POINT_PARTITION_COUNT, CJ_BROKEN, "Recreate price with 6 partitions.");
  cj_report_add(report, CJ_POINT_PARTITION_COUNT, "notif has %d partitions", 6);
  cj_report_add(report, CJ_POINT_PARTITION_COUNT, "price has %d partitions\nsince today", 4);
  cj_report_set(report, CJ_POINT_ASSIGNMENT, CJ_HOLDS, "not said, because it holds");
  cj_report_add(report, CJ_POINT_ASSIGNMENT, "range");
  return report;
}

static void a_new_one_is_unverified(void **state) {
  (void)state;
  cj_report *report = cj_report_new();
  assert_int_equal(cj_report_verdict(report), CJ_UNVERIFIED);
  for (cj_point i = 0; i < CJ_POINTS; i++) {
    assert_int_equal(cj_report_point(report, i), CJ_UNVERIFIED);
    assert_int_equal(cj_report_evidence_count(report, i), 0);
    assert_null(cj_report_evidence(report, i, 0));
    assert_string_equal(cj_report_remedy(report, i), "");
  }
  for (cj_point i = 0; i < CJ_POINTS; i++)
    cj_report_set(report, i, CJ_HOLDS, NULL);
  assert_int_equal(cj_report_verdict(report), CJ_HOLDS);
  cj_report_set(report, CJ_POINT_KEYS, CJ_BROKEN, "x");
  assert_int_equal(cj_report_verdict(report), CJ_BROKEN);
  cj_report_destroy(report);
  cj_report_destroy(NULL);
}

static const char expected[] = "1. same partition count: broken\n"
                               "     notif has 6 partitions\n"
                               "     price has 4 partitions\n"
                               "     since today\n"
                               "   remedy:\n"
                               "     Recreate price with 6 partitions.\n"
                               "2. same key and serialization: unverified\n"
                               "3. same partitioner on every producer: unverified\n"
                               "4. co-locating assignment: holds\n"
                               "     range\n";

static void the_text_has_four_rows(void **state) {
  (void)state;
  cj_report *report = broken();
  assert_string_equal(cj_report_text(report), expected);
  cj_report *copy = cj_report_copy(report);
  cj_report_destroy(report);
  assert_string_equal(cj_report_text(copy), expected);
  assert_string_equal(cj_report_remedy(copy, CJ_POINT_ASSIGNMENT), "");
  assert_null(cj_report_evidence(copy, CJ_POINT_ASSIGNMENT, 1));
  /* A later change is seen. */
  cj_report_add(copy, CJ_POINT_KEYS, "text");
  ASSERT_MENTIONS(cj_report_text(copy), "2. same key and serialization: unverified\n     text\n");
  cj_report_destroy(copy);
}

static void names(void **state) {
  (void)state;
  assert_string_equal(cj_point_name(CJ_POINT_KEYS), "same key and serialization");
  assert_string_equal(cj_point_name(CJ_POINTS), "unknown");
  assert_string_equal(cj_verdict_name(CJ_HOLDS), "holds");
  assert_string_equal(cj_verdict_name(CJ_UNVERIFIED), "unverified");
  assert_string_equal(cj_verdict_name(CJ_BROKEN), "broken");
  assert_string_equal(cj_verdict_name((cj_point_verdict)7), "unknown");
}

typedef struct {
  const cj_report *report;
  const char *text;
} reader;

static void *read_text(void *user) {
  reader *r = user;
  r->text = cj_report_text(r->report);
  return NULL;
}

static void any_thread_may_read_the_text(void **state) {
  (void)state;
  enum { READERS = 4 };
  cj_report *report = broken();
  pthread_t threads[READERS];
  reader readers[READERS];
  for (int i = 0; i < READERS; i++) {
    readers[i] = (reader){.report = report};
    assert_int_equal(pthread_create(&threads[i], NULL, read_text, &readers[i]), 0);
  }
  for (int i = 0; i < READERS; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < READERS; i++)
    assert_ptr_equal(readers[i].text, readers[0].text);
  assert_string_equal(readers[0].text, expected);
  cj_report_destroy(report);
}

/* Evidence that there was no memory for is missed, never silently. */
static void any_allocation_may_fail(void **state) {
  (void)state;
  bool whole = false;
  for (long n = 0; !whole; n++) {
    cj_alloc_fail_after(n);
    cj_report *report = broken();
    cj_report *copy = report ? cj_report_copy(report) : NULL;
    if (report) assert_non_null(cj_report_text(report));
    cj_alloc_fail_after(-1);
    if (copy) {
      const char *text = cj_report_text(copy);
      whole = strcmp(text, expected) == 0;
      if (!whole) ASSERT_MENTIONS(text, "no memory");
    }
    cj_report_destroy(report);
    cj_report_destroy(copy);
    assert_true(n < 100);
  }
}

static void what_is_missed_is_said(void **state) {
  (void)state;
  for (int missed = 0; missed < 2; missed++) {
    cj_report *report = cj_report_new();
    cj_alloc_fail_after(0);
    if (missed == 0)
      cj_report_set(report, CJ_POINT_KEYS, CJ_BROKEN, "a remedy");
    else
      cj_report_add(report, CJ_POINT_KEYS, "evidence");
    cj_alloc_fail_after(-1);
    cj_report *copy = cj_report_copy(report);
    ASSERT_MENTIONS(cj_report_text(report), "no memory");
    ASSERT_MENTIONS(cj_report_text(copy), "no memory");
    cj_report_destroy(report);
    cj_report_destroy(copy);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_new_one_is_unverified),
      cmocka_unit_test(the_text_has_four_rows),
      cmocka_unit_test(names),
      cmocka_unit_test(any_thread_may_read_the_text),
      cmocka_unit_test(any_allocation_may_fail),
      cmocka_unit_test(what_is_missed_is_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
