/* SPDX-License-Identifier: BSD-2-Clause */
#include "runtime/check.h"

#include <string.h>

#include "runtime/check_internal.h"
#include "runtime/nearest.h"

#define SLICE_MS     100  /* how soon a cancelled check returns */
#define PAUSE_MS     100  /* before the first repetition of a request; doubled up to */
#define PAUSE_MAX_MS 2000 /* this */
#define UNSETTLED_MS                                                                               \
  250                   /* before topics that are missing or have no leader are asked for again    \
                         */
#define MISSING_TRIES 3 /* a topic that was just made may not be known to every broker yet */
#define OTHER_TRIES   3 /* of an answer that is neither success nor known to be temporary */

/* ---- asking ---- */

static int64_t now(cj_check *c) {
  return c->io->ops->now(c->io);
}

/* An event of the client as a whole. Being unable to connect is no failure before the deadline, and
 * not reported by every version of librdkafka (case 83); wrong credentials stay wrong. */
static cj_error *note(cj_check *c, const cj_io_event *event) {
  const char *text = event->text && event->text[0] ? event->text : cj_io_code_name(event->code);
  if (event->code == CJ_IO_AUTH)
    return cj_error_new(CJ_ERR_AUTH, c->settings->bootstrap_servers, "%s", text);
  if (event->fatal) return cj_error_new(CJ_ERR_KAFKA, NULL, "the Kafka client failed: %s", text);
  cj_error_destroy(c->cause);
  c->cause = cj_error_new(CJ_ERR_BROKER, NULL, "%s", text);
  return NULL;
}

/* Serves the io until the request `id` is done (0: none is waited for), or until `until`. */
static cj_error *serve(cj_check *c, int64_t until, uint64_t id, cj_io_event *event, bool *done) {
  *done = false;
  for (;;) {
    if (c->cancelled && c->cancelled(c->user))
      return cj_error_new(CJ_ERR_STATE, NULL, "the application was stopped during the checklist");
    while (c->io->ops->poll(c->io, event)) {
      if (event->kind == CJ_EV_DONE && event->id == id) {
        *done = true;
        return NULL;
      }
      cj_error *error = event->kind == CJ_EV_ERROR ? note(c, event) : NULL;
      if (error) return error;
    }
    int64_t left = until - now(c);
    if (left <= 0) return NULL;
    c->io->ops->wait(c->io, left < SLICE_MS ? left : SLICE_MS);
  }
}

static cj_error *pause_for(cj_check *c, int64_t ms) {
  cj_io_event event = {0};
  bool done;
  int64_t until = now(c) + ms;
  return serve(c, until < c->deadline ? until : c->deadline, 0, &event, &done);
}

static const char *request_name(cj_io_request_kind kind) {
  switch (kind) {
  case CJ_REQ_METADATA:
    return "the list of topics";
  case CJ_REQ_GROUP:
    return "the description of the group";
  default:
    return "the end offsets";
  }
}

/* Out of time, or an answer that trying again does not change. */
static cj_error *gave_up(cj_check *c, cj_io_request_kind kind, cj_io_code code, int64_t tried_ms) {
  const char *servers = c->settings->bootstrap_servers ? c->settings->bootstrap_servers : "";
  cj_error *cause = c->cause;
  c->cause = NULL;
  bool answered = code != CJ_IO_OK && code != CJ_IO_TIMED_OUT && code != CJ_IO_RETRIABLE;
  cj_error *error = answered ? cj_error_new(CJ_ERR_KAFKA, servers, "the broker refused %s: %s",
                                            request_name(kind), cj_io_code_name(code))
                             : cj_error_new(CJ_ERR_BROKER, servers,
                                            "no broker answered a request for %s within %lld ms",
                                            request_name(kind), (long long)tried_ms);
  return cj_error_under(error, cause);
}

/* What the answer means: NULL to try again, or the error to end with. */
static cj_error *refusal(cj_check *c, const cj_io_request *request, const cj_io_event *event,
                         int *others) {
  const char *text = event->text && event->text[0] ? event->text : cj_io_code_name(event->code);
  if (event->code == CJ_IO_AUTH)
    return cj_error_new(CJ_ERR_AUTH,
                        request->kind == CJ_REQ_GROUP ? c->settings->application_id
                                                      : c->settings->bootstrap_servers,
                        "not allowed to have %s: %s", request_name(request->kind), text);
  if (!c->cause || event->code == CJ_IO_OTHER || event->code == CJ_IO_UNSUPPORTED) {
    cj_error_destroy(c->cause);
    c->cause = cj_error_new(CJ_ERR_KAFKA, NULL, "%s", text);
  }
  if (event->code == CJ_IO_UNSUPPORTED || (event->code == CJ_IO_OTHER && ++*others >= OTHER_TRIES))
    return gave_up(c, request->kind, event->code, 0);
  return NULL;
}

/* Asks until there is an answer, `until` at most. The event is valid until the io is polled. */
static cj_error *ask(cj_check *c, cj_io_request *request, int64_t until, cj_io_event *event) {
  int64_t begun = now(c), wait_ms = PAUSE_MS;
  int others = 0;
  for (;;) {
    int64_t left = until - now(c);
    if (left <= 0) return gave_up(c, request->kind, CJ_IO_OK, now(c) - begun);
    request->id = ++c->id;
    request->timeout_ms =
        left < c->settings->request_timeout_ms ? left : c->settings->request_timeout_ms;
    cj_error *error = c->io->ops->submit(c->io, request);
    bool done = false;
    if (!error) error = serve(c, until, request->id, event, &done);
    if (error) return error;
    if (!done) continue;
    if (event->code == CJ_IO_OK) return NULL;
    error = refusal(c, request, event, &others);
    if (error) return error;
    if (!c->told && now(c) < until)
      cj_logf(c->log, CJ_LOG_WARN, "checklist: no answer with %s yet, trying on for %lld ms: %s",
              request_name(request->kind), (long long)(until - now(c)), cj_error_message(c->cause));
    c->told = true;
    error = pause_for(c, wait_ms);
    if (error) return error;
    wait_ms = wait_ms * 2 < PAUSE_MAX_MS ? wait_ms * 2 : PAUSE_MAX_MS;
  }
}

/* ---- topics ---- */

const char *cj_check_topic_name(const cj_check *c, size_t topic) {
  return topic < c->plan->topic_count ? c->plan->topics[topic].name
                                      : c->settings->dead_letter_topic;
}

const char *cj_check_topic_kind(const cj_check *c, size_t topic) {
  static const char *const kinds[] = {
      [CJ_TOPIC_STREAM] = "stream", [CJ_TOPIC_TABLE] = "table", [CJ_TOPIC_SINK] = "sink"};
  return topic < c->plan->topic_count ? kinds[c->plan->topics[topic].kind] : "dead letters";
}

static cj_error *look_up(cj_check *c, size_t topic, const cj_io_event *event) {
  cj_check_topic *t = &c->topics[topic];
  cj_free(t->nearest);
  *t = (cj_check_topic){.code = CJ_IO_UNKNOWN_TOPIC};
  cj_nearest nearest = {.wanted = cj_check_topic_name(c, topic)};
  for (size_t i = 0; i < event->topic_count; i++) {
    const cj_io_topic *found = &event->topics[i];
    if (strcmp(found->name, nearest.wanted) == 0) {
      t->partitions = found->code == CJ_IO_UNKNOWN_TOPIC ? 0 : found->partitions;
      t->code = found->code;
      return NULL;
    }
    /* Names that Kafka keeps for itself were hardly meant. */
    if (strncmp(found->name, "__", 2) != 0) cj_nearest_consider(&nearest, found->name);
  }
  cj_buf names = CJ_BUF_INIT;
  for (size_t i = 0; i < nearest.count; i++)
    cj_buf_printf(&names, "%s%s", i ? ", " : "", nearest.name[i]);
  if (nearest.count) cj_buf_append(&names, "", 1);
  if (names.failed) {
    cj_buf_free(&names);
    return cj_error_no_memory();
  }
  t->nearest = (char *)names.data;
  return NULL;
}

/* Nothing is decided yet: a topic just made is not known everywhere, or waits for its leaders. */
static bool unsettled(const cj_check *c, int tries) {
  for (size_t i = 0; i < c->out->topic_count; i++) {
    cj_io_code code = c->topics[i].code;
    if (code == CJ_IO_RETRIABLE || code == CJ_IO_TIMED_OUT) return true;
    if (code == CJ_IO_UNKNOWN_TOPIC && tries < MISSING_TRIES) return true;
  }
  return false;
}

static cj_error *topic_trouble(const cj_check *c) {
  for (size_t i = 0; i < c->out->topic_count; i++) {
    cj_io_code code = c->topics[i].code;
    if (code == CJ_IO_OK || code == CJ_IO_UNKNOWN_TOPIC) continue;
    return cj_error_new(code == CJ_IO_AUTH ? CJ_ERR_AUTH : CJ_ERR_KAFKA, cj_check_topic_name(c, i),
                        "the broker does not give the topic's metadata: %s", cj_io_code_name(code));
  }
  return NULL;
}

static cj_error *ask_topics(cj_check *c) {
  for (int tries = 1;; tries++) {
    cj_io_event event = {0};
    cj_error *error = ask(c, &(cj_io_request){.kind = CJ_REQ_METADATA}, c->deadline, &event);
    if (error) return error;
    for (size_t i = 0; i < c->out->topic_count && !error; i++)
      error = look_up(c, i, &event);
    cj_free(c->out->cluster_id);
    c->out->cluster_id = cj_strdup(event.cluster_id ? event.cluster_id : "");
    if (!error && !c->out->cluster_id) error = cj_error_no_memory();
    if (error) return error;
    if (!unsettled(c, tries) || now(c) + UNSETTLED_MS >= c->deadline) break;
    error = pause_for(c, UNSETTLED_MS);
    if (error) return error;
  }
  for (size_t i = 0; i < c->out->topic_count; i++)
    c->out->partition_counts[i] = c->topics[i].partitions;
  return topic_trouble(c);
}

/* ---- end offsets ---- */

static cj_error *list_inputs(cj_check *c) {
  size_t count = 0;
  for (size_t t = 0; t < c->plan->input_count; t++)
    count += (size_t)c->topics[t].partitions;
  c->out->ends = cj_alloc(count * sizeof *c->out->ends);
  if (!c->out->ends) return cj_error_no_memory();
  for (size_t t = 0; t < c->plan->input_count; t++)
    for (int32_t p = 0; p < c->topics[t].partitions; p++)
      c->out->ends[c->out->end_count++] =
          (cj_io_offset){.tp = {(int32_t)t, p}, .offset = CJ_OFFSET_NONE};
  return NULL;
}

static cj_io_offset *entry_of(cj_check *c, cj_tp tp, size_t likely) {
  for (size_t n = 0; n < c->out->end_count; n++) {
    cj_io_offset *at = &c->out->ends[(likely + n) % c->out->end_count];
    if (at->tp.topic == tp.topic && at->tp.partition == tp.partition) return at;
  }
  return NULL;
}

/* Takes the offsets that came; the entry that has none yet, or NULL. */
static const cj_io_offset *take_ends(cj_check *c, const cj_io_event *event) {
  for (size_t i = 0; i < event->offset_count; i++) {
    const cj_io_offset *from = &event->offsets[i];
    cj_io_offset *to = entry_of(c, from->tp, i);
    if (!to) continue;
    to->code = from->code;
    if (from->code == CJ_IO_OK) to->offset = from->offset;
  }
  for (size_t i = 0; i < c->out->end_count; i++)
    if (c->out->ends[i].offset == CJ_OFFSET_NONE) return &c->out->ends[i];
  return NULL;
}

static cj_error *ask_ends(cj_check *c) {
  cj_error *error = list_inputs(c);
  while (!error) {
    cj_io_event event = {0};
    cj_io_request request = {.kind = CJ_REQ_ENDS, .list = c->out->ends, .count = c->out->end_count};
    error = ask(c, &request, c->deadline, &event);
    if (error) break;
    const cj_io_offset *without = take_ends(c, &event);
    if (!without) return NULL;
    const char *topic = cj_check_topic_name(c, (size_t)without->tp.topic);
    if (without->code == CJ_IO_AUTH)
      return cj_error_new(CJ_ERR_AUTH, topic, "not allowed to read the topic's end offsets");
    if (now(c) + UNSETTLED_MS >= c->deadline)
      return cj_error_new(CJ_ERR_BROKER, topic,
                          "partition %d gives no end offset within %lld ms: %s",
                          (int)without->tp.partition, (long long)c->settings->check_timeout_ms,
                          cj_io_code_name(without->code));
    error = pause_for(c, UNSETTLED_MS);
  }
  return error;
}

/* ---- the whole ---- */

void cj_check_break(cj_check *c, cj_point point, cj_error *error, const char *remedy) {
  cj_report_set(c->out->report, point, CJ_BROKEN, remedy);
  if (c->out->broken[point])
    cj_error_destroy(error);
  else
    c->out->broken[point] = error;
}

/* The group is described last and for a bounded time: that it cannot be is no reason not to start,
 * the members assert co-location by themselves. */
static cj_error *ask_group(cj_check *c) {
  cj_io_event event = {0};
  int64_t until = now(c) + c->settings->request_timeout_ms;
  cj_error *why = ask(c, &(cj_io_request){.kind = CJ_REQ_GROUP},
                      until < c->deadline ? until : c->deadline, &event);
  cj_code code = cj_error_code(why);
  if (why && code != CJ_ERR_KAFKA && code != CJ_ERR_BROKER) return why;
  cj_check_group(c, why ? NULL : &event, why);
  cj_error_destroy(why);
  return NULL;
}

static cj_error *run(cj_check *c) {
  cj_check_result *out = c->out;
  out->topic_count = c->plan->topic_count + (c->settings->dead_letter_topic[0] ? 1 : 0);
  out->partition_counts = cj_alloc(out->topic_count * sizeof *out->partition_counts);
  out->report = cj_report_new();
  c->topics = cj_alloc(out->topic_count * sizeof *c->topics);
  if (!out->partition_counts || !out->report || !c->topics) return cj_error_no_memory();
  cj_error *error = ask_topics(c);
  if (error) return error;
  cj_check_counts(c);
  cj_check_declared(c);
  cj_check_scheme(c);
  error = ask_group(c);
  if (!error && c->settings->stop_at_end && !out->missing) error = ask_ends(c);
  return error;
}

cj_error *cj_check_run_until(cj_io *admin, const cj_plan *plan, const cj_settings *settings,
                             const cj_log *log, cj_check_cancelled_fn *cancelled, void *user,
                             cj_check_result *out) {
  *out = (cj_check_result){0};
  cj_check c = {.io = admin,
                .plan = plan,
                .settings = settings,
                .log = log,
                .cancelled = cancelled,
                .user = user,
                .out = out};
  c.deadline = now(&c) + settings->check_timeout_ms;
  cj_error *error = run(&c);
  for (size_t i = 0; c.topics && i < out->topic_count; i++)
    cj_free(c.topics[i].nearest);
  cj_free(c.topics);
  cj_error_destroy(c.cause);
  if (error) cj_check_result_free(out);
  return error;
}

cj_error *cj_check_run(cj_io *admin, const cj_plan *plan, const cj_settings *settings,
                       const cj_log *log, cj_check_result *out) {
  return cj_check_run_until(admin, plan, settings, log, NULL, NULL, out);
}

cj_error *cj_check_enforce(const cj_check_result *result, const cj_settings *settings) {
  const cj_error *broken = result->missing;
  for (int i = 0; i < CJ_POINTS && !broken; i++)
    if (settings->check[i] == CJ_CHECK_ENFORCE) broken = result->broken[i];
  if (!broken) return NULL;
  return cj_error_with_report(cj_error_copy(broken), cj_report_copy(result->report));
}

void cj_check_result_free(cj_check_result *result) {
  cj_report_destroy(result->report);
  cj_free(result->cluster_id);
  cj_free(result->partition_counts);
  cj_free(result->ends);
  cj_error_destroy(result->missing);
  for (int i = 0; i < CJ_POINTS; i++)
    cj_error_destroy(result->broken[i]);
  *result = (cj_check_result){0};
}
