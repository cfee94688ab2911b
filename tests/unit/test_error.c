/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/unit.h"

#include <ctype.h>
#include <errno.h>

#include "base/base.h"

static void every_code_has_a_name_and_a_sentence(void **state) {
  (void)state;
  for (cj_code code = CJ_OK; code < CJ_ERR_COUNT_; code++) {
    const char *name = cj_code_name(code), *text = cj_code_text(code);
    assert_non_null(name);
    assert_non_null(text);
    for (const char *c = name; *c; c++)
      assert_true(islower((unsigned char)*c) || *c == '-');
    assert_true(isupper((unsigned char)text[0]));
    assert_int_equal(text[strlen(text) - 1], '.');
    for (cj_code other = CJ_OK; other < code; other++)
      assert_string_not_equal(name, cj_code_name(other));
  }
  assert_string_equal(cj_code_name(CJ_ERR_TOPIC_MISSING), "topic-missing");
  assert_string_equal(cj_code_name(CJ_ERR_COUNT_), "unknown");
  assert_non_null(cj_code_text((cj_code)-1));
}

static void null_is_success(void **state) {
  (void)state;
  assert_int_equal(cj_error_code(NULL), CJ_OK);
  assert_string_equal(cj_error_text(NULL), "ok");
  assert_string_equal(cj_error_subject(NULL), "");
  assert_string_equal(cj_error_message(NULL), "");
  assert_null(cj_error_cause(NULL));
  assert_null(cj_error_report(NULL));
  assert_null(cj_error_copy(NULL));
  cj_error_destroy(NULL);
}

static void carries_what_it_was_given(void **state) {
  (void)state;
  cj_error *error = cj_error_new(CJ_ERR_STORE_LOCKED, "price-3", "held by process %d", 42);
  assert_int_equal(cj_error_code(error), CJ_ERR_STORE_LOCKED);
  assert_int_equal(cj_error_class(error), CJ_CLASS_RETRIABLE);
  assert_string_equal(cj_error_subject(error), "price-3");
  assert_string_equal(cj_error_message(error), "held by process 42");
  assert_string_equal(cj_error_text(error), "store-locked: price-3: held by process 42");
  error = cj_error_with_class(error, CJ_CLASS_FATAL);
  assert_int_equal(cj_error_class(error), CJ_CLASS_FATAL);
  cj_error_destroy(error);
  error = cj_error_new(CJ_ERR_CONFIG, NULL, "no subject");
  assert_string_equal(cj_error_subject(error), "");
  assert_string_equal(cj_error_text(error), "config: no subject");
  assert_int_equal(cj_error_class(error), CJ_CLASS_FATAL);
  cj_error_destroy(error);
}

static void errno_is_told_in_words_and_number(void **state) {
  (void)state;
  cj_error *error = cj_error_errno(ENOENT, "/tmp/x", "cannot open %s", "the lock");
  char number[16];
  snprintf(number, sizeof number, "%d", ENOENT);
  assert_int_equal(cj_error_code(error), CJ_ERR_SYSTEM);
  ASSERT_MENTIONS(cj_error_message(error), "cannot open the lock", "No such file", number);
  cj_error_destroy(error);
}

static void causes_go_below_and_stay(void **state) {
  (void)state;
  cj_error *error = cj_error_new(CJ_ERR_STORE, "price", "cannot open\nit");
  error = cj_error_under(error, cj_error_new(CJ_ERR_SYSTEM, NULL, "disk full"));
  error = cj_error_under(error, cj_error_new(CJ_ERR_LIMIT, NULL, "quota"));
  assert_int_equal(cj_error_code(cj_error_cause(error)), CJ_ERR_SYSTEM);
  assert_int_equal(cj_error_code(cj_error_cause(cj_error_cause(error))), CJ_ERR_LIMIT);
  assert_string_equal(
      cj_error_text(error),
      "store: price: cannot open it (cause: system: disk full (cause: limit: quota))");
  assert_ptr_equal(cj_error_under(error, NULL), error);
  assert_ptr_equal(cj_error_under(NULL, error), error);
  cj_error_destroy(error);
}

static cj_error *loaded(void) {
  cj_error *error = cj_error_new(CJ_ERR_NOT_COPARTITIONED, "notif", "6 and %d partitions", 4);
  error = cj_error_under(error, cj_error_new(CJ_ERR_KAFKA, "price", "cause"));
  cj_report *report = cj_report_new();
  if (report) {
    cj_report_set(report, CJ_POINT_PARTITION_COUNT, CJ_BROKEN, "make them equal");
    cj_report_add(report, CJ_POINT_PARTITION_COUNT, "price has %d", 4);
  }
  return cj_error_with_report(error, report);
}

static void a_copy_is_deep(void **state) {
  (void)state;
  cj_error *error = cj_error_with_class(loaded(), CJ_CLASS_RETRIABLE);
  cj_error *copy = cj_error_copy(error);
  char *text = strdup(cj_error_text(error));
  cj_error_destroy(error);
  assert_string_equal(cj_error_text(copy), text);
  assert_int_equal(cj_error_class(copy), CJ_CLASS_RETRIABLE);
  assert_string_equal(cj_error_subject(cj_error_cause(copy)), "price");
  assert_string_equal(cj_report_evidence(cj_error_report(copy), CJ_POINT_PARTITION_COUNT, 0),
                      "price has 4");
  free(text);
  cj_error_destroy(copy);
}

static void no_memory_exists_before_memory_runs_out(void **state) {
  (void)state;
  for (int again = 0; again < 2; again++) {
    cj_alloc_fail_after(0);
    cj_error *error = cj_error_new(CJ_ERR_KAFKA, "price", "lost");
    cj_error *from_errno = cj_error_errno(ENOENT, NULL, "lost");
    cj_error *copy = cj_error_copy(error);
    cj_alloc_fail_after(-1);
    assert_int_equal(cj_error_code(error), CJ_ERR_NO_MEMORY);
    assert_int_equal(cj_error_code(from_errno), CJ_ERR_NO_MEMORY);
    assert_int_equal(cj_error_code(copy), CJ_ERR_NO_MEMORY);
    assert_string_equal(cj_error_text(error), "no-memory: an allocation failed");
    error = cj_error_with_class(error, CJ_CLASS_RETRIABLE);
    assert_int_equal(cj_error_class(error), CJ_CLASS_FATAL);
    assert_null(cj_error_report(cj_error_with_report(error, cj_report_new())));
    cj_error_destroy(error);
    cj_error_destroy(error);
  }
}

static void a_lower_error_is_not_lost_without_memory(void **state) {
  (void)state;
  cj_error *cause = cj_error_new(CJ_ERR_AUTH, "broker", "refused");
  assert_ptr_equal(cj_error_under(cj_error_no_memory(), cause), cause);
  cj_error *error = cj_error_under(cause, cj_error_no_memory());
  assert_int_equal(cj_error_code(cj_error_cause(error)), CJ_ERR_NO_MEMORY);
  /* Nothing can go under the shared one: the lower error takes its place. */
  error = cj_error_under(error, cj_error_new(CJ_ERR_KAFKA, NULL, "lower still"));
  assert_int_equal(cj_error_code(cj_error_cause(error)), CJ_ERR_KAFKA);
  assert_null(cj_error_cause(cj_error_cause(error)));
  cj_error_destroy(error);
}

/* Every allocation on the way fails once: there is always an error, and (under the address
 * sanitizer) nothing leaks. */
static void any_allocation_may_fail(void **state) {
  (void)state;
  for (long n = 0; n < 60; n++) {
    cj_alloc_fail_after(n);
    cj_error *error = loaded();
    cj_error *copy = cj_error_copy(error);
    assert_non_null(error);
    assert_non_null(copy);
    assert_non_null(cj_error_text(error));
    assert_non_null(cj_error_text(copy));
    cj_error_destroy(error);
    cj_error_destroy(copy);
  }
  cj_alloc_fail_after(-1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_code_has_a_name_and_a_sentence),
      cmocka_unit_test(null_is_success),
      cmocka_unit_test(carries_what_it_was_given),
      cmocka_unit_test(errno_is_told_in_words_and_number),
      cmocka_unit_test(causes_go_below_and_stay),
      cmocka_unit_test(a_copy_is_deep),
      cmocka_unit_test(no_memory_exists_before_memory_runs_out),
      cmocka_unit_test(a_lower_error_is_not_lost_without_memory),
      cmocka_unit_test(any_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
