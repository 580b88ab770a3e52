// The real compiler, for tests that need one.
#pragma once

#include <memory>
#include <string>

#include "daemon/toolchain/discovered_toolchains.h"

namespace kiln {

// The toolchains in $KILN_TEST_TOOLCHAINS, found once per program; what was learned is kept in a
// private directory that goes with the program. Ends the test program with a message that says how
// to install one where there is none: a test that needs a compiler and has none has failed.
const DiscoveredToolchains& RealToolchains();

// The default one among them.
std::shared_ptr<const Toolchain> RealTriton();

// The ptxas of the default one, as a toolchain of its own.
std::shared_ptr<const Toolchain> RealPtxas();

// kiln-worker of this build.
std::string NativeWorker();

// triton_worker.py of this source tree.
std::string WorkerScript();
// The malloc that workers have on this machine; "": the C library's.
std::string InstalledJemalloc();

}  // namespace kiln
