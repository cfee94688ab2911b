#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Adds up ctest's JUnit files: the cases of a cmocka program as its summary counts them, and one for each
script. A program that failed without a failed case of its own (a crash, a sanitizer's report, a
time-out, one that is not there) is one failure. Prints what failed, and the sum as the last line; exits
1 on a failure or when nothing ran.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree

CMOCKA = re.compile(r"^\[  (PASSED |FAILED |SKIPPED)\s*\] (\d+) test\(s\)", re.MULTILINE)
# What XML cannot hold, should a test print it.
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def cases(path):
    """(name, passed, failed, skipped) of each program."""
    with open(path, "rb") as file:
        root = ElementTree.fromstring(CONTROL.sub(b"?", file.read()))
    for program in root.iter("testcase"):
        name, skipped = program.get("name"), program.find("skipped")
        if skipped is not None and skipped.get("message", "").startswith("SKIP_RETURN_CODE"):
            yield name, 0, 0, 1
            continue
        good = program.get("status") == "run" and program.find("failure") is None
        sums = dict.fromkeys(("PASSED", "FAILED", "SKIPPED"), 0)
        for kind, number in CMOCKA.findall(program.findtext("system-out") or ""):
            sums[kind.strip()] += int(number)
        if not any(sums.values()) and good:
            sums["PASSED"] = 1
        if not good:
            sums["FAILED"] = max(sums["FAILED"], 1)
        yield name, *sums.values()


def main():
    total = [0, 0, 0]
    for path in sys.argv[1:]:
        build = path.rsplit("/", 1)[-1].removesuffix(".xml")
        rows = list(cases(path))
        for name, _, failed, _ in rows:
            if failed:
                print(f"failed: {name} ({build})")
        sums = [sum(row[i] for row in rows) for i in (1, 2, 3)]
        print(f"{build}: {len(rows)} programs, {sum(sums)} cases")
        total = [a + b for a, b in zip(total, sums)]
    passed, failed, skipped = total
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(0 if passed and not failed else 1)


main()
