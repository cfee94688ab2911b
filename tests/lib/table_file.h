/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the tab-separated files of tests/data: the first line names the columns. */
#ifndef CJ_TEST_TABLE_FILE_H
#define CJ_TEST_TABLE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_COLUMNS 32

typedef struct {
  FILE *file;
  char header[1024], line[4096];
  char *names[TABLE_COLUMNS], *fields[TABLE_COLUMNS];
  int columns;
} table_file;

static inline int table_split(char *line, char **fields) {
  int count = 0;
  line[strcspn(line, "\r\n")] = '\0';
  for (char *rest = line; rest && count < TABLE_COLUMNS;)
    fields[count++] = strsep(&rest, "\t");
  return count;
}

/* False when there is no such file, or it has no header. */
static inline bool table_open(table_file *table, const char *name) {
  /* This header lies in tests/lib, the data in tests/data. */
  char path[4096];
  const char *slash = strrchr(__FILE__, '/');
  snprintf(path, sizeof path, "%.*s/../data/%s", slash ? (int)(slash - __FILE__) : 1,
           slash ? __FILE__ : ".", name);
  table->file = fopen(path, "r");
  if (!table->file) return false;
  if (!fgets(table->header, sizeof table->header, table->file)) {
    fclose(table->file);
    return false;
  }
  table->columns = table_split(table->header, table->names);
  return true;
}

static inline bool table_next(table_file *table) {
  return fgets(table->line, sizeof table->line, table->file) &&
         table_split(table->line, table->fields) == table->columns;
}

static inline void table_close(table_file *table) {
  fclose(table->file);
}

/* The field of a column, "" if there is none. */
static inline const char *table_field(const table_file *table, const char *column) {
  for (int i = 0; i < table->columns; i++)
    if (strcmp(table->names[i], column) == 0) return table->fields[i];
  return "";
}

static inline long long table_number(const table_file *table, const char *column) {
  return strtoll(table_field(table, column), NULL, 10);
}

/* Bytes from hex digits; returns how many. */
static inline size_t table_hex(const table_file *table, const char *column, unsigned char *out) {
  const char *hex = table_field(table, column);
  size_t len = strlen(hex) / 2;
  for (size_t i = 0; i < len; i++) {
    char pair[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
    out[i] = (unsigned char)strtoul(pair, NULL, 16);
  }
  return len;
}

#endif
