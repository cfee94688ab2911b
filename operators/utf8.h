/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CJ_UTF8_H
#define CJ_UTF8_H

#include <cojoin/record.h>

/* Why the bytes are no text (RFC 3629 UTF-8 without a NUL byte): a static sentence, or NULL if they
 * are one. */
const char *cj_utf8_wrong(cj_bytes text);

#endif
