# shellcheck shell=bash
# What the tests of an installed library share. Whoever sources it has set: build, the build directory; here, the test's own, whose
# consumer/ is the program of somebody else's; c_compiler and cxx_compiler.

work=$(mktemp -d "${TMPDIR:-/tmp}/kiln-install-XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
  echo "$*" >&2
  exit 1
}

# install_and_move COMPONENT LIBRARY: into $work/installed. $library becomes the directory with that shared object.
install_and_move() {
  cmake --install "$build" --component "$1" --prefix "$work/staged" >"$work/log"
  # Nothing may depend on where it was first.
  mv "$work/staged" "$work/installed"
  library=$(dirname "$(find "$work/installed" -name "$2")")
}

# build_with_cmake [SOURCES]: $here/consumer into $work/with-cmake.
build_with_cmake() {
  CC=$c_compiler CXX=$cxx_compiler CFLAGS="-Wall -Wextra -Werror" CXXFLAGS="-Wall -Wextra -Werror" \
    cmake -S "${1:-$here/consumer}" -B "$work/with-cmake" -DCMAKE_PREFIX_PATH="$work/installed" >>"$work/log"
  cmake --build "$work/with-cmake" >>"$work/log"
}

# build_with_pkg_config PACKAGE COMPILER ARGUMENT…: $work/with-pkg-config.
build_with_pkg_config() {
  local package=$1 flags
  shift
  export PKG_CONFIG_PATH=$library/pkgconfig
  [[ $(pkg-config --modversion "$package") == [0-9]* ]] || fail "pkg-config knows no version of $package"
  read -ra flags < <(pkg-config --cflags --libs "$package")
  "$@" -o "$work/with-pkg-config" "${flags[@]}"
}
