#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The examples that need a broker, on one: records in, alerts out, a signal ends them, a missing topic
is refused with the evidence.

They use fixed topic names, as what a newcomer copies does.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "broker"))
import harness

TOPICS = ("market-updates", "notifications", "alerts")
PARTITIONS = 6
PRICES = {"BBCA": "9200", "TLKM": "3500", "IBM": "140.5", "MSFT": "29.7"}
# (symbol, threshold): reached, just reached, not reached, without a price.
NOTIFICATIONS = [("BBCA", "9000"), ("TLKM", "3500"), ("IBM", "141"), ("NONE", "1"), ("MSFT", "20")]
ALERTS = [("BBCA", "reached 9000: now 9200"), ("MSFT", "reached 20: now 29.7"),
          ("TLKM", "reached 3500: now 3500")]


def remove(test, names):
    for outcome in test.admin.delete_topics(list(names)).values():
        outcome.exception()
    harness.wait_for("the topics are gone", 30,
                     lambda: not set(names) & set(test.admin.list_topics(timeout=30).topics))


def create(test, names):
    made = test.admin.create_topics([NewTopic(name, PARTITIONS, -1) for name in names])
    for outcome in made.values():
        outcome.result(timeout=30)
    for name in names:
        harness.wait_for(f"topic {name}", 30, lambda: test.partitions(name) == PARTITIONS)


def produce(test):
    producer = Producer({"bootstrap.servers": test.brokers, "partitioner": "murmur2_random"})
    for symbol, price in PRICES.items():
        producer.produce("market-updates", key=symbol, value=price, timestamp=1000)
    for symbol, threshold in NOTIFICATIONS:
        producer.produce("notifications", key=symbol, value=threshold, timestamp=2000)
    if producer.flush(30):
        raise harness.Stop("the topics could not be filled")


def example(test, name):
    program = Path(harness.environment("COJOIN_BINARY_DIR")) / "examples" / name
    return harness.start(
        [program, test.brokers, f"application.id={name}-{test.run_id}",
         f"state.dir={test.folder / name}", "commit.interval.ms=100"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def joins(test, name):
    child = example(test, name)
    expected = sorted(ALERTS)

    def all_are_there():
        ended = child.poll()
        if ended is not None:
            raise harness.Stop(f"{name} ended with {ended}: {child.communicate()[1][-3000:]}")
        return sum(test.ends("alerts").values()) >= len(expected)
    harness.wait_for(f"{name}: {len(expected)} alerts", 60, all_are_there, every=0.3)
    os.kill(child.pid, signal.SIGTERM)
    _, err = child.communicate(timeout=60)
    test.check(f"{name}: exit code after SIGTERM", 0, child.returncode)
    got = sorted((m.key().decode(), m.value().decode()) for m in test.records("alerts"))
    test.check(f"{name}: alerts", expected, got)
    return err


def refuses(test, name):
    child = example(test, name)
    _, err = child.communicate(timeout=60)
    test.check(f"{name}: exit code with a missing topic", 2, child.returncode)
    test.check_that(f"{name}: names the topic", "market-updates" in err, err)
    test.check(f"{name}: makes no topic", 0, test.partitions("market-updates"))


def main():
    with harness.Test("examples", 240) as test:
        remove(test, TOPICS)
        for name in ("price_alerts", "alerts"):
            create(test, TOPICS)
            produce(test)
            err = joins(test, name)
            if name == "price_alerts":
                test.check_that("its counts", "4 notifications met a price, 1 did not" in err, err)
            remove(test, TOPICS)
        create(test, TOPICS[1:])
        for name in ("price_alerts", "alerts"):
            refuses(test, name)
        remove(test, TOPICS)


if __name__ == "__main__":
    main()
