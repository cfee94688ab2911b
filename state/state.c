/* SPDX-License-Identifier: BSD-2-Clause */
#include "state/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "state/registry.h"
#include "state/state_dir.h"

#define SLOTS_MAX 4096

static char *app_path(const char *dir, const char *app_id) {
  cj_buf path = CJ_BUF_INIT;
  cj_buf_append_str(&path, dir);
  cj_buf_append_str(&path, "/");
  cj_dir_append_name(&path, app_id);
  const char *text = cj_dir_text(&path);
  char *copy = text ? cj_strdup(text) : NULL;
  cj_buf_free(&path);
  return copy;
}

/* ---- the directory as a whole: those that use it share its lock, who removes it has it alone ----
 */

/* -1, with errno, if it cannot be had; EWOULDBLOCK when the others do not let us. */
static int lock_dir(const char *path, int how) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  struct stat held, seen;
  if (flock(fd, how | LOCK_NB) == 0) {
    if (fstat(fd, &held) == 0 && stat(path, &seen) == 0 && held.st_ino == seen.st_ino) return fd;
    errno = ENOENT; /* removed while we came */
  }
  int errnum = errno;
  close(fd);
  errno = errnum;
  return -1;
}

static cj_error *enter_dir(cj_state *state) {
  /* Again when it was removed between the two: at most one `cojoin reset` runs at a time. */
  for (int tries = 0; tries < 3; tries++) {
    cj_error *error = cj_dir_make(state->path);
    if (error) return error;
    state->dir_fd = lock_dir(state->path, LOCK_SH);
    if (state->dir_fd >= 0 || errno != ENOENT) break;
  }
  if (state->dir_fd >= 0) return NULL;
  if (errno == EWOULDBLOCK)
    return cj_error_new(CJ_ERR_STORE_LOCKED, state->path,
                        "%s is being removed by another process (`cojoin reset`): start again when "
                        "it is done",
                        state->path);
  return cj_error_errno(errno, state->path, "the state directory %s cannot be locked", state->path);
}

/* ---- the process's slot ---- */

static bool read_id(const cj_lock_file *slot, char id[9]) {
  char text[CJ_LOCK_TEXT_MAX];
  cj_lock_file_read(slot, text);
  if (strspn(text, "0123456789abcdef") != 8 || text[8] != ' ') return false;
  memcpy(id, text, 8);
  id[8] = '\0';
  return true;
}

static int make_id(char id[9]) {
  uint32_t number;
  if (getrandom(&number, sizeof number, 0) != sizeof number) return errno;
  snprintf(id, 9, "%08" PRIx32, number);
  return 0;
}

/* The id is kept; a slot that is new, or whose file cannot be read, gets one. */
static int write_id(const cj_lock_file *slot, char id[9]) {
  char text[CJ_LOCK_TEXT_MAX];
  int errnum = read_id(slot, id) ? 0 : make_id(id);
  if (errnum) return errnum;
  snprintf(text, sizeof text, "%s %ld\n", id, (long)getpid());
  return cj_lock_file_write(slot, text);
}

/* The first slot that is free, so that a process that was started again takes its own. */
static cj_error *take_slot(cj_state *state) {
  for (int n = 0; n < SLOTS_MAX; n++) {
    char *path = cj_asprintf("%s/process-%d.lock", state->path, n);
    if (!path) return cj_error_no_memory();
    cj_lock_file slot = CJ_LOCK_FILE_INIT;
    long holder;
    int errnum = cj_lock_file_take(&slot, path, &holder);
    if (errnum == 0) {
      state->slot_fd = slot.fd;
      errnum = write_id(&slot, state->process_id);
    }
    cj_error *error = NULL;
    if (errnum && errnum != EWOULDBLOCK)
      error = cj_error_errno(errnum, path,
                             "%s cannot be written; give the process the right to write in the "
                             "state directory or set state.dir",
                             path);
    cj_free(path);
    if (errnum != EWOULDBLOCK) return error;
  }
  return cj_error_new(CJ_ERR_LIMIT, state->path, "%d processes share the state directory %s",
                      SLOTS_MAX, state->path);
}

/* ---- open and close ---- */

static cj_error *be_somebody(cj_state *self, const cj_state_options *options) {
  if (!options->in_memory) {
    cj_error *error = enter_dir(self);
    return error ? error : take_slot(self);
  }
  if (options->pool_threads) {
    /* Nothing is kept, so no place has to be found again; two processes must not be one. */
    int errnum = make_id(self->process_id);
    return errnum ? cj_error_errno(errnum, self->path, "no chance to be had") : NULL;
  }
  uint64_t hash = cj_hash64(self->path, strlen(self->path));
  snprintf(self->process_id, sizeof self->process_id, "%08" PRIx32, (uint32_t)hash);
  return NULL;
}

cj_error *cj_state_open(const cj_state_options *options, cj_state **state) {
  cj_state *self = cj_alloc(sizeof *self);
  if (!self) {
    options->source->ops->destroy(options->source);
    return cj_error_no_memory();
  }
  self->dir_fd = self->slot_fd = -1;
  self->source = options->source;
  self->log = options->log;
  self->lock_wait_ms = options->lock_wait_ms;
  self->idle_ms = options->idle_ms;
  cj_registry_init(&self->registry);
  self->path = app_path(options->dir ? options->dir : "memory", options->app_id);
  cj_error *error = self->path ? be_somebody(self, options) : cj_error_no_memory();
  if (!error) error = cj_registry_start(self, options->pool_threads);
  if (error)
    cj_state_close(self);
  else
    *state = self;
  return error;
}

void cj_state_close(cj_state *state) {
  if (!state) return;
  cj_registry_finish(state);
  state->source->ops->destroy(state->source);
  if (state->slot_fd >= 0) close(state->slot_fd);
  if (state->dir_fd >= 0) close(state->dir_fd);
  cj_free(state->path);
  cj_free(state);
}

const char *cj_state_process_id(const cj_state *state) {
  return state->process_id;
}

/* ---- remove ---- */

typedef struct {
  const char *path;
  char **names; /* slots last: as long as one is there, a start finds what is left */
  size_t count, cap;
} listing;

static bool is_slot(const char *name) {
  return strncmp(name, "process-", strlen("process-")) == 0 && strstr(name, ".lock");
}

static int by_turn(const void *left, const void *right) {
  const char *a = *(char *const *)left, *b = *(char *const *)right;
  int slots = (int)is_slot(a) - (int)is_slot(b);
  return slots ? slots : strcmp(a, b);
}

static bool add_name(listing *list, const char *name) {
  if (list->count == list->cap) {
    size_t cap = list->cap ? list->cap * 2 : 16;
    char **names = cj_realloc(list->names, cap * sizeof *names);
    if (!names) return false;
    list->names = names;
    list->cap = cap;
  }
  char *copy = cj_strdup(name);
  if (!copy) return false;
  list->names[list->count++] = copy;
  return true;
}

static cj_error *list_dir(listing *list) {
  DIR *dir = opendir(list->path);
  if (!dir) return cj_error_errno(errno, list->path, "%s cannot be read", list->path);
  cj_error *error = NULL;
  for (struct dirent *entry; !error && (entry = readdir(dir));) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (!add_name(list, entry->d_name)) error = cj_error_no_memory();
  }
  closedir(dir);
  if (!error && list->count) qsort(list->names, list->count, sizeof *list->names, by_turn);
  return error;
}

static cj_error *in_use(const listing *list) {
  cj_buf pids = CJ_BUF_INIT;
  for (size_t i = 0; i < list->count; i++) {
    if (!is_slot(list->names[i])) continue;
    char *path = cj_asprintf("%s/%s", list->path, list->names[i]);
    long pid = path ? cj_lock_file_holder(path) : 0;
    if (pid) cj_buf_printf(&pids, "%s%ld", pids.len ? ", " : ": process ", pid);
    cj_free(path);
  }
  cj_error *error =
      cj_error_new(CJ_ERR_STORE_LOCKED, list->path, "%s is in use%.*s; stop the application first",
                   list->path, (int)pids.len, pids.data ? (const char *)pids.data : "");
  cj_buf_free(&pids);
  return error;
}

static cj_error *remove_listed(const listing *list, bool dry_run,
                               void (*fn)(void *user, const char *path), void *user) {
  for (size_t i = 0; i < list->count; i++) {
    char *path = cj_asprintf("%s/%s", list->path, list->names[i]);
    if (!path) return cj_error_no_memory();
    if (fn) fn(user, path);
    cj_error *error = dry_run ? NULL : cj_dir_remove(path);
    cj_free(path);
    if (error) return error;
  }
  if (fn) fn(user, list->path);
  return dry_run ? NULL : cj_dir_remove(list->path);
}

static cj_error *remove_locked(listing *list, bool dry_run,
                               void (*fn)(void *user, const char *path), void *user) {
  int fd = lock_dir(list->path, LOCK_EX);
  int errnum = errno;
  if (fd < 0 && errnum == ENOENT) return NULL;
  if (fd < 0 && errnum != EWOULDBLOCK)
    return cj_error_errno(errnum, list->path, "%s cannot be locked", list->path);
  cj_error *error = list_dir(list);
  if (!error) error = fd < 0 ? in_use(list) : remove_listed(list, dry_run, fn, user);
  if (fd >= 0) close(fd);
  return error;
}

cj_error *cj_state_remove(const char *dir, const char *app_id, bool dry_run,
                          void (*fn)(void *user, const char *path), void *user) {
  char *path = app_path(dir, app_id);
  if (!path) return cj_error_no_memory();
  listing list = {.path = path};
  cj_error *error = remove_locked(&list, dry_run, fn, user);
  for (size_t i = 0; i < list.count; i++)
    cj_free(list.names[i]);
  cj_free(list.names);
  cj_free(path);
  return error;
}
