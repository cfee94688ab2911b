#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs a benchmark: cojoin, the bare loop and Kafka Streams on the same topics and the same broker, turn
about, for several rounds.

Figures of a process: CPU seconds and peak memory from wait4, start and end included; records per second
by the clock from the first record processed to the last output acknowledged, as the process tells it.
The broker shares the cores and is counted in nobody's CPU.

Environment: COJOIN_TEST_BROKERS, COJOIN_PROGRAMS (fill, loop and join), COJOIN_KAFKA_JARS.
"""

import argparse
import dataclasses
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

HERE = Path(__file__).resolve().parent
PARTITIONS = 6
COMMIT_MS = 1000
RUN_SECONDS = 900
# What cojoin gives librdkafka beyond its defaults (rdkafka/properties.c) the loop gets too.
LOOP_SETTINGS = ["--commit-ms", str(COMMIT_MS), "--nudge-ms", "20",
                 "-P", "enable.idempotence=true", "-P", "queue.buffering.max.kbytes=65536",
                 "-C", "queued.min.messages=10000", "-C", "queued.max.messages.kbytes=8192",
                 "-C", "fetch.wait.max.ms=100"]


def environment(name):
    value = os.environ.get(name)
    if not value:
        sys.exit(f"{name} is not set: run this through ./dev bench")
    return value


@dataclasses.dataclass
class Result:
    records: int
    wall_s: float
    steady_cpu_s: float
    cpu_s: float
    peak_rss_bytes: int
    library: str

    @property
    def records_per_s(self):
        return self.records / self.wall_s

    @property
    def records_per_cpu_s(self):
        return self.records / self.cpu_s

    @property
    def steady_records_per_cpu_s(self):
        """Without start and end of the process: what a run without end comes to."""
        return self.records / self.steady_cpu_s


class Cluster:
    def __init__(self, brokers):
        self.brokers = brokers
        self.admin = AdminClient({"bootstrap.servers": brokers})

    def create(self, name):
        topic = NewTopic(name, PARTITIONS, -1, config={"retention.ms": "-1"})
        self.admin.create_topics([topic])[name].result(timeout=60)
        deadline = time.monotonic() + 30
        while name not in self.admin.list_topics(timeout=30).topics:
            if time.monotonic() > deadline:
                sys.exit(f"topic {name} does not come up")
            time.sleep(0.05)
        return name

    def delete(self, *names):
        for outcome in self.admin.delete_topics(list(names)).values():
            outcome.exception(timeout=60)

    def count(self, name):
        """How many records the topic holds; nothing has been removed from it."""
        ask = {TopicPartition(name, p): OffsetSpec.latest() for p in range(PARTITIONS)}
        return sum(answer.result(timeout=30).offset
                   for answer in self.admin.list_offsets(ask).values())

    def first_values(self, name, count):
        consumer = Consumer({"bootstrap.servers": self.brokers, "group.id": "bench-look",
                             "enable.auto.commit": False})
        consumer.assign([TopicPartition(name, p, 0) for p in range(PARTITIONS)])
        found = consumer.consume(count, timeout=30)
        consumer.close()
        return [(message.key(), message.value()) for message in found]


def run_measured(command):
    """The process's result; anything but a good end is the end of the benchmark."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE,
                                   stderr=errors)
        watchdog = threading.Timer(RUN_SECONDS, process.kill)
        watchdog.start()
        out = process.stdout.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        watchdog.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            text = errors.read().decode(errors="replace")[-3000:]
            sys.exit(f"exit code {process.returncode}: {' '.join(map(str, command))}\n{text}")
    told = json.loads(out.strip().splitlines()[-1])
    return Result(records=told["records"], wall_s=told["wall_s"],
                  steady_cpu_s=told["steady_cpu_s"], cpu_s=usage.ru_utime + usage.ru_stime,
                  peak_rss_bytes=usage.ru_maxrss * 1024, library=told["library"])


class Join:
    """A stream joined with a table of KEYS rows, all of which were there before the stream."""

    name = "join"
    keys, value_bytes = 100_000, 64
    contenders = [("loop", ""), ("cojoin", "left"), ("kafka-streams", "left"),
                  ("cojoin", "inner"), ("kafka-streams", "inner")]

    def __init__(self, cluster, records, folder):
        self.cluster, self.records, self.folder = cluster, records, folder
        self.programs = Path(environment("COJOIN_PROGRAMS"))
        self.jars = environment("COJOIN_KAFKA_JARS")
        self.run_id = uuid.uuid4().hex[:8]
        self.runs = 0
        self.table = self.stream = None

    def prepare(self):
        self.classes = self.folder / "classes"
        source = HERE / "peers" / "StreamsJoin.java"
        subprocess.run(["javac", "-d", self.classes, "-cp", self.jars, source], check=True)
        self.table = self.cluster.create(f"bench-prices-{self.run_id}")
        self.stream = self.cluster.create(f"bench-events-{self.run_id}")
        subprocess.run(
            [self.programs / "fill", "-b", self.cluster.brokers, "--table", self.table, "--stream",
             self.stream, "--keys", str(self.keys), "--records", str(self.records),
             "--value-bytes", str(self.value_bytes)], check=True)

    def clean(self):
        self.cluster.delete(self.table, self.stream)

    def command(self, system, variant, out, app_id, state):
        brokers = self.cluster.brokers
        if system == "loop":
            return [self.programs / "loop", "-b", brokers, "--in", self.stream, "--out", out,
                    "--group", app_id, "--records", self.records, *LOOP_SETTINGS]
        if system == "cojoin":
            return [self.programs / "join", "-b", brokers, "--table", self.table, "--stream",
                    self.stream, "--out", out, "--app-id", app_id, "--state-dir", state,
                    "--records", self.records, "-X", f"commit.interval.ms={COMMIT_MS}",
                    *(["--left"] if variant == "left" else [])]
        return ["java", "-cp", f"{self.jars}:{self.classes}", "StreamsJoin", brokers, self.table,
                self.stream, out, variant, self.records, app_id, state]

    def run(self, system, variant):
        self.runs += 1
        app_id = f"bench-{system}-{self.runs}-{self.run_id}"
        out = self.cluster.create(f"bench-out-{self.runs}-{self.run_id}")
        state = self.folder / f"state-{self.runs}"
        result = run_measured(self.command(system, variant, out, app_id, state))
        self.check(system, variant, out, result)
        self.cluster.delete(out)
        shutil.rmtree(state, ignore_errors=True)
        return result

    def check(self, system, variant, out, result):
        """A figure counts only if the work was done."""
        written = self.cluster.count(out)
        if result.records != self.records or written != self.records:
            sys.exit(f"{system} {variant}: {result.records} of {self.records} records processed, "
                     f"{written} written")
        if system == "loop":
            return
        half = self.value_bytes // 2
        for key, value in self.cluster.first_values(out, 2000):
            row = b"%010d:" % int(key.decode().removeprefix("key-"))
            if not value[half:].startswith(row):
                sys.exit(f"{system} {variant}: {key} was joined to {value}, expected row {row}")


def spread(values):
    """Median, least and greatest."""
    return statistics.median(values), min(values), max(values)


def versions(results):
    libraries = {system: found[0].library for (system, _), found in results.items()}
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    commit = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"],
                            capture_output=True, text=True).stdout.strip()
    return {"cojoin": commit, "librdkafka": libraries.get("cojoin") or libraries["loop"],
            "kafka-streams": libraries.get("kafka-streams", ""),
            "java": re.search(r'"([^"]+)"', java).group(1), "python": platform.python_version()}


def machine():
    def first(path, pattern):
        found = re.search(pattern, Path(path).read_text())
        return found.group(1).strip() if found else ""
    memory = int(first("/proc/meminfo", r"MemTotal:\s*(\d+)") or 0)
    return {"cpu": first("/proc/cpuinfo", r"model name\s*:\s*(.*)"), "cores": os.cpu_count(),
            "memory_gib": round(memory / 1024 / 1024, 1), "system": platform.platform()}


def table_rows(results):
    rows = []
    for (system, variant), found in results.items():
        row = {"system": system, "variant": variant, "records": found[0].records}
        for name in ("records_per_s", "records_per_cpu_s", "cpu_s", "peak_rss_bytes",
                     "steady_records_per_cpu_s"):
            row[name] = round(statistics.median(getattr(one, name) for one in found), 3)
        rows.append(row)
    return rows


def print_figures(results, rounds):
    print(f"\nmedians of {rounds} rounds (least to greatest)")
    print(f"{'':21}{'records/s by the clock':>32}{'records/CPU s':>32}{'without start':>15}"
          f"{'CPU s':>8}{'peak MB':>9}")
    for (system, variant), found in results.items():
        def cell(name, found=found):
            middle, least, most = spread([getattr(one, name) for one in found])
            return f"{middle:,.0f} ({least:,.0f} to {most:,.0f})"
        steady = statistics.median(one.steady_records_per_cpu_s for one in found)
        cpu = statistics.median(one.cpu_s for one in found)
        peak = statistics.median(one.peak_rss_bytes for one in found) / 1e6
        print(f"{system + ' ' + variant:21}{cell('records_per_s'):>32}"
              f"{cell('records_per_cpu_s'):>32}{steady:>15,.0f}{cpu:>8.2f}{peak:>9.0f}")


def print_ratios(results):
    """Of one round's runs, which stood beside each other in time."""
    print("\nratios within a round: median (least to greatest)")
    for (system, variant), ours in results.items():
        if system != "cojoin":
            continue
        for other in (("kafka-streams", variant), ("loop", "")):
            if other not in results:
                continue
            for name, label in (("records_per_cpu_s", "records per CPU second"),
                                ("steady_records_per_cpu_s", "the same without start and end"),
                                ("records_per_s", "records per second"),
                                ("peak_rss_bytes", "peak memory")):
                middle, least, most = spread([getattr(a, name) / getattr(b, name)
                                              for a, b in zip(ours, results[other])])
                print(f"cojoin {variant:5} / {' '.join(other).strip():21} {label:32}"
                      f"{middle:8.2f} ({least:.2f} to {most:.2f})")


def rotate(items, by):
    by %= len(items)
    return items[by:] + items[:by]


def run_rounds(bench, contenders, rounds):
    results = {contender: [] for contender in contenders}
    load = os.getloadavg()[0]
    print(f"load of the machine before the first run: {load:.1f}"
          + ("; figures by the clock need a quiet machine" if load > 1 else ""), flush=True)
    # The broker's first use of new code and of cold logs is nobody's to pay.
    bench.run(*contenders[0])
    for number in range(rounds):
        for contender in rotate(contenders, number):
            result = bench.run(*contender)
            results[contender].append(result)
            print(f"round {number + 1}: {' '.join(contender):21} {result.records_per_s:>12,.0f}/s "
                  f"{result.records_per_cpu_s:>12,.0f}/CPU s", flush=True)
    return results


BENCHES = {bench.name: bench for bench in (Join,)}


def main():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__.split("\n\n")[0])
    parser.add_argument("name", choices=BENCHES, help="which benchmark")
    parser.add_argument("--json", metavar="FILE", help="write the medians there")
    parser.add_argument("--records", type=int, default=1_000_000, help="default 1,000,000")
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    parser.add_argument("--systems", help="only these, by name, separated by commas")
    options = parser.parse_args()
    if options.records < 1 or options.rounds < 1:
        parser.error("--records and --rounds are at least 1")
    kind = BENCHES[options.name]
    wanted = options.systems.split(",") if options.systems else None
    contenders = [one for one in kind.contenders if not wanted or one[0] in wanted]
    if not contenders:
        parser.error(f"--systems: of {', '.join(sorted({one[0] for one in kind.contenders}))}")

    folder = Path(tempfile.mkdtemp(prefix="cojoin-bench-"))
    bench = kind(Cluster(environment("COJOIN_TEST_BROKERS")), options.records, folder)
    try:
        bench.prepare()
        results = run_rounds(bench, contenders, options.rounds)
        bench.clean()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print_figures(results, options.rounds)
    print_ratios(results)
    report = {"bench": options.name, "machine": machine(), "versions": versions(results),
              "rounds": options.rounds, "rows": table_rows(results)}
    print("\n" + ", ".join(f"{name} {value}" for name, value in report["versions"].items()))
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
