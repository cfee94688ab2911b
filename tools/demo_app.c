/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/demo.h"

static char *make_state_dir(void) {
  const char *tmp = getenv("TMPDIR");
  char *dir = tool_format("%s/cojoin-demo-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  if (mkdtemp(dir)) return dir;
  tool_error("%s: %s", dir, strerror(errno));
  free(dir);
  return NULL;
}

static bool configure(const demo_app *app, const demo_cluster *cluster, cj_config *config,
                      int threads) {
  char count[16];
  snprintf(count, sizeof count, "%d", threads);
  return tool_set(config, "application.id", app->group, "demo") &&
         tool_set(config, "state.dir", app->state_dir, "demo") &&
         tool_set(config, "threads", count, "demo") && demo_tune_app(cluster, config);
}

/* The simulated cluster lacks what the library would like to look at, and says so at each step:
 * that is no news here. */
void demo_on_log(void *user, cj_log_level level, const char *line) {
  if (level == CJ_LOG_WARN && tool_get_verbosity() < TOOL_VERBOSE) return;
  tool_on_log(user, level, line);
}

bool demo_app_start(demo_app *app, demo_cluster *cluster, cj_plan *plan, const char *name,
                    int threads, const cj_app_options *options) {
  *app = (demo_app){.group = demo_group(cluster, name), .state_dir = make_state_dir()};
  cj_config *config = tool_owned(cj_config_copy(cluster->config));
  cj_error *error = NULL;
  bool ok = app->state_dir && configure(app, cluster, config, threads);
  if (ok) error = cj_app_new(plan, config, options, &app->app);
  if (!ok || error)
    cj_plan_destroy(plan);
  else
    error = cj_app_start(app->app);
  if (error) tool_report_error(error);
  cj_config_destroy(config);
  return ok && !error;
}

bool demo_app_runs(demo_app *app) {
  cj_app_state state = cj_app_get_state(app->app);
  if (state != CJ_APP_STOPPED && state != CJ_APP_FAILED) return true;
  cj_error *error = cj_app_wait(app->app, 0);
  if (error)
    tool_report_error(error);
  else
    tool_error("cojoin stopped before its work was done");
  return false;
}

static bool remove_state(const demo_app *app) {
  cj_error *error = cj_app_reset_state(app->state_dir, app->group, false, NULL, NULL);
  if (error) {
    tool_report_error(error);
    return false;
  }
  if (rmdir(app->state_dir) == 0) return true;
  tool_error("%s: %s", app->state_dir, strerror(errno));
  return false;
}

bool demo_app_stop(demo_app *app) {
  bool ok = true;
  if (app->app) {
    cj_app_stop(app->app);
    bool failed_before = cj_app_get_state(app->app) == CJ_APP_FAILED;
    cj_error *error = cj_app_wait(app->app, DEMO_TIMEOUT_MS);
    ok = !error;
    if (error && !failed_before)
      tool_report_error(error);
    else
      cj_error_destroy(error);
    cj_app_destroy(app->app);
  }
  if (app->state_dir) ok = remove_state(app) && ok;
  free(app->group);
  free(app->state_dir);
  *app = (demo_app){0};
  return ok;
}
