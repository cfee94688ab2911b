/* SPDX-License-Identifier: BSD-2-Clause */
/* ctest: timeout=300
 * A process that writes to RocksDB is killed with SIGKILL at a point of chance, the store is opened
 * again, and what it holds is compared with the position that it states (case 67).
 *
 * The fault model: the process dies between any two instructions, the machine goes on. So all that
 * was handed to write(2) is there; what was acknowledged without `bulk`, or before restore_end
 * returned, must be there; of the rest any prefix of batches, each whole.
 *
 * The writer applies a known sequence: offset n updates or deletes row n * 7 mod ROWS in table
 * `price`, and says so once a batch is down by writing one byte. The killer counts the bytes. */
#include <inttypes.h>
#include <signal.h>

#include "lib/store_dir.h"
#include "lib/task_store_fixture.h"

enum { ROWS = 500, BATCH = 20, ROUNDS = 12 };

static cj_kv_source *source_new(void) {
  /* Small buffers: flushes and compactions run all the time. */
  const cj_rocksdb_options options = {
      .cache_bytes = 4 << 20, .write_buffer_bytes = 1 << 20, .max_open_files = 64, .stores = 1};
  cj_kv_source *source;
  cj_error *error = cj_kv_source_rocksdb(&options, &source);
  if (error) abort();
  return source;
}

static cj_error *open_store(cj_kv_source *source, const char *path, cj_task_store **store) {
  const cj_fingerprint fingerprint = ts_fingerprint();
  cj_kv *kv;
  cj_error *error = source->ops->open(source, path, &kv);
  return error ? error : cj_task_store_open(kv, &fingerprint, NULL, store);
}

/* ---- the sequence ---- */

typedef struct {
  char key[16];
  unsigned char value[400];
  cj_bytes value_bytes; /* null: deleted */
} update;

static void update_at(int64_t offset, update *u) {
  snprintf(u->key, sizeof u->key, "row-%d", (int)(offset * 7 % ROWS));
  memset(u->value, (int)(offset % 251), sizeof u->value);
  memcpy(u->value, &offset, sizeof offset);
  u->value_bytes = offset % 5 == 3 ? cj_bytes_null() : cj_bytes_of(u->value, sizeof u->value);
}

/* The last offset before `position` that concerns the row; -1: none. */
static int64_t last_update(int row, int64_t position) {
  for (int64_t n = position - 1; n >= 0 && n > position - 1 - ROWS; n--)
    if (n * 7 % ROWS == row) return n;
  return -1;
}

/* ---- the writer, another process ---- */

static void must(cj_error *error) {
  if (!error) return;
  fprintf(stderr, "%s\n", cj_error_text(error));
  _exit(3);
}

static void acknowledge(void) {
  if (write(STDOUT_FILENO, "!", 1) != 1) _exit(4);
}

/* Each commit is acknowledged. */
static void commit_on(cj_task_store *store, int64_t next) {
  update u;
  for (int n = 0; n < BATCH; n++, next++) {
    update_at(next, &u);
    must(cj_task_store_put(store, PRICE, cj_bytes_str(u.key), u.value_bytes, next, NULL));
  }
  const cj_position positions[] = {ts_at(next), ts_at(next)};
  cj_task_store_freeze(store);
  must(cj_task_store_commit(store, positions));
}

static void restore_on(cj_task_store *store, int64_t next, bool bulk) {
  update u;
  for (int n = 0; n < BATCH; n++, next++) {
    update_at(next, &u);
    must(cj_task_store_restore(store, PRICE, cj_bytes_str(u.key), u.value_bytes, next));
  }
  const cj_position position = ts_at(next);
  must(cj_task_store_restore_flush(store, PRICE, &position, bulk));
}

static int64_t position_of(cj_task_store *store) {
  int64_t offset = cj_task_store_position(store, PRICE).offset;
  return offset < 0 ? 0 : offset;
}

static _Noreturn void write_for_ever(const char *path, const char *mode) {
  cj_kv_source *source = source_new();
  cj_task_store *store;
  must(open_store(source, path, &store));
  for (unsigned turn = 1;; turn++) {
    int64_t next = position_of(store);
    if (strcmp(mode, "commit") == 0) {
      commit_on(store, next);
    } else if (strcmp(mode, "bulk") == 0) {
      /* Only restore_end makes durable. The bulk load is as long as chance has it. */
      for (unsigned n = 0; n < 1 + turn * 31 % 17; n++, next += BATCH)
        restore_on(store, next, true);
      must(cj_task_store_restore_end(store));
    } else if (strcmp(mode, "mixed") == 0) {
      restore_on(store, next, true);
      restore_on(store, next + BATCH, true);
      commit_on(store, next + 2 * BATCH);
    } else { /* reopen: killed in close and open too */
      commit_on(store, next);
      cj_task_store_close(store);
      must(open_store(source, path, &store));
    }
    acknowledge();
  }
}

/* ---- the killer ---- */

/* Offsets that one acknowledgement stands for, at least. */
static int64_t acknowledged_by(const char *mode) {
  return strcmp(mode, "mixed") == 0 ? 3 * BATCH : BATCH;
}

typedef struct {
  int64_t position;
  size_t rows, wrong;
} comparison;

static bool compare_row(void *user, cj_bytes key, const cj_row *row) {
  comparison *c = user;
  char text[16] = "";
  int number = -1;
  update u;
  memcpy(text, key.data, key.len < sizeof text ? key.len : sizeof text - 1);
  if (sscanf(text, "row-%d", &number) != 1) number = -1;
  int64_t last = last_update(number, c->position);
  if (last >= 0) update_at(last, &u);
  if (last < 0 || row->timestamp != last || !cj_bytes_equal(row->value, u.value_bytes)) c->wrong++;
  c->rows++;
  return true;
}

/* Every row is what the sequence up to the stated position makes of it, and no row is missing. */
static void compare_with_position(cj_task_store *store) {
  comparison c = {.position = position_of(store)};
  assert_int_equal(c.position % BATCH, 0);
  assert_no_error(cj_task_store_scan(store, PRICE, compare_row, &c));
  size_t wanted = 0;
  update u;
  for (int row = 0; row < ROWS; row++) {
    int64_t last = last_update(row, c.position);
    if (last < 0) continue;
    update_at(last, &u);
    wanted += u.value_bytes.data != NULL;
  }
  assert_int_equal(c.rows, wanted);
  assert_int_equal(c.wrong, 0);
}

static unsigned random_state = 1;

static unsigned draw(unsigned n) {
  random_state = random_state * 1103515245u + 12345u;
  return (random_state >> 16) % n;
}

/* Lets the writer acknowledge a number of turns and then a moment of chance pass. */
static int64_t run_and_kill(const char *path, const char *mode) {
  char *const argv[] = {"test_store_crash", "--write", (char *)path, (char *)mode, NULL};
  store_child child = store_child_start(argv);
  int64_t ticks = 0;
  for (unsigned wanted = draw(40); ticks < wanted && store_child_tick(&child);)
    ticks++;
  for (volatile unsigned spin = draw(300000); spin; spin--)
    continue;
  kill(child.pid, SIGKILL);
  while (store_child_tick(&child))
    ticks++; /* acknowledged before the signal came */
  int status = store_child_end(&child);
  assert_true(WIFSIGNALED(status));
  return ticks;
}

static void survives(const char *mode) {
  if (!CJ_TEST_ROCKSDB) skip();
  char *dir = store_dir_new();
  char *path = cj_asprintf("%s/notif-3", dir);
  int64_t before = 0;
  for (int round = 0; round < ROUNDS; round++) {
    int64_t ticks = run_and_kill(path, mode);
    cj_kv_source *source = source_new();
    cj_task_store *store;
    assert_no_error(open_store(source, path, &store));
    int64_t position = position_of(store);
    if (position < before + ticks * acknowledged_by(mode))
      fail_msg("%s: position %" PRId64 ", before %" PRId64 ", %" PRId64 " acknowledged", mode,
               position, before, ticks);
    before = position;
    compare_with_position(store);
    cj_task_store_close(store);
    source->ops->destroy(source);
  }
  assert_true(before > 0);
  store_dir_remove(dir);
  cj_free(path);
}

static void commits_survive(void **state) {
  (void)state;
  survives("commit");
}

static void a_bulk_load_survives_as_a_cut(void **state) {
  (void)state;
  survives("bulk");
}

static void commits_above_a_bulk_load_survive(void **state) {
  (void)state;
  survives("mixed");
}

static void closing_and_opening_survives(void **state) {
  (void)state;
  survives("reopen");
}

int main(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "--write") == 0) write_for_ever(argv[2], argv[3]);
  const struct CMUnitTest cases[] = {
      cmocka_unit_test(commits_survive),
      cmocka_unit_test(a_bulk_load_survives_as_a_cut),
      cmocka_unit_test(commits_above_a_bulk_load_survive),
      cmocka_unit_test(closing_and_opening_survives),
  };
  return cmocka_run_group_tests(cases, NULL, NULL);
}
