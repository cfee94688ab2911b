/* SPDX-License-Identifier: BSD-2-Clause */
/* What the state directory is made of: directories, names that are safe in paths, lock files. */
#ifndef CJ_STATE_DIR_H
#define CJ_STATE_DIR_H

#include "base/base.h"

/* The directory and its parents, readable by the owner only where they are new. */
CJ_MUST_CHECK cj_error *cj_dir_make(const char *path);
/* The path and all under it; symbolic links are removed, not followed. Missing is fine. */
CJ_MUST_CHECK cj_error *cj_dir_remove(const char *path);

/* Appends `text` so that it is one plain file name: bytes other than A-Z a-z 0-9 . _ - become %XX,
 * and so does a dot at the head ("." and ".." name directories). What Kafka allows in a topic's
 * name stays as it is. */
void cj_dir_append_name(cj_buf *out, const char *text);
/* Appends a NUL and gives the buffer's text, or NULL if it failed. */
const char *cj_dir_text(cj_buf *path);

/* A file that one owner at a time holds, with a line of text that tells about it. The lock is
 * flock's: it belongs to the open file, so that two owners in one process exclude each other too,
 * and closing another descriptor of the file does not end it as it does for fcntl's. The kernel
 * frees it when the process dies. */
typedef struct {
  int fd; /* -1: not held */
} cj_lock_file;
#define CJ_LOCK_FILE_INIT                                                                          \
  { -1 }
#define CJ_LOCK_TEXT_MAX 64
/* 0: held now. EWOULDBLOCK: someone else holds it; *holder is the process that its line names last,
 * or 0. Otherwise errno. Does not wait. */
CJ_MUST_CHECK int cj_lock_file_take(cj_lock_file *lock, const char *path, long *holder);
CJ_MUST_CHECK int cj_lock_file_write(const cj_lock_file *lock, const char *text);
void cj_lock_file_read(const cj_lock_file *lock, char text[CJ_LOCK_TEXT_MAX]);
void cj_lock_file_release(cj_lock_file *lock);
/* The process that holds the lock, or 0. For messages only: to find out, the lock is taken for an
 * instant. */
long cj_lock_file_holder(const char *path);
/* Takes the file OWNER in a store's directory, with this process's id as its text.
 * CJ_ERR_STORE_LOCKED names the holder. */
CJ_MUST_CHECK cj_error *cj_dir_own(cj_lock_file *owner, const char *path);

#endif
