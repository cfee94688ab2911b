/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the task store share with each other and, for the owner, with the registry. */
#ifndef CJ_TASK_STORE_INTERNAL_H
#define CJ_TASK_STORE_INTERNAL_H

#include "state/overlay.h"
#include "state/task_store.h"

typedef struct {
  char *topic;
  uint16_t id; /* on disk; stays while the store is open */
  cj_position position;
  cj_kv_batch restore; /* collected for restore_flush */
  bool bulk;           /* written without the log, not durable yet */
} cj_store_table;

struct cj_task_store {
  cj_kv *kv;
  char *name; /* ANCHOR-P, the subject of errors */
  int32_t partition;
  cj_log log;
  cj_store_table *tables;
  size_t table_count;
  cj_overlay active, frozen;
  bool has_frozen; /* frozen may be empty and still wait for its commit */
  bool two_cuts;   /* a mistake: frozen again before the commit */
  cj_kv_batch batch;
  cj_buf key;       /* of the call under way */
  cj_buf row;       /* what get returned lies here */
  cj_buf previous;  /* apart from `row`, which put's caller may still look at */
  void *registered; /* the registry's entry */
};

/* What a table that nothing was applied to has. */
cj_position cj_position_none(void);
/* "Damaged, rebuild it": what is stored cannot be read. */
cj_error *cj_task_store_damaged(const cj_task_store *store, const char *what);

#endif
