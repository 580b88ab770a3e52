#!/bin/bash
# Installs libkiln_launch into a folder of its own, moves it, and builds programs against it in each of the ways that people use.
#   install_test.sh BUILD_DIRECTORY C_COMPILER CXX_COMPILER DRIVER
set -euo pipefail
build=$1
c_compiler=$2
cxx_compiler=$3
driver=$4
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/integration/installed_library.sh
source "$here/../installed_library.sh"

install_and_move kiln_launch libkiln_launch.so

# Kernels as `kiln compile -o` writes them, of an ELF header alone, for the stand-in's GPU and for another.
printf '\x7fELF\x02\x01\x01' >"$work/k.cubin"
truncate -s 64 "$work/k.cubin"
for architecture in 80 90; do
  cat >"$work/k$architecture.json" <<JSON
{"stages": [{"stage": "cubin", "digest": "$(sha256sum "$work/k.cubin" | cut -d' ' -f1)", "file": "k.cubin"}],
 "metadata": {"name": "k", "target": "cuda:$architecture", "num_warps": 4, "hidden_pointers": 2,
              "parameters": [{"name": "x", "type": "*fp32"}]}}
JSON
done
"$c_compiler" -shared -fPIC -o "$work/knowing_driver.so" "$here/knowing_driver.c" "$driver" -Wl,-rpath,"$(dirname "$driver")"

# expect WORDS PROGRAM ARGUMENT…: it fails, and says so.
expect() {
  local words=$1 answer
  shift
  if answer=$(LD_LIBRARY_PATH=$library "$@" 2>&1); then fail "$1 did not fail: $answer"; fi
  [[ $answer == *"$words"* ]] || fail "$1 said: $answer"
}

null=0000000000000000
check() {
  local launched
  launched=$(LD_LIBRARY_PATH=$library "$1" "$work/k90.json" "$work/knowing_driver.so") || fail "$1 failed"
  [[ $launched == "launched k"$'\n'"k 1x1x1 128x1x1 0 0x0 $null $null $null" ]] || fail "$1 launched: $launched"
  expect "no GPU driver here: /nowhere/libcuda.so.1" "$1" "$work/k80.json" /nowhere/libcuda.so.1
  expect "kernel k (binary " "$1" "$work/k80.json" "$driver"
  expect "compiled for cuda:80, but device 0 (Stand-in GPU) is cuda:90" "$1" "$work/k80.json" "$driver"
  expect "No such file" "$1" "$work/none.json" "$driver"
}

echo "with CMake"
build_with_cmake
check "$work/with-cmake/launch_c"
check "$work/with-cmake/launch_cxx"

echo "with pkg-config"
build_with_pkg_config kiln_launch "$c_compiler" -std=c11 "$here/consumer/launch.c"
check "$work/with-pkg-config"

echo "the header needs no more than C99, or C++98"
"$c_compiler" -std=c99 -pedantic -Wall -Wextra -Werror -fsyntax-only -x c "$work/installed/include/kiln_launch.h"
"$cxx_compiler" -std=c++98 -Wall -Wextra -Werror -fsyntax-only -x c++ "$work/installed/include/kiln_launch.h"

echo "exports nothing but its interface"
others=$(nm -D --defined-only "$library/libkiln_launch.so" | awk '{print $NF}' | grep -v '^kiln_launch_' || true)
[[ -z $others ]] || fail "also exports: $others"

echo "brings nothing along"
needed=$(readelf -d "$library/libkiln_launch.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
  grep -vE '^(libc|libm|ld-linux-x86-64|libcrypto)\.so' || true)
[[ -z $needed ]] || fail "also needs: $needed"
