/* SPDX-License-Identifier: BSD-2-Clause */
#include "state/registry.h"

void cj_fingerprint_free(cj_fingerprint *fingerprint) {
  if (!fingerprint) return;
  for (size_t t = 0; fingerprint->tables && t < fingerprint->table_count; t++)
    cj_free((void *)fingerprint->tables[t]);
  cj_free((void *)fingerprint->tables);
  cj_free((void *)fingerprint->cluster_id);
  cj_free((void *)fingerprint->anchor);
  cj_free(fingerprint);
}

cj_fingerprint *cj_fingerprint_copy(const cj_fingerprint *fingerprint) {
  cj_fingerprint *copy = cj_alloc(sizeof *copy);
  if (!copy) return NULL;
  copy->partition = fingerprint->partition;
  copy->partition_count = fingerprint->partition_count;
  copy->cluster_id = cj_strdup(fingerprint->cluster_id);
  copy->anchor = cj_strdup(fingerprint->anchor);
  char **tables = cj_alloc(fingerprint->table_count * sizeof *tables);
  copy->tables = (const char *const *)tables;
  bool done = copy->cluster_id && copy->anchor && tables;
  for (size_t t = 0; done && t < fingerprint->table_count; t++) {
    tables[t] = cj_strdup(fingerprint->tables[t]);
    done = tables[t] != NULL;
    if (done) copy->table_count++;
  }
  if (done) return copy;
  cj_fingerprint_free(copy);
  return NULL;
}

bool cj_fingerprint_equal(const cj_fingerprint *a, const cj_fingerprint *b) {
  if (a->partition != b->partition || a->partition_count != b->partition_count ||
      a->table_count != b->table_count || strcmp(a->cluster_id, b->cluster_id) != 0 ||
      strcmp(a->anchor, b->anchor) != 0)
    return false;
  for (size_t t = 0; t < a->table_count; t++)
    if (strcmp(a->tables[t], b->tables[t]) != 0) return false;
  return true;
}
