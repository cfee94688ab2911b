/* SPDX-License-Identifier: BSD-2-Clause */
/* The twin of the seam: cj_io over a world in memory. What librdkafka's threads do in the
 * background happens when the io is polled, or in cj_memory_io_background for a member that does
 * not poll: outputs are acknowledged, requests answered, the group's protocol spoken.
 *
 * Of `rd.` properties it knows session.timeout.ms, max.poll.interval.ms, message.timeout.ms,
 * message.max.bytes, queue.buffering.max.messages, and heartbeat.interval.ms, which is 0 unless it
 * is set: what happens in the group is noticed at once. Misuse that hangs or corrupts librdkafka
 * (an entry that is not released before its partition leaves, a revoke answered by a full list)
 * aborts with what is wrong. */
#ifndef CJ_IO_MEMORY_H
#define CJ_IO_MEMORY_H

#include "testing/world.h"

typedef struct cj_memory_io cj_memory_io;

/* Joins nothing before subscribe. The world outlives the io. */
cj_error *cj_io_memory_new(cj_world *world, const cj_io_setup *setup, cj_io **io);

/* Gone at this instant: what was handed over and not acknowledged is lost, heartbeats end. The io
 * stays to be destroyed; its calls do nothing. */
void cj_io_memory_crash(cj_io *io);
/* The application does not poll from now on (or does again): librdkafka's threads go on, and leave
 * the group when max.poll.interval.ms has passed. */
void cj_io_memory_stop_polling(cj_io *io, bool stopped);
/* The whole process stands still, as under SIGSTOP: no heartbeats either. */
void cj_io_memory_stall(cj_io *io, bool stalled);
/* The client as a whole meets an error: an ERROR event. */
void cj_io_memory_fail(cj_io *io, cj_io_code code, bool fatal, const char *text);
/* Does the group still know this member, whatever it believes itself? */
bool cj_io_memory_is_member(const cj_io *io);
/* What happens without a poll. True if anything did. */
bool cj_io_memory_background(cj_io *io);

/* For the world. */
void cj_memory_io_expire(cj_memory_io *io);
int64_t cj_memory_io_deadline(const cj_memory_io *io); /* on world->clock; INT64_MAX: none */

#endif
