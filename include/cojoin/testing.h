/* SPDX-License-Identifier: BSD-2-Clause */
/* The test driver: a topology under test on a world in memory. No broker, no thread, no sleep, no
 * disk: the runtime is the real one, its input and output, its clock and its stores are twins that
 * the test moves step by step. The same calls always give the same results.
 *
 *   cj_test *t = cj_test_new(plan, config);             the world, without members
 *   cj_test_topic(t, "price", 6);                       topics, with their partition counts
 *   cj_test_start_member(t, "a");                       a member: the checklist runs
 *   cj_test_pipe(t, "price", key, value, 1000);         a record, placed by the topic's partitioner
 *   cj_test_settle(t);                                  until nothing more can happen
 *   cj_test_read(t, "alerts", 0, 0, &record);           an output
 *
 * A call that cannot be done (an unknown topic or member, a member started twice) writes what is
 * wrong to standard error and aborts: it is a mistake in the test.
 *
 * Threads: a cj_test is used by one thread. */
#ifndef COJOIN_TESTING_H
#define COJOIN_TESTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cojoin/app.h>
#include <cojoin/config.h>
#include <cojoin/record.h>
#include <cojoin/topology.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cj_test cj_test;

/* Borrows the plan, which must outlive the test and can serve several; copies the configuration
 * (NULL: defaults). The sink topics need not be declared: those that are missing are made with the
 * partition count of the first source. */
CJ_API cj_test *cj_test_new(const cj_plan *plan, const cj_config *config);
CJ_API void cj_test_destroy(cj_test *t);

/* ---- the broker's side ---- */
/* Makes the topic; one that exists grows to that count. */
CJ_API void cj_test_topic(cj_test *t, const char *topic, int32_t partitions);
/* Appends a record at the end of the partition that the topic's declared partitioner gives (murmur2
 * for topics outside the plan); a null key goes to partition 0. Returns its offset. */
CJ_API int64_t cj_test_pipe(cj_test *t, const char *topic, cj_bytes key, cj_bytes value,
                            int64_t timestamp);
/* The same into a partition of the test's choice, with headers. */
CJ_API int64_t cj_test_pipe_to(cj_test *t, const char *topic, int32_t partition, cj_bytes key,
                               cj_bytes value, int64_t timestamp, const cj_header *headers,
                               size_t header_count);
/* What is piped between the two is one transaction: readers under read_committed see it once it is
 * committed, or never; each partition gets a marker at its end. */
CJ_API void cj_test_transaction(cj_test *t);
CJ_API void cj_test_transaction_end(cj_test *t, bool commit);
/* Leaves a hole of `count` offsets at the end, as compaction and transaction markers do. */
CJ_API void cj_test_gap(cj_test *t, const char *topic, int32_t partition, int64_t count);
/* Removes all records before the offset, as retention does. */
CJ_API void cj_test_delete_records(cj_test *t, const char *topic, int32_t partition,
                                   int64_t before);
/* Removes all but the last record of each key, and tombstones too, as log compaction does at last.
 * Offsets stay what they were. */
CJ_API void cj_test_compact(cj_test *t, const char *topic, int32_t partition);
/* Cuts the log so that its end is `end`, as an unclean election does. */
CJ_API void cj_test_truncate(cj_test *t, const char *topic, int32_t partition, int64_t end);
/* Deletes the topic, with the offsets that were committed for it; and makes it anew: empty, with as
 * many partitions. */
CJ_API void cj_test_delete_topic(cj_test *t, const char *topic);
CJ_API void cj_test_recreate_topic(cj_test *t, const char *topic);
/* The group's committed offset, or -1. */
CJ_API int64_t cj_test_committed(cj_test *t, const char *topic, int32_t partition);
/* Puts it elsewhere, or removes it (-1), as an operator's reset and the expiry of offsets do. */
CJ_API void cj_test_set_committed(cj_test *t, const char *topic, int32_t partition, int64_t offset);
/* The log's end. */
CJ_API int64_t cj_test_end(cj_test *t, const char *topic, int32_t partition);
/* While false, fetches, commits and produces of everyone hang. */
CJ_API void cj_test_broker_up(cj_test *t, bool up);
/* While true, nothing is fetched from the partition, and what is produced to it is not
 * acknowledged. With it a test says in which order records of several partitions arrive. */
CJ_API void cj_test_hold(cj_test *t, const char *topic, int32_t partition, bool held);

typedef enum {
  CJ_TEST_COMMIT,    /* of offsets */
  CJ_TEST_COMMITTED, /* the question for committed offsets */
  CJ_TEST_BOUNDS,    /* the question where a log begins and ends */
  CJ_TEST_ENDS,      /* the question where it ends, while running */
  CJ_TEST_METADATA,
  CJ_TEST_GROUP,
  CJ_TEST_TXN_COMMIT, /* of a transaction, with its offsets (processing.guarantee exactly_once) */
  CJ_TEST_TXN_ABORT,
  CJ_TEST_TXN_INIT, /* the start of a transactional producer */
} cj_test_request;
typedef enum {
  CJ_TEST_REFUSED,     /* not done: a temporary error */
  CJ_TEST_UNANSWERED,  /* not done, and nothing comes back until request.timeout.ms is over */
  CJ_TEST_DONE_UNTOLD, /* done, but the answer says that it timed out */
  CJ_TEST_DONE_LATE,   /* of a transaction's end: times out, and reaches the broker half a second
                          later, there to end whatever is open under the same epoch */
  CJ_TEST_DECIDED,     /* of a transaction's commit: times out, and is done half a second later, or
                          at once when a new producer of the same id begins */
} cj_test_fault;
/* The next `times` requests of that kind, whoever makes them, end so. */
CJ_API void cj_test_fail_request(cj_test *t, cj_test_request request, cj_test_fault fault,
                                 size_t times);
/* The next fetch of the partition meets a temporary error. */
CJ_API void cj_test_fail_fetch(cj_test *t, const char *topic, int32_t partition);
/* The broker refuses the next `times` records that are produced to the topic, as too large. */
CJ_API void cj_test_fail_delivery(cj_test *t, const char *topic, size_t times);

/* ---- outputs ---- */
/* Record i (from 0) of a partition, of all records ever appended, as a reader under read_committed
 * sees them: what is in an open or aborted transaction is not there. False past the end. Views into
 * the log, valid until the test is destroyed. */
CJ_API bool cj_test_read(cj_test *t, const char *topic, int32_t partition, size_t i,
                         cj_record *record);
CJ_API size_t cj_test_count(cj_test *t, const char *topic, int32_t partition);

/* ---- members ---- */
/* Starts a member with its own state directory, named after it and kept over crashes. Returns the
 * error that refused the start, or NULL; the caller owns it. */
CJ_API CJ_MUST_CHECK cj_error *cj_test_start_member(cj_test *t, const char *member);
/* Drains, commits, leaves the group. */
CJ_API void cj_test_stop_member(cj_test *t, const char *member);
/* Gone at this instant: nothing is flushed, committed or told; the group notices when its session
 * ends (the clock has to be advanced). */
CJ_API void cj_test_crash_member(cj_test *t, const char *member);
/* Removes what the member has on its disk. */
CJ_API void cj_test_wipe_member(cj_test *t, const char *member);
/* While true the member does not run, as when a callback blocks: it is evicted from its group after
 * max.poll.interval.ms (rd.max.poll.interval.ms, 300,000), and learns it when it goes on. */
CJ_API void cj_test_freeze_member(cj_test *t, const char *member, bool frozen);
/* While true its whole process stands still, as under SIGSTOP: heartbeats end too, and the group
 * takes it for dead after session.timeout.ms (rd.session.timeout.ms, 45,000). It learns that at its
 * first heartbeat afterwards (rd.heartbeat.interval.ms; here 0, at once, unless it is set). */
CJ_API void cj_test_stall_member(cj_test *t, const char *member, bool stalled);
/* The error that stopped a member, or NULL; owned by the member. */
CJ_API const cj_error *cj_test_member_error(cj_test *t, const char *member);
/* The member that owns the index of the first co-partitioned set, or NULL. One that was evicted and
 * does not know it yet owns nothing. */
CJ_API const char *cj_test_owner(cj_test *t, int32_t partition);
/* Begins a rebalance without a change of members. */
CJ_API void cj_test_rebalance(cj_test *t);

/* ---- time ---- */
/* One step of one member; the members take turns. False when nothing can happen until the clock
 * moves. */
CJ_API bool cj_test_step(cj_test *t);
/* Steps until nothing can happen any more at the present time; then every due commit has been made
 * too if `commit.interval.ms` is 0. */
CJ_API void cj_test_settle(cj_test *t);
/* `fn` is called after every step, whoever makes it (settle, advance, commit, stop), to look at
 * what has to hold at every moment. It must not step. NULL: not any more. */
typedef void cj_test_watch_fn(void *user, cj_test *t);
CJ_API void cj_test_watch(cj_test *t, cj_test_watch_fn *fn, void *user);
/* Moves the clock, settling at each deadline on the way. */
CJ_API void cj_test_advance(cj_test *t, int64_t ms);
/* The virtual time, milliseconds; starts at 1,700,000,000,000. */
CJ_API int64_t cj_test_now(const cj_test *t);
/* A commit of every member now, and settle. */
CJ_API void cj_test_commit(cj_test *t);

/* ---- stores and counters ---- */
/* The last committed value in the table of that topic, read at the partition's owner. */
CJ_API cj_read cj_test_get(cj_test *t, const char *table, cj_bytes key, cj_buf *copy);
/* The position of that table's partition in the store that the member has open: the offset of the
 * first record that is not in it. -1: it has none open, or nothing is in it. */
CJ_API int64_t cj_test_stored(cj_test *t, const char *member, const char *table, int32_t partition);
/* The sum of a counter over all living members (see cj_app_metric). */
CJ_API int64_t cj_test_metric(cj_test *t, const char *name, const char *reason);
/* Log lines of all members that contain the text. With COJOIN_TEST_LOG set in the environment they
 * are also written to standard error, each with the milliseconds since the test's begin. */
CJ_API size_t cj_test_logged(const cj_test *t, const char *text);

#ifdef __cplusplus
}
#endif
#endif
