#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Members join, leave and are killed while records flow.

What is looked at, from the members' own logs, the outputs and the group as the broker describes it:
every record is processed; partition p of both topics lies with one member at every moment; a record is
only ever processed by the member that owned its partition at that time; a store is held by one member
at a time; with more members than partitions the spare ones idle, and take over when others are killed.
All of it with `range` and with `spread`.
"""

import collections
import os
import signal
import subprocess
import threading
import time

from confluent_kafka import Producer

import harness

PARTITIONS = 6
KEYS = 2000
RATE = 1500  # stream records a second; one in ten is preceded by an update of the table
SESSION_MS = 6000  # the least that a broker allows by default


class Flow(threading.Thread):
    """Writes the table's first rows, then stream records and updates until it is stopped."""

    def __init__(self, test, table, stream):
        super().__init__(daemon=True)
        self.table, self.stream = table, stream
        self.producer = Producer({"bootstrap.servers": test.brokers, "linger.ms": 5,
                                  "partitioner": "murmur2_random"})
        self.stopping = threading.Event()
        self.sent, self.failed = 0, []

    def _put(self, topic, key, value):
        self.producer.produce(topic, key=f"key-{key}", value=value, on_delivery=self._delivered)

    def _delivered(self, error, _message):
        if error:
            self.failed.append(error)

    def fill_table(self):
        for key in range(KEYS):
            self._put(self.table, key, f"row-{key}-0")
        self.producer.flush(30)

    def run(self):
        begin = time.monotonic()
        while not self.stopping.is_set():
            while self.sent < (time.monotonic() - begin) * RATE:
                key = self.sent * 7919 % KEYS
                if self.sent % 10 == 0:
                    self._put(self.table, key, f"row-{key}-{self.sent}")
                self._put(self.stream, key, f"event-{self.sent}")
                self.sent += 1
            self.producer.poll(0.005)
        self.producer.flush(30)


class Member:
    """A process of the program `member`, and what its lines say."""

    def __init__(self, story, name):
        table, stream, out = story.topics
        self.name, self.ended = name, None
        self.path = story.test.folder / f"{story.assignment}-{name}.log"
        self.process = harness.start(
            [harness.program("member"), story.test.brokers, table, stream, story.group,
             story.test.folder / "state", f"assignment={story.assignment}",
             f"rd.session.timeout.ms={SESSION_MS}",
             "rd.heartbeat.interval.ms=300", "commit.interval.ms=200"],
            stdout=open(self.path, "wb"), stderr=subprocess.STDOUT,
            env=os.environ | {"MEMBER_NAME": name, "MEMBER_TO": out})

    def lines(self, kind):
        """[(milliseconds, words after it)] of the lines of a kind; a last, cut line is left out."""
        text = self.path.read_text(errors="replace")
        whole = text[:text.rfind("\n") + 1].splitlines()
        words = [line.split() for line in whole if line.startswith(kind + " ")]
        return [(int(one[1]), one[2:]) for one in words]

    def running(self):
        """The partitions whose task runs now."""
        if self.ended is not None:
            return set()
        now = set()
        for _, (event, partition, *_lost) in self.lines("task"):
            (now.add if event == "running" else now.discard)(int(partition))
        return now

    def started(self):
        if self.process.poll() is not None:
            raise harness.Stop(f"{self.name} ended by itself: {self.path.read_text()[-3000:]}")
        return any(words == ["running"] for _, words in self.lines("state"))

    def spans(self, until):
        """[(partition, from, to)] of the events that open and close it, by the clock."""
        spans, open_ = [], {}
        for at, (event, partition, *_lost) in self.lines("task"):
            if event == "running":
                open_.setdefault(int(partition), at)
            elif event in until and int(partition) in open_:
                spans.append((int(partition), open_.pop(int(partition)), at))
        end = self.ended if self.ended is not None else wall_ms()
        return spans + [(partition, at, end) for partition, at in open_.items()]

    def stop(self, test):
        """Asks it to leave; it has to do so in good order."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(40)
        except subprocess.TimeoutExpired:
            raise harness.Stop(f"{self.name} does not stop") from None
        self.ended = wall_ms()
        if not test.check(f"exit code of {self.name}", 0, code):
            raise harness.Stop(self.path.read_text()[-3000:])

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.ended = wall_ms()


def wall_ms():
    return time.time_ns() // 1_000_000


class Watch(threading.Thread):
    """Looks at the group every 100 ms, as the broker describes it when it is stable: who is dealt
    other indices of one topic than of the other. With `range` nobody ever is. `spread` deals them
    apart when it will, and the tasks follow the anchor."""

    def __init__(self, story):
        super().__init__(daemon=True)
        self.admin, self.group, self.topics = story.test.admin, story.group, story.topics[:2]
        self.stopping, self.looks, self.apart = threading.Event(), 0, []

    def run(self):
        while not self.stopping.wait(0.1):
            group = self.admin.describe_consumer_groups([self.group])[self.group].result(timeout=30)
            if group.state.name != "STABLE":
                continue
            self.looks += 1
            for member in group.members:
                mine = collections.defaultdict(set)
                for tp in member.assignment.topic_partitions:
                    mine[tp.topic].add(tp.partition)
                if mine[self.topics[0]] != mine[self.topics[1]]:
                    self.apart.append((wall_ms(), member.client_id, dict(mine)))


def settle(what, members, tasks, seconds=30):
    """Waits until the members run `tasks` (how many each, in any order), all partitions once."""
    def settled():
        for member in members:
            member.started()
        owned = [member.running() for member in members]
        all_of_them = sorted(p for one in owned for p in one)
        return (sorted(map(len, owned)) == sorted(tasks)
                and all_of_them == list(range(PARTITIONS)))
    try:
        harness.wait_for(what, seconds, settled, every=0.1)
    except harness.Stop as problem:
        owned = {member.name: sorted(member.running()) for member in members}
        raise harness.Stop(f"{problem}; tasks: {owned}") from None


def check_single_owner(test, what, members, until):
    """No partition is in two members' spans at once."""
    spans = sorted((partition, since, to, member.name) for member in members
                   for partition, since, to in member.spans(until))
    twice = [(one, two) for one, two in zip(spans, spans[1:])
             if one[0] == two[0] and two[1] < one[2]]
    test.check(f"{what}: held by two at once", [], twice[:5])
    test.check_that(f"{what}: partitions have moved", len(spans) > 3 * PARTITIONS, len(spans))
    return spans


def check_outputs(test, stream, out, members):
    """All stream records are there, and each was made by its partition's owner of that time."""
    owners = collections.defaultdict(list)
    for member in members:
        for partition, since, to in member.spans(("suspended", "closed")):
            owners[member.name, partition].append((since, to))
    seen, strangers, other_rows = set(), [], []
    outputs = test.records(out)
    for message in outputs:
        name, at, row, event = message.value().decode().split(" ")
        seen.add(event)
        spans = owners[name, message.partition()]
        if not any(since <= int(at) <= to for since, to in spans):
            strangers.append((name, at, message.partition(), spans))
        if row.split("-")[1] != message.key().decode().split("-")[1]:
            other_rows.append((message.key(), row))
    test.check("outputs of a member that did not own the partition", [], strangers[:3])
    test.check("outputs with the row of another key", [], other_rows[:3])
    wanted = {message.value().decode() for message in test.records(stream)}
    lost = sorted(wanted - seen)
    test.check("stream records without an output", (0, []), (len(lost), lost[:5]))
    print(f"{len(outputs)} outputs for {len(wanted)} records")


class Story:
    """One group's life under one assignment."""

    def __init__(self, test, assignment):
        self.test, self.assignment = test, assignment
        self.group = f"members-{assignment}-{test.run_id}"
        self.topics = tuple(test.topic(f"{base}-{assignment}", PARTITIONS)
                            for base in ("prices", "events", "joined"))
        self.members = []

    def join(self, *names):
        joined = [Member(self, name) for name in names]
        self.members += joined
        return joined

    def move_members(self, flow):
        """Returns those that are left."""
        test = self.test
        [a] = self.join("a")
        settle("a alone", [a], [6])
        flow.start()
        [b] = self.join("b")
        settle("b joins a", [a, b], [3, 3])
        time.sleep(1)
        b.stop(test)
        settle("b has left", [a], [6])
        [c] = self.join("c")
        settle("c joins a", [a, c], [3, 3])
        a.stop(test)
        settle("a has left", [c], [6])
        time.sleep(1)

        alive = [c, *self.join("d", "e", "f", "g", "h", "i", "j")]
        settle("eight members for six partitions", alive, [1] * 6 + [0] * 2, 60)
        time.sleep(1)
        spares = [member for member in alive if not member.running()]
        test.check("spare members idle", 2, len(spares))
        killed = [member for member in alive if member.running()][:2]
        for member in killed:
            member.kill()
        alive = [member for member in alive if member not in killed]
        settle("spares take over", alive, [1] * 6, SESSION_MS / 1000 + 30)
        time.sleep(1)
        return alive

    def committed_to_end(self):
        committed, stream = self.test.committed(self.group), self.topics[1]
        return all(committed.get((stream, p), -1) == end
                   for p, end in self.test.ends(stream).items())

    def run(self):
        test = self.test
        flow, watch = Flow(test, *self.topics[:2]), Watch(self)
        flow.fill_table()
        watch.start()
        alive = self.move_members(flow)
        flow.stopping.set()
        flow.join(40)
        test.check("records that could not be produced", [], flow.failed)
        harness.wait_for("the group commits to the stream's end", 30, self.committed_to_end, 0.2)
        watch.stopping.set()
        watch.join(30)
        for member in alive:
            member.stop(test)

        test.check_that("the group was looked at", watch.looks > 30, watch.looks)
        if self.assignment == "range":
            test.check("members whose indices of the topics differ", [], watch.apart[:3])
        check_single_owner(test, "tasks", self.members, ("suspended", "closed"))
        check_single_owner(test, "stores", self.members, ("closed",))
        check_outputs(test, *self.topics[1:], self.members)
        complaints = [(member.name, line) for member in self.members
                      for _, line in member.lines("log") if line[0] == "error"]
        test.check("errors in the members' logs", [], complaints[:3])


def main():
    with harness.Test("members", 400) as test:
        for assignment in ("range", "spread"):
            Story(test, assignment).run()


if __name__ == "__main__":
    main()
