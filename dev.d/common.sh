# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# What several commands share.

die() {
  echo "dev: $*" >&2
  exit 1
}

say() { echo "dev: $*" >&2; }

have() { command -v "$1" >/dev/null 2>&1; }

jobs_count() { echo "${JOBS:-$(nproc)}"; }

is_between() { [[ $1 =~ ^[0-9]{1,9}$ ]] && [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]; }
