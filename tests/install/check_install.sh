#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# ctest: timeout=300
# Installs into a temporary prefix, moves it, and builds against what is there then: with pkg-config
# and find_package, shared and static, C and C++. What leaves the shared library is what the headers
# say, and each header stands alone. Environment: COJOIN_SOURCE_DIR, COJOIN_BINARY_DIR.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
readonly STRICT=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)

# check WHAT COMMAND...: the command succeeds.
check() {
  local what=$1
  shift
  if "$@" >"$work/out" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $what: $*" && cat "$work/out"
  fi
}
# refuse WHAT TEXT COMMAND...: it fails, and says TEXT.
refuse() {
  local what=$1 text=$2
  shift 2
  if "$@" >"$work/out" 2>&1 || ! grep -q "$text" "$work/out"; then
    failed=$((failed + 1))
    echo "FAILED: $what was not refused with '$text': $*" && cat "$work/out"
  else
    passed=$((passed + 1))
  fi
}
prints() { # TEXT COMMAND...: its output is TEXT
  local text=$1 got
  shift
  got=$("$@") || return
  [ "$got" = "$text" ] || { echo "expected: $text" && echo "got: $got" && return 1; }
}

# The prefix that was configured is not the one that is used: nothing may depend on it.
cmake --install "$COJOIN_BINARY_DIR" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix"
prefix=$work/prefix
library=$(find "$prefix" -name libcojoin.so)
libdir=$(dirname "$library")
export PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir
version=$(pkg-config --modversion cojoin)

# ---- what is there ----
check "the tool runs and has the package's version" \
  bash -c "'$prefix/bin/cojoin' --version | grep -qx 'cojoin $version'"
check "the SONAME" bash -c "objdump -p '$library' | grep -q 'SONAME *libcojoin.so.0$'"
check "the shared library needs the C libraries that it stands on" \
  bash -c "objdump -p '$library' | grep -q 'NEEDED *librdkafka' && objdump -p '$library' | grep -q 'NEEDED *librocksdb'"
check "no path of the build machine is in what finds the package" \
  bash -c "! grep -rnE '$COJOIN_SOURCE_DIR|$COJOIN_BINARY_DIR|$work/first|/usr/lib' '$libdir/cmake' '$libdir/pkgconfig'"

# ---- symbols: exported is what the headers mark CJ_API, no more and no less ----
cat "$prefix"/include/cojoin/*.h | tr '\n' ' ' | grep -oE 'CJ_API [^;{(]*\(' |
  grep -oE '\bcj_[a-z0-9_]+ *\($' | tr -d ' (' | sort -u >"$work/declared"
nm -D --defined-only "$library" | awk '{print $3}' | sort -u >"$work/exported"
check "there are symbols" test -s "$work/exported"
check "exported and declared symbols are the same" diff "$work/declared" "$work/exported"
check "every global symbol of the static library begins with cj_" \
  bash -c "! nm -g --defined-only '$libdir/libcojoin.a' 2>/dev/null | awk 'NF == 3 {print \$3}' | grep -v '^cj_'"

# ---- each header alone, strict ----
for header in "$prefix"/include/cojoin/*.h; do
  name=cojoin/$(basename "$header")
  printf '#include <%s>\ntypedef int not_empty;\n' "$name" >"$work/alone.c"
  cp "$work/alone.c" "$work/alone.cpp"
  check "$name alone, C11" gcc -std=c11 "${STRICT[@]}" "-I$prefix/include" -fsyntax-only "$work/alone.c"
  check "$name alone, C++17" g++ -std=c++17 "${STRICT[@]}" "-I$prefix/include" -fsyntax-only "$work/alone.cpp"
  check "$name alone, C11, clang" clang -std=c11 "${STRICT[@]}" "-I$prefix/include" -fsyntax-only "$work/alone.c"
done
for header in "$prefix"/include/cojoin/*.hpp; do
  name=cojoin/$(basename "$header")
  echo "#include <$name>" >"$work/alone.cpp"
  for compiler in g++ clang++; do
    check "$name alone, $compiler" \
      "$compiler" -std=c++17 "${STRICT[@]}" "-I$prefix/include" -fsyntax-only "$work/alone.cpp"
  done
done

# ---- the C++ header refuses what cannot work ----
cxx() { # the body of a function that has a stream
  printf '#include <cojoin/cojoin.hpp>\nvoid f(cojoin::stream s) { %s }\n' "$1" >"$work/refused.cpp"
  g++ -std=c++17 "-I$prefix/include" -fsyntax-only "$work/refused.cpp"
}
check "a noexcept lambda is taken" \
  cxx 's.filter([](cj_ctx &, const cj_record &) noexcept { return CJ_EMIT; });'
refuse "a callable that may throw" "must be noexcept" \
  cxx 's.filter([](cj_ctx &, const cj_record &) { return CJ_EMIT; });'
refuse "a callable that changes itself" "is not const" \
  cxx 's.filter([n = 0](cj_ctx &, const cj_record &) mutable noexcept { return n++ ? CJ_EMIT : CJ_DROP; });'
refuse "the copy of a handle" "deleted" cxx '(void)s; cojoin::config a; cojoin::config b = a;'

# ---- the examples, built against the installed package in four ways ----
readonly EXAMPLES=$COJOIN_SOURCE_DIR/examples
by_pkg_config() { # shared|static EXAMPLE
  local kind=$1 example=$2 flags compiler=(gcc -std=c11)
  case $example in *.cpp) compiler=(g++ -std=c++17) ;; esac
  if [ "$kind" = static ]; then
    # The dependencies of the static library, with cojoin itself taken from the archive.
    flags="$(pkg-config --cflags cojoin) $libdir/libcojoin.a $(pkg-config --libs --static cojoin |
      sed 's/-lcojoin\b//')"
  else
    flags=$(pkg-config --cflags --libs cojoin)
  fi
  # shellcheck disable=SC2086 # flags are words
  "${compiler[@]}" "${STRICT[@]}" "$example" -o "$work/pc-$kind/$(basename "${example%.*}")" $flags
}
mkdir "$work/pc-shared" "$work/pc-static"
for example in "$EXAMPLES"/*.c "$EXAMPLES"/*.cpp; do
  for kind in shared static; do
    check "$(basename "$example") by pkg-config, $kind" by_pkg_config $kind "$example"
  done
done

mkdir "$work/project"
cat >"$work/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(examples LANGUAGES C CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(cojoin 0.1 REQUIRED)
file(GLOB examples ${EXAMPLES}/*.c ${EXAMPLES}/*.cpp)
foreach(example ${examples})
  get_filename_component(name ${example} NAME_WE)
  foreach(kind cojoin static)
    add_executable(${kind}-${name} ${example})
    target_link_libraries(${kind}-${name} PRIVATE cojoin::${kind})
  endforeach()
endforeach()
END
check "find_package(cojoin)" cmake -S "$work/project" -B "$work/cmake" -G Ninja \
  "-DCMAKE_PREFIX_PATH=$prefix" "-DEXAMPLES=$EXAMPLES"
check "the examples by find_package, shared and static" cmake --build "$work/cmake"
mkdir "$work/newer"
sed 's/cojoin 0.1/cojoin 0.99/' "$work/project/CMakeLists.txt" >"$work/newer/CMakeLists.txt"
refuse "another minor version" "version: $version" \
  cmake -S "$work/newer" -B "$work/newer/build" -G Ninja "-DCMAKE_PREFIX_PATH=$prefix"

# ---- and they run ----
for folder in "$work/pc-shared/" "$work/pc-static/" "$work/cmake/cojoin-" "$work/cmake/static-"; do
  check "test_driver of ${folder#"$work"/}" prints ok "${folder}test_driver"
  check "left_join of ${folder#"$work"/}" prints "t=2 c1: tea for Ada
t=3 c2: jam for nobody
t=5 c2: ink for Grace
t=7 c1: pen for nobody" "${folder}left_join"
  check "own_serde of ${folder#"$work"/}" prints "tea costs 3.50 EUR
skipped: 1" "${folder}own_serde"
  refuse "price_alerts without arguments, ${folder#"$work"/}" usage "${folder}price_alerts"
  refuse "alerts without arguments, ${folder#"$work"/}" usage "${folder}alerts"
done
check "the static one does not load the shared library" \
  bash -c "! ldd '$work/pc-static/test_driver' | grep libcojoin"
check "the shared one does" bash -c "ldd '$work/pc-shared/test_driver' | grep -q 'libcojoin.so.0 => $libdir'"

echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
