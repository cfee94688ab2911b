# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds. Each kind has a folder below build/: main (gcc), asan and tsan (clang), demo (the tool only).

cmd_build() {
  # shellcheck source=dev.d/setup.sh
  . "$ROOT/dev.d/setup.sh"
  [ $# -eq 0 ] || die "build takes no arguments"
  ensure_test
  build main
  say "built: $BUILD/main"
}

# build KIND [TARGET...]
build() {
  local kind=$1 options=() compilers=(gcc g++)
  shift
  case $kind in
    main) options=(-DCOJOIN_WERROR=ON "-DCOJOIN_PYTHON=$BUILD/venv/bin/python3") ;;
    asan) options=(-DCOJOIN_WERROR=ON "-DCOJOIN_SANITIZE=address,undefined") compilers=(clang clang++) ;;
    tsan) options=(-DCOJOIN_WERROR=ON "-DCOJOIN_SANITIZE=thread") compilers=(clang clang++) ;;
    demo) options=(-DCOJOIN_TESTS=OFF -DCOJOIN_EXAMPLES=OFF) ;;
  esac
  # Under the sanitizers assertions hold too.
  [[ $kind == ?san ]] && options+=("-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -g")
  options+=("-DCMAKE_C_COMPILER=${compilers[0]}")
  [ "$kind" = demo ] || options+=("-DCMAKE_CXX_COMPILER=${compilers[1]}")
  have ccache && options+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
  mkdir -p "$BUILD"
  local log=$BUILD/$kind.log
  {
    cmake -S "$ROOT" -B "$BUILD/$kind" -G Ninja "${options[@]}" &&
      cmake --build "$BUILD/$kind" --parallel "$(jobs_count)" ${1:+--target "$@"}
  } >"$log" 2>&1 || {
    # Ninja's progress is long; what went wrong is not.
    grep -v '^\[[0-9]*/[0-9]*\] \(Building\|Linking\)' "$log" | tail -n 60 >&2
    die "the build in $BUILD/$kind failed; the whole output: $log"
  }
}

# The Python of the system tests and benchmarks, with the clients they need from PyPI.
ensure_python() {
  local wanted=$ROOT/tests/interop/requirements.txt want
  want=$(sha256sum "$wanted" | cut -d' ' -f1)-$(python3 -V)
  [ "$(cat "$BUILD/venv/.wanted" 2>/dev/null)" = "$want" ] && return
  mkdir -p "$BUILD"
  rm -rf "$BUILD/venv"
  # Nothing of what is listed needs anything else at run time.
  {
    python3 -m venv "$BUILD/venv" &&
      { pip_install --no-deps -r "$wanted" || pip_install --no-deps -r "$wanted"; }
  } >"$BUILD/venv.log" 2>&1 || {
    tail -n 20 "$BUILD/venv.log" >&2
    die "the Python packages of tests/interop/requirements.txt could not be installed"
  }
  echo "$want" >"$BUILD/venv/.wanted"
}

pip_install() { "$BUILD/venv/bin/python3" -m pip install --quiet --disable-pip-version-check "$@"; }
