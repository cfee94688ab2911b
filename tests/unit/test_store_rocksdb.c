/* SPDX-License-Identifier: BSD-2-Clause */
/* RocksDB in the world: damage, other processes, limits. The rest of what it promises is in
 * test_kv.c. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>

#include "lib/kv_fixture.h"

/* Cases 65 a and c: a directory that is missing or empty is an empty store, not a resumed one. */
static void an_empty_directory_is_an_empty_store(void **state) {
  kv_fixture *f = *state;
  kv_put(f->kv, "a", "1");
  f->kv->ops->close(f->kv);
  f->kv = NULL;
  assert_no_error(cj_dir_remove(f->path));
  f->kv = kv_must_open(f->source, f->path);
  assert_int_equal(kv_count(f->kv), 0);
  f->kv->ops->close(f->kv);
  assert_no_error(cj_dir_remove(f->path));
  assert_int_equal(mkdir(f->path, 0700), 0);
  f->kv = kv_must_open(f->source, f->path);
  assert_int_equal(kv_count(f->kv), 0);
}

/* Writes over the first bytes of each of the store's files with that ending; how many there were.
 */
static int damage(const char *path, const char *ending, bool remove_it) {
  DIR *dir = opendir(path);
  assert_non_null(dir);
  int n = 0;
  for (struct dirent *entry; (entry = readdir(dir));) {
    const char *at = strstr(entry->d_name, ending);
    if (!at) continue;
    char *file = cj_asprintf("%s/%s", path, entry->d_name);
    if (remove_it) {
      assert_int_equal(unlink(file), 0);
    } else {
      FILE *out = fopen(file, "r+b");
      assert_non_null(out);
      for (int i = 0; i < 64; i++)
        fputc('#', out);
      fclose(out);
    }
    cj_free(file);
    n++;
  }
  closedir(dir);
  return n;
}

static void assert_damaged(kv_fixture *f, const char *ending, bool remove_it) {
  kv_put(f->kv, "a", "1");
  assert_no_error(f->kv->ops->flush(f->kv));
  f->kv->ops->close(f->kv);
  f->kv = NULL;
  assert_true(damage(f->path, ending, remove_it) > 0);
  cj_error *error = f->source->ops->open(f->source, f->path, &f->kv);
  assert_int_equal(cj_error_code(error), CJ_ERR_STORE);
  ASSERT_MENTIONS(cj_error_message(error), f->path, "damaged", "cojoin reset", "rebuilt");
  cj_error_destroy(error);
  f->kv = NULL;
  /* What the message tells to do works. */
  assert_no_error(f->source->ops->remove(f->source, f->path));
  f->kv = kv_must_open(f->source, f->path);
  assert_int_equal(kv_count(f->kv), 0);
}

static void a_missing_table_file_is_told(void **state) {
  assert_damaged(*state, ".sst", true);
}

static void a_missing_root_is_told(void **state) {
  assert_damaged(*state, "CURRENT", true);
}

static void a_damaged_manifest_is_told(void **state) {
  assert_damaged(*state, "MANIFEST-", false);
}

/* Case 65 d. Root may write anywhere, so the other process is somebody else. */
static void a_directory_that_cannot_be_written_is_told(void **state) {
  kv_fixture *f = *state;
  f->kv->ops->close(f->kv);
  f->kv = NULL;
  assert_int_equal(chmod(f->dir, 0555), 0);
  char *const argv[] = {"test_store_rocksdb", "--open-as-nobody", f->path, NULL};
  store_child child = store_child_start(argv);
  char told[1024] = "";
  size_t len = 0;
  while (len + 1 < sizeof told && read(child.out, told + len, 1) == 1)
    len++;
  int status = store_child_end(&child);
  chmod(f->dir, 0755);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), CJ_ERR_SYSTEM);
  ASSERT_MENTIONS(told, f->path, strerror(EACCES));
}

/* Case 63: the other owner is named. */
static void another_process_that_holds_it_is_named(void **state) {
  kv_fixture *f = *state;
  kv_put(f->kv, "a", "1");
  f->kv->ops->close(f->kv);
  f->kv = NULL;
  char *const argv[] = {"test_store_rocksdb", "--hold", f->path, NULL};
  store_child child = store_child_start(argv);
  assert_true(store_child_tick(&child));
  char pid[32];
  snprintf(pid, sizeof pid, "process %ld", (long)child.pid);
  cj_kv *kv = NULL;
  cj_error *error = f->source->ops->open(f->source, f->path, &kv);
  kill(child.pid, SIGKILL);
  store_child_end(&child);
  assert_int_equal(cj_error_code(error), CJ_ERR_STORE_LOCKED);
  ASSERT_MENTIONS(cj_error_message(error), f->path, pid);
  cj_error_destroy(error);
  f->kv = kv_must_open(f->source, f->path); /* the lock died with its holder */
  kv_assert_holds(f->kv, "a", "1");
}

static size_t open_files(void) {
  DIR *dir = opendir("/proc/self/fd");
  size_t n = 0;
  while (readdir(dir))
    n++;
  closedir(dir);
  return n;
}

static uint64_t disk_bytes(const char *path) {
  DIR *dir = opendir(path);
  uint64_t bytes = 0;
  for (struct dirent *entry; (entry = readdir(dir));) {
    struct stat info;
    if (fstatat(dirfd(dir), entry->d_name, &info, 0) == 0 && S_ISREG(info.st_mode))
      bytes += (uint64_t)info.st_blocks * 512;
  }
  closedir(dir);
  return bytes;
}

static void a_small_store_takes_little(void **state) {
  kv_fixture *f = *state;
  size_t before = open_files();
  char *path = cj_asprintf("%s/small", f->dir);
  cj_kv *kv = kv_must_open(f->source, path);
  kv_put(kv, "a", "1");
  assert_true(open_files() - before <= 7);
  assert_true(disk_bytes(path) <= 512 * 1024);
  kv->ops->close(kv);
  assert_int_equal(open_files(), before);
  cj_free(path);
}

/* Case 68: the budget is for all stores together, whatever their number. */
static void write_buffers_stay_within_their_budget(void **state) {
  kv_fixture *f = *state;
  enum { STORES = 12, BUDGET = 4 << 20 };
  cj_kv_source *source = kv_rocksdb_of(BUDGET, STORES);
  cj_kv *kvs[STORES];
  for (int i = 0; i < STORES; i++) {
    char *path = cj_asprintf("%s/store-%d", f->dir, i);
    kvs[i] = kv_must_open(source, path);
    cj_free(path);
  }
  static char value[1000];
  uint64_t most = 0, written = 0;
  for (uint32_t n = 0; written < 10 * (uint64_t)BUDGET; n++) {
    cj_kv_batch batch = CJ_KV_BATCH_INIT;
    for (uint32_t i = 0; i < 16; i++) {
      uint32_t key = n * 16 + i;
      cj_kv_batch_put(&batch, cj_bytes_of(&key, sizeof key), cj_bytes_of(value, sizeof value));
    }
    written += batch.ops.len;
    kv_write(kvs[n % STORES], &batch, false);
    uint64_t now = 0;
    for (int i = 0; i < STORES; i++)
      now += kvs[i]->ops->memory(kvs[i]);
    if (now > most) most = now;
  }
  for (int i = 0; i < STORES; i++)
    kvs[i]->ops->close(kvs[i]);
  source->ops->destroy(source);
  /* A flush runs beside the writers, so some more than the budget is in memory for a while; without
   * the budget it would be a write buffer of its own for each. */
  if (most > 2 * (uint64_t)BUDGET) fail_msg("%llu bytes", (unsigned long long)most);
}

static void the_version_is_that_of_the_library(void **state) {
  (void)state;
  const char *version = cj_rocksdb_version();
  assert_true(version[0] >= '1' && version[0] <= '9');
  assert_non_null(strchr(version, '.'));
  assert_ptr_equal(version, cj_rocksdb_version());
}

/* ---- the other process ---- */

static int open_as_nobody(const char *path) {
  cj_kv_source *source = kv_rocksdb();
  cj_kv *kv = NULL;
  if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 255;
  cj_error *error = source->ops->open(source, path, &kv);
  fputs(cj_error_message(error), stdout);
  int code = (int)cj_error_code(error);
  cj_error_destroy(error);
  if (kv) kv->ops->close(kv);
  source->ops->destroy(source);
  return code;
}

static int hold(const char *path) {
  kv_must_open(kv_rocksdb(), path);
  if (write(STDOUT_FILENO, "!", 1) != 1) return 1;
  for (;;)
    pause();
}

#define CASE(f) cmocka_unit_test_prestate_setup_teardown(f, kv_set_up, kv_tear_down, (void *)&kind)

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "--open-as-nobody") == 0) return open_as_nobody(argv[2]);
  if (argc == 3 && strcmp(argv[1], "--hold") == 0) return hold(argv[2]);
  static const kv_kind kind = {.name = "store rocksdb", .source = kv_rocksdb};
  const struct CMUnitTest world[] = {
      CASE(an_empty_directory_is_an_empty_store),
      CASE(a_missing_root_is_told),
      CASE(a_missing_table_file_is_told),
      CASE(a_damaged_manifest_is_told),
      CASE(a_directory_that_cannot_be_written_is_told),
      CASE(another_process_that_holds_it_is_named),
      CASE(a_small_store_takes_little),
      CASE(write_buffers_stay_within_their_budget),
      CASE(the_version_is_that_of_the_library),
  };
  return CJ_TEST_ROCKSDB ? cmocka_run_group_tests_name(kind.name, world, NULL, NULL) : 0;
}
