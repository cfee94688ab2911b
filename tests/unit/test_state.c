/* SPDX-License-Identifier: BSD-2-Clause */
/* The state directory: names, slots, what several processes see of each other, removal. */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "lib/store_dir.h"
#include "state/state.h"

static cj_state_options options_of(const char *dir, const char *app_id) {
  return (cj_state_options){.dir = dir, .app_id = app_id, .source = cj_kv_source_memory()};
}

static cj_state *open_state(const char *dir, const char *app_id) {
  const cj_state_options options = options_of(dir, app_id);
  cj_state *state;
  assert_no_error(cj_state_open(&options, &state));
  return state;
}

static int set_up(void **state) {
  *state = store_dir_new();
  return 0;
}

static int tear_down(void **state) {
  chmod(*state, 0700);
  store_dir_remove(*state);
  return 0;
}

/* DIR/name exists, and is this. */
static bool exists(const char *dir, const char *name) {
  char *path = cj_asprintf("%s/%s", dir, name);
  bool there = access(path, F_OK) == 0;
  cj_free(path);
  return there;
}

/* ---- names ---- */

static void names_are_safe_in_paths(void **state) {
  (void)state;
  static const struct {
    const char *name, *safe;
  } cases[] = {
      {"price-alerts_v1.2", "price-alerts_v1.2"},
      {"..", "%2E."},
      {".", "%2E"},
      {".hidden", "%2Ehidden"},
      {"a/../../b", "a%2F..%2F..%2Fb"},
      {"100%", "100%25"},
      {"a b\n", "a%20b%0A"},
      {"\xc3\xa9", "%C3%A9"},
      {"", ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cj_buf out = CJ_BUF_INIT;
    cj_dir_append_name(&out, cases[i].name);
    assert_string_equal(cj_dir_text(&out), cases[i].safe);
    cj_buf_free(&out);
  }
}

static void the_directory_is_the_owners_alone(void **state) {
  char *dir = cj_asprintf("%s/deep/er", (char *)*state);
  cj_state *self = open_state(dir, "my app/1");
  static const char *const made[] = {"deep", "deep/er", "deep/er/my%20app%2F1"};
  for (size_t i = 0; i < 3; i++) {
    char *path = cj_asprintf("%s/%s", (char *)*state, made[i]);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    cj_free(path);
  }
  cj_state_close(self);
  cj_free(dir);
}

/* ---- slots ---- */

static void an_id_is_stable(void **state) {
  cj_state *first = open_state(*state, "app");
  char id[16];
  snprintf(id, sizeof id, "%s", cj_state_process_id(first));
  assert_int_equal(strlen(id), 8);
  assert_int_equal(strspn(id, "0123456789abcdef"), 8);
  cj_state_close(first);
  first = open_state(*state, "app");
  assert_string_equal(cj_state_process_id(first), id);
  cj_state_close(first);
}

static void those_that_share_a_directory_differ(void **state) {
  cj_state *first = open_state(*state, "app"), *second = open_state(*state, "app");
  cj_state *elsewhere = open_state(*state, "other app");
  char id[3][9];
  snprintf(id[0], 9, "%s", cj_state_process_id(first));
  snprintf(id[1], 9, "%s", cj_state_process_id(second));
  snprintf(id[2], 9, "%s", cj_state_process_id(elsewhere));
  assert_string_not_equal(id[0], id[1]);
  assert_string_not_equal(id[0], id[2]);
  cj_state_close(first);
  first = open_state(*state, "app"); /* beside the second, which holds on to its own */
  assert_string_equal(cj_state_process_id(first), id[0]);
  cj_state_close(second);
  cj_state_close(first);
  cj_state_close(elsewhere);
}

static void a_damaged_slot_gets_a_new_id(void **state) {
  static const char *const damages[] = {"", "12345", "not a hex number at all\n", "12345678"};
  for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
    cj_state_close(open_state(*state, "app"));
    char *path = cj_asprintf("%s/app/process-0.lock", (char *)*state);
    FILE *slot = fopen(path, "w");
    fputs(damages[i], slot);
    fclose(slot);
    cj_free(path);
    cj_state *self = open_state(*state, "app");
    char id[9];
    snprintf(id, sizeof id, "%s", cj_state_process_id(self));
    assert_int_equal(strspn(id, "0123456789abcdef"), 8);
    cj_state_close(self);
    self = open_state(*state, "app");
    assert_string_equal(cj_state_process_id(self), id);
    cj_state_close(self);
  }
}

/* Case 63. */
static void another_process_takes_another_slot(void **state) {
  char *const argv[] = {"test_state", "--share", *state, NULL};
  store_child child = store_child_start(argv);
  char theirs[9] = "";
  for (int i = 0; i < 8; i++)
    assert_int_equal(read(child.out, &theirs[i], 1), 1);
  cj_state *self = open_state(*state, "app");
  bool differ = strcmp(cj_state_process_id(self), theirs) != 0;
  cj_state_close(self);
  kill(child.pid, SIGKILL);
  store_child_end(&child);
  assert_true(differ);
  self = open_state(*state, "app"); /* its slot is free again, and its id is ours now */
  assert_string_equal(cj_state_process_id(self), theirs);
  cj_state_close(self);
}

static void in_memory_there_are_no_files(void **state) {
  char *dir = cj_asprintf("%s/none", (char *)*state);
  cj_state_options options = options_of(dir, "app");
  options.in_memory = true;
  cj_state *self;
  char ids[3][9];
  for (int i = 0; i < 3; i++) {
    if (i) options.source = cj_kv_source_memory();
    options.app_id = i < 2 ? "app" : "other app";
    assert_no_error(cj_state_open(&options, &self));
    snprintf(ids[i], 9, "%s", cj_state_process_id(self));
    cj_state_close(self);
  }
  assert_string_equal(ids[0], ids[1]);
  assert_string_not_equal(ids[0], ids[2]);
  assert_false(exists(*state, "none"));
  options.dir = NULL;
  options.source = cj_kv_source_memory();
  assert_no_error(cj_state_open(&options, &self));
  cj_state_close(self);
  /* With threads it is a real process, and no two of those are one. */
  options.pool_threads = 1;
  for (int i = 0; i < 2; i++) {
    options.source = cj_kv_source_memory();
    assert_no_error(cj_state_open(&options, &self));
    snprintf(ids[i], 9, "%s", cj_state_process_id(self));
    cj_state_close(self);
  }
  assert_string_not_equal(ids[0], ids[1]);
  cj_free(dir);
}

/* ---- what the system refuses ---- */

/* Case 65 d. */
static void a_read_only_directory_is_told(void **state) {
  assert_int_equal(chmod(*state, 0555), 0);
  char *const argv[] = {"test_state", "--open-as-nobody", *state, NULL};
  store_child child = store_child_start(argv);
  char told[1024] = "";
  for (size_t len = 0; len + 1 < sizeof told && read(child.out, told + len, 1) == 1;)
    len++;
  int status = store_child_end(&child);
  assert_int_equal(WEXITSTATUS(status), CJ_ERR_SYSTEM);
  ASSERT_MENTIONS(told, *state, strerror(EACCES), "state.dir");
}

static void a_file_in_the_way_is_told(void **state) {
  char *file = cj_asprintf("%s/file", (char *)*state);
  fclose(fopen(file, "w"));
  char *dir = cj_asprintf("%s/deeper", file);
  cj_state_options options = options_of(dir, "app");
  cj_state *self;
  cj_error *error = cj_state_open(&options, &self);
  assert_int_equal(cj_error_code(error), CJ_ERR_SYSTEM);
  ASSERT_MENTIONS(cj_error_text(error), file, strerror(ENOTDIR));
  cj_error_destroy(error);
  cj_free(dir);
  cj_free(file);
}

/* ---- files and their limit (case 68) ---- */

static void enough_files_are_granted(void **state) {
  (void)state;
  int granted = 0;
  assert_no_error(cj_state_check_files(6, 0, &granted));
  assert_true(granted >= 6 * 20);
  assert_no_error(cj_state_check_files(6, 150, &granted));
  assert_int_equal(granted, 150);
  assert_no_error(cj_state_check_files(6, 1, &granted)); /* less than RocksDB takes */
  assert_int_equal(granted, 6 * 20);
}

static store_child start_with_files(const char *soft, const char *hard, const char *stores) {
  char *const argv[] = {"test_state", "--check-files", (char *)soft,
                        (char *)hard, (char *)stores,  NULL};
  return store_child_start(argv);
}

static void a_low_limit_is_refused_with_the_number(void **state) {
  (void)state;
  store_child child = start_with_files("256", "256", "64");
  char told[1024] = "";
  for (size_t len = 0; len + 1 < sizeof told && read(child.out, told + len, 1) == 1;)
    len++;
  int status = store_child_end(&child);
  assert_int_equal(WEXITSTATUS(status), CJ_ERR_LIMIT);
  ASSERT_MENTIONS(told, "64 stores", "256");
  int need = 0;
  assert_int_equal(sscanf(strstr(told, "need "), "need %d", &need), 1);
  assert_in_range(need, 64 * 20 + 128, 64 * 20 + 256); /* the stores, and the network */
  /* With that number it goes. */
  char enough[16];
  snprintf(enough, sizeof enough, "%d", need);
  child = start_with_files("256", enough, "64");
  status = store_child_end(&child);
  assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- removal ---- */

typedef struct {
  char text[2048];
} listing;

static void note(void *user, const char *path) {
  listing *list = user;
  size_t len = strlen(list->text);
  snprintf(list->text + len, sizeof list->text - len, "%s\n", path);
}

static void make_store(const char *dir, const char *name) {
  char *path = cj_asprintf("%s/app/%s", dir, name);
  assert_no_error(cj_dir_make(path));
  char *file = cj_asprintf("%s/CURRENT", path);
  fclose(fopen(file, "w"));
  cj_free(file);
  cj_free(path);
}

static void remove_lists_and_removes(void **state) {
  const char *dir = *state;
  cj_state_close(open_state(dir, "app"));
  cj_state_close(open_state(dir, "app2"));
  make_store(dir, "price-1");
  make_store(dir, "price-0");
  char *expected = cj_asprintf("%s/app/price-0\n%s/app/price-1\n%s/app/process-0.lock\n%s/app\n",
                               dir, dir, dir, dir);
  listing dry = {""}, real = {""}, again = {""};
  assert_no_error(cj_state_remove(dir, "app", true, note, &dry));
  assert_string_equal(dry.text, expected);
  assert_true(exists(dir, "app/price-0/CURRENT"));
  assert_no_error(cj_state_remove(dir, "app", false, note, &real));
  assert_string_equal(real.text, expected);
  assert_false(exists(dir, "app"));
  assert_true(exists(dir, "app2"));
  assert_no_error(cj_state_remove(dir, "app", false, note, &again));
  assert_string_equal(again.text, "");
  cj_free(expected);
}

static void what_is_in_use_is_not_removed(void **state) {
  const char *dir = *state;
  cj_state *self = open_state(dir, "app");
  make_store(dir, "price-0");
  char pid[32];
  snprintf(pid, sizeof pid, "process %ld", (long)getpid());
  for (int dry_run = 0; dry_run < 2; dry_run++) {
    listing list = {""};
    cj_error *error = cj_state_remove(dir, "app", dry_run, note, &list);
    assert_int_equal(cj_error_code(error), CJ_ERR_STORE_LOCKED);
    ASSERT_MENTIONS(cj_error_message(error), dir, pid);
    cj_error_destroy(error);
    assert_string_equal(list.text, "");
  }
  assert_true(exists(dir, "app/price-0/CURRENT"));
  cj_state_close(self);
  assert_no_error(cj_state_remove(dir, "app", false, NULL, NULL));
}

typedef struct {
  const char *dir;
  cj_code code;
} start_meanwhile;

static void start_while_removing(void *user, const char *path) {
  start_meanwhile *start = user;
  (void)path;
  const cj_state_options options = options_of(start->dir, "app");
  cj_state *state = NULL;
  cj_error *error = cj_state_open(&options, &state);
  start->code = cj_error_code(error);
  cj_error_destroy(error);
  cj_state_close(state);
}

static void nobody_starts_in_what_is_being_removed(void **state) {
  cj_state_close(open_state(*state, "app"));
  start_meanwhile start = {.dir = *state, .code = CJ_OK};
  assert_no_error(cj_state_remove(*state, "app", false, start_while_removing, &start));
  assert_int_equal(start.code, CJ_ERR_STORE_LOCKED);
  cj_state_close(open_state(*state, "app"));
}

/* ---- the other process ---- */

static int end_with(cj_error *error) {
  fputs(cj_error_message(error), stdout);
  int code = (int)cj_error_code(error);
  cj_error_destroy(error);
  return code;
}

static int open_as_nobody(const char *dir) {
  if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 255;
  const cj_state_options options = options_of(dir, "app");
  cj_state *state = NULL;
  cj_error *error = cj_state_open(&options, &state);
  cj_state_close(state);
  return end_with(error);
}

static int share(const char *dir) {
  const cj_state_options options = options_of(dir, "app");
  cj_state *state;
  cj_error *error = cj_state_open(&options, &state);
  if (error || write(STDOUT_FILENO, cj_state_process_id(state), 8) != 8) return 1;
  for (;;)
    pause();
}

static int check_files(const char *soft, const char *hard, const char *stores) {
  const struct rlimit limit = {.rlim_cur = (rlim_t)atol(soft), .rlim_max = (rlim_t)atol(hard)};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 255;
  int granted = 0;
  return end_with(cj_state_check_files(atoi(stores), 0, &granted));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "--open-as-nobody") == 0) return open_as_nobody(argv[2]);
  if (argc == 3 && strcmp(argv[1], "--share") == 0) return share(argv[2]);
  if (argc == 5 && strcmp(argv[1], "--check-files") == 0)
    return check_files(argv[2], argv[3], argv[4]);
  const struct CMUnitTest cases[] = {
      CASE(names_are_safe_in_paths),
      CASE(the_directory_is_the_owners_alone),
      CASE(an_id_is_stable),
      CASE(those_that_share_a_directory_differ),
      CASE(a_damaged_slot_gets_a_new_id),
      CASE(another_process_takes_another_slot),
      CASE(in_memory_there_are_no_files),
      CASE(a_read_only_directory_is_told),
      CASE(a_file_in_the_way_is_told),
      CASE(enough_files_are_granted),
      CASE(a_low_limit_is_refused_with_the_number),
      CASE(remove_lists_and_removes),
      CASE(what_is_in_use_is_not_removed),
      CASE(nobody_starts_in_what_is_being_removed),
  };
  return cmocka_run_group_tests(cases, NULL, NULL);
}
