/* SPDX-License-Identifier: BSD-2-Clause */
/* Files against the process's limit, at start and not when a table cannot be opened any more: after
 * "too many open files" a store refuses writes (case 68). */
#include <dirent.h>
#include <sys/resource.h>

#include "state/state.h"

/* The least that RocksDB takes as max_open_files, which is what one store has when it is full: ten
 * tables, and what an empty one holds open (seven, our lock file with it), and something to spare.
 */
#define FILES_EACH_LEAST 20
/* More than this for one store brings nothing. */
#define FILES_EACH_MOST 1024
/* Connections to brokers, pipes, logs. */
#define FILES_OTHER 128

static long long count_open(void) {
  DIR *dir = opendir("/proc/self/fd");
  if (!dir) return 32;
  long long count = 0;
  while (readdir(dir))
    count++;
  closedir(dir);
  return count;
}

static long long least(long long a, long long b) {
  return a < b ? a : b;
}

static long long of_limit(rlim_t limit) {
  return limit == RLIM_INFINITY || limit > INT32_MAX ? INT32_MAX : (long long)limit;
}

cj_error *cj_state_check_files(int stores, int max_open_files, int *granted) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = limit.rlim_max = 1024;
  const long long soft = of_limit(limit.rlim_cur), hard = of_limit(limit.rlim_max);
  const long long other = count_open() + FILES_OTHER;
  const long long need = other + (long long)stores * FILES_EACH_LEAST;
  long long want = (long long)stores * FILES_EACH_MOST;
  if (max_open_files > 0) want = least(want, max_open_files);
  if (want < (long long)stores * FILES_EACH_LEAST) want = (long long)stores * FILES_EACH_LEAST;

  long long have = soft;
  if (soft < other + want && soft < hard) {
    const long long raised = least(hard, other + want);
    const struct rlimit higher = {.rlim_cur = (rlim_t)raised, .rlim_max = limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &higher) == 0) have = raised;
  }
  if (have < need)
    return cj_error_new(CJ_ERR_LIMIT, "open files",
                        "%d stores and the network need %lld open files and the process may have "
                        "%lld (hard limit %lld): raise it (ulimit -n, LimitNOFILE) or spread the "
                        "partitions over more processes",
                        stores, need, have, hard);
  *granted = (int)least(want, have - other);
  return NULL;
}
