# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# From a bare machine to the demo's output.

# shellcheck source=dev.d/setup.sh
. "$ROOT/dev.d/setup.sh"
# shellcheck source=dev.d/build.sh
. "$ROOT/dev.d/build.sh"

cmd_demo() {
  ensure_build
  [ -x "$BUILD/demo/cojoin" ] || say "building; about a minute"
  build demo cojoin
  "$BUILD/demo/cojoin" demo "$@"
}
