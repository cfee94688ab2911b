/* SPDX-License-Identifier: BSD-2-Clause */
/* A directory of its own for a test that writes to disk, and running this very program once more as
 * another process: RocksDB's threads do not survive a plain fork. */
#ifndef CJ_TEST_STORE_DIR_H
#define CJ_TEST_STORE_DIR_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/unit.h"
#include "state/state_dir.h"

/* RocksDB is not built for the thread sanitizer, which then sees races where there are none. */
#if defined(__SANITIZE_THREAD__)
#define CJ_TEST_ROCKSDB 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CJ_TEST_ROCKSDB 0
#endif
#endif
#ifndef CJ_TEST_ROCKSDB
#define CJ_TEST_ROCKSDB 1
#endif

static inline char *store_dir_new(void) {
  const char *base = getenv("TMPDIR");
  char *path = cj_asprintf("%s/cojoin-test-XXXXXX", base && *base ? base : "/tmp");
  if (!path || !mkdtemp(path)) abort();
  return path;
}

static inline void store_dir_remove(char *path) {
  cj_error *error = cj_dir_remove(path);
  cj_free(path);
  assert_no_error(error);
}

typedef struct {
  pid_t pid;
  int out; /* what the child writes to its standard output */
} store_child;

/* Starts this program as `argv` (NULL at its end), whose first element is only its name. */
static inline store_child store_child_start(char *const argv[]) {
  int ends[2];
  if (pipe(ends) != 0) abort();
  store_child child = {.pid = fork(), .out = ends[0]};
  if (child.pid < 0) abort();
  if (child.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails does not clean up */
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execv("/proc/self/exe", argv);
    _exit(127);
  }
  close(ends[1]);
  return child;
}

/* Waits for its next byte; false when it has ended. */
static inline bool store_child_tick(const store_child *child) {
  char byte;
  return read(child->out, &byte, 1) == 1;
}

/* The status that waitpid gives. */
static inline int store_child_end(store_child *child) {
  int status = 0;
  waitpid(child->pid, &status, 0);
  close(child->out);
  return status;
}

#endif
