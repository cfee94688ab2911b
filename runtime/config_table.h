/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of properties: what each takes, where it goes in cj_settings, what it means. */
#ifndef CJ_CONFIG_TABLE_H
#define CJ_CONFIG_TABLE_H

#include "runtime/config.h"

typedef enum {
  CJ_PROPERTY_TEXT,  /* const char * */
  CJ_PROPERTY_INT,   /* int */
  CJ_PROPERTY_MS,    /* int64_t, milliseconds */
  CJ_PROPERTY_BYTES, /* int64_t; k, m and g for powers of 1,024 */
  CJ_PROPERTY_WORD,  /* an enum whose values are the words' places */
  CJ_PROPERTY_FLAG,  /* bool: the second of two words is true */
} cj_property_type;

typedef struct {
  const char *name;
  const char *text;
  cj_property_type type;
  size_t field;             /* offset in cj_settings */
  int64_t min, max;         /* of numbers */
  const char *const *words; /* of WORD and FLAG, ended by NULL */
  const char *value;        /* the default; NULL: none, or one that depends */
  const char *otherwise;    /* what the default depends on, for the documentation */
  const char *(*why_not)(const char *value); /* of TEXT: what the value must be, NULL if it is */
} cj_property;

extern const cj_property cj_properties[];
extern const size_t cj_property_count;

/* Checks the value and, unless `settings` is NULL, stores it there; a text is borrowed. */
CJ_MUST_CHECK cj_error *cj_property_read(const cj_property *property, const char *value,
                                         cj_settings *settings);

#endif
