# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause

cmd_fmt() {
  git -C "$ROOT" ls-files -z -- '*.c' '*.h' '*.cpp' '*.hpp' |
    (cd "$ROOT" && xargs -0 clang-format -i)
}
