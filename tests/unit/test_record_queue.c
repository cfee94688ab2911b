/* SPDX-License-Identifier: BSD-2-Clause */
/* What is fetched for a partition: two chunks, in order, and no memory where there is nothing. */
#include "lib/script_io.h"

#include "runtime/record_queue.h"

enum { INPUTS = 4 };

static void setup(script_io *s, cj_chunk_pool *pool, cj_record_queue queues[INPUTS]) {
  script_io_init(s);
  *pool = (cj_chunk_pool){.first = NULL};
  for (int32_t p = 0; p < INPUTS; p++) {
    const cj_io_offset from = {.tp = {0, p}, .offset = 0};
    assert_null(s->io.ops->assign_add(&s->io, &from, 1));
    cj_record_queue_init(&queues[p], &s->io, pool, from.tp);
    assert_true(cj_record_queue_refill(&queues[p], 1)); /* the end's mark */
    cj_record_queue_pop(&queues[p]);
  }
}

static void queues_without_records_hold_no_memory(void **state) {
  (void)state;
  script_io s;
  cj_chunk_pool pool;
  cj_record_queue queues[INPUTS];
  setup(&s, &pool, queues);
  for (int p = 0; p < INPUTS; p++) {
    assert_false(cj_record_queue_refill(&queues[p], 2));
    assert_null(queues[p].current.entries);
    assert_null(queues[p].behind.entries);
  }
  assert_int_equal(1, pool.count); /* one chunk has served them all */
  cj_chunk_pool_free(&pool);
}

static void chunks_come_in_order_with_their_clocks(void **state) {
  (void)state;
  script_io s;
  cj_chunk_pool pool;
  cj_record_queue queues[INPUTS];
  setup(&s, &pool, queues);
  cj_record_queue *queue = &queues[1];
  script_append(&s, 0, 1, "a", "1", 1);
  assert_true(cj_record_queue_refill(queue, 5));
  script_append(&s, 0, 1, "b", "2", 2);
  assert_true(cj_record_queue_refill(queue, 6));
  assert_false(cj_record_queue_refill(queue, 7)); /* there is room for two */
  for (int64_t offset = 0; offset < 2; offset++) {
    assert_int_equal(5 + offset, cj_record_queue_clock(queue));
    assert_int_equal(offset, cj_record_queue_head(queue)->offset);
    assert_int_equal(CJ_FETCHED_RECORD, cj_record_queue_head(queue)->kind);
    cj_record_queue_pop(queue);
    assert_int_equal(CJ_FETCHED_EOF, cj_record_queue_head(queue)->kind);
    cj_record_queue_pop(queue);
  }
  assert_null(cj_record_queue_head(queue));
  script_append(&s, 0, 1, "c", "3", 3);
  assert_true(cj_record_queue_refill(queue, 8));
  cj_record_queue_clear(queue);
  assert_null(cj_record_queue_head(queue));
  assert_int_equal(2, pool.count);
  cj_chunk_pool_free(&pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(queues_without_records_hold_no_memory),
      cmocka_unit_test(chunks_come_in_order_with_their_clocks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
