#!/bin/bash
# Installs libkiln_graph with what it needs into a folder of its own, moves it, and builds programs against it: a C program that plans,
# and the example of docs/graph.md, which a daemon compiles for and Intel's OpenCL runtime for CPUs runs.
#   install_test.sh BUILD_DIRECTORY C_COMPILER CXX_COMPILER
set -euo pipefail
build=$1
c_compiler=$2
cxx_compiler=$3
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/integration/installed_library.sh
source "$here/../installed_library.sh"

install_and_move kiln_graph libkiln_graph.so
cmake --install "$build" --component kiln_launch --prefix "$work/installed" >>"$work/log"
cmake --install "$build" --component libkiln --prefix "$work/installed" >>"$work/log"

cat >"$work/relu.json" <<'JSON'
{"kiln_segment": 1,
 "values": [{"name": "x", "type": "f32", "shape": [8, 16], "role": "input"},
            {"name": "s", "type": "f32", "shape": [8, 1]},
            {"name": "y", "type": "f32", "shape": [8, 1], "role": "output"}],
 "operations": [{"op": "ReduceMax", "inputs": ["x"], "outputs": ["s"], "attributes": {"axes": [1]}},
                {"op": "Relu", "inputs": ["s"], "outputs": ["y"]}]}
JSON
check() {
  local said
  said=$(LD_LIBRARY_PATH=$library "$1" spirv:1.2 <"$work/relu.json") || fail "$1 failed"
  [[ $said == *"opencl for spirv:1.2: "*" threads" ]] || fail "$1 said: $said"
  said=$(LD_LIBRARY_PATH=$library "$1" cuda:90 spirv:1.2 <"$work/relu.json") || fail "$1 failed for two"
  [[ $said == *" for cuda:90: "*" for spirv:1.2: "* ]] || fail "$1 said: $said"
  if said=$(LD_LIBRARY_PATH=$library "$1" metal:1 <"$work/relu.json" 2>&1); then fail "$1 took metal"; fi
  [[ $said == "plan: "*metal* ]] || fail "$1 said: $said"
}

echo "with CMake"
build_with_cmake "$here/consumer"
check "$work/with-cmake/plan"

echo "with pkg-config"
build_with_pkg_config kiln_graph "$c_compiler" -std=c11 "$here/consumer/plan.c"
check "$work/with-pkg-config"

echo "the header needs no more than C99, or C++98"
"$c_compiler" -std=c99 -pedantic -Wall -Wextra -Werror -fsyntax-only -x c "$work/installed/include/kiln_graph.h"
"$cxx_compiler" -std=c++98 -Wall -Wextra -Werror -fsyntax-only -x c++ "$work/installed/include/kiln_graph.h"

echo "the example in <kiln/graph.h> is C++"
{
  echo "#include <kiln/graph.h>"
  echo "void Example(kiln::Client* client, kiln_launch_runtime* runtime, const std::vector<uint64_t>& addresses,"
  echo "             const std::vector<int64_t>& symbols, uint64_t workspace, uint64_t bytes, void* stream) {"
  sed -n '/^#pragma once/q; s|^//   ||p' "$work/installed/include/kiln/graph.h"
  echo "}"
} >"$work/example.cc"
"$cxx_compiler" -std=c++20 -fsyntax-only -I"$work/installed/include" "$work/example.cc"

echo "exports nothing but its interface"
others=$(nm -D --defined-only "$library/libkiln_graph.so" | awk '{print $NF}' | grep -v '^kiln_graph_' || true)
[[ -z $others ]] || fail "also exports: $others"

echo "brings nothing along"
needed=$(readelf -d "$library/libkiln_graph.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
  grep -vE '^(libc|libm|ld-linux-x86-64|libcrypto|libkiln_launch)\.so' || true)
[[ -z $needed ]] || fail "also needs: $needed"

echo "the example builds"
rm -r "$work/with-cmake"
build_with_cmake "$work/installed/share/kiln/examples/graph"
example=$work/with-cmake/gated
if said=$(KILN_ROOT=$work/no-daemon-here "$example" 2>&1); then fail "the example needs no daemon: $said"; fi
[[ $said == *"gated: 2 operations"* && $said == *"no daemon compiles the plan: UNAVAILABLE: "* ]] || fail "without a daemon: $said"

opencl=${KILN_TEST_OPENCL:-$HOME/.cache/kiln/test-opencl}
if [[ ! -d $opencl/vendors || ! -x /usr/bin/llvm-spirv-15 ]]; then
  echo "no OpenCL here: the example does not run"
  exit 0
fi
echo "the example runs"
KILN_TOOLCHAIN_DIRECTORIES=/usr "$build/bin/kilnd" --root "$work/root" 2>"$work/kilnd.log" &
daemon=$!
trap 'kill "$daemon" && wait "$daemon"; rm -rf "$work"' EXIT
for ((i = 0; i < 300; ++i)); do
  [[ -S $work/root/run/kilnd.sock ]] && break
  sleep 0.1
done
said=$(KILN_ROOT=$work/root OCL_ICD_VENDORS=$opencl/vendors "$example" 2>&1) || fail "the example: $said $(<"$work/kilnd.log")"
[[ $said == *"batch 1000: differs by at most "* ]] || fail "the example said: $said"
