/* SPDX-License-Identifier: BSD-2-Clause */
/* Configuration: one table of properties (name, type, range, default, text). Names that begin with
 * `rd.` go to librdkafka, for the consumer, the producer and the admin calls alike
 * (rd.sasl.username and so on); one that librdkafka does not know is refused, and so is one that
 * would break an invariant of the runtime (rd.enable.auto.commit), with the reason.
 *
 * Threads: a cj_config is used by one thread at a time; an application copies it. */
#ifndef COJOIN_CONFIG_H
#define COJOIN_CONFIG_H

#include <stddef.h>

#include <cojoin/error.h>
#include <cojoin/export.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cj_config cj_config;

CJ_API cj_config *cj_config_new(void); /* all defaults; NULL without memory */
CJ_API cj_config *cj_config_copy(const cj_config *config);
CJ_API void cj_config_destroy(cj_config *config); /* NULL is fine */
/* Sets a property from its text. The error names the property and says what it takes. */
CJ_API CJ_MUST_CHECK cj_error *cj_config_set(cj_config *config, const char *name,
                                             const char *value);
/* The text of a property as set or defaulted; NULL for an unknown name or an unset one without a
 * default. Owned by the config, valid until it is changed. */
CJ_API const char *cj_config_get(const cj_config *config, const char *name);
/* All properties as a Markdown table. The caller frees it with free(); NULL without memory. */
CJ_API char *cj_config_documentation(void);

#ifdef __cplusplus
}
#endif
#endif
