/* SPDX-License-Identifier: BSD-2-Clause */
/* One write(2) a line. A buffer would be cheaper (the calls were seen to take as long as the join
 * itself), but the runtime commits when it wants to and tells nobody before: what is in a buffer
 * then is lost by a crash although its offset is committed. */
#include "tools/output.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

void tool_output_init(tool_output *output, int fd) {
  output->fd = fd;
  output->error = 0;
  pthread_mutex_init(&output->lock, NULL);
}

void tool_output_finish(tool_output *output) {
  pthread_mutex_destroy(&output->lock);
}

static int write_all(int fd, const char *data, size_t len) {
  while (len > 0) {
    ssize_t n = write(fd, data, len);
    if (n >= 0) {
      data += n;
      len -= (size_t)n;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      /* Whoever gave us the descriptor may have made it non-blocking: it is shared. */
      poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

int tool_output_write(tool_output *output, const void *data, size_t len) {
  pthread_mutex_lock(&output->lock);
  /* After a failure the output ends at a record's end or inside one; more would follow a hole. */
  if (!output->error) output->error = write_all(output->fd, data, len);
  int error = output->error;
  pthread_mutex_unlock(&output->lock);
  return error;
}

const char *tool_output_reason(int error) {
  return error == EPIPE ? "its reader has gone" : strerror(error);
}
