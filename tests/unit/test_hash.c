/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/unit.h"

#include "base/base.h"

/* It is kept on disk: these values must never change, nor depend on the machine. */
static void values_are_fixed(void **state) {
  (void)state;
  static const struct {
    const char *key;
    uint64_t hash;
  } known[] = {
      {"", UINT64_C(0x9ca066f1a4ab2eea)},
      {"a", UINT64_C(0x97956212fcbbd79a)},
      {"BBCA", UINT64_C(0x0ea7ce54651c4f64)},
      {"12345678", UINT64_C(0x51e9237e6b4404d2)},
      {"0123456789abcdef!", UINT64_C(0xb9584a938eb90164)},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    assert_true(cj_hash64(known[i].key, strlen(known[i].key)) == known[i].hash);
  assert_true(cj_hash64(NULL, 0) == known[0].hash);
}

static void alignment_does_not_matter(void **state) {
  (void)state;
  char space[64];
  for (size_t shift = 0; shift < 8; shift++) {
    memcpy(space + shift, "0123456789abcdef!", 17);
    assert_true(cj_hash64(space + shift, 17) == UINT64_C(0xb9584a938eb90164));
  }
}

/* Keys that differ in one counter spread over a table of twice their number: with a good hash about
 * 39 % of 65,536 buckets are hit by 32,768 keys. */
static void counters_spread(void **state) {
  (void)state;
  enum { KEYS = 32768, BUCKETS = 65536 };
  static bool hit[2][BUCKETS];
  size_t low = 0, high = 0;
  for (uint32_t i = 0; i < KEYS; i++) {
    char key[16];
    int len = snprintf(key, sizeof key, "user-%u", i);
    uint64_t hash = cj_hash64(key, (size_t)len);
    bool *by_low = &hit[0][hash % BUCKETS], *by_high = &hit[1][hash >> 48];
    low += !*by_low;
    high += !*by_high;
    *by_low = *by_high = true;
  }
  assert_in_range(low, 25000, 26600);
  assert_in_range(high, 25000, 26600);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_are_fixed),
      cmocka_unit_test(alignment_does_not_matter),
      cmocka_unit_test(counters_spread),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
