/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

/* What each code is: everything that is said about it comes from this table. */
static const struct {
  const char *name;
  cj_class class_;
  const char *text;
} codes[CJ_ERR_COUNT_] = {
    [CJ_OK] = {"ok", CJ_CLASS_RETRIABLE, "No error."},
    [CJ_ERR_NO_MEMORY] = {"no-memory", CJ_CLASS_FATAL,
                          "An allocation failed: give the process more memory, or lower "
                          "memory.bytes and overlay.bytes."},
    [CJ_ERR_ARGUMENT] = {"argument", CJ_CLASS_FATAL,
                         "The call was given an argument that it cannot take: correct the call."},
    [CJ_ERR_CONFIG] = {"config", CJ_CLASS_FATAL,
                       "A property is unknown, out of range or breaks an invariant: correct it as "
                       "the message says."},
    [CJ_ERR_TOPOLOGY] = {"topology", CJ_CLASS_FATAL,
                         "The declared topology cannot be built: correct the node that is named."},
    [CJ_ERR_STATE] = {"state", CJ_CLASS_FATAL,
                      "The call does not fit the state that the object is in: correct the order of "
                      "the calls."},
    [CJ_ERR_TOPIC_MISSING] = {"topic-missing", CJ_CLASS_FATAL,
                              "A declared topic does not exist, and none is ever auto-created: "
                              "create it, or correct its name."},
    [CJ_ERR_NOT_COPARTITIONED] = {"not-copartitioned", CJ_CLASS_FATAL,
                                  "A point of the co-partitioning checklist is broken, so that "
                                  "joins would miss records: see the report's remedy."},
    [CJ_ERR_PARTITIONS_CHANGED] = {"partitions-changed", CJ_CLASS_FATAL,
                                   "A topic's partition count changed, so that old keys are not "
                                   "where new ones go: repartition the topics and reset the "
                                   "application."},
    [CJ_ERR_ASSIGNMENT] = {"assignment", CJ_CLASS_FATAL,
                           "The group's assignment does not co-locate the joined topics: use an "
                           "assignment that does, on every member."},
    [CJ_ERR_BROKER] = {"broker", CJ_CLASS_RETRIABLE,
                       "No broker could be reached: check bootstrap.servers, the network and the "
                       "brokers."},
    [CJ_ERR_AUTH] = {"auth", CJ_CLASS_FATAL,
                     "The broker refused the credentials or the operation: check the rd.sasl and "
                     "rd.ssl properties and the ACLs."},
    [CJ_ERR_KAFKA] = {"kafka", CJ_CLASS_FATAL,
                      "The Kafka client or the broker reported an error: see the message."},
    [CJ_ERR_FENCED] = {"fenced", CJ_CLASS_FATAL,
                       "Another process took this member's identity: give each process its own."},
    [CJ_ERR_STORE] = {"store", CJ_CLASS_FATAL,
                      "A local store failed: check the disk; the state can be removed and is "
                      "rebuilt from the topics."},
    [CJ_ERR_STORE_LOCKED] = {"store-locked", CJ_CLASS_RETRIABLE,
                             "A state directory or store is held by another owner: wait until it "
                             "lets go, or use another state.dir."},
    [CJ_ERR_STORE_MISMATCH] = {"store-mismatch", CJ_CLASS_FATAL,
                               "The local state belongs to another cluster, topology or format: "
                               "use another state.dir or application.id, or reset the "
                               "application."},
    [CJ_ERR_SYSTEM] = {"system", CJ_CLASS_FATAL,
                       "The operating system refused a call: see the message for its reason."},
    [CJ_ERR_LIMIT] = {"limit", CJ_CLASS_FATAL,
                      "A limit of the process is too low: raise it to the number that is named."},
    [CJ_ERR_DESERIALIZE] = {"deserialize", CJ_CLASS_FATAL,
                            "A record's bytes could not be decoded: correct the serde or the "
                            "producer, or choose another errors.deserialize."},
    [CJ_ERR_PROCESS] = {"process", CJ_CLASS_FATAL,
                        "A callback failed on a record: see its reason, or choose another "
                        "errors.process."},
    [CJ_ERR_PRODUCE] = {"produce", CJ_CLASS_FATAL,
                        "An output could not be produced: see the message, or choose another "
                        "errors.produce."},
    [CJ_ERR_TIMEOUT] = {"timeout", CJ_CLASS_RETRIABLE,
                        "Something took longer than its bound: try again, or raise the bound."},
    [CJ_ERR_UNSUPPORTED] = {"unsupported", CJ_CLASS_FATAL,
                            "This librdkafka, broker or build cannot do it: see the message for "
                            "what is needed."},
    [CJ_ERR_INTERNAL] = {"internal", CJ_CLASS_FATAL,
                         "This is a bug in cojoin: please report it with the message."},
};

struct cj_error {
  cj_code code;
  cj_class class_;
  char *subject, *message;
  char *text; /* NULL where there was no memory for it: the message stands for it */
  cj_error *cause;
  cj_report *report;
};

/* Exists before memory runs out; never changed and never freed, so that threads may share it. */
static cj_error no_memory = {
    .code = CJ_ERR_NO_MEMORY,
    .class_ = CJ_CLASS_FATAL,
    .subject = (char *)"",
    .message = (char *)"an allocation failed",
    .text = (char *)"no-memory: an allocation failed",
};

const char *cj_code_name(cj_code code) {
  return (unsigned)code < CJ_ERR_COUNT_ ? codes[code].name : "unknown";
}

const char *cj_code_text(cj_code code) {
  return (unsigned)code < CJ_ERR_COUNT_ ? codes[code].text : "This is not a code of cojoin.";
}

cj_code cj_error_code(const cj_error *error) {
  return error ? error->code : CJ_OK;
}

cj_class cj_error_class(const cj_error *error) {
  return error ? error->class_ : codes[CJ_OK].class_;
}

const char *cj_error_subject(const cj_error *error) {
  return error ? error->subject : "";
}

const char *cj_error_message(const cj_error *error) {
  return error ? error->message : "";
}

const char *cj_error_text(const cj_error *error) {
  if (!error) return codes[CJ_OK].name;
  return error->text ? error->text : error->message;
}

const cj_error *cj_error_cause(const cj_error *error) {
  return error ? error->cause : NULL;
}

const cj_report *cj_error_report(const cj_error *error) {
  return error ? error->report : NULL;
}

void cj_error_destroy(cj_error *error) {
  while (error && error != &no_memory) {
    cj_error *cause = error->cause;
    cj_report_destroy(error->report);
    cj_free(error->subject);
    cj_free(error->message);
    cj_free(error->text);
    cj_free(error);
    error = cause;
  }
}

cj_error *cj_error_no_memory(void) {
  return &no_memory;
}

/* Made when the error is, not when it is asked for: reading an error changes nothing in it. */
static void make_text(cj_error *error) {
  bool subject = error->subject[0] != '\0';
  const cj_error *cause = error->cause;
  char *text = cj_asprintf("%s: %s%s%s%s%s%s", cj_code_name(error->code), error->subject,
                           subject ? ": " : "", error->message, cause ? " (cause: " : "",
                           cause ? cj_error_text(cause) : "", cause ? ")" : "");
  if (!text) return;
  for (char *c = text; *c; c++)
    if (*c == '\n' || *c == '\r') *c = ' ';
  cj_free(error->text);
  error->text = text;
}

/* Takes the message, which may be NULL: then there was no memory. */
static cj_error *make(cj_code code, const char *subject, char *message) {
  cj_error *error = message ? cj_alloc(sizeof *error) : NULL;
  if (error) error->subject = cj_strdup(subject ? subject : "");
  if (!error || !error->subject) {
    cj_free(error);
    cj_free(message);
    return &no_memory;
  }
  error->code = code;
  error->class_ = (unsigned)code < CJ_ERR_COUNT_ ? codes[code].class_ : CJ_CLASS_FATAL;
  error->message = message;
  make_text(error);
  return error;
}

static char *format_message(const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int len = vsnprintf(NULL, 0, format, args);
  char *message = len < 0 ? NULL : cj_alloc((size_t)len + 1);
  if (message) vsnprintf(message, (size_t)len + 1, format, again);
  va_end(again);
  return message;
}

cj_error *cj_error_new(cj_code code, const char *subject, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *message = format_message(format, args);
  va_end(args);
  return make(code, subject, message);
}

cj_error *cj_error_errno(int errnum, const char *subject, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *what = format_message(format, args);
  va_end(args);
  if (!what) return &no_memory;
  char words[128];
  const char *reason = strerror_r(errnum, words, sizeof words);
  char *message = cj_asprintf("%s: %s (errno %d)", what, reason, errnum);
  cj_free(what);
  return make(CJ_ERR_SYSTEM, subject, message);
}

cj_error *cj_error_under(cj_error *error, cj_error *cause) {
  if (!cause) return error;
  /* Without memory for the context the lower error says more than "no memory" does. */
  if (!error || error == &no_memory) return cause;
  error->cause = cj_error_under(error->cause, cause);
  make_text(error);
  return error;
}

cj_error *cj_error_with_report(cj_error *error, cj_report *report) {
  if (!error || error == &no_memory) {
    cj_report_destroy(report);
    return error;
  }
  cj_report_destroy(error->report);
  error->report = report;
  return error;
}

cj_error *cj_error_with_class(cj_error *error, cj_class class_) {
  if (error && error != &no_memory) error->class_ = class_;
  return error;
}

cj_error *cj_error_copy(const cj_error *error) {
  if (!error || error == &no_memory) return error ? &no_memory : NULL;
  cj_error *copy = make(error->code, error->subject, cj_strdup(error->message));
  if (copy == &no_memory) return copy;
  copy->class_ = error->class_;
  copy->report = error->report ? cj_report_copy(error->report) : NULL;
  return cj_error_under(copy, cj_error_copy(error->cause));
}
