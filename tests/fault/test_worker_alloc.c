/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory runs out at each allocation of a worker's life in turn: it ends with that error, or does
 * without; what it holds is given back. The sanitizers' builds look for what is not. */
#include "lib/worker_fixture.h"

#include "base/base.h"

/* Two tasks through everything: restored, joined, committed, positioned anew, revoked, resumed. */
static void a_life(fixture *f) {
  assign(f, 2);
  advance(f, 1500);
  script_append(&f->io, NOTIF, 1, "Y", "n2", 1800);
  f->io.logs[PRICE][0].error = CJ_IO_RETRIABLE;
  advance(f, 300);
  revoke(f, 2, false);
  settle(f);
  assign(f, 1);
  script_append(&f->io, PRICE, 0, "X", "2", 2000);
  advance(f, 1500);
  revoke(f, 1, true);
  settle(f);
  assign(f, 2);
  advance(f, 1500);
  cj_worker_stop(f->worker);
  advance(f, 500);
}

/* True if memory ran out in it. */
static bool life_without_memory(long n, bool transactions) {
  exactly_once = transactions;
  fixture *f = open_worker(WITH("errors.process", "skip"));
  one_price_one_notif(f);
  script_append(&f->io, NOTIF, 0, "X", "bad", 1600);
  script_append(&f->io, PRICE, 1, "Y", "1", 1000);
  f->io.logs[PRICE][1].committed = 1;
  cj_alloc_fail_after(n);
  a_life(f);
  cj_alloc_fail_after(-1);
  const cj_error *error = cj_worker_error(f->worker);
  bool ran_out = error != NULL;
  if (error && cj_error_code(error) != CJ_ERR_NO_MEMORY)
    fail_msg("allocation %ld: %s", n, cj_error_text(error));
  if (!f->io.closed) fail_msg("allocation %ld: it has not left:\n%s", n, f->logged);
  if (!error) assert_int_equal(2, committed(f, NOTIF, 0));
  close_worker(f);
  return ran_out;
}

static void sweep(bool transactions) {
  long n = 0, quiet = 0;
  /* The last ones may be of log lines only. */
  for (; n < 5000 && quiet < 50; n++)
    quiet = life_without_memory(n, transactions) ? 0 : quiet + 1;
  assert_true(n > 100 && n < 5000);
}

static void memory_runs_out_at_each_allocation(void **state) {
  (void)state;
  sweep(false);
}

static void memory_runs_out_at_each_allocation_of_transactions(void **state) {
  (void)state;
  sweep(true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_runs_out_at_each_allocation),
      cmocka_unit_test(memory_runs_out_at_each_allocation_of_transactions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
