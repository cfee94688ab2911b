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

# The value of an option that needs one: option_value --count "$@" after the option was seen.
option_value() {
  [ $# -ge 3 ] || die "$1 needs a value"
  echo "$3"
}

is_number() { [[ $1 =~ ^[0-9]+$ ]]; }
