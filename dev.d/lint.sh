# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# What a reviewer should not have to say.

# shellcheck source=dev.d/setup.sh
. "$ROOT/dev.d/setup.sh"
# shellcheck source=dev.d/build.sh
. "$ROOT/dev.d/build.sh"

cmd_lint() {
  ensure_test
  ensure_packages "${LINT_PACKAGES[@]}"
  cd "$ROOT" || exit
  local status=0 step
  for step in rules format shell cppcheck tidy; do
    if "lint_$step"; then echo "== $step: good"; else echo "== $step: see above" && status=1; fi
  done
  return $status
}

lint_rules() { python3 tests/tidy/check_tidy.py; }

lint_format() {
  git ls-files -z -- '*.c' '*.h' '*.cpp' '*.hpp' | xargs -0 clang-format --dry-run -Werror
}

lint_shell() { git ls-files -z -- dev .ci/run '*.sh' | xargs -0 shellcheck -x; }

lint_cppcheck() {
  # The two suppressed ones take a pointer handed to a callback, or a test before a noreturn call, for
  # what they are not.
  cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c11 --language=c -j "$(jobs_count)" \
    --enable=warning,performance,portability --suppress=missingIncludeSystem \
    --suppress=returnDanglingLifetime --suppress=nullPointerRedundantCheck -D_GNU_SOURCE \
    -I include -I . base state operators runtime rdkafka testing tools
}

lint_tidy() {
  build main
  git ls-files -- 'base/*.c' 'state/*.c' 'operators/*.c' 'runtime/*.c' 'rdkafka/*.c' 'testing/*.c' \
    'tools/*.c' | xargs -P "$(jobs_count)" -n 8 clang-tidy --quiet -p "$BUILD/main" 2>/dev/null
}
