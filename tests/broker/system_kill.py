#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""kill -9 in the middle of a million records, several times, and nothing is lost.

A table of 100,000 keys whose updates are interleaved with a stream of a million records (see
benchmarks/fill.c: everything follows from a record's number) is joined by `cojoin join --to`. The
process is killed at random points and started again. At the end every stream record has an output, each
output has the row that was in force at its record's timestamp (so none of a key's future, and none of
its past), every key of the store equals the topic's content, and the log of each restart says that the
store went on where it was instead of beginning at zero. Under exactly-once (system_kill_exactly_once.py)
every stream record has one output, too.
"""

import json
import random
import re
import signal
import subprocess
import time

import harness

PARTITIONS = 6
KEYS, RECORDS, UPDATES = 100_000, 1_000_000, 100_000
KILLS = 3
GUARANTEE = "at_least_once"
MASK = (1 << 64) - 1


def mix(x):
    """As in benchmarks/fill.c."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def expected_rows():
    """For stream record i, the number of the table record that it has to meet."""
    rows = list(range(KEYS))
    meets, update = [], 0
    for i in range(RECORDS):
        while update < UPDATES and update * RECORDS // UPDATES <= i:
            number = KEYS + update
            rows[mix(number) % KEYS] = number
            update += 1
        meets.append(rows[mix(~i & MASK) % KEYS])
    return meets


def start_join(test, table, stream, out, log):
    command = [test.tool, "join", "-b", test.brokers, "--table", table, "--stream", stream, "--to",
               out, "--app-id", f"kill-{test.run_id}", "--state-dir", test.folder / "state",
               "-X", "session.timeout.ms=6000", "--guarantee", GUARANTEE, "--exit-at-end", "-v"]
    return harness.start(command, stdout=subprocess.DEVNULL, stderr=open(log, "wb"))


def kill_in_the_middle(test, topics, chance):
    """Kills the join once a random share of what is left has been written."""
    out = topics[2]
    for number in range(KILLS):
        log = test.folder / f"join-{number}.log"
        written = sum(test.ends(out).values())
        target = written + int((RECORDS - written) * chance.uniform(0.15, 0.5))
        join = start_join(test, *topics, log)
        commits = set()

        def far_enough(join=join, target=target, log=log, commits=commits):
            if join.poll() is not None:
                raise harness.Stop(f"cojoin join ended by itself: {log.read_text()[-3000:]}")
            # A store is written after its commit: with the second one the first is in it.
            offsets = test.committed(f"kill-{test.run_id}")
            commits.add(sum(o for (topic, _), o in offsets.items() if topic == topics[0]))
            return len(commits - {0}) > 1 and sum(test.ends(out).values()) >= target

        harness.wait_for(f"{target} outputs", 150, far_enough, every=0.02)
        time.sleep(chance.uniform(0, 0.3))
        join.send_signal(signal.SIGKILL)
        test.check(f"kill {number}: the process was alive", -signal.SIGKILL, join.wait())
        done = sum(test.ends(out).values())
        test.check_that(f"kill {number}: in the middle of the records", done < RECORDS, done)


def finish(test, topics):
    log = test.folder / "join-last.log"
    join = start_join(test, *topics, log)
    try:
        code = join.wait(180)
    except subprocess.TimeoutExpired:
        raise harness.Stop(f"the last run does not end: {log.read_text()[-3000:]}") from None
    test.check("the last run's exit code", 0, code)


def check_restarts(test, table):
    """Each run after the first resumes every partition's store beyond zero."""
    logs = [test.folder / f"join-{n}.log" for n in range(1, KILLS)] + [test.folder / "join-last.log"]
    for log in logs:
        text = log.read_text()
        pattern = rf"restore {re.escape(table)}\[(\d+)\]: resumes at (\d+), up to (\d+)"
        resumed = {int(p): (int(at), int(to)) for p, at, to in re.findall(pattern, text)}
        test.check(f"{log.name}: partitions whose store resumed", set(range(PARTITIONS)),
                   set(resumed))
        test.check_that(f"{log.name}: no store begins at zero",
                        all(0 < at <= to for at, to in resumed.values()), resumed)
        test.check(f"{log.name}: stores rebuilt", [], re.findall(r".*rebuilt.*", text))


def check_outputs(test, stream, out):
    expected = expected_rows()
    outputs = [json.loads(message.value()) for message in test.records(out, 180)]
    seen, wrong = set(), []
    for output in outputs:
        number = int(output["stream"][:10])
        seen.add((output["partition"], output["offset"]))
        if int(output["table"][:10]) != expected[number]:
            wrong.append((output, expected[number]))
    ends = test.ends(stream)
    test.check("records in the stream", RECORDS, sum(ends.values()))
    lost = [(p, o) for p, end in ends.items() for o in range(end) if (p, o) not in seen]
    test.check("stream records without an output", (0, []), (len(lost), lost[:10]))
    test.check("outputs with another row than the one in force", (0, []), (len(wrong), wrong[:3]))
    if GUARANTEE == "exactly_once":
        test.check("outputs more than stream records", 0, len(outputs) - len(seen))
    print(f"{len(outputs)} outputs for {RECORDS} records after {KILLS} kills, {GUARANTEE}")


def check_store(test, table, stream):
    content = {}
    for message in test.records(table):
        content[message.key().decode()] = message.value().decode()
    test.check("keys in the table's topic", KEYS, len(content))
    dump = harness.start(
        [harness.program("dump_table"), test.brokers, table, stream, f"kill-{test.run_id}",
         test.folder / "state"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(test.folder / "dump.log", "wb"),
        text=True)
    out, _ = dump.communicate("".join(f"{key}\n" for key in content), timeout=120)
    if not test.check("dump_table's exit code", 0, dump.returncode):
        raise harness.Stop((test.folder / "dump.log").read_text()[-3000:])
    store = dict(line.split("\t") if "\t" in line else (line, None) for line in out.splitlines())
    differing = [(key, content[key], store.get(key)) for key in content
                 if store.get(key) != content[key]]
    test.check("keys of the store that differ from the topic", (0, []),
               (len(differing), differing[:5]))


def main():
    with harness.Test("kill", 540) as test:
        seed = random.SystemRandom().randrange(1 << 32)
        print(f"seed {seed}")
        table, stream = test.topic("prices", PARTITIONS), test.topic("events", PARTITIONS)
        out = test.topic("joined", PARTITIONS)
        code, _, err = harness.run(
            [harness.program("fill"), "-b", test.brokers, "--table", table, "--stream", stream,
             "--keys", KEYS, "--records", RECORDS, "--updates", UPDATES], 60)
        if code:
            raise harness.Stop(f"fill: {err}")
        kill_in_the_middle(test, (table, stream, out), random.Random(seed))
        finish(test, (table, stream, out))
        check_restarts(test, table)
        check_outputs(test, stream, out)
        check_store(test, table, stream)


if __name__ == "__main__":
    main()
