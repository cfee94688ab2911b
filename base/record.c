/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/base.h"

size_t cj_record_headers(const cj_record *record, const cj_header **out) {
  *out = NULL;
  return record->headers ? record->headers->read(record->headers, out) : 0;
}
