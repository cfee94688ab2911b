#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Topics that cannot be joined are refused at start, before a record is read.

6 and 4 partitions: the command and a C program end with an error that names both topics and both
counts; no output, no committed offset, no member. A misspelt topic is named with its nearest
neighbour and is not created, on a broker that creates topics for whoever asks for them.
"""

import re

from confluent_kafka import ConsumerGroupState, Producer
from confluent_kafka.admin import ConfigResource, ResourceType

import harness


def produce(test, topic, count):
    producer = Producer({"bootstrap.servers": test.brokers, "partitioner": "murmur2_random"})
    for number in range(count):
        producer.produce(topic, key=f"key-{number}", value=f"value-{number}")
    if producer.flush(30):
        raise harness.Stop(f"{topic} could not be filled")


def check_untouched(test, what, group):
    test.check(f"{what}: offsets that the group committed", {}, test.committed(group))
    described = test.admin.describe_consumer_groups([group])[group].result(timeout=30)
    test.check_that(f"{what}: the group has no member",
                    not described.members and described.state in (
                        ConsumerGroupState.DEAD, ConsumerGroupState.EMPTY),
                    (described.state, described.members))


def join(test, group, table, stream, *options):
    return harness.run(
        [test.tool, "join", "-b", test.brokers, "--table", table, "--stream", stream, "--app-id",
         group, "--state-dir", test.folder / "state", "--exit-at-end", *options], 60)


def check_counts(test, what, text, table, stream):
    for topic, count in ((table, 6), (stream, 4)):
        told = re.search(rf"{re.escape(topic)}\b[^\n]*\b{count} partitions", text)
        test.check_that(f"{what}: names {topic} with its count {count}", told, text)


def mismatch(test):
    table, stream = test.topic("market-updates", 6), test.topic("notifications", 4)
    out_topic = test.topic("alerts", 6)
    produce(test, table, 100)
    produce(test, stream, 100)

    for options in ((), ("--to", out_topic), ("--left", "-J")):
        what = " ".join(("cojoin join", *options))
        group = f"refused-{len(options)}-{test.run_id}"
        code, out, err = join(test, group, table, stream, *options)
        test.check(f"{what}: exit code", 2, code)
        test.check(f"{what}: standard output", "", out)
        check_counts(test, what, err, table, stream)
        check_untouched(test, what, group)

    group = f"refused-c-{test.run_id}"
    code, out, err = harness.run(
        [harness.program("mismatch"), test.brokers, table, stream, group, test.folder / "state"],
        60)
    said = [line for line in out.splitlines() if not line.startswith("log ")]
    test.check("C program: exit code", 2, code)
    test.check("C program: the error's code, and no record", ["refused not-copartitioned"], said)
    check_counts(test, "C program", err, table, stream)
    check_untouched(test, "C program", group)
    test.check("nothing was written", 0, sum(test.ends(out_topic).values()))


def misspelt(test):
    broker = next(iter(test.admin.list_topics(timeout=30).brokers))
    resource = ConfigResource(ResourceType.BROKER, str(broker))
    config = test.admin.describe_configs([resource])[resource].result(timeout=30)
    if not test.check("the broker creates topics for whoever asks for them", "true",
                      config["auto.create.topics.enable"].value):
        return
    table, stream = test.topic("share-prices", 3), test.topic("watch-list", 3)
    to = test.topic("crossings", 3)
    produce(test, table, 10)
    produce(test, stream, 10)
    before = set(test.admin.list_topics(timeout=30).topics)
    wrong = {name: name.replace("-", "_", 1) for name in (table, stream, to)}
    wrong[to] = to.replace("oss", "os", 1)
    cases = [("table", wrong[table], table, (wrong[table], stream)),
             ("stream", wrong[stream], stream, (table, wrong[stream])),
             ("sink", wrong[to], to, (table, stream, "--to", wrong[to]))]
    for what, misspelled, meant, arguments in cases:
        what = f"misspelt {what}"
        group = f"{what.replace(' ', '-')}-{test.run_id}"
        code, out, err = join(test, group, *arguments)
        test.check(f"{what}: exit code", 2, code)
        test.check(f"{what}: standard output", "", out)
        test.check_that(f"{what}: names {misspelled} and, as the nearest, {meant}",
                        misspelled in err and meant in err, err)
        check_untouched(test, what, group)
    now = set(test.admin.list_topics(timeout=30).topics)
    test.check("topics that have come into being", set(),
               (now - before) & set(wrong.values()))


def main():
    with harness.Test("refusal", 150) as test:
        mismatch(test)
        misspelt(test)


if __name__ == "__main__":
    main()
