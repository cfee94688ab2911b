# SPDX-License-Identifier: BSD-2-Clause
"""What the system tests share: the environment, topics, records, processes, and the count of checks.

The environment says where things are: COJOIN_TEST_BROKERS the broker's address, COJOIN_TOOL the
`cojoin` command, COJOIN_PROGRAMS the folder of the compiled test programs, COJOIN_KAFKA_JARS the
class path of Kafka's jars. A test is bounded: past its time it fails, and ends what it started.
"""

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

from confluent_kafka import (Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException,
                             TopicPartition)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

_children = []


class Stop(Exception):
    """Nothing that comes after can be checked."""


def environment(name):
    value = os.environ.get(name)
    if not value:
        sys.exit(f"{name} is not set: run this test through ./dev test")
    return value


def program(name):
    return str(Path(environment("COJOIN_PROGRAMS")) / name)


def stop_children():
    for child in _children:
        if child.poll() is None:
            child.kill()
            child.wait()


def start(command, **options):
    child = subprocess.Popen([str(part) for part in command], **options)
    _children.append(child)
    return child


def run(command, seconds, **options):
    """Runs a command to its end; returns (exit code, standard output, standard error) as text."""
    child = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        out, err = child.communicate()
        raise Stop(f"still running after {seconds} s: {command}\n{err[-3000:]}") from None
    return child.returncode, out, err


def wait_for(what, seconds, condition, every=0.05):
    """The condition's first true value; Stop when it does not come in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(every)
    raise Stop(f"waited {seconds} s in vain: {what}")


class Test:
    """Counts checks; as a context manager it makes the process's exit code."""

    def __init__(self, name, seconds):
        self.name, self.seconds = name, seconds
        self.passed = self.failed = 0
        self.brokers = environment("COJOIN_TEST_BROKERS")
        self.tool = environment("COJOIN_TOOL")
        self.run_id = uuid.uuid4().hex[:8]
        self.folder = Path(tempfile.mkdtemp(prefix=f"cojoin-{name}-"))
        self.admin = AdminClient({"bootstrap.servers": self.brokers})
        self.topics = []

    def __enter__(self):
        atexit.register(stop_children)
        signal.signal(signal.SIGALRM, self._too_late)
        signal.alarm(self.seconds)
        return self

    def _too_late(self, *_):
        raise Stop(f"{self.name} took longer than {self.seconds} s")

    def __exit__(self, kind, problem, _traceback):
        signal.alarm(0)
        stop_children()
        if kind is not None and issubclass(kind, (Stop, KafkaException)):
            self.failed += 1
            print(f"FAILED: {problem}", file=sys.stderr)
        elif kind is not None:
            return False
        if self.topics:
            for outcome in self.admin.delete_topics(self.topics).values():
                outcome.exception()
        if not self.failed:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            print(f"kept: {self.folder}", file=sys.stderr)
        print(f"{self.passed} passed, {self.failed} failed")
        sys.exit(1 if self.failed or not self.passed else 0)

    def check(self, what, expected, got):
        if expected == got:
            self.passed += 1
            return True
        self.failed += 1
        print(f"FAILED: {what}\n  expected: {expected!r}\n  got:      {got!r}", file=sys.stderr)
        return False

    def check_that(self, what, holds, got):
        """`got` is shown when it does not hold."""
        if holds:
            self.passed += 1
            return True
        self.failed += 1
        print(f"FAILED: {what}\n  got: {got}", file=sys.stderr)
        return False

    # ---- topics ----
    def topic(self, base, partitions, **config):
        """Creates a topic with a name that only this run has. Names differ in more than one place,
        so that the nearest name to a misspelt one is never another run's."""
        name = f"{base}-{self.run_id}"
        settings = {"retention.ms": "-1"} | {k.replace("_", "."): v for k, v in config.items()}
        new = NewTopic(name, partitions, -1, config=settings)
        self.admin.create_topics([new])[name].result(timeout=30)
        self.topics.append(name)
        wait_for(f"topic {name}", 30, lambda: self.partitions(name) == partitions)
        return name

    def partitions(self, name):
        """0 when there is no such topic; asks for all topics, since asking for one creates it."""
        found = self.admin.list_topics(timeout=30).topics.get(name)
        return len(found.partitions) if found else 0

    def ends(self, name):
        ask = {TopicPartition(name, p): OffsetSpec.latest() for p in range(self.partitions(name))}
        answers = self.admin.list_offsets(ask)
        return {tp.partition: answer.result(timeout=30).offset for tp, answer in answers.items()}

    def records(self, name, seconds=60):
        """All committed records that the topic holds now, in the order of each partition. The last
        offset may be a transaction's marker, which nobody is given: a partition is read when its end
        has been."""
        consumer = Consumer({
            "bootstrap.servers": self.brokers, "group.id": f"read-{self.run_id}",
            "enable.auto.commit": False, "auto.offset.reset": "earliest",
            "isolation.level": "read_committed", "enable.partition.eof": True})
        left = {p: end for p, end in self.ends(name).items() if end > 0}
        consumer.assign([TopicPartition(name, p, 0) for p in left])
        deadline = time.monotonic() + seconds
        found = []
        while left:
            if time.monotonic() > deadline:
                raise Stop(f"cannot read {name}: partitions {left} are left after {seconds} s")
            for message in consumer.consume(10000, timeout=0.2):
                if message.error() and message.error().code() == KafkaError._PARTITION_EOF:
                    left.pop(message.partition(), None)
                elif message.error():
                    raise Stop(f"{name}: {message.error()}")
                else:
                    found.append(message)
        consumer.close()
        return found

    def committed(self, group):
        """{(topic, partition): offset}, without those that have none."""
        ask = [ConsumerGroupTopicPartitions(group)]
        answer = self.admin.list_consumer_group_offsets(ask)[group].result(timeout=30)
        return {(tp.topic, tp.partition): tp.offset for tp in answer.topic_partitions
                if tp.offset >= 0}
