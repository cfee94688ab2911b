# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# All tests: built by gcc, on a broker of their own; the ones in memory again under clang's
# sanitizers. The last line is the sum of all cases.

# shellcheck source=dev.d/setup.sh
. "$ROOT/dev.d/setup.sh"
# shellcheck source=dev.d/build.sh
. "$ROOT/dev.d/build.sh"
# shellcheck source=dev.d/broker.sh
. "$ROOT/dev.d/broker.sh"

readonly TEST_CLUSTER=test-$$
readonly RESULTS=$BUILD/results

cmd_test() {
  local full=no filter='' failed=0
  while [ $# -gt 0 ]; do
    case $1 in
      --full) full=yes ;;
      -*) die "test: unknown argument '$1'" ;;
      *) [ -z "$filter" ] || die "test: one filter only" && filter=$1 ;;
    esac
    shift
  done
  local select=()
  [ $full = yes ] || select+=(-LE '^full$')
  [ -z "$filter" ] || select+=(-R "$filter")
  rm -rf "$RESULTS"
  mkdir -p "$RESULTS"

  stage "set-up" ensure_test
  stage "Python packages" ensure_python
  stage "build with gcc" build main
  trap 'drop_cluster "$TEST_CLUSTER"' EXIT
  stage "Kafka" start_test_cluster
  stage "tests" run_ctest main main "${select[@]}" || failed=1
  stage "build with clang, address and undefined sanitizers" build asan
  stage "tests, address and undefined sanitizers" run_ctest asan asan -L '^memory$' "${select[@]}" ||
    failed=1
  # The same programs on the real broker are slow there.
  if [ $full = yes ]; then
    stage "tests on Kafka, address and undefined sanitizers" run_ctest asan-broker asan \
      -L '^broker-program$' "${select[@]}" || failed=1
  fi
  stage "build with clang, thread sanitizer" build tsan memory_tests
  stage "tests, thread sanitizer" run_ctest tsan tsan -L '^tsan$' "${select[@]}" || failed=1
  python3 "$ROOT/dev.d/count.py" "$RESULTS"/*.xml || failed=1
  return $failed
}

# stage NAME COMMAND...: runs it and says how long it took.
stage() {
  local name=$1 began=$SECONDS status=0
  shift
  "$@" || status=$?
  echo "== $name: $((SECONDS - began)) s"
  return $status
}

start_test_cluster() {
  cmd_broker start --name "$TEST_CLUSTER" >"$BUILD/broker-start.log" || die "no broker, no tests"
  local address
  address=$(cmd_broker env --name "$TEST_CLUSTER")
  export COJOIN_TEST_BROKERS=${address#*=} COJOIN_KAFKA_JARS="$JARS_DIR/*"
}

# run_ctest RESULT KIND ARGUMENTS...
run_ctest() {
  local result=$1 kind=$2 fixed=()
  shift 2
  # The sanitizers of clang 14 cannot map their shadow when the kernel randomizes addresses widely.
  [ "$kind" = main ] || ! setarch -R true 2>/dev/null || fixed=(setarch -R)
  UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=second_deadlock_stack=1 \
    "${fixed[@]}" ctest --test-dir "$BUILD/$kind" --parallel "$(jobs_count)" --output-on-failure \
    --no-tests=ignore --output-junit "$RESULTS/$result.xml" \
    --test-output-size-passed 10000000 --test-output-size-failed 10000000 "$@"
}
