/* SPDX-License-Identifier: BSD-2-Clause */
/* Errors: NULL is success. An error carries a code, its class, the subject (a topic, a node, a
 * task, a store, a property), a sentence for a person, the error under it, and, where the
 * checklist refused the start, the whole report.
 *
 * Threads: an error belongs to whoever received it; it is not shared and not locked. */
#ifndef COJOIN_ERROR_H
#define COJOIN_ERROR_H

#include <stdbool.h>

#include <cojoin/export.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cj_error cj_error;
typedef struct cj_report cj_report;

typedef enum {
  CJ_OK = 0,
  CJ_ERR_NO_MEMORY,          /* an allocation failed */
  CJ_ERR_ARGUMENT,           /* an argument that the call cannot take */
  CJ_ERR_CONFIG,             /* a property: unknown, out of range, or breaking an invariant */
  CJ_ERR_TOPOLOGY,           /* the declared topology cannot be built */
  CJ_ERR_STATE,              /* the call does not fit the state the object is in */
  CJ_ERR_TOPIC_MISSING,      /* a declared topic does not exist; nothing is auto-created */
  CJ_ERR_NOT_COPARTITIONED,  /* a point of the checklist is broken; carries the report */
  CJ_ERR_PARTITIONS_CHANGED, /* a topic's partition count changed while running */
  CJ_ERR_ASSIGNMENT,         /* the group's assignment cannot co-locate, or did not */
  CJ_ERR_BROKER,             /* no broker could be reached */
  CJ_ERR_AUTH,               /* authentication or authorization */
  CJ_ERR_KAFKA,              /* any other error of the Kafka client or broker */
  CJ_ERR_FENCED,             /* another member took this member's identity */
  CJ_ERR_STORE,              /* a store failed */
  CJ_ERR_STORE_LOCKED,       /* a store or state directory is held by another owner */
  CJ_ERR_STORE_MISMATCH,     /* a store that belongs to another cluster, topology or format */
  CJ_ERR_SYSTEM,             /* the operating system: carries errno's text */
  CJ_ERR_LIMIT,              /* a limit of the process is too low; carries the number needed */
  CJ_ERR_DESERIALIZE,        /* a record's bytes could not be decoded */
  CJ_ERR_PROCESS,            /* a callback failed */
  CJ_ERR_PRODUCE,            /* an output could not be produced */
  CJ_ERR_TIMEOUT,            /* a bound was exceeded */
  CJ_ERR_UNSUPPORTED,        /* not with this librdkafka, broker or build */
  CJ_ERR_INTERNAL,           /* a bug in cojoin: please report it */
  CJ_ERR_COUNT_
} cj_code;

typedef enum {
  CJ_CLASS_FATAL,     /* trying again cannot help */
  CJ_CLASS_RETRIABLE, /* the same call may succeed later */
} cj_class;

/* Each accessor takes NULL and then answers for success: CJ_OK, "ok", "". Strings are owned by the
 * error and valid until it is destroyed. */
CJ_API cj_code cj_error_code(const cj_error *error);
CJ_API cj_class cj_error_class(const cj_error *error);
CJ_API const char *cj_error_subject(const cj_error *error);
CJ_API const char *cj_error_message(const cj_error *error);
/* "code-name: subject: message (cause: ...)", in one line. */
CJ_API const char *cj_error_text(const cj_error *error);
/* The error under this one, or NULL; owned by the error. */
CJ_API const cj_error *cj_error_cause(const cj_error *error);
/* The checklist report that refused the start, or NULL; owned by the error. */
CJ_API const cj_report *cj_error_report(const cj_error *error);
/* Frees the error, its cause and its report. NULL is fine. */
CJ_API void cj_error_destroy(cj_error *error);

/* "topic-missing" for CJ_ERR_TOPIC_MISSING: stable, for logs and scripts. Static. */
CJ_API const char *cj_code_name(cj_code code);
/* One sentence on what the code means and what to do. Static. */
CJ_API const char *cj_code_text(cj_code code);

#ifdef __cplusplus
}
#endif
#endif
