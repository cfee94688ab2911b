/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/timestamp.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Exactly `digits` digits at *text, which moves past them; -1 if there are not as many. */
static int number(const char **text, int digits) {
  int value = 0;
  for (int i = 0; i < digits; i++) {
    if (!isdigit((unsigned char)**text)) return -1;
    value = value * 10 + (*(*text)++ - '0');
  }
  return value;
}

static bool skip(const char **text, char c) {
  if (**text != c) return false;
  (*text)++;
  return true;
}

static bool in_range(int value, int low, int high) {
  return value >= low && value <= high;
}

static int days_in_month(int year, int month) {
  static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return month == 2 && leap ? 29 : days[month - 1];
}

/* Days from 1970-01-01 in the Gregorian calendar, years counted from March so that the leap day is
 * the last. */
static int64_t days_from_epoch(int year, int month, int day) {
  int64_t y = month <= 2 ? year - 1 : year;
  int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  return 365 * y + y / 4 - y / 100 + y / 400 + day_of_year - 719468;
}

static bool parse_date(const char **text, int64_t *days) {
  int year = number(text, 4);
  if (year < 0 || !skip(text, '-')) return false;
  int month = number(text, 2);
  if (!in_range(month, 1, 12) || !skip(text, '-')) return false;
  int day = number(text, 2);
  if (!in_range(day, 1, days_in_month(year, month))) return false;
  *days = days_from_epoch(year, month, day);
  return true;
}

static bool parse_clock(const char **text, int64_t *ms) {
  int hour = number(text, 2);
  if (!in_range(hour, 0, 23) || !skip(text, ':')) return false;
  int minute = number(text, 2);
  if (!in_range(minute, 0, 59)) return false;
  int second = 0, milli = 0;
  if (skip(text, ':')) {
    second = number(text, 2);
    if (!in_range(second, 0, 59)) return false;
    if (skip(text, '.')) {
      if (!isdigit((unsigned char)**text)) return false;
      for (int scale = 100; isdigit((unsigned char)**text); scale /= 10)
        milli += (*(*text)++ - '0') * scale;
    }
  }
  *ms = ((int64_t)hour * 60 + minute) * 60000 + (int64_t)second * 1000 + milli;
  return true;
}

static bool parse_zone(const char **text, int64_t *ms) {
  *ms = 0;
  if (skip(text, 'Z')) return true;
  int sign = skip(text, '+') ? 1 : skip(text, '-') ? -1 : 0;
  if (sign == 0) return true;
  int hours = number(text, 2);
  skip(text, ':');
  int minutes = number(text, 2);
  if (!in_range(hours, 0, 14) || !in_range(minutes, 0, 59)) return false;
  *ms = sign * ((int64_t)hours * 60 + minutes) * 60000;
  return true;
}

static bool parse_iso(const char *text, int64_t *ms) {
  int64_t days, clock = 0, zone = 0;
  if (!parse_date(&text, &days)) return false;
  if (*text == 'T' || *text == ' ') {
    text++;
    if (!parse_clock(&text, &clock) || !parse_zone(&text, &zone)) return false;
  }
  *ms = days * 86400000 + clock - zone;
  return *text == '\0';
}

bool tool_parse_timestamp(const char *text, int64_t *ms) {
  size_t digits = strspn(text, "0123456789");
  if (digits == 0 || text[digits] != '\0') return parse_iso(text, ms);
  errno = 0;
  *ms = strtoll(text, NULL, 10);
  return errno == 0;
}
