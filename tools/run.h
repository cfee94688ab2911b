/* SPDX-License-Identifier: BSD-2-Clause */
/* Running an application from the command line: signals, progress, the summary, the exit code. */
#ifndef COJOIN_TOOL_RUN_H
#define COJOIN_TOOL_RUN_H

#include "tools/tool.h"

/* False, reported, if no brokers are configured. */
bool tool_need_brokers(const tool_common *common, const cj_config *config);

/* Takes the plan. Runs the application until it ends, or SIGINT or SIGTERM asks it to; a second
 * signal ends the process at once. A summary goes to standard error at the end, and progress
 * meanwhile if that is a terminal and `progress` is set. */
tool_exit tool_run(cj_plan *plan, const cj_config *config, bool progress);

#endif
