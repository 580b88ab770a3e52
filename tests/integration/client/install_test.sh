#!/bin/bash
# Installs libkiln into a folder of its own, moves it, and builds a program against it in each of the ways that people use.
#   install_test.sh BUILD_DIRECTORY CXX_COMPILER
set -euo pipefail
build=$1
compiler=$2
here=$(dirname "$(readlink -f "$0")")

work=$(mktemp -d "${TMPDIR:-/tmp}/kiln-install-XXXXXX")
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --component libkiln --prefix "$work/staged" >"$work/log"
# Nothing may depend on where it was first.
mv "$work/staged" "$work/installed"
library=$(dirname "$(find "$work/installed" -name libkiln.so)")

expect() {
  local answer
  answer=$(LD_LIBRARY_PATH=$library "$1" "$work/no-daemon-here")
  [[ $answer == UNAVAILABLE ]] || { echo "$1 said: $answer" >&2; exit 1; }
}

echo "with CMake"
CXX=$compiler cmake -S "$here/consumer" -B "$work/with-cmake" -DCMAKE_PREFIX_PATH="$work/installed" \
  -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" >>"$work/log"
cmake --build "$work/with-cmake" >>"$work/log"
expect "$work/with-cmake/consumer"

echo "with pkg-config"
export PKG_CONFIG_PATH=$library/pkgconfig
[[ $(pkg-config --modversion kiln) == [0-9]* ]]
read -ra flags < <(pkg-config --cflags --libs kiln)
"$compiler" -std=c++20 "$here/consumer/consumer.cc" -o "$work/with-pkg-config" "${flags[@]}"
expect "$work/with-pkg-config"

echo "no header that was not installed"
"$compiler" -std=c++17 -fsyntax-only -I "$work/installed/include" -x c++ "$work/installed/include/kiln/client.h"
