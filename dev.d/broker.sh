# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# A real Kafka on loopback, for tests and benchmarks. Each named cluster has a folder,
# build/broker/NAME, with one folder for each node: node-1/{server.properties,server.log,pid,data}.
# A node runs under timeout(1), so that a forgotten one ends by itself.

readonly BROKER_DIR=$BUILD/broker
readonly JARS_DIR=$BUILD/kafka/jars

cmd_broker() {
  local action=${1:-} name=default count=1 heap='' hours=2 keep=no node=''
  [ $# -gt 0 ] && shift
  while [ $# -gt 0 ]; do
    [ "$1" = --keep ] || [ $# -ge 2 ] || die "broker: $1 needs a value"
    case $1 in
      --name) name=$2 && shift ;;
      --count) count=$2 && shift ;;
      --heap) heap=$2 && shift ;;
      --hours) hours=$2 && shift ;;
      --node) node=$2 && shift ;;
      --keep) keep=yes ;;
      *) die "broker: unknown argument '$1'" ;;
    esac
    shift
  done
  [[ $name =~ ^[A-Za-z0-9_-]+$ ]] || die "--name: letters, digits, - and _ only"
  is_between "$count" 1 9 || die "--count: 1 to 9"
  [ -z "$heap" ] || is_between "$heap" 128 16384 || die "--heap: 128 to 16384 megabytes"
  is_between "$hours" 1 48 || die "--hours: 1 to 48"
  local dir=$BROKER_DIR/$name
  [ -z "$node" ] || [ -d "$dir/node-$node" ] || die "cluster '$name' has no node '$node'"
  case $action in
    start)
      resolve_jars || exit
      mkdir -p "$dir"
      (
        flock 9
        if [ -n "$node" ]; then
          start_node "$dir/node-$node"
          wait_ready "$dir" || die "node $node does not answer: see $dir/node-$node/server.log"
        else
          start_cluster
        fi
      ) 9>"$BROKER_DIR/$name.lock" || exit
      print_status "$dir"
      ;;
    stop)
      if [ -n "$node" ]; then stop_node "$dir/node-$node"; else stop_cluster "$dir"; fi
      ;;
    status) print_status "$dir" ;;
    env)
      any_alive "$dir" || die "cluster '$name' is not running: ./dev broker start --name $name"
      echo "COJOIN_TEST_BROKERS=$(bootstrap "$dir")"
      ;;
    jars)
      resolve_jars || exit
      echo "$JARS_DIR/*"
      ;;
    *) die "broker: start, stop, status, env or jars" ;;
  esac
}

# ---- the jars ----

# Copies Kafka and all it needs from Maven's repository, once for each content of the pom.
resolve_jars() {
  local want
  want=$(sha256sum "$ROOT/broker/pom.xml" | cut -d' ' -f1)
  [ "$(cat "$JARS_DIR/.pom" 2>/dev/null)" = "$want" ] && return
  have java || die "java is missing: ./dev setup"
  have mvn || die "mvn is missing: ./dev setup"
  mkdir -p "$BUILD/kafka"
  (
    flock 9
    [ "$(cat "$JARS_DIR/.pom" 2>/dev/null)" = "$want" ] && exit
    say "fetching Kafka's jars by Maven"
    rm -rf "$JARS_DIR"
    local try
    for try in 1 2 3; do
      if mvn -B -q -f "$ROOT/broker/pom.xml" dependency:copy-dependencies \
        -DincludeScope=runtime "-DoutputDirectory=$JARS_DIR" >"$BUILD/kafka/mvn.log" 2>&1; then
        echo "$want" >"$JARS_DIR/.pom"
        exit
      fi
      say "try $try failed"
    done
    tail -n 30 "$BUILD/kafka/mvn.log" >&2
    die "Maven could not resolve broker/pom.xml"
  ) 9>"$BUILD/kafka/lock"
}

kafka_java() { # MAIN-CLASS ARGUMENTS, with JVM options from the caller's JVM_OPTIONS
  java "${JVM_OPTIONS[@]}" "-Dlog4j2.configurationFile=$ROOT/broker/log4j2.properties" \
    -cp "$JARS_DIR/*" "$@"
}

# ---- processes ----

# A process is known by its pid and its start time: a reused pid is not ours.
process_start() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

record_pid() { echo "$2 $(process_start "$2")" >"$1"; }

# The pid in a file, if that very process is alive.
live_pid() {
  local pid start
  read -r pid start 2>/dev/null <"$1" || return 1
  [ -n "$start" ] && [ "$(process_start "$pid")" = "$start" ] && echo "$pid"
}

nodes_of() {
  local node
  for node in "$1"/node-*; do
    [ -d "$node" ] && echo "$node"
  done
  return 0
}

all_alive() {
  local node found=no
  for node in $(nodes_of "$1"); do
    live_pid "$node/pid" >/dev/null || return 1
    found=yes
  done
  [ $found = yes ]
}

any_alive() {
  local node
  for node in $(nodes_of "$1"); do
    live_pid "$node/pid" >/dev/null && return
  done
  return 1
}

node_port() { sed -n 's/^advertised.listeners=.*://p' "$1/server.properties"; }

bootstrap() {
  local node list=''
  for node in $(nodes_of "$1"); do
    list+=${list:+,}127.0.0.1:$(node_port "$node")
  done
  echo "$list"
}

# Ports that are free now, below the range from which the system takes them for clients.
free_ports() {
  python3 - "$1" <<'END'
import random, socket, sys
ports = []
for port in random.sample(range(20000, 32000), 2000):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            continue
    ports.append(str(port))
    if len(ports) == int(sys.argv[1]):
        break
print(*ports)
END
}

# ---- a cluster ----

# Uses start's variables: name count heap hours keep dir.
start_cluster() {
  if all_alive "$dir"; then
    say "cluster '$name' runs already"
    return
  fi
  stop_cluster "$dir"
  local node try
  if [ "$keep" = yes ] && [ -n "$(nodes_of "$dir")" ]; then
    for node in $(nodes_of "$dir"); do start_node "$node"; done
    wait_ready "$dir" || die "cluster '$name' does not answer: see $dir/node-*/server.log"
    return
  fi
  # A port may be taken between the probe and the bind: then everything is tried anew.
  for try in 1 2 3; do
    make_cluster
    for node in $(nodes_of "$dir"); do start_node "$node"; done
    wait_ready "$dir" && return
    say "cluster '$name' did not come up, try $try"
    stop_cluster "$dir"
  done
  tail -n 20 "$dir"/node-*/server.log >&2
  die "cluster '$name' does not come up: see $dir/node-*/server.log"
}

make_cluster() {
  rm -rf "$dir"
  local ports i voters='' replicas=$((count < 3 ? count : 3)) id
  read -r -a ports <<<"$(free_ports $((2 * count)))"
  [ ${#ports[@]} -eq $((2 * count)) ] || die "no free ports on 127.0.0.1"
  for ((i = 1; i <= count; i++)); do
    voters+=${voters:+,}$i@127.0.0.1:${ports[2 * i - 1]}
  done
  id=$(JVM_OPTIONS=(-Xmx64m) && kafka_java kafka.tools.StorageTool random-uuid)
  for ((i = 1; i <= count; i++)); do
    local node=$dir/node-$i
    mkdir -p "$node"
    sed -e "s|@NODE@|$i|; s|@VOTERS@|$voters|; s|@DATA@|$node/data|" \
      -e "s|@PORT@|${ports[2 * i - 2]}|; s|@CONTROLLER_PORT@|${ports[2 * i - 1]}|" \
      -e "s|@REPLICAS@|$replicas|; s|@MIN_ISR@|$((replicas > 1 ? 2 : 1))|" \
      "$ROOT/broker/server.properties.in" >"$node/server.properties"
    echo "${heap:-$((count == 1 ? 512 : 384))}" >"$node/heap"
    (JVM_OPTIONS=(-Xmx64m) && kafka_java kafka.tools.StorageTool format -t "$id" \
      -c "$node/server.properties") >"$node/format.log" 2>&1 ||
      die "cannot format $node: $(tail -n 3 "$node/format.log")"
  done
}

start_node() {
  local node=$1 options
  live_pid "$node/pid" >/dev/null && return
  options=("-Xmx$(cat "$node/heap")m" -Xms64m -Djava.awt.headless=true)
  # 9 is the lock, which must not live on in the server.
  setsid timeout --signal=TERM --kill-after=30 "${hours}h" \
    java "${options[@]}" "-Dlog4j2.configurationFile=$ROOT/broker/log4j2.properties" \
    -cp "$JARS_DIR/*" kafka.Kafka "$node/server.properties" \
    >>"$node/server.log" 2>&1 </dev/null 9>&- &
  local watchdog=$! child='' tries=0
  while [ -z "$child" ] && [ $((tries++)) -lt 100 ]; do
    child=$(cat "/proc/$watchdog/task/$watchdog/children" 2>/dev/null || true)
    sleep 0.05
  done
  [ -n "${child// /}" ] || die "cannot start java: see $node/server.log"
  record_pid "$node/pid" "${child%% *}"
}

# Until each living node answers and knows all the others.
wait_ready() {
  local dir=$1 node deadline=$((SECONDS + 90)) want=0 seen
  for node in $(nodes_of "$dir"); do
    live_pid "$node/pid" >/dev/null && want=$((want + 1))
  done
  for node in $(nodes_of "$dir"); do
    while live_pid "$node/pid" >/dev/null; do
      seen=$(kcat -L -m 2 -b "127.0.0.1:$(node_port "$node")" 2>/dev/null |
        grep -c '^  broker [0-9]') || true
      [ "$seen" -ge "$want" ] && continue 2
      [ $SECONDS -lt $deadline ] || return 1
      sleep 0.2
    done
    return 1
  done
}

stop_node() {
  local pid tries=0
  pid=$(live_pid "$1/pid") || return 0
  kill -TERM "$pid" 2>/dev/null || return 0
  kill -CONT "$pid" 2>/dev/null || true # a stopped process would not see the other signal
  while live_pid "$1/pid" >/dev/null; do
    [ $((tries++)) -lt 150 ] || kill -KILL "$pid" 2>/dev/null || true
    sleep 0.1
  done
}

stop_cluster() {
  local node
  # All at once: a lone controller waits for a quorum that will not come back.
  for node in $(nodes_of "$1"); do stop_node "$node" & done
  wait
}

# Nothing of it is left.
drop_cluster() {
  stop_cluster "$BROKER_DIR/$1"
  rm -rf "${BROKER_DIR:?}/$1" "$BROKER_DIR/$1.lock"
}

print_status() {
  local node pid state down=0
  [ -n "$(nodes_of "$1")" ] || {
    echo "no cluster '$(basename "$1")'"
    return 1
  }
  for node in $(nodes_of "$1"); do
    if pid=$(live_pid "$node/pid"); then state="up, pid $pid"; else state=down && down=1; fi
    echo "$(basename "$1") $(basename "$node") 127.0.0.1:$(node_port "$node") $state"
  done
  return $down
}
