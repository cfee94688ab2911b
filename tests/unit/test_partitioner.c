/* SPDX-License-Identifier: BSD-2-Clause */
/* The numbers in tests/data were executed with kafka-clients 4.2.0, librdkafka 2.0.2, Sarama and
 * kafka-go; see the columns' names. */
#include "lib/unit.h"

#include <cojoin/partitioner.h>

#include "lib/table_file.h"

enum { ROWS = 726, KEY_MAX = 1024 };

static int32_t place(const cj_partitioner *partitioner, const void *key, size_t len,
                     int32_t partitions) {
  return partitioner->partition(partitioner->user, cj_bytes_of(key, len), partitions);
}

static void all_vectors(void **state) {
  (void)state;
  table_file table;
  assert_true(table_open(&table, "partition-vectors.tsv"));
  int rows = 0;
  while (table_next(&table)) {
    unsigned char key[KEY_MAX];
    size_t len = table_hex(&table, "key_hex", key);
    int32_t n = (int32_t)table_number(&table, "partitions");
    assert_int_equal(place(cj_partitioner_murmur2(), key, len, n),
                     table_number(&table, "murmur2_java"));
    assert_int_equal(place(cj_partitioner_murmur2(), key, len, n),
                     table_number(&table, "murmur2_rdkafka"));
    assert_int_equal(place(cj_partitioner_fnv1a(), key, len, n),
                     table_number(&table, "fnv1a_rdkafka"));
    assert_int_equal(place(cj_partitioner_fnv1a(), key, len, n),
                     table_number(&table, "fnv1a_sarama_hash"));
    /* consistent_random scatters the empty key, consistent does not: the hash is checked. */
    long long crc = table_number(&table, "crc32_rdkafka_consistent");
    assert_int_equal(cj_crc32(key, len) % (uint32_t)n, crc);
    assert_int_equal(place(cj_partitioner_crc32(), key, len, n), len ? crc : CJ_PARTITION_ANY);
    rows++;
  }
  table_close(&table);
  assert_int_equal(rows, ROWS);
}

/* The raw hashes, and that the vectors can tell the wrong variants of the field from the right one:
 * 59 of 121 keys where the sign bit is not masked (case 8), 46 and 37 for the other FNV forms
 * (cases 10 and 12). */
static void hashes_and_wrong_variants(void **state) {
  (void)state;
  table_file table;
  assert_true(table_open(&table, "partition-vectors-extra.tsv"));
  int rows = 0, unsigned_murmur = 0, legacy = 0, reference = 0, unsigned_fnv = 0;
  while (table_next(&table)) {
    unsigned char key[KEY_MAX];
    size_t len = table_hex(&table, "key_hex", key);
    int32_t n = (int32_t)table_number(&table, "partitions");
    assert_int_equal(cj_murmur2(key, len), table_number(&table, "murmur2_u32"));
    assert_int_equal(cj_crc32(key, len), table_number(&table, "crc32_u32"));
    assert_int_equal(cj_fnv1a(key, len), table_number(&table, "fnv1a_u32"));
    long long murmur = place(cj_partitioner_murmur2(), key, len, n);
    long long fnv = place(cj_partitioner_fnv1a(), key, len, n);
    assert_int_equal(murmur, table_number(&table, "P_murmur2_java"));
    assert_int_equal(fnv, table_number(&table, "P_fnv1a_sarama_default"));
    assert_int_equal(cj_crc32(key, len) % (uint32_t)n, table_number(&table, "P_crc32_consistent"));
    rows++;
    if (n != 6) continue;
    unsigned_murmur += murmur != table_number(&table, "P_murmur2_unsigned_mod_bug");
    legacy += murmur != table_number(&table, "P_kafkajs_legacy");
    reference += fnv != table_number(&table, "P_fnv1a_sarama_reference");
    unsigned_fnv += fnv != table_number(&table, "P_fnv1a_unsigned_mod");
  }
  table_close(&table);
  assert_int_equal(rows, ROWS);
  assert_int_equal(unsigned_murmur, 59);
  assert_int_equal(reference, 46);
  assert_int_equal(unsigned_fnv, 37);
  assert_true(legacy > 0);
}

/* Any alignment, and not one byte past the key (the address sanitizer watches a copy on the heap).
 */
static void unaligned_keys(void **state) {
  (void)state;
  table_file table;
  assert_true(table_open(&table, "partition-vectors-extra.tsv"));
  while (table_next(&table)) {
    unsigned char key[KEY_MAX];
    size_t len = table_hex(&table, "key_hex", key);
    for (size_t shift = 0; shift < 4; shift++) {
      unsigned char *copy = malloc(shift + len + 1);
      assert_non_null(copy);
      unsigned char *exact = realloc(copy, shift + len ? shift + len : 1);
      assert_non_null(exact);
      memcpy(exact + shift, key, len);
      assert_int_equal(cj_murmur2(exact + shift, len), table_number(&table, "murmur2_u32"));
      assert_int_equal(cj_crc32(exact + shift, len), table_number(&table, "crc32_u32"));
      assert_int_equal(cj_fnv1a(exact + shift, len), table_number(&table, "fnv1a_u32"));
      free(exact);
    }
  }
  table_close(&table);
}

/* Case 16: what librdkafka does with null and with empty keys at six partitions. */
static void null_and_empty_keys(void **state) {
  (void)state;
  static const char *const names[] = {"murmur2", "crc32", "fnv1a"};
  for (size_t i = 0; i < 3; i++) {
    const cj_partitioner *partitioner = cj_partitioner_named(names[i]);
    assert_string_equal(partitioner->name, names[i]);
    assert_int_equal(place(partitioner, NULL, 0, 6), CJ_PARTITION_ANY);
  }
  assert_int_equal(place(cj_partitioner_murmur2(), "", 0, 6), 3);
  assert_int_equal(place(cj_partitioner_fnv1a(), "", 0, 6), 3);
  assert_int_equal(place(cj_partitioner_crc32(), "", 0, 6), CJ_PARTITION_ANY);
  assert_int_equal(cj_crc32(NULL, 0), 0);
  assert_true(cj_murmur2(NULL, 0) == cj_murmur2("", 0));
  assert_true(cj_fnv1a(NULL, 0) == cj_fnv1a("", 0));
}

/* Case 9: hashes of INT32_MIN must not give a negative partition. */
static void the_smallest_number_has_no_negative(void **state) {
  (void)state;
  static const int32_t counts[] = {6, 7, 8, 12, 1000};
  static const int32_t expected[] = {2, 2, 0, 8, 648};
  assert_true(cj_fnv1a("1468509572224", 13) == 0x80000000u);
  assert_true(cj_murmur2("\xa7\xd6\x50\x6c", 4) == 0x80000000u);
  for (size_t i = 0; i < 5; i++) {
    assert_int_equal(place(cj_partitioner_fnv1a(), "1468509572224", 13, counts[i]), expected[i]);
    assert_int_equal(place(cj_partitioner_murmur2(), "\xa7\xd6\x50\x6c", 4, counts[i]), 0);
  }
  assert_int_equal(place(cj_partitioner_murmur2(), "BBCA", 4, INT32_MAX),
                   (cj_murmur2("BBCA", 4) & 0x7fffffffu) % INT32_MAX);
}

/* Cases 2, 3, 4 and 5: numbers from the reports themselves. */
static void reported_keys(void **state) {
  (void)state;
  static const struct {
    const char *key;
    int32_t partitions, murmur2, crc32;
  } reports[] = {
      {"TT0124", 15, 10, 9},
      {"fd7af248-ce5c-46a5-93d7-1c0c9005b99d", 32, 26, 23},
      {"354afe16-939a-4ea8-8e17-8bb0840b6886", 10, 4, 9},
      {"f562ac3b-2224-4e25-a0ab-56094e10c239", 10, 5, 6},
  };
  for (size_t i = 0; i < sizeof reports / sizeof *reports; i++) {
    size_t len = strlen(reports[i].key);
    assert_int_equal(place(cj_partitioner_murmur2(), reports[i].key, len, reports[i].partitions),
                     reports[i].murmur2);
    assert_int_equal(place(cj_partitioner_crc32(), reports[i].key, len, reports[i].partitions),
                     reports[i].crc32);
  }
  assert_int_equal(cj_murmur2("100:48069", 9), 1009543857);
  assert_int_equal(place(cj_partitioner_murmur2(), "100:48069", 9, 12), 9);
}

static void names_find_them(void **state) {
  (void)state;
  assert_ptr_equal(cj_partitioner_named("crc32"), cj_partitioner_crc32());
  assert_null(cj_partitioner_named("murmur3"));
  assert_null(cj_partitioner_named(NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_vectors),
      cmocka_unit_test(hashes_and_wrong_variants),
      cmocka_unit_test(unaligned_keys),
      cmocka_unit_test(null_and_empty_keys),
      cmocka_unit_test(the_smallest_number_has_no_negative),
      cmocka_unit_test(reported_keys),
      cmocka_unit_test(names_find_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
