/* SPDX-License-Identifier: BSD-2-Clause */
#include <cojoin/app.h>

#include "state/state.h"

static void tell_nobody(void *user, const char *path) {
  (void)user;
  (void)path;
}

cj_error *cj_app_reset_state(const char *state_dir, const char *application_id, bool dry_run,
                             cj_path_fn *fn, void *user) {
  if (!state_dir || !*state_dir)
    return cj_error_new(CJ_ERR_ARGUMENT, "state_dir", "a state directory is needed");
  /* It becomes a path: one that is empty or leads elsewhere would remove what is not its own. */
  if (!application_id || !*application_id)
    return cj_error_new(CJ_ERR_ARGUMENT, "application_id", "an application id is needed");
  return cj_state_remove(state_dir, application_id, dry_run, fn ? fn : tell_nobody, user);
}
