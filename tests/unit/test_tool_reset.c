/* SPDX-License-Identifier: BSD-2-Clause */
/* cj_app_reset_state, which `cojoin reset` stands on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cojoin/app.h>

#include "state/kv.h"
#include "state/state.h"

typedef struct {
  char dir[64];
  cj_state *state; /* of a process that uses it */
} fixture;

static cj_state *open_state(const char *dir, const char *app_id) {
  cj_state *state = NULL;
  cj_state_options options = {
      .dir = dir, .app_id = app_id, .source = cj_kv_source_memory(), .lock_wait_ms = 10};
  cj_error *error = cj_state_open(&options, &state);
  if (error) fail_msg("%s", cj_error_text(error));
  return state;
}

static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  snprintf(f->dir, sizeof f->dir, "/tmp/cojoin-test-XXXXXX");
  assert_non_null(mkdtemp(f->dir));
  f->state = open_state(f->dir, "orders");
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  cj_state_close(f->state);
  cj_error_destroy(cj_app_reset_state(f->dir, "orders", false, NULL, NULL));
  rmdir(f->dir);
  free(f);
  return 0;
}

static void end_process(fixture *f) {
  cj_state_close(f->state);
  f->state = NULL;
}

static bool exists(const fixture *f, const char *name) {
  char path[128];
  struct stat info;
  snprintf(path, sizeof path, "%s/%s", f->dir, name);
  return lstat(path, &info) == 0;
}

typedef struct {
  char text[1024];
  size_t count;
} paths;

static void collect(void *user, const char *path) {
  paths *all = user;
  size_t len = strlen(all->text);
  snprintf(all->text + len, sizeof all->text - len, "%s\n", path);
  all->count++;
}

static void a_dry_run_names_what_would_go(void **state) {
  fixture *f = *state;
  paths planned = {0}, done = {0};
  end_process(f);
  assert_null(cj_app_reset_state(f->dir, "orders", true, collect, &planned));
  assert_true(exists(f, "orders"));
  assert_true(planned.count > 0);
  assert_non_null(strstr(planned.text, "/orders"));
  assert_null(cj_app_reset_state(f->dir, "orders", false, collect, &done));
  assert_false(exists(f, "orders"));
  assert_string_equal(planned.text, done.text);
}

static void a_running_process_keeps_its_state(void **state) {
  fixture *f = *state;
  for (int dry_run = 0; dry_run < 2; dry_run++) {
    cj_error *error = cj_app_reset_state(f->dir, "orders", dry_run, NULL, NULL);
    assert_int_equal(cj_error_code(error), CJ_ERR_STORE_LOCKED);
    cj_error_destroy(error);
  }
  assert_true(exists(f, "orders"));
}

static void only_the_application_goes(void **state) {
  fixture *f = *state;
  cj_state_close(open_state(f->dir, "orders-2"));
  end_process(f);
  assert_null(cj_app_reset_state(f->dir, "orders", false, NULL, NULL));
  assert_true(exists(f, "orders-2"));
  assert_null(cj_app_reset_state(f->dir, "orders-2", false, NULL, NULL));
  assert_false(exists(f, "orders-2"));
}

static void what_is_not_there_is_no_error(void **state) {
  fixture *f = *state;
  paths none = {0};
  assert_null(cj_app_reset_state(f->dir, "unknown", false, collect, &none));
  assert_null(cj_app_reset_state("/nonexistent/dir", "unknown", false, collect, &none));
  assert_int_equal(none.count, 0);
}

/* The id becomes a part of a path, and what is removed is removed for good. */
static void an_id_does_not_lead_elsewhere(void **state) {
  fixture *f = *state;
  static const char *const ids[] = {"..", ".", "../..", "orders/..", "/"};
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
    cj_error_destroy(cj_app_reset_state(f->dir, ids[i], false, NULL, NULL));
  assert_true(exists(f, "orders"));
}

static void arguments_are_checked(void **state) {
  fixture *f = *state;
  const struct {
    const char *dir, *id;
  } bad[] = {{NULL, "orders"}, {"", "orders"}, {f->dir, NULL}, {f->dir, ""}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    cj_error *error = cj_app_reset_state(bad[i].dir, bad[i].id, false, NULL, NULL);
    assert_int_equal(cj_error_code(error), CJ_ERR_ARGUMENT);
    cj_error_destroy(error);
  }
  assert_true(exists(f, "orders"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_dry_run_names_what_would_go, setup, teardown),
      cmocka_unit_test_setup_teardown(a_running_process_keeps_its_state, setup, teardown),
      cmocka_unit_test_setup_teardown(only_the_application_goes, setup, teardown),
      cmocka_unit_test_setup_teardown(what_is_not_there_is_no_error, setup, teardown),
      cmocka_unit_test_setup_teardown(an_id_does_not_lead_elsewhere, setup, teardown),
      cmocka_unit_test_setup_teardown(arguments_are_checked, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
