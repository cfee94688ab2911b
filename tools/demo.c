/* SPDX-License-Identifier: BSD-2-Clause */
/* cojoin demo: co-location with plain clients and with cojoin side by side, then a price-alert
 * join. */
#include "tools/demo.h"

#include <stdlib.h>

static const char help[] =
    "Usage: cojoin demo [-b BROKERS [--prefix TEXT] [--keep]]\n"
    "1. Two topics of 6 partitions, 4 members in one group, 10 symbols, 3 notifications a symbol:\n"
    "   how many notifications arrive at the member that has the symbol's price? With plain\n"
    "   roundrobin clients, and with cojoin.\n"
    "2. Price alerts joined to the latest price; crossings are printed as they happen.\n"
    "Without brokers it runs on the cluster that librdkafka simulates inside this process. On "
    "real\n"
    "ones it makes its topics and groups, and removes them at the end.\n\n"
    "      --prefix TEXT            put before the topics' names\n"
    "      --keep                   leave the topics and groups on the brokers\n\n"
    "Exit code 0 only if the counts are those that the two assignments must give: roundrobin 0 of\n"
    "30 local, cojoin 30 of 30.\n";

enum { OPTION_PREFIX = TOOL_OPTION_OWN, OPTION_KEEP };

static const struct option options[] = {
    {"prefix", required_argument, NULL, OPTION_PREFIX},
    {"keep", no_argument, NULL, OPTION_KEEP},
    TOOL_COMMON_LONG,
    {0},
};

static void print_tally(const char *name, int local) {
  printf("%s: local %d/%d, remote %d/%d\n\n", name, local, DEMO_LOOKUPS, DEMO_LOOKUPS - local,
         DEMO_LOOKUPS);
  fflush(stdout);
}

static bool run_experiment(demo_cluster *cluster, const demo_topics *topics, int *plain,
                           int *cojoin) {
  printf(
      "1. Who has the price when the notification arrives?\n"
      "   2 topics with %d partitions, %d members in one group, %d symbols, %d notifications.\n\n",
      DEMO_PARTITIONS, DEMO_MEMBERS, DEMO_SYMBOLS, DEMO_LOOKUPS);
  printf("plain clients, partition.assignment.strategy=roundrobin over both topics\n");
  fflush(stdout);
  if (!demo_run_plain(cluster, topics, plain)) return false;
  print_tally("roundrobin", *plain);
  printf("cojoin: partition p of both topics is one task\n");
  fflush(stdout);
  if (!demo_run_cojoin(cluster, topics, cojoin)) return false;
  print_tally("cojoin", *cojoin);
  return true;
}

static tool_exit run_parts(demo_cluster *cluster) {
  demo_topics topics = {.updates = demo_topic(cluster, "market-updates")};
  if (topics.updates) topics.notifications = demo_topic(cluster, "notifications");
  int plain = -1, cojoin = -1;
  bool ok = topics.notifications && run_experiment(cluster, &topics, &plain, &cojoin);
  free(topics.updates);
  free(topics.notifications);
  if (!ok || !demo_run_alerts(cluster)) return TOOL_FAILED;
  if (plain == 0 && cojoin == DEMO_LOOKUPS) return TOOL_DONE;
  tool_error("the counts are not those that the assignments must give: roundrobin 0 of %d local, "
             "cojoin %d of %d",
             DEMO_LOOKUPS, DEMO_LOOKUPS, DEMO_LOOKUPS);
  return TOOL_FAILED;
}

static tool_exit run_demo(int argc, char **argv) {
  tool_common common = {.command = "demo"};
  demo_cluster cluster = {.common = &common, .prefix = ""};
  tool_exit code = TOOL_FAILED;
  bool ok = true;
  int option;
  while (ok && (option = getopt_long(argc, argv, TOOL_COMMON_SHORT, options, NULL)) != -1) {
    tool_option_result result = tool_common_option(&common, option, argv, help, &code);
    ok = result != TOOL_OPTION_EXIT;
    if (option == OPTION_PREFIX) cluster.prefix = optarg;
    if (option == OPTION_KEEP) cluster.keep = true;
  }
  if (ok && optind < argc) {
    tool_usage(&common, "\"%s\" is not expected", argv[optind]);
    ok = false;
  }
  cluster.config = tool_owned(cj_config_new());
  if (ok && tool_configure(&common, cluster.config) && demo_open(&cluster)) {
    demo_catch_signals();
    code = run_parts(&cluster);
    demo_close(&cluster);
  }
  cj_config_destroy(cluster.config);
  tool_common_free(&common);
  return code;
}

const tool_command tool_demo = {
    .name = "demo",
    .summary = "see co-location and a join at work, without a broker if need be",
    .run = run_demo,
};
