#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# ctest: timeout=400 serial
"""system_kill.py under exactly-once, with fewer records: nothing lost, nothing twice, nothing rebuilt."""

import system_kill

if __name__ == "__main__":
    system_kill.GUARANTEE = "exactly_once"
    system_kill.RECORDS, system_kill.UPDATES, system_kill.KEYS = 300_000, 30_000, 20_000
    system_kill.main()
