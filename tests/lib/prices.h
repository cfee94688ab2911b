/* SPDX-License-Identifier: BSD-2-Clause */
/* Prices by number, for tests of what a table holds after a stop or a crash: key "k7", value "v7".
 */
#ifndef CJ_TEST_PRICES_H
#define CJ_TEST_PRICES_H

#include "lib/alerts.h"

static inline void price_n(alerts *a, int key, int value) {
  char k[16], v[16];
  snprintf(k, sizeof k, "k%d", key);
  snprintf(v, sizeof v, "v%d", value);
  alerts_price(a, k, v, 1000 + value);
}

static inline void prices(alerts *a, int from, int to) {
  for (int i = from; i < to; i++)
    price_n(a, i, i);
}

static inline void commit_and_stop(alerts *a) {
  cj_test_commit(a->t);
  cj_test_stop_member(a->t, "a");
}

static inline void rows_are(alerts *a, int from, int to) {
  for (int i = from; i < to; i++) {
    char key[16], value[16];
    snprintf(key, sizeof key, "k%d", i);
    snprintf(value, sizeof value, "v%d", i);
    assert_string_equal(value, alerts_row(a, key));
  }
}

#endif
