/* SPDX-License-Identifier: BSD-2-Clause */
/* How a public function is marked. Everything else in the library is hidden. */
#ifndef COJOIN_EXPORT_H
#define COJOIN_EXPORT_H

#if defined(__GNUC__) || defined(__clang__)
#define CJ_API          __attribute__((visibility("default")))
#define CJ_MUST_CHECK   __attribute__((warn_unused_result))
#define CJ_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define CJ_API
#define CJ_MUST_CHECK
#define CJ_PRINTF(f, a)
#endif

#endif
