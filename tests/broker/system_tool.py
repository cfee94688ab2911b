#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The contract of `cojoin join`, `check` and `reset` on a real broker: what comes out, to the byte,
and the exit codes.

ctest: timeout=400
"""

import base64
import json
import os
import signal
import subprocess

from confluent_kafka import ConsumerGroupState, Producer
from confluent_kafka.admin import NewTopic

import harness

PARTITIONS = 2
START = 1_700_000_000_000
NOT_TEXT = b"\xff\x00\xfe"

# (key, value, timestamp, headers). The table's rows come first in time, but for the last.
ROWS = [
    (b"BBCA", b"9100", 0, None),
    (b"TLKM", b"3890", 0, None),
    (b"TLKM", None, 5, None),
    (b"ICBP", NOT_TEXT, 0, None),
    (None, b"no key", 1, None),
    (b"BBCA", b"9200", 1000, None),
]
STREAM = [
    (b"BBCA", b"n1", 10, [("trace", b"7"), ("trace", None), ("bytes", NOT_TEXT)]),
    (b"TLKM", b"n2", 11, None),           # its row was deleted: missed
    (b"ICBP", b"a\tb\nc\\d\r\x1b[31m\x7f", 12, None),
    (b"BBCA", b"", 13, None),             # zero bytes is a value
    (b"BBCA", None, 14, None),            # null is not: dropped
    (None, b"n3", 15, None),              # null key
    (b"\xc3\x28", b"n4", 16, None),       # a key that is not text, without a row
    (b"BBCA", b"n5", 1000, None),         # equal timestamps: the table goes first
]


def produce(test, topic, records):
    problems = []
    producer = Producer({"bootstrap.servers": test.brokers, "partitioner": "murmur2_random"})
    for key, value, at, headers in records:
        producer.produce(topic, key=key, value=value, timestamp=START + at, headers=headers or [],
                         on_delivery=lambda error, _: error and problems.append(error))
    producer.flush(30)
    if problems:
        raise harness.Stop(f"{topic}: {problems[0]}")


def tool(test, *arguments, seconds=60, **options):
    return harness.run([test.tool, arguments[0], "-b", test.brokers, *arguments[1:]], seconds,
                       **options)


def join(test, topics, app, *options):
    table, stream = topics
    return tool(test, "join", "--table", table, "--stream", stream, "--app-id",
                f"{app}-{test.run_id}", "--state-dir", test.folder / "state", *options)


def part(data):
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def expected(left):
    """{offset-free identity: (key, stream, table, timestamp, headers)} of the outputs."""
    rows = {10: b"9100", 12: NOT_TEXT, 13: b"9100", 1000: b"9200"}
    for key, value, at, headers in STREAM:
        if value is None or (at not in rows and not left):
            continue
        yield key, value, rows.get(at), START + at, headers or []


def by_time(outputs):
    return sorted(outputs, key=lambda one: one["timestamp"])


# ---- cojoin join ----
def json_lines(test, topics):
    where = {m.timestamp()[1]: (m.partition(), m.offset()) for m in test.records(topics[1])}
    for left in (False, True):
        what = "join -J --left" if left else "join -J"
        code, out, err = join(test, topics, f"json-{left}", "-J", "--exit-at-end",
                              *(["--left"] if left else []))
        test.check(f"{what}: exit code", 0, code)
        wanted = [{"topic": topics[1], "partition": where[at][0], "offset": where[at][1],
                   "timestamp": at, "key": part(key), "stream": part(value), "table": part(row),
                   "headers": [[name, part(data)] for name, data in headers]}
                  for key, value, row, at, headers in expected(left)]
        lines = out.splitlines()
        got = by_time([json.loads(line) for line in lines])
        test.check(f"{what}: the objects", by_time(wanted), got)
        test.check(f"{what}: the members' order", list(wanted[0]), list(got[0]))
        test.check(f"{what}: control bytes", [], [c for c in out.replace("\n", "")
                                                  if c < " " or "\x7f" <= c < "\xa0"])
        summary = [line for line in err.splitlines() if ": " in line]
        missed, dropped = (3, {}) if left else (2, {"null-key": 1})
        check_summary(test, what, summary, 4, missed, {"null-value": 1} | dropped)


def check_summary(test, what, lines, joined, missed, dropped):
    """The table's record without a key is dropped in any case."""
    dropped = dict(dropped)
    dropped["null-key"] = dropped.get("null-key", 0) + 1
    counts = {}
    for line in lines:
        name, _, value = line.strip().partition(": ")
        if value.split(" ")[0].isdigit():
            counts[name] = int(value.split(" ")[0])
    test.check(f"{what}: summary", {"records in": len(ROWS) + len(STREAM), "joined": joined,
                                    "missed": missed, "dropped": sum(dropped.values()), **dropped},
               counts)


def tab_separated(test, topics):
    where = {m.timestamp()[1]: (m.partition(), m.offset()) for m in test.records(topics[1])}
    code, out, err = join(test, topics, "tsv", "--left", "--exit-at-end", "-q")
    test.check("join: exit code", 0, code)
    test.check("join -q: standard error", "", err)
    escaped = {b"a\tb\nc\\d\r\x1b[31m\x7f": "a\\tb\\nc\\\\d\\r\\x1B[31m\\x7F",
               NOT_TEXT: "\\xFF\\x00\\xFE", None: "\\N", b"\xc3\x28": "\\xC3("}
    wanted = []
    for key, value, row, at, _ in expected(True):
        fields = [topics[1], *where[at], at]
        fields += [escaped[d] if d in escaped else d.decode() for d in (key, value, row)]
        wanted.append("\t".join(str(field) for field in fields))
    test.check("join: the lines", sorted(wanted), sorted(out.splitlines()))


def to_topics(test, topics):
    for kind in ("json", "stream", "table"):
        to = test.topic(f"out-{kind}", PARTITIONS + 1)
        code, out, _ = join(test, topics, f"to-{kind}", "--to", to, "--value", kind, "--left",
                            "--exit-at-end")
        test.check(f"join --value {kind}: exit code", 0, code)
        test.check(f"join --value {kind}: standard output", "", out)
        got = sorted(((m.key(), m.value() if kind != "json" else json.loads(m.value())["stream"],
                       m.timestamp()[1], m.headers() or []) for m in test.records(to)),
                     key=lambda one: one[2])
        wanted = [(key, {"json": part(value), "stream": value, "table": row}[kind], at, headers)
                  for key, value, row, at, headers in expected(True)]
        test.check(f"join --value {kind}: the records", sorted(wanted, key=lambda one: one[2]), got)


def reader_gone(test, topics):
    """Nothing is committed past a line that nobody has."""
    table, stream = topics
    app = f"gone-{test.run_id}"
    child = harness.start(
        [test.tool, "join", "-b", test.brokers, "--table", table, "--stream", stream, "--app-id",
         app, "--state-dir", test.folder / "state"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True)
    child.stdout.close()
    err = child.stderr.read()
    test.check("join without a reader: exit code", 1, child.wait(60))
    test.check_that("join without a reader: the message", "its reader has gone" in err, err)
    first = min((m.offset(), m.partition()) for m in test.records(stream)
                if m.timestamp()[1] == START + 10)
    at = test.committed(app).get((stream, first[1]), 0)
    test.check_that("join without a reader: committed", at <= first[0], at)


def signals(test, topics):
    table, stream = topics
    command = [test.tool, "join", "-b", test.brokers, "--table", table, "--stream", stream, "-J",
               "--app-id", f"signal-{test.run_id}", "--state-dir", test.folder / "state"]
    child = harness.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(4):
        child.stdout.readline()
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=60)
    test.check("SIGTERM: exit code", 0, child.returncode)
    test.check_that("SIGTERM: the summary", "joined: 4" in err, err)
    code, out, _ = harness.run(command + ["--exit-at-end"], 60)
    test.check("after SIGTERM: what is left to join", (0, ""), (code, out))


# ---- cojoin check ----
def points(test, *arguments):
    code, out, err = tool(test, "check", "--format", "json", *arguments)
    try:
        return code, json.loads(out)
    except ValueError:
        raise harness.Stop(f"check {arguments}: not JSON: {out!r} {err}") from None


def check(test, topics):
    other = test.topic("six", 6)
    before = set(test.admin.list_topics(timeout=30).topics)
    home = test.folder / "home"
    home.mkdir()
    os.environ["HOME"] = str(home)
    os.environ.pop("XDG_STATE_HOME", None)
    table, stream = topics
    group = f"check-{test.run_id}"

    code, report = points(test, "--table", table, "--stream", stream, "--group", group)
    test.check("check: exit code", 3, code)
    test.check("check: members", ["verdict", "points"], list(report))
    test.check("check: members of a point", [["point", "name", "verdict", "evidence", "remedy"]] * 4,
               [list(point) for point in report["points"]])
    test.check("check: points", [1, 2, 3, 4], [point["point"] for point in report["points"]])
    test.check("check: verdicts", ("unverified", ["holds", "unverified", "unverified", "holds"]),
               (report["verdict"], [point["verdict"] for point in report["points"]]))

    code, report = points(test, stream, table, other)
    test.check("check, unequal counts: exit code", 2, code)
    test.check("check, unequal counts: verdicts", ("broken", "broken"),
               (report["verdict"], report["points"][0]["verdict"]))
    evidence = " ".join(report["points"][0]["evidence"])
    test.check_that("check, unequal counts: evidence", all(t in evidence for t in (stream, other)),
                    evidence)
    test.check_that("check, unequal counts: remedy", report["points"][0]["remedy"] != "", report)

    code, report = points(test, stream, table + "x")
    test.check("check, no such topic: exit code", 2, code)
    evidence = " ".join(report["points"][0]["evidence"])
    test.check_that("check, no such topic: evidence", table + "x" in evidence, evidence)

    code, out, _ = tool(test, "check", stream, table)
    test.check("check as text: exit code", 3, code)
    test.check_that("check as text: the last line", out.endswith("checklist: unverified\n"), out)
    test.check_that("check as text: no control bytes", "\x1b" not in out, out)

    code, out, err = harness.run([test.tool, "check", "-b", "127.0.0.1:9", stream, table, "-X",
                                  "check.timeout.ms=2000"], 60)
    test.check("check without a broker: exit code", (1, ""), (code, out))
    test.check_that("check without a broker: the error", "cojoin: broker" in err, err)

    described = test.admin.describe_consumer_groups([group])[group].result(timeout=30)
    test.check("check: its group", ConsumerGroupState.DEAD, described.state)
    test.check("check: its state", [], list(home.iterdir()))
    test.check("check: topics made", set(), set(test.admin.list_topics(timeout=30).topics) - before)


# ---- cojoin reset ----
def reset(test, topics):
    table, stream = topics
    app = f"reset-{test.run_id}"
    state = test.folder / "state"

    def run(*options):
        code, out, err = join(test, topics, "reset", "-J", "--exit-at-end", *options)
        if code:
            raise harness.Stop(err)
        return sorted(json.loads(line)["timestamp"] - START for line in out.splitlines())

    def put_back(*options):
        code, out, err = tool(test, "reset", "--app-id", app, "--state-dir", state, *options)
        test.check(f"reset {options}: exit code", 0, code)
        return out.splitlines() if code == 0 else err

    everything = [10, 12, 13, 1000]
    test.check("before the reset", everything, run())
    test.check("without a reset", [], run())
    committed = test.committed(app)
    test.check_that("the state exists", (state / app).is_dir(), list(state.iterdir()))
    paths = sorted(str(path) for path in (state / app).rglob("*"))

    planned = put_back("--dry-run")
    test.check_that("dry run: only plans", planned and all(l.startswith("would ") for l in planned),
                    planned)
    test.check_that("dry run: the state", any(f"would remove {state / app}" in l for l in planned),
                    planned)
    test.check("dry run: the group's offsets", committed, test.committed(app))
    test.check("dry run: the files", paths, sorted(str(p) for p in (state / app).rglob("*")))

    done = put_back()
    test.check("what was planned is done", len(planned), len(done))
    test.check("offsets after the reset", {tp: 0 for tp in committed}, test.committed(app))
    test.check("the state after the reset", False, (state / app).exists())
    test.check("after the reset", everything, run())

    put_back("--to-latest")
    test.check("after a reset to the end", [], run())
    put_back("--stream", stream, "--to-timestamp", str(START + 13), "--table", table)
    test.check_that("a table's offsets are deleted",
                    not any(topic == table for topic, _ in test.committed(app)), test.committed(app))
    test.check("after a reset to a time", [13, 1000], run())
    put_back("--stream", stream, "--to-timestamp", "2024-01-01T00:00:00Z")
    test.check("after a reset to a time past the last record", [], run())

    code, _, err = tool(test, "reset", "--app-id", app, "--state-dir", state, "--topic", "none-such")
    test.check("reset of a topic that is not: exit code", 1, code)
    test.check_that("reset of a topic that is not: named", "none-such" in err, err)
    running(test, topics, app, state)


def running(test, topics, app, state):
    """A running application is not reset, and is named."""
    table, stream = topics
    before = test.committed(app)
    child = harness.start([test.tool, "join", "-b", test.brokers, "--table", table, "--stream",
                           stream, "--app-id", app, "--state-dir", state, "-X", "client.id=busy"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def members():
        described = test.admin.describe_consumer_groups([app])[app].result(timeout=30)
        return described.members

    harness.wait_for("the member", 60, members)
    code, out, err = tool(test, "reset", "--app-id", app, "--state-dir", state)
    test.check("reset while running: exit code", (1, ""), (code, out))
    test.check_that("reset while running: names the member", "busy" in err, err)
    child.send_signal(signal.SIGSTOP)
    child.kill()
    child.wait()
    harness.wait_for("the dead member's session to end", 90, lambda: not members(), every=0.5)
    test.check("reset while running: the offsets", before, test.committed(app))
    code, _, _ = tool(test, "reset", "--app-id", app, "--state-dir", state)
    test.check("reset after it was killed: exit code", 0, code)


# ---- cojoin demo ----
def demo(test):
    """On brokers that are left as they were."""
    prefix = f"demo-{test.run_id}-"

    def groups():
        return {g.group_id for g in test.admin.list_consumer_groups().result(timeout=30).valid
                if g.group_id.startswith("cojoin-demo-")}

    before = groups()
    code, out, err = tool(test, "demo", "--prefix", prefix)
    test.check("demo: exit code", (0, ""), (code, err))
    for line in ("roundrobin: local 0/30, remote 30/30", "cojoin: local 30/30, remote 0/30"):
        test.check(f"demo: {line}", 1, out.splitlines().count(line))
    test.check("demo: crossings", 5, sum(" tick " in line for line in out.splitlines()))

    def left():
        return [t for t in test.admin.list_topics(timeout=30).topics if t.startswith(prefix)]

    # A broker goes on listing a deleted topic until the controller's word has reached it, and does
    # not know a new one before.
    harness.wait_for("the demo's topics to go", 30, lambda: not left(), every=0.2)
    test.check("demo: topics that it leaves", [], left())
    test.check("demo: groups that it leaves", set(), groups() - before)

    taken = f"{prefix}market-updates"
    test.admin.create_topics([NewTopic(taken, 3, -1)])[taken].result(timeout=30)
    test.topics.append(taken)
    harness.wait_for(f"topic {taken}", 30, lambda: test.partitions(taken) == 3, every=0.2)
    code, _, err = tool(test, "demo", "--prefix", prefix)
    test.check("demo, a topic of another count: exit code", 1, code)
    test.check_that("demo, a topic of another count: named",
                    all(part in err for part in (taken, "3 partitions", "--prefix")), err)
    test.check("demo, a topic of another count: is left", 3, test.partitions(taken))


def main():
    with harness.Test("tool", 380) as test:
        topics = test.topic("prices", PARTITIONS), test.topic("notifications", PARTITIONS)
        produce(test, topics[0], ROWS)
        produce(test, topics[1], STREAM)
        json_lines(test, topics)
        tab_separated(test, topics)
        to_topics(test, topics)
        reader_gone(test, topics)
        signals(test, topics)
        check(test, topics)
        reset(test, topics)
        demo(test)


if __name__ == "__main__":
    main()
