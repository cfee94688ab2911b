/* SPDX-License-Identifier: BSD-2-Clause */
/* cojoin, the tool: finds the command and runs it. */
#include "tools/tool.h"

#include <signal.h>
#include <string.h>

static const tool_command *const commands[] = {&tool_demo, &tool_join, &tool_check, &tool_reset,
                                               NULL};

static const char exit_help[] =
    "Exit codes: 0 done; 1 could not run (usage, connection, a failure on the way); 2 the "
    "checklist\n"
    "is broken; 3 (check only) nothing is broken, but something is unverified.\n";

static void print_help(void) {
  fputs("Usage: cojoin COMMAND [OPTIONS]\n"
        "Joins Kafka topics in the application's own process: checks, joins and shows.\n\n"
        "Commands:\n",
        stdout);
  for (const tool_command *const *command = commands; *command; command++)
    printf("  %-7s %s\n", (*command)->name, (*command)->summary);
  fputs("\n`cojoin COMMAND --help` tells more.\n", stdout);
  fputs(exit_help, stdout);
  putchar('\n');
  fputs(tool_common_help, stdout);
}

static tool_exit run_without_command(int argc, char **argv) {
  static const struct option options[] = {TOOL_COMMON_LONG, {0}};
  tool_common common = {.command = ""};
  tool_exit code = TOOL_FAILED;
  int option = getopt_long(argc, argv, "+:hV", options, NULL);
  if (option == 'h') {
    print_help();
    code = TOOL_DONE;
  } else if (option == 'V') {
    tool_common_option(&common, option, argv, "", &code);
  } else if (option == -1) {
    tool_error("a command is needed; try `cojoin --help`");
  } else {
    tool_error("options other than --help and --version come after the command; "
               "try `cojoin --help`");
  }
  tool_common_free(&common);
  return code;
}

static tool_exit run(int argc, char **argv) {
  if (argc < 2 || argv[1][0] == '-') return run_without_command(argc, argv);
  for (const tool_command *const *command = commands; *command; command++)
    if (strcmp(argv[1], (*command)->name) == 0) return (*command)->run(argc - 1, argv + 1);
  if (strcmp(argv[1], "help") == 0) {
    print_help();
    return TOOL_DONE;
  }
  tool_error("there is no command \"%s\"; try `cojoin --help`", argv[1]);
  return TOOL_FAILED;
}

int main(int argc, char **argv) {
  /* A reader that goes away is an error to report, not a reason to die without a word. */
  signal(SIGPIPE, SIG_IGN);
  opterr = 0;
  tool_exit code = run(argc, argv);
  if (!tool_close_stdout() && code == TOOL_DONE) code = TOOL_FAILED;
  return (int)code;
}
