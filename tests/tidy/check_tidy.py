#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The house rules that a compiler does not know: licence lines, line length, which folder may include
which, calls that are banned, headers that nobody includes, and traces of a developer's machine. Long
files and functions are listed, not refused.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ("base", "state", "operators", "runtime", "rdkafka", "testing")
# What a folder may include besides itself and the public headers.
MAY_INCLUDE = {
    "include": set(),
    "base": set(),
    "state": {"base"},
    "operators": {"base", "state"},
    "runtime": {"base", "state", "operators"},
    "rdkafka": {"base", "runtime"},
    "testing": {"base", "state", "operators", "runtime"},
    "tools": set(),
    "examples": set(),
}
# One folder knows librdkafka and one file RocksDB. The tool's admin calls and its demo of plain
# clients, the tests of the io and the benchmark's bare loop talk to librdkafka on purpose.
FOREIGN = {
    "librdkafka/": ("rdkafka/", "tools/", "tests/", "benchmarks/"),
    "rocksdb/": ("state/store_rocksdb.c", "tests/"),
}
BANNED_CALLS = ("strcpy", "strcat", "sprintf", "vsprintf", "gets", "strtok", "rand", "srand", "alloca",
                "tmpnam", "mktemp")
# The library allocates through base/alloc.c, so that a test can make every allocation fail; but not
# those of the simulated broker.
DOOR = ("base/alloc.c", "testing/world.c")
ALLOCATION = ("malloc", "calloc", "realloc", "strdup", "strndup", "asprintf", "vasprintf")
CODE = (".c", ".h", ".cpp", ".hpp")
NEEDS_SPDX = (*CODE, ".py", ".sh", ".cmake", ".in", ".java", ".xml", ".properties")
COLUMNS = {".c": 100, ".h": 100, ".cpp": 100, ".hpp": 100}
OTHER_COLUMNS = 120
# Written so that this file does not hold what it looks for.
MACHINE = re.compile("|".join((r"/wor" + r"k/", r"/roo" + r"t/", r"/tmp/ka" + r"fka",
                               r"repo1?\.mav" + r"en", r"pypi\.o" + r"rg", r"pythonho" + r"sted",
                               r"deb\.deb" + r"ian")))

problems, notes = [], []


def problem(path, line, text):
    problems.append(f"{path}:{line}: {text}")


def tracked():
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True)
    if listed.returncode == 0:
        names = listed.stdout.decode().split("\0")[:-1]
    else:  # not a checkout: all but what is built
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file()]
        names = [name for name in names if not name.startswith("build")]
    return [name for name in names if (ROOT / name).is_file()]


def without_comments(text):
    """The same lines with comments and strings blanked."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.DOTALL)


def check_text(name, text):
    suffix = Path(name).suffix
    limit = COLUMNS.get(suffix, OTHER_COLUMNS)
    lines = text.splitlines()
    scripts = name in ("dev", ".ci/run", "CMakeLists.txt")
    if (suffix in NEEDS_SPDX or scripts) and not any(
            "SPDX-License-Identifier: BSD-2-Clause" in line for line in lines[:3]):
        problem(name, 1, "the SPDX line is missing")
    for number, line in enumerate(lines, 1):
        # A table's row or an address cannot be broken.
        whole = suffix == ".tsv" or line.startswith(("|", " * ```")) or "://" in line
        if len(line) > limit and not whole and suffix not in (".md", ".1"):
            problem(name, number, f"{len(line)} columns, {limit} at most")
        if MACHINE.search(line):
            problem(name, number, f"a trace of one machine: {line.strip()}")
        if line != line.rstrip() and suffix not in (".md", ".tsv"):
            problem(name, number, "space at the end of the line")
    if suffix in CODE and len(lines) > 500:
        notes.append(f"{name}: {len(lines)} lines")


def check_includes(name, text, included):
    folder = name.split("/")[0]
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        kind, path = match.groups()
        included.add(path)
        included.add(f"{Path(name).parent}/{path}")
        for prefix, allowed in FOREIGN.items():
            if path.startswith(prefix) and not name.startswith(allowed):
                problem(name, number, f"<{path}> belongs behind {allowed[0]}")
        target = path.split("/")[0]
        if kind == '"' and folder in MAY_INCLUDE and target in MAY_INCLUDE and target != folder \
                and target not in MAY_INCLUDE[folder]:
            problem(name, number, f"{folder}/ must not know {target}/")


def check_calls(name, text):
    folder = name.split("/")[0]
    banned = list(BANNED_CALLS)
    if folder in LIBRARY and name not in DOOR:
        banned += ALLOCATION
    pattern = re.compile(r"(?<![\w.>])(" + "|".join(banned) + r")\s*\(")
    for number, line in enumerate(without_comments(text).splitlines(), 1):
        for call in pattern.findall(line):
            why = "goes through cj_alloc" if call in ALLOCATION else "is banned"
            problem(name, number, f"{call} {why}")


def note_long_functions(name, text):
    start = None
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"[a-zA-Z\s].*\) (noexcept )?\{$", line) and start is None:
            start = number
        elif line == "}":
            if start is not None and number - start > 70:
                notes.append(f"{name}:{start}: a function of {number - start} lines")
            start = None


def check_headers_used(names, included):
    for name in names:
        if not name.endswith((".h", ".hpp")) or name.startswith("include/"):
            continue
        if not {name, name.removeprefix("tests/"), Path(name).name} & included:
            problem(name, 1, "nobody includes this header")


def main():
    names = tracked()
    included = set()
    for name in names:
        try:
            text = (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            problem(name, 1, "not UTF-8")
            continue
        check_text(name, text)
        if Path(name).suffix in CODE:
            check_includes(name, text, included)
            check_calls(name, text)
            if Path(name).suffix == ".c":
                note_long_functions(name, text)
    check_headers_used(names, included)
    for line in notes:
        print(f"note: {line}")
    for line in problems:
        print(line)
    print(f"{len(names)} files, {len(problems)} problems")
    sys.exit(1 if problems or not names else 0)


main()
