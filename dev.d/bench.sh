# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# Runs a benchmark on a broker of its own; benchmarks/run.py knows which there are.

# shellcheck source=dev.d/setup.sh
. "$ROOT/dev.d/setup.sh"
# shellcheck source=dev.d/build.sh
. "$ROOT/dev.d/build.sh"
# shellcheck source=dev.d/broker.sh
. "$ROOT/dev.d/broker.sh"

readonly BENCH_CLUSTER=bench-$$

cmd_bench() {
  ensure_test
  ensure_python
  build main programs cojoin
  trap 'drop_cluster "$BENCH_CLUSTER"' EXIT
  cmd_broker start --name "$BENCH_CLUSTER" --heap 1024 >"$BUILD/broker-start.log"
  local address
  address=$(cmd_broker env --name "$BENCH_CLUSTER")
  COJOIN_TEST_BROKERS=${address#*=} COJOIN_KAFKA_JARS="$JARS_DIR/*" COJOIN_PROGRAMS=$BUILD/main/programs \
    COJOIN_TOOL=$BUILD/main/cojoin "$BUILD/venv/bin/python3" "$ROOT/benchmarks/run.py" "$@"
}
