/* SPDX-License-Identifier: BSD-2-Clause */
/* The task store against a model that is too simple to be wrong: arrays indexed by table and key,
 * one for each of the layers. Random operations from a seed; after each, every key of the store is
 * compared. On the disk in memory with crashes, and on RocksDB with closes in their place. */
#include "lib/store_dir.h"
#include "lib/task_store_fixture.h"

enum { TABLES = 2, KEYS = 12, STEPS = 400 };

/* value 0: no row; otherwise the row's value is that many bytes of that number, less one. */
typedef struct {
  int value;
  int64_t timestamp;
} model_row;

typedef struct {
  model_row row[TABLES][KEYS];
  bool set[TABLES][KEYS]; /* in this layer */
} model_layer;

typedef struct {
  model_layer active, frozen, restoring;
  bool has_frozen;
  model_row stored[TABLES][KEYS]; /* as a look-up in the kv sees it */
  int64_t position[TABLES];
  model_row durable[TABLES][KEYS]; /* as a crash leaves it */
  int64_t durable_position[TABLES];
  bool bulk[TABLES];
  int64_t next; /* offsets and timestamps that nothing has had before */
} model;

typedef struct {
  uint64_t random;
  model m;
  ts_fixture f;
  char *path; /* of RocksDB's; NULL: the disk in memory */
} run;

static unsigned draw(run *r, unsigned n) {
  r->random = r->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (unsigned)(r->random >> 33) % n;
}

static cj_bytes key_of(int key) {
  static const char *const keys[KEYS] = {"",  "a",  "aa", "b",        "\xff", "\xff\xff",
                                         "k", "k2", "BB", "12345678", "p",    "mf"};
  return cj_bytes_str(keys[key]);
}

static cj_bytes value_of(int value, unsigned char bytes[64]) {
  if (value == 0) return cj_bytes_null();
  memset(bytes, value, 64);
  return cj_bytes_of(bytes, (size_t)value - 1);
}

/* ---- what is, by the model ---- */

static model_row model_look_up(const model *m, int table, int key) {
  if (m->active.set[table][key]) return m->active.row[table][key];
  if (m->has_frozen && m->frozen.set[table][key]) return m->frozen.row[table][key];
  return m->stored[table][key];
}

static void layer_put(model_layer *layer, int table, int key, model_row row) {
  layer->row[table][key] = row;
  layer->set[table][key] = true;
}

static void apply(model *m, const model_layer *layer, int table) {
  for (int k = 0; k < KEYS; k++)
    if (layer->set[table][k]) m->stored[table][k] = layer->row[table][k];
}

static void make_durable(model *m, int table) {
  memcpy(m->durable[table], m->stored[table], sizeof m->stored[table]);
  m->durable_position[table] = m->position[table];
  m->bulk[table] = false;
}

static void forget_uncommitted(model *m) {
  m->active = m->frozen = m->restoring = (model_layer){.set = {{false}}};
  m->has_frozen = false;
}

/* ---- comparison ---- */

static void compare_row(run *r, int table, int key) {
  unsigned char bytes[64];
  const model_row wanted = model_look_up(&r->m, table, key);
  cj_row row = {.timestamp = 0};
  cj_error *error;
  cj_kv_read found = cj_task_store_get(r->f.store, table, key_of(key), &row, &error);
  assert_no_error(error);
  assert_int_equal(found, wanted.value ? CJ_KV_FOUND : CJ_KV_ABSENT);
  if (!wanted.value) return;
  assert_true(cj_bytes_equal(row.value, value_of(wanted.value, bytes)));
  assert_int_equal(row.timestamp, wanted.timestamp);
}

typedef struct {
  run *r;
  int table;
  size_t seen, wrong;
} comparison;

static bool compare_stored(void *user, cj_bytes key, const cj_row *row) {
  comparison *c = user;
  unsigned char bytes[64];
  int k = 0;
  while (k < KEYS && !cj_bytes_equal(key_of(k), key))
    k++;
  const model_row *wanted = k < KEYS ? &c->r->m.stored[c->table][k] : NULL;
  if (!wanted || !wanted->value || row->timestamp != wanted->timestamp ||
      !cj_bytes_equal(row->value, value_of(wanted->value, bytes)))
    c->wrong++;
  c->seen++;
  return true;
}

static void compare(run *r) {
  for (int t = 0; t < TABLES; t++) {
    for (int k = 0; k < KEYS; k++)
      compare_row(r, t, k);
    comparison c = {.r = r, .table = t};
    assert_no_error(cj_task_store_scan(r->f.store, t, compare_stored, &c));
    size_t wanted = 0;
    for (int k = 0; k < KEYS; k++)
      wanted += r->m.stored[t][k].value != 0;
    assert_int_equal(c.seen, wanted);
    assert_int_equal(c.wrong, 0);
    assert_int_equal(cj_task_store_position(r->f.store, t).offset, r->m.position[t]);
  }
  assert_int_equal(cj_task_store_frozen(r->f.store), r->m.has_frozen);
}

/* ---- steps ---- */

static void do_put(run *r) {
  unsigned char bytes[64];
  int table = (int)draw(r, TABLES), key = (int)draw(r, KEYS);
  const model_row row = {.value = draw(r, 3) ? 1 + (int)draw(r, 60) : 0,
                         .timestamp = (int64_t)draw(r, 1000) - 10};
  const model_row before = model_look_up(&r->m, table, key);
  bool older = false, tell = draw(r, 2);
  assert_no_error(cj_task_store_put(r->f.store, table, key_of(key), value_of(row.value, bytes),
                                    row.timestamp, tell ? &older : NULL));
  if (tell) assert_int_equal(older, before.value && before.timestamp > row.timestamp);
  layer_put(&r->m.active, table, key, row);
}

static void do_freeze(run *r) {
  if (r->m.has_frozen) return;
  cj_task_store_freeze(r->f.store);
  r->m.frozen = r->m.active;
  r->m.active = (model_layer){.set = {{false}}};
  r->m.has_frozen = true;
}

static bool restoring_any(const model *m) {
  for (int t = 0; t < TABLES; t++)
    for (int k = 0; k < KEYS; k++)
      if (m->restoring.set[t][k]) return true;
  return false;
}

static void do_commit(run *r) {
  if (!r->m.has_frozen || restoring_any(&r->m)) return;
  cj_position positions[TABLES];
  for (int t = 0; t < TABLES; t++) {
    positions[t] = ts_at(r->m.next++);
    r->m.position[t] = positions[t].offset;
  }
  assert_no_error(cj_task_store_commit(r->f.store, positions));
  for (int t = 0; t < TABLES; t++) {
    apply(&r->m, &r->m.frozen, t);
    make_durable(&r->m, t);
  }
  r->m.frozen = (model_layer){.set = {{false}}};
  r->m.has_frozen = false;
}

static void do_thaw(run *r) {
  assert_no_error(cj_task_store_thaw(r->f.store));
  if (!r->m.has_frozen) return;
  for (int t = 0; t < TABLES; t++)
    for (int k = 0; k < KEYS; k++)
      if (r->m.frozen.set[t][k] && !r->m.active.set[t][k])
        layer_put(&r->m.active, t, k, r->m.frozen.row[t][k]);
  r->m.frozen = (model_layer){.set = {{false}}};
  r->m.has_frozen = false;
}

static void do_rollback(run *r) {
  cj_task_store_rollback(r->f.store);
  forget_uncommitted(&r->m);
}

static void do_restore(run *r) {
  unsigned char bytes[64];
  int table = (int)draw(r, TABLES), key = (int)draw(r, KEYS);
  const model_row row = {.value = draw(r, 3) ? 1 + (int)draw(r, 60) : 0,
                         .timestamp = (int64_t)draw(r, 1000)};
  assert_no_error(cj_task_store_restore(r->f.store, table, key_of(key), value_of(row.value, bytes),
                                        row.timestamp));
  layer_put(&r->m.restoring, table, key, row);
}

static void do_restore_flush(run *r) {
  int table = (int)draw(r, TABLES);
  bool bulk = draw(r, 2);
  /* What was written in bulk before is made durable by a write that is not. */
  for (int t = 0; !bulk && r->m.bulk[table] && t < TABLES; t++)
    if (t != table && r->m.bulk[t]) make_durable(&r->m, t);
  const cj_position position = ts_at(r->m.next++);
  assert_no_error(cj_task_store_restore_flush(r->f.store, table, &position, bulk));
  apply(&r->m, &r->m.restoring, table);
  for (int k = 0; k < KEYS; k++)
    r->m.restoring.set[table][k] = false;
  r->m.position[table] = position.offset;
  r->m.bulk[table] = bulk;
  if (!bulk) make_durable(&r->m, table);
}

static void do_restore_end(run *r) {
  assert_no_error(cj_task_store_restore_end(r->f.store));
  for (int t = 0; t < TABLES; t++)
    make_durable(&r->m, t);
}

static void do_wipe(run *r) {
  int table = (int)draw(r, TABLES);
  do_rollback(r);
  assert_no_error(cj_task_store_wipe(r->f.store, table));
  memset(r->m.stored[table], 0, sizeof r->m.stored[table]);
  r->m.position[table] = -1;
  make_durable(&r->m, table);
}

static void open_store(run *r) {
  const cj_fingerprint fingerprint = ts_fingerprint();
  const cj_log log = {.user = &r->f, .level = CJ_LOG_ERROR, .line = ts_log};
  cj_kv *kv;
  assert_no_error(r->f.source->ops->open(r->f.source, r->path ? r->path : "notif-3", &kv));
  assert_no_error(cj_task_store_open(kv, &fingerprint, &log, &r->f.store));
}

static void do_end(run *r) {
  if (r->path) {
    for (int t = 0; t < TABLES; t++)
      make_durable(&r->m, t);
  } else {
    cj_kv_source_memory_crash(r->f.source);
  }
  ts_close(&r->f);
  open_store(r);
  forget_uncommitted(&r->m);
  for (int t = 0; t < TABLES; t++) {
    memcpy(r->m.stored[t], r->m.durable[t], sizeof r->m.stored[t]);
    r->m.position[t] = r->m.durable_position[t];
    r->m.bulk[t] = false;
  }
}

static void take_step(run *r) {
  static void (*const steps[])(run *) = {
      do_put,     do_put,           do_put,      do_put,           do_put,        do_freeze,
      do_freeze,  do_commit,        do_commit,   do_thaw,          do_restore,    do_restore,
      do_restore, do_restore_flush, do_rollback, do_restore_flush, do_restore_end};
  unsigned which = draw(r, 60);
  if (which == 0)
    do_end(r);
  else if (which == 1)
    do_wipe(r);
  else
    steps[which % (sizeof steps / sizeof *steps)](r);
}

static uint64_t failing; /* the seed that runs; 0: none */

static void run_seed(uint64_t seed, cj_kv_source *source, char *path, int steps) {
  failing = seed;
  run r = {.random = seed, .f = {.source = source}, .path = path};
  for (int t = 0; t < TABLES; t++)
    r.m.position[t] = r.m.durable_position[t] = -1;
  open_store(&r);
  for (int i = 0; i < steps; i++) {
    take_step(&r);
    compare(&r);
  }
  ts_close(&r.f);
  failing = 0;
}

static void agrees_with_the_model_in_memory(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    cj_kv_source *source = cj_kv_source_memory();
    run_seed(seed, source, NULL, STEPS);
    source->ops->destroy(source);
  }
}

static void agrees_with_the_model_on_rocksdb(void **state) {
  (void)state;
  if (!CJ_TEST_ROCKSDB) skip();
  const cj_rocksdb_options options = {
      .cache_bytes = 4 << 20, .write_buffer_bytes = 4 << 20, .max_open_files = 64, .stores = 1};
  char *dir = store_dir_new();
  cj_kv_source *source;
  assert_no_error(cj_kv_source_rocksdb(&options, &source));
  for (uint64_t seed = 1; seed <= 4; seed++) {
    char *path = cj_asprintf("%s/%d", dir, (int)seed);
    run_seed(seed, source, path, STEPS);
    cj_free(path);
  }
  source->ops->destroy(source);
  store_dir_remove(dir);
}

/* A failure is replayed by its seed. */
static int tell_seed(void **state) {
  (void)state;
  if (failing) fprintf(stderr, "failed with seed %llu\n", (unsigned long long)failing);
  return 0;
}

int main(void) {
  const struct CMUnitTest cases[] = {
      cmocka_unit_test_teardown(agrees_with_the_model_in_memory, tell_seed),
      cmocka_unit_test_teardown(agrees_with_the_model_on_rocksdb, tell_seed),
  };
  return cmocka_run_group_tests(cases, NULL, NULL);
}
