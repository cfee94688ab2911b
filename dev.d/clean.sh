# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause

# shellcheck source=dev.d/broker.sh
. "$ROOT/dev.d/broker.sh"

cmd_clean() {
  local cluster
  for cluster in "$BROKER_DIR"/*/; do stop_cluster "$cluster"; done
  rm -rf "$BUILD"
}
