/* SPDX-License-Identifier: BSD-2-Clause */
#include "state/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- names ---- */

static bool plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

void cj_dir_append_name(cj_buf *out, const char *text) {
  for (const char *c = text; *c; c++) {
    if (plain(*c) && (c != text || *c != '.'))
      cj_buf_append(out, c, 1);
    else
      cj_buf_printf(out, "%%%02X", (unsigned)(unsigned char)*c);
  }
}

const char *cj_dir_text(cj_buf *path) {
  char *end = cj_buf_reserve(path, 1);
  if (!end || path->failed) return NULL;
  *end = '\0'; /* not content: what is appended later overwrites it */
  return (const char *)path->data;
}

/* ---- directories ---- */

static int make_one(const char *path) {
  if (mkdir(path, 0700) == 0) return 0;
  int errnum = errno;
  struct stat found;
  if (stat(path, &found) == 0) return S_ISDIR(found.st_mode) ? 0 : ENOTDIR;
  return errnum;
}

cj_error *cj_dir_make(const char *path) {
  char *copy = cj_strdup(path);
  if (!copy) return cj_error_no_memory();
  int errnum = 0;
  for (char *c = copy + (*copy == '/'); *c && !errnum; c++) {
    if (*c != '/') continue;
    *c = '\0';
    errnum = make_one(copy);
    if (!errnum) *c = '/';
  }
  if (!errnum) errnum = make_one(copy);
  cj_error *error = NULL;
  if (errnum)
    error = cj_error_errno(errnum, path,
                           "the state directory %s cannot be made (at %s); give the process the "
                           "right to write there or set state.dir",
                           path, copy);
  cj_free(copy);
  return error;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at) {
  (void)info;
  (void)kind;
  (void)at;
  /* Gone already is as good as removed: another process may be closing a store. */
  return remove(path) == 0 || errno == ENOENT ? 0 : errno;
}

cj_error *cj_dir_remove(const char *path) {
  int errnum = nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  if (errnum == -1) errnum = errno == ENOENT ? 0 : errno;
  return errnum ? cj_error_errno(errnum, path, "%s cannot be removed whole", path) : NULL;
}

/* ---- lock files ---- */

/* A file that was removed while we waited for its lock is not what others see at the path. */
static bool still_there(int fd, const char *path) {
  struct stat held, seen;
  return fstat(fd, &held) == 0 && stat(path, &seen) == 0 && held.st_dev == seen.st_dev &&
         held.st_ino == seen.st_ino;
}

static void read_text(int fd, char text[CJ_LOCK_TEXT_MAX]) {
  ssize_t len = pread(fd, text, CJ_LOCK_TEXT_MAX - 1, 0);
  text[len > 0 ? len : 0] = '\0';
}

static long read_holder(int fd) {
  char text[CJ_LOCK_TEXT_MAX];
  read_text(fd, text);
  const char *last = strrchr(text, ' ');
  return strtol(last ? last + 1 : text, NULL, 10);
}

int cj_lock_file_take(cj_lock_file *lock, const char *path, long *holder) {
  *holder = 0;
  for (;;) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return errno;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      int errnum = errno;
      if (errnum == EWOULDBLOCK) *holder = read_holder(fd);
      close(fd);
      return errnum;
    }
    if (still_there(fd, path)) {
      lock->fd = fd;
      return 0;
    }
    close(fd);
  }
}

int cj_lock_file_write(const cj_lock_file *lock, const char *text) {
  size_t len = strlen(text);
  ssize_t done = pwrite(lock->fd, text, len, 0);
  if (done < 0) return errno;
  if ((size_t)done != len) return ENOSPC;
  return ftruncate(lock->fd, (off_t)len) == 0 ? 0 : errno;
}

void cj_lock_file_read(const cj_lock_file *lock, char text[CJ_LOCK_TEXT_MAX]) {
  read_text(lock->fd, text);
}

void cj_lock_file_release(cj_lock_file *lock) {
  if (lock->fd >= 0) close(lock->fd);
  lock->fd = -1;
}

long cj_lock_file_holder(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  long pid = flock(fd, LOCK_SH | LOCK_NB) != 0 ? read_holder(fd) : 0;
  close(fd);
  return pid;
}

cj_error *cj_dir_own(cj_lock_file *owner, const char *path) {
  char *file = cj_asprintf("%s/OWNER", path);
  if (!file) return cj_error_no_memory();
  long holder;
  int errnum = cj_lock_file_take(owner, file, &holder);
  cj_error *error = NULL;
  if (errnum == EWOULDBLOCK && holder == (long)getpid())
    error = cj_error_new(CJ_ERR_STORE_LOCKED, path, "%s is held open by this process", path);
  else if (errnum == EWOULDBLOCK)
    error = cj_error_new(CJ_ERR_STORE_LOCKED, path, "%s is held open by process %ld", path, holder);
  if (!errnum) {
    char text[CJ_LOCK_TEXT_MAX];
    snprintf(text, sizeof text, "%ld\n", (long)getpid());
    errnum = cj_lock_file_write(owner, text);
  }
  if (errnum && !error)
    error = cj_error_errno(errnum, path, "the lock file %s cannot be taken", file);
  cj_free(file);
  return error;
}
