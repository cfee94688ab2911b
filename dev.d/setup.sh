# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# What Debian 12 or 13 lacks, installed; at once when nothing is missing.

# What ./dev demo needs, and with it everybody.
readonly BUILD_PACKAGES=(gcc libc6-dev cmake ninja-build pkgconf librdkafka-dev librocksdb-dev
  libjansson-dev)
# A second compiler with its sanitizers, the test libraries, and what the broker and the system tests run on.
readonly TEST_PACKAGES=(g++ clang libclang-rt-dev binutils libcmocka-dev graphviz kcat procps python3 python3-venv)
readonly LINT_PACKAGES=(clang-format clang-tidy cppcheck shellcheck)

cmd_setup() {
  ensure_build
  ensure_test
  ensure_packages "${LINT_PACKAGES[@]}"
  say "everything is installed"
}

ensure_build() { ensure_packages "${BUILD_PACKAGES[@]}"; }

ensure_test() {
  local packages=("${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}")
  # Any Java from 17 on will do, whoever installed it.
  java_is_enough || packages+=(default-jdk-headless)
  have mvn || packages+=(maven)
  ensure_packages "${packages[@]}"
  java_is_enough || die "Java 17 or newer with its compiler is needed; found: $(java -version 2>&1 | head -n 1)"
}

java_is_enough() {
  local major
  have java && have javac || return 1
  major=$(java -version 2>&1 | sed -n '1s/.*version "\([0-9]*\).*/\1/p')
  [ "${major:-0}" -ge 17 ]
}

ensure_packages() {
  local missing=() as_root=()
  have apt-get || return 0 # not Debian: the build says what it misses
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    have sudo || die "missing packages, and neither root nor sudo to install them: ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  local log
  log=$(mktemp)
  # A list of packages can be caught in the middle of its update: once more, then.
  apt_get update >"$log" 2>&1 || apt_get update >"$log" 2>&1 || show_and_die "$log" "apt-get update failed"
  apt_get install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1 ||
    apt_get install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1 ||
    show_and_die "$log" "apt-get install failed"
  rm -f "$log"
}

# Uses the caller's as_root.
apt_get() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q "$@"; }

show_and_die() {
  tail -n 30 "$1" >&2
  die "$2; the whole output: $1"
}

missing_packages() {
  # shellcheck disable=SC2016 # the fields are dpkg-query's
  comm -23 <(printf '%s\n' "$@" | sort -u) \
    <(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
      sed -n 's/^installed //p' | sort -u)
}
