#!/bin/bash
# Installs libkiln into a folder of its own, moves it, and builds a program against it in each of the ways that people use.
#   install_test.sh BUILD_DIRECTORY C_COMPILER CXX_COMPILER
set -euo pipefail
build=$1
c_compiler=$2
cxx_compiler=$3
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/integration/installed_library.sh
source "$here/../installed_library.sh"

install_and_move libkiln libkiln.so

expect() {
  local answer
  answer=$(LD_LIBRARY_PATH=$library "$1" "$work/no-daemon-here")
  [[ $answer == UNAVAILABLE ]] || fail "$1 said: $answer"
}

echo "with CMake"
build_with_cmake
expect "$work/with-cmake/consumer"

echo "with pkg-config"
build_with_pkg_config kiln "$cxx_compiler" -std=c++20 "$here/consumer/consumer.cc"
expect "$work/with-pkg-config"

echo "no header that was not installed"
printf '#include <kiln/%s>\n' tuning_store.h client.h |
  "$cxx_compiler" -std=c++17 -fsyntax-only -I "$work/installed/include" -x c++ -
