#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Adds up ctest's JUnit files: the cases that the programs counted themselves (cmocka's summary, or a
closing "N passed, N failed"), and one for each program that counts none. A program that failed without
a failed case of its own (a crash, a sanitizer's report, a time-out, a program that is not there) is one
failure more. Prints the sum
as the last line; exits 1 on a failure or when nothing ran.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree

CMOCKA = re.compile(r"^\[  (PASSED |FAILED |SKIPPED)\s*\] (\d+) test\(s\)", re.MULTILINE)
CLOSING = re.compile(r"^(?:\w+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.MULTILINE)
# What XML cannot hold, should a test print it.
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def counted(output):
    """(passed, failed, skipped) as the program's own output says, or None."""
    summary = CMOCKA.findall(output)
    if summary:
        sums = dict.fromkeys(("PASSED", "FAILED", "SKIPPED"), 0)
        for kind, number in summary:
            sums[kind.strip()] += int(number)
        return sums["PASSED"], sums["FAILED"], sums["SKIPPED"]
    closing = CLOSING.findall(output)
    if closing:
        return tuple(int(number or 0) for number in closing[-1])
    return None


def cases(path):
    """(name, passed, failed, skipped) of each program."""
    with open(path, "rb") as file:
        root = ElementTree.fromstring(CONTROL.sub(b"?", file.read()))
    for case in root.iter("testcase"):
        output = case.findtext("system-out") or ""
        skipped = case.find("skipped")
        if skipped is not None and skipped.get("message", "").startswith("SKIP_RETURN_CODE"):
            yield case.get("name"), 0, 0, 1
            continue
        good = case.get("status") == "run" and case.find("failure") is None
        passed, failed, skipped = counted(output) or (int(good), int(not good), 0)
        if not good and not failed:
            failed = 1
        yield case.get("name"), passed, failed, skipped


def main():
    total = [0, 0, 0]
    for path in sys.argv[1:]:
        for name, *numbers in cases(path):
            total = [a + b for a, b in zip(total, numbers)]
            if numbers[1]:
                print(f"failed: {name} ({path.rsplit('/', 1)[-1].removesuffix('.xml')})")
    passed, failed, skipped = total
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(0 if passed and not failed else 1)


main()
