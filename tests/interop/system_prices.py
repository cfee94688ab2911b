#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Real prices joined to notifications, none of the records written by cojoin.

The monthly prices of five shares (vega_datasets, stocks.csv) are written by the Java client, each with
its date as the record's timestamp; notifications at chosen moments by confluent-kafka. Each
notification has to meet the price in force at its timestamp: that of the latest date at or before it
(equal timestamps: the table goes first), none before the first date. Compared with a plain search
through the file, all of them, for the inner and the left join.
"""

import csv
import datetime
import importlib.util
import json
import random
import sys
from pathlib import Path

from confluent_kafka import Producer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "broker"))
import harness

PARTITIONS = 6
DAY = 24 * 3600 * 1000


def stocks_file():
    """Found without importing the package, which would load pandas."""
    package = importlib.util.find_spec("vega_datasets")
    if not package:
        raise harness.Stop("the Python package vega_datasets is missing: ./dev setup")
    return Path(package.origin).parent / "_data" / "stocks.csv"


def read_prices(path):
    """{symbol: [(timestamp, price), ...]} in the order of time."""
    prices = {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            date = datetime.datetime.strptime(row["date"], "%b %d %Y")
            at = int(date.replace(tzinfo=datetime.timezone.utc).timestamp() * 1000)
            prices.setdefault(row["symbol"], []).append((at, row["price"]))
    return {symbol: sorted(rows) for symbol, rows in prices.items()}


def price_at(prices, symbol, timestamp):
    """The plain computation that everything is compared with."""
    found = None
    for at, price in prices.get(symbol, []):
        if at <= timestamp:
            found = price
    return found


def choose_notifications(prices):
    """[(timestamp, symbol)]: on dates, a millisecond beside them, between them, before the first,
    after the last; and of symbols that have no price."""
    chance = random.Random(20)
    chosen = []
    for symbol, rows in prices.items():
        dates = [at for at, _ in rows]
        for at in chance.sample(dates, 30):
            chosen += [(at, symbol), (at - 1, symbol), (at + 1, symbol)]
        chosen += [(chance.randrange(dates[0], dates[-1]), symbol) for _ in range(60)]
        chosen += [(dates[0], symbol), (dates[0] - 1, symbol), (dates[0] - 400 * DAY, symbol)]
        chosen += [(dates[-1], symbol), (dates[-1] + 1, symbol), (dates[-1] + 3000 * DAY, symbol)]
    first, last = min(r[0][0] for r in prices.values()), max(r[-1][0] for r in prices.values())
    chosen += [(chance.randrange(first, last), symbol) for symbol in ("NONE", "msft", "IBM ")]
    chance.shuffle(chosen)
    return sorted(chosen, key=lambda one: one[0])


def produce_prices(test, topic, path):
    jars = harness.environment("COJOIN_KAFKA_JARS")
    classes = test.folder / "classes"
    source = Path(__file__).resolve().parent / "java" / "ProducePrices.java"
    code, _, err = harness.run(["javac", "-d", classes, "-cp", jars, source], 60)
    if code:
        raise harness.Stop(f"javac: {err}")
    command = ["java", "-Xmx128m", "-cp", f"{jars}:{classes}", "ProducePrices", test.brokers, topic,
               path]
    code, out, err = harness.run(command, 60)
    if code:
        raise harness.Stop(f"ProducePrices: {err}")
    return int(out)


def produce_notifications(test, topic, chosen):
    problems = []

    def delivered(error, _message):
        if error:
            problems.append(error)

    producer = Producer({"bootstrap.servers": test.brokers, "partitioner": "murmur2_random"})
    for number, (timestamp, symbol) in enumerate(chosen):
        producer.produce(topic, key=symbol, value=f"n{number}", timestamp=timestamp,
                         headers=[("origin", f"h{number}")], on_delivery=delivered)
    producer.flush(30)
    if problems:
        raise harness.Stop(f"notifications: {problems[0]}")


def join(test, prices, notifications, *options):
    app_id = "prices" + "".join(options) + "-" + test.run_id
    code, out, err = harness.run(
        [test.tool, "join", "-b", test.brokers, "--table", prices, "--stream", notifications, "-J",
         "--exit-at-end", "--app-id", app_id, "--state-dir", test.folder / "state", *options], 60)
    if not test.check(f"exit code of cojoin join {options}", 0, code):
        raise harness.Stop(err)
    return [json.loads(line) for line in out.splitlines()], err


def summary_count(text, name):
    """Of the tool's summary on standard error: "joined: 12"."""
    for line in text.splitlines():
        if line.startswith(f"{name}: "):
            return int(line.split()[1])
    return None


def compare(test, kind, expected, outputs, err, missed):
    """`expected`: {notification: (timestamp, symbol, price or None)}."""
    got = {}
    for output in outputs:
        if output["stream"] in got:
            test.check(f"{kind}: {output['stream']} comes once", 1, 2)
        got[output["stream"]] = output
    for name, (timestamp, symbol, price) in expected.items():
        output = got.get(name)
        seen = output and (output["timestamp"], output["key"], output["table"], output["headers"])
        wanted = (timestamp, symbol, price, [["origin", "h" + name[1:]]])
        test.check(f"{kind}: {name}, {symbol} at {timestamp}", wanted, seen)
    test.check(f"{kind}: nothing but the expected", set(), set(got) - set(expected))
    joined = sum(1 for _, _, price in expected.values() if price is not None)
    test.check(f"{kind}: summary's joined", joined, summary_count(err, "joined"))
    test.check(f"{kind}: summary's missed", missed, summary_count(err, "missed"))
    test.check(f"{kind}: summary's dropped", 0, summary_count(err, "dropped"))


def main():
    with harness.Test("prices", 150) as test:
        path = stocks_file()
        prices = read_prices(path)
        chosen = choose_notifications(prices)
        table, stream = test.topic("prices", PARTITIONS), test.topic("notifications", PARTITIONS)
        rows = sum(len(r) for r in prices.values())
        test.check("prices written by the Java client", rows, produce_prices(test, table, path))
        produce_notifications(test, stream, chosen)

        places = {m.key(): m.partition() for m in test.records(table)}
        strays = [(m.key(), m.partition()) for m in test.records(stream)
                  if places.get(m.key(), m.partition()) != m.partition()]
        test.check("both clients place a symbol in the same partition", [], strays)

        left = {f"n{i}": (at, symbol, price_at(prices, symbol, at))
                for i, (at, symbol) in enumerate(chosen)}
        inner = {name: one for name, one in left.items() if one[2] is not None}
        missed = len(left) - len(inner)
        test.check_that("the notifications test both outcomes", missed > 10 and len(inner) > 500,
                        (missed, len(inner)))
        compare(test, "inner", inner, *join(test, table, stream), missed)
        compare(test, "left", left, *join(test, table, stream, "--left"), missed)


if __name__ == "__main__":
    main()
