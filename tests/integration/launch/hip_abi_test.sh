#!/bin/bash
# Holds client/launch/driver/hip_abi.h and abi.h against AMD's headers, as the packages of Triton carry them.
#   hip_abi_test.sh CXX_COMPILER TOOLCHAINS
set -euo pipefail
compiler=$1
toolchains=$2
here=$(dirname "$(readlink -f "$0")")

shopt -s nullglob
checked=0
for header in "$toolchains"/triton-*/lib/python3*/site-packages/triton/backends/amd/include/hip/hip_runtime_api.h; do
  headers=${header%/hip/hip_runtime_api.h}
  "$compiler" -std=c++20 -fsyntax-only -I "$here/../../.." -isystem "$headers" -x c++ "$here/hip_abi_check.cc"
  sed -n 's/^#define HIP_VERSION_\(MAJOR\|MINOR\) /HIP \1 /p' "$headers/hip/hip_version.h"
  checked=$((checked + 1))
done
((checked > 0)) || { echo "no Triton under $toolchains" >&2; exit 1; }
