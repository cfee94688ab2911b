#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The command line's contract where no broker is needed: help, versions, mistakes, exit codes, and the
# demo on the cluster that librdkafka simulates.
set -uo pipefail

tool=${COJOIN_TOOL:?not set: run this test through ./dev test}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_STATE_HOME=$folder/state TMPDIR=$folder TERM=xterm
passed=0 failed=0

# run EXPECTED_CODE ARGUMENTS: output in $out and $err
run() {
  local wanted=$1
  shift
  what="cojoin $*"
  timeout 90 "$tool" "$@" >"$folder/out" 2>"$folder/err" </dev/null
  local code=$?
  out=$(cat "$folder/out") err=$(cat "$folder/err")
  check "exit code" "$wanted" "$code"
  # Neither colour nor any other control byte to what is not a terminal.
  check "control bytes" "" "$(cat "$folder/out" "$folder/err" | tr -d '\n' | grep -aoP '[\x00-\x1f\x7f]')"
}

check() {
  if [ "$2" = "$3" ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s: %s\n  expected: %s\n  got:      %s\n' "$what" "$1" "$2" "$3" >&2
  fi
}

says() { # says WHERE TEXT: the text is in $out or $err
  case ${!1} in
    *"$2"*) passed=$((passed + 1)) ;;
    *)
      failed=$((failed + 1))
      printf 'FAILED: %s: "%s" is not in %s: %s\n' "$what" "$2" "$1" "${!1}" >&2
      ;;
  esac
}

# ---- help and versions ----
run 0 --help
for command in demo join check reset; do says out "$command"; done
run 0 --version
says out "cojoin "
says out "librdkafka "
says out "RocksDB "
for command in demo join check reset; do
  run 0 "$command" --help
  says out "Usage: cojoin $command"
  says out "--brokers"
  check "standard error" "" "$err"
  run 0 "$command" --version
  says out "RocksDB "
  run 1 "$command" --no-such-option
  says err "--no-such-option"
  says err "cojoin $command --help"
  run 1 "$command" -X
  says err "-X"
  run 1 "$command" -F "$folder/missing"
  says err "$folder/missing"
done
for command in demo join reset; do
  run 1 "$command" $'\e[31m'
  says err '\x1B[31m'
done

# ---- mistakes ----
run 1
run 1 nonsense
says err '"nonsense"'
run 1 join --table prices
says err "--stream"
run 1 join --table prices --stream notifications
says err "no brokers"
both=(--table prices --stream notifications -b 127.0.0.1:9)
run 1 join "${both[@]}" --value everything
says err "everything"
run 1 join "${both[@]}" --value table
says err "--to TOPIC"
run 1 join "${both[@]}" --to out --value table -J
run 1 join "${both[@]}" --order backwards
says err "--order"
run 1 join "${both[@]}" --assignment scattered
says err "--assignment"
run 1 join "${both[@]}" --guarantee never
says err "--guarantee"
run 1 join "${both[@]}" --threads none
says err "--threads"
run 1 join "${both[@]}" --partitioner md5
says err "md5"
run 1 join "${both[@]}" -X errors.process=skip
says err "errors.process"
run 1 join --table prices --stream prices -b 127.0.0.1:9
says err "prices"
printf '# fine\nlinger.ms=5\n\nno sense\n' >"$folder/bad.properties"
run 1 join "${both[@]}" -F "$folder/bad.properties"
says err "$folder/bad.properties:4"
printf 'commit.interval.ms=200\nlinger.ms=soon\n' >"$folder/bad.properties"
run 1 join "${both[@]}" -F "$folder/bad.properties"
says err "$folder/bad.properties:2: linger.ms"
run 1 check -b 127.0.0.1:9 alone
run 1 check -b 127.0.0.1:9 twice twice
says err '"twice"'
run 1 check -b 127.0.0.1:9 one two --format xml
says err "xml"
run 1 reset -b 127.0.0.1:9
says err "--app-id"
run 1 reset -b 127.0.0.1:9 --app-id a --to-earliest --to-latest
run 1 reset -b 127.0.0.1:9 --app-id a --to-timestamp yesterday
says err "yesterday"
run 1 reset -b 127.0.0.1:9 --app-id a --stream t --table t

# ---- no broker there ----
run 1 join "${both[@]}" -X check.timeout.ms=1500 --state-dir "$folder/join"
says err "cojoin: broker"
check "standard output" "" "$out"
run 1 check -b 127.0.0.1:9 one two -X check.timeout.ms=1500
says err "cojoin: broker"

# ---- the demo ----
run 0 demo
check "roundrobin" 1 "$(grep -cx 'roundrobin: local 0/30, remote 30/30' "$folder/out")"
check "cojoin" 1 "$(grep -cx 'cojoin: local 30/30, remote 0/30' "$folder/out")"
check "crossings" "tick 3  GOTO 66 is above 65
tick 4  BBCA 9200 is above 9180
tick 5  TLKM 3840 is below 3850
tick 7  BBCA 9125 is below 9130
tick 8  GOTO 63 is below 64" "$(grep '^ *tick' "$folder/out" | sed 's/^ *//')"
check "standard error" "" "$err"
check "what it leaves" "" "$(find "$folder" -name 'cojoin-demo*')"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
