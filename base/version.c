/* SPDX-License-Identifier: BSD-2-Clause */
#include <cojoin/app.h>

#ifndef CJ_VERSION /* the build passes the project's */
#define CJ_VERSION "0.1.0"
#endif

const char *cj_version(void) {
  return CJ_VERSION;
}
