/* SPDX-License-Identifier: BSD-2-Clause */
/* A left join: every order goes on, with its customer's name where there is one. Shown on the test
 * driver, so it runs without a broker; see price_alerts.c for the same on a real one.
 *
 *   customers:  t=1 (c1, Ada)                 t=4 (c2, Grace)   t=6 (c1, null)
 *   orders:                    t=2 (c1, tea)  t=3 (c2, jam)  t=5 (c2, ink)  t=7 (c1, pen)
 *   out:                       tea for Ada    jam for nobody    ink for Grace  pen for nobody */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <cojoin/cojoin.h>
#include <cojoin/testing.h>

static cj_verdict name_customer(cj_ctx *ctx, const cj_record *order, const cj_row *customer,
                                cj_buf *out) {
  (void)ctx;
  cj_buf_append(out, order->value.data, order->value.len);
  cj_buf_append_str(out, " for ");
  if (customer) /* NULL: no row, or a deleted one; in an inner join it is never NULL */
    cj_buf_append(out, customer->value.data, customer->value.len);
  else
    cj_buf_append_str(out, "nobody");
  return CJ_EMIT;
}

static void end_on(cj_error *error) {
  if (!error) return;
  fprintf(stderr, "%s\n", cj_error_text(error));
  exit(1);
}

static void put(cj_test *t, const char *topic, const char *key, const char *value, int64_t at) {
  /* A NULL value is null: it deletes the key's row. */
  cj_test_pipe(t, topic, cj_bytes_str(key), cj_bytes_str(value), at);
}

int main(void) {
  cj_topology *topology = cj_topology_new();
  cj_table *customers = cj_topology_table(topology, "customers", NULL);
  cj_stream *orders = cj_topology_stream(topology, "orders", NULL);
  cj_stream_to(cj_stream_left_join(orders, customers, name_customer, NULL), "named-orders", NULL);
  cj_plan *plan;
  end_on(cj_topology_build(topology, &plan));

  cj_test *t = cj_test_new(plan, NULL);
  if (!t) return 1;
  cj_test_topic(t, "customers", 1);
  cj_test_topic(t, "orders", 1);
  end_on(cj_test_start_member(t, "one"));
  put(t, "customers", "c1", "Ada", 1);
  put(t, "customers", "c2", "Grace", 4);
  put(t, "customers", "c1", NULL, 6);
  put(t, "orders", "c1", "tea", 2);
  put(t, "orders", "c2", "jam", 3);
  put(t, "orders", "c2", "ink", 5);
  put(t, "orders", "c1", "pen", 7);
  cj_test_settle(t);

  cj_record out;
  for (size_t i = 0; cj_test_read(t, "named-orders", 0, i, &out); i++)
    printf("t=%" PRId64 " %.*s: %.*s\n", out.timestamp, (int)out.key.len,
           (const char *)out.key.data, (int)out.value.len, (const char *)out.value.data);
  cj_test_destroy(t);
  cj_plan_destroy(plan);
  return 0;
}
