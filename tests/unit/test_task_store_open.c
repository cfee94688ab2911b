/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening a task's store: whose it is, which tables it holds, what is damaged. */
#include "lib/task_store_fixture.h"
#include "state/store_format.h"

static void raw_write(ts_fixture *f, const char *key, size_t key_len, cj_bytes value) {
  cj_kv *kv;
  assert_no_error(f->source->ops->open(f->source, "notif-3", &kv));
  cj_kv_batch batch = CJ_KV_BATCH_INIT;
  if (value.data)
    cj_kv_batch_put(&batch, cj_bytes_of(key, key_len), value);
  else
    cj_kv_batch_delete(&batch, cj_bytes_of(key, key_len));
  assert_no_error(kv->ops->write(kv, &batch, false));
  cj_kv_batch_free(&batch);
  kv->ops->close(kv);
}

/* The open is refused with this code, the message has each of the words, and nothing has changed.
 */
static void assert_refused(ts_fixture *f, const cj_fingerprint *fingerprint, cj_code code,
                           const char *const *words) {
  cj_error *error = ts_try_open(f, fingerprint);
  assert_int_equal(cj_error_code(error), code);
  assert_string_equal(cj_error_subject(error), "notif-3");
  assert_mentions(cj_error_message(error), words);
  cj_error_destroy(error);
}
#define ASSERT_REFUSED(f, fingerprint, code, ...)                                                  \
  assert_refused(f, fingerprint, code, (const char *const[]){__VA_ARGS__, NULL})

static void a_new_store_stands_nowhere(void **state) {
  ts_fixture *f = *state;
  ts_assert_position(f, PRICE, -1);
  ts_assert_position(f, FX, -1);
  const cj_position none = cj_task_store_position(f->store, PRICE);
  assert_int_equal(none.last_offset, -1);
  assert_int_equal(none.at_end_ms, -1);
}

static void opening_tells_where_each_table_stands(void **state) {
  ts_fixture *f = *state;
  assert_string_equal(f->logged, "store notif-3: opened at price[3] (empty), fx[3] (empty)\n");
  ts_commit(f, 1234, 0);
  ts_reopen(f);
  assert_string_equal(f->logged, "store notif-3: opened at price[3]@1234, fx[3]@0\n");
}

static void a_position_survives_with_all_its_parts(void **state) {
  ts_fixture *f = *state;
  const cj_position positions[] = {{.offset = INT64_MAX,
                                    .last_offset = INT64_MAX - 1,
                                    .last_timestamp = INT64_MIN,
                                    .last_key_hash = UINT64_C(0xfedcba9876543210),
                                    .at_end_ms = 1700000000000},
                                   {.offset = 0, .last_offset = -1, .at_end_ms = -1}};
  cj_task_store_freeze(f->store);
  assert_no_error(cj_task_store_commit(f->store, positions));
  ts_reopen(f);
  for (int t = 0; t < 2; t++) {
    const cj_position found = cj_task_store_position(f->store, t);
    assert_int_equal(found.offset, positions[t].offset);
    assert_int_equal(found.last_offset, positions[t].last_offset);
    assert_int_equal(found.last_timestamp, positions[t].last_timestamp);
    assert_int_equal(found.last_key_hash, positions[t].last_key_hash);
    assert_int_equal(found.at_end_ms, positions[t].at_end_ms);
  }
}

/* The bytes on disk are the same on every machine: these were written down, not computed. */
static void the_bytes_on_disk_are_fixed(void **state) {
  ts_fixture *f = *state;
  const cj_position positions[] = {{.offset = 0x0102,
                                    .last_offset = -1,
                                    .last_timestamp = 3,
                                    .last_key_hash = 4,
                                    .at_end_ms = 5},
                                   {.offset = -1, .last_offset = -1, .at_end_ms = -1}};
  ts_put(f, PRICE, "k", "v", 0x0203);
  cj_task_store_freeze(f->store);
  assert_no_error(cj_task_store_commit(f->store, positions));
  ts_close(f);
  cj_kv *kv;
  assert_no_error(f->source->ops->open(f->source, "notif-3", &kv));
  static const struct {
    const char *key;
    size_t key_len;
    const char *value;
    size_t value_len;
  } rows[] = {
      {"t\0\1k", 4, "\x03\x02\0\0\0\0\0\0v", 9},
      {"p\0\1", 3,
       "\1\x02\x01\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\3\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0"
       "\5\0\0\0\0\0\0\0",
       41},
      {"mtprice", 7, "\0\1", 2},
      {"mtfx", 4, "\0\2", 2},
      {"mf", 2, "\1\3\0\0\0\6\0\0\0\x09\0\0\0cluster-a\5\0\0\0notif", 31},
  };
  cj_buf found = CJ_BUF_INIT;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    cj_error *error = NULL;
    assert_int_equal(kv->ops->get(kv, cj_bytes_of(rows[i].key, rows[i].key_len), &found, &error),
                     CJ_KV_FOUND);
    assert_int_equal(found.len, rows[i].value_len);
    assert_memory_equal(found.data, rows[i].value, rows[i].value_len);
  }
  cj_buf_free(&found);
  kv->ops->close(kv);
}

static void another_cluster_is_refused(void **state) {
  ts_fixture *f = *state;
  ts_put(f, PRICE, "k", "v", 1);
  ts_commit(f, 5, 5);
  ts_close(f);
  cj_fingerprint other = ts_fingerprint();
  other.cluster_id = "cluster-b";
  ASSERT_REFUSED(f, &other, CJ_ERR_STORE_MISMATCH, "cluster-a", "cluster-b", "cojoin reset");
  other.cluster_id = "cluster-a2";
  ASSERT_REFUSED(f, &other, CJ_ERR_STORE_MISMATCH, "cluster-a", "cluster-a2");
  ts_open(f);
  ts_assert_row(f, PRICE, "k", "v", 1);
}

static void another_anchor_or_index_is_refused(void **state) {
  ts_fixture *f = *state;
  ts_close(f);
  cj_fingerprint other = ts_fingerprint();
  other.partition = 4;
  cj_error *error = ts_try_open(f, &other);
  assert_int_equal(cj_error_code(error), CJ_ERR_STORE_MISMATCH);
  ASSERT_MENTIONS(cj_error_message(error), "notif[3]", "notif[4]", "cojoin reset");
  cj_error_destroy(error);
  other = ts_fingerprint();
  other.anchor = "alerts";
  error = ts_try_open(f, &other);
  assert_int_equal(cj_error_code(error), CJ_ERR_STORE_MISMATCH);
  ASSERT_MENTIONS(cj_error_message(error), "notif[3]", "alerts[3]");
  cj_error_destroy(error);
  ts_open(f);
}

static void another_partition_count_is_refused(void **state) {
  ts_fixture *f = *state;
  ts_close(f);
  cj_fingerprint other = ts_fingerprint();
  other.partition_count = 12;
  ASSERT_REFUSED(f, &other, CJ_ERR_PARTITIONS_CHANGED, "6 partitions", "12", "cojoin reset");
  ts_open(f);
}

static void another_format_is_refused(void **state) {
  ts_fixture *f = *state;
  const cj_fingerprint fingerprint = ts_fingerprint();
  ts_close(f);
  raw_write(f, "mf", 2, cj_bytes_of("\2 whatever it is", 16));
  ASSERT_REFUSED(f, &fingerprint, CJ_ERR_STORE_MISMATCH, "format 2", "format 1", "cojoin reset");
  /* It is left as it is: the build that wrote it can still read it. */
  ASSERT_REFUSED(f, &fingerprint, CJ_ERR_STORE_MISMATCH, "format 2");
}

static void foreign_data_is_refused(void **state) {
  ts_fixture *f = *state;
  const cj_fingerprint fingerprint = ts_fingerprint();
  ts_close(f);
  assert_no_error(f->source->ops->remove(f->source, "notif-3"));
  raw_write(f, "user:1", 6, cj_bytes_str("somebody's"));
  ASSERT_REFUSED(f, &fingerprint, CJ_ERR_STORE_MISMATCH, "not written");
  cj_kv *kv;
  assert_no_error(f->source->ops->open(f->source, "notif-3", &kv));
  cj_buf found = CJ_BUF_INIT;
  cj_error *error = NULL;
  assert_int_equal(kv->ops->get(kv, cj_bytes_str("mf"), &found, &error), CJ_KV_ABSENT);
  cj_buf_free(&found);
  kv->ops->close(kv);
}

static void damage_is_told(void **state) {
  ts_fixture *f = *state;
  const cj_fingerprint fingerprint = ts_fingerprint();
  ts_commit(f, 1, 1);
  ts_close(f);
  static const struct {
    const char *key;
    size_t key_len;
    const char *value;
    size_t value_len;
    const char *what;
  } damages[] = {
      {"p\0\1", 3, "\1 too short", 11, "position"},
      {"p\0\1", 3, "\x09 of another version, and as long as one", 41, "position"},
      {"mtprice", 7, "\1", 1, "tables"},
      {"mtprice", 7, "\0\0", 2, "tables"},
      {"mf", 2, "", 0, "fingerprint"},
      {"mf", 2, "\1\3\0\0\0\6\0\0\0\xff\0\0\0cluster-a", 22, "fingerprint"},
      {"mf", 2, "\1\3\0\0\0\6\0\0\0\x09\0\0\0cluster-a\5\0\0\0notif and more", 40, "fingerprint"},
  };
  for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
    cj_kv *kv;
    cj_buf before = CJ_BUF_INIT;
    cj_error *error = NULL;
    assert_no_error(f->source->ops->open(f->source, "notif-3", &kv));
    assert_int_equal(
        kv->ops->get(kv, cj_bytes_of(damages[i].key, damages[i].key_len), &before, &error),
        CJ_KV_FOUND);
    kv->ops->close(kv);
    raw_write(f, damages[i].key, damages[i].key_len,
              cj_bytes_of(damages[i].value, damages[i].value_len));
    ASSERT_REFUSED(f, &fingerprint, CJ_ERR_STORE, damages[i].what, "damaged", "cojoin reset");
    raw_write(f, damages[i].key, damages[i].key_len, cj_buf_bytes(&before));
    cj_buf_free(&before);
  }
  ts_open(f);
}

static void a_damaged_row_is_told(void **state) {
  ts_fixture *f = *state;
  ts_close(f);
  raw_write(f, "t\0\1k", 4, cj_bytes_str("short"));
  raw_write(f, "p\0\1", 3,
            cj_bytes_of("\1\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                        "\0\0\0\0\0\0\0\0\0\0",
                        41));
  ts_open(f);
  cj_row row;
  cj_error *error = NULL;
  assert_int_equal(cj_task_store_get(f->store, PRICE, cj_bytes_str("k"), &row, &error),
                   CJ_KV_FAILED);
  ts_assert_code(error, CJ_ERR_STORE);
}

/* Cases 65 b and c, as far as they can happen with the position inside the store: rows without a
 * position are not resumed from, nor kept beside what a restore brings. */
static void rows_without_a_position_are_not_trusted(void **state) {
  ts_fixture *f = *state;
  ts_put(f, PRICE, "deleted in the topic meanwhile", "v", 1);
  ts_put(f, FX, "k", "v", 1);
  ts_commit(f, 100, 100);
  ts_close(f);
  raw_write(f, "p\0\1", 3, cj_bytes_null());
  ts_open(f);
  ASSERT_MENTIONS(f->logged, "price", "rebuilt");
  ts_assert_position(f, PRICE, -1);
  ts_assert_row(f, PRICE, "deleted in the topic meanwhile", NULL, 0);
  ts_assert_position(f, FX, 100);
  ts_assert_row(f, FX, "k", "v", 1);
}

static void a_table_is_added(void **state) {
  ts_fixture *f = *state;
  static const char *const more[] = {"alerts", "price", "fx"};
  ts_put(f, PRICE, "k", "of price", 1);
  ts_put(f, FX, "k", "of fx", 1);
  ts_commit(f, 5, 6);
  ts_close(f);
  cj_fingerprint fingerprint = ts_fingerprint();
  fingerprint.tables = more;
  fingerprint.table_count = 3;
  ts_open_with(f, &fingerprint);
  ts_assert_position(f, 0, -1);
  ts_assert_position(f, 1, 5);
  ts_assert_position(f, 2, 6);
  ts_assert_row(f, 0, "k", NULL, 0);
  ts_assert_row(f, 1, "k", "of price", 1);
  ts_assert_row(f, 2, "k", "of fx", 1);
}

static void a_table_that_is_gone_is_removed(void **state) {
  ts_fixture *f = *state;
  static const char *const fewer[] = {"fx"}, *const again[] = {"price", "other", "fx"};
  ts_put(f, PRICE, "k", "of price", 1);
  ts_put(f, FX, "k", "of fx", 1);
  ts_commit(f, 5, 6);
  ts_close(f);
  cj_fingerprint fingerprint = ts_fingerprint();
  fingerprint.tables = fewer;
  fingerprint.table_count = 1;
  ts_open_with(f, &fingerprint);
  ASSERT_MENTIONS(f->logged, "price", "removed");
  ts_assert_row(f, 0, "k", "of fx", 1);
  ts_close(f);
  fingerprint.tables = again; /* one of them gets the number that price had */
  fingerprint.table_count = 3;
  ts_open_with(f, &fingerprint);
  for (int t = 0; t < 2; t++) {
    ts_assert_position(f, t, -1);
    ts_assert_row(f, t, "k", NULL, 0);
  }
  ts_assert_row(f, 2, "k", "of fx", 1);
}

/* One table for another in one step: the new one must not inherit the old one's number before its
 * rows are gone. */
static void a_table_is_exchanged(void **state) {
  ts_fixture *f = *state;
  static const char *const exchanged[] = {"alerts", "fx"};
  ts_put(f, PRICE, "k", "of price", 1);
  ts_commit(f, 5, 6);
  ts_close(f);
  cj_fingerprint fingerprint = ts_fingerprint();
  fingerprint.tables = exchanged;
  ts_open_with(f, &fingerprint);
  ts_assert_position(f, 0, -1);
  ts_assert_position(f, 1, 6);
  ts_assert_row(f, 0, "k", NULL, 0);
  ts_put(f, 0, "k", "of alerts", 1);
  ts_commit(f, 1, 7);
  ts_close(f);
  ts_open_with(f, &fingerprint);
  ts_assert_row(f, 0, "k", "of alerts", 1);
  ts_assert_position(f, 0, 1);
}

static void no_tables_are_fine(void **state) {
  ts_fixture *f = *state;
  ts_close(f);
  cj_fingerprint fingerprint = ts_fingerprint();
  fingerprint.table_count = 0;
  ts_open_with(f, &fingerprint);
  cj_task_store_freeze(f->store);
  assert_no_error(cj_task_store_commit(f->store, NULL));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, ts_set_up, ts_tear_down)

int main(void) {
  const struct CMUnitTest cases[] = {
      CASE(a_new_store_stands_nowhere),
      CASE(opening_tells_where_each_table_stands),
      CASE(a_position_survives_with_all_its_parts),
      CASE(the_bytes_on_disk_are_fixed),
      CASE(another_cluster_is_refused),
      CASE(another_anchor_or_index_is_refused),
      CASE(another_partition_count_is_refused),
      CASE(another_format_is_refused),
      CASE(foreign_data_is_refused),
      CASE(damage_is_told),
      CASE(a_damaged_row_is_told),
      CASE(rows_without_a_position_are_not_trusted),
      CASE(a_table_is_added),
      CASE(a_table_that_is_gone_is_removed),
      CASE(a_table_is_exchanged),
      CASE(no_tables_are_fine),
  };
  return cmocka_run_group_tests(cases, NULL, NULL);
}
