// The stages of a request. "sass" is the text of a cubin's machine code: nvdisasm makes it on this
// machine, and the daemon knows nothing of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/status.h"

namespace kiln::cli {

inline constexpr char kSassStage[] = "sass";
inline constexpr char kCubinStage[] = "cubin";

// A CUDA request for "sass" asks for "cubin" instead. Returns the stages that it asked for; none
// where "sass" is not one of them.
[[nodiscard]] std::vector<std::string> AskForCubin(v1::CompileRequest& request);

// Drops the stages that only other backends of the daemon's toolchains have: amdgcn from a kernel
// for cuda. Keeps all stages if none is this backend's, and keeps unknown names: the daemon then
// says what is wrong.
void DropForeignStages(const v1::ListToolchainsResponse& listed, v1::CompileRequest& request);

// Gives the answer to such a request the stages of `wanted`, "sass" included.
[[nodiscard]] absl::Status AddSass(const std::string& nvdisasm,
                                   const std::vector<std::string>& wanted,
                                   v1::CompileResponse& response);

// `named`, where it is not empty. Otherwise the first nvdisasm of PATH, or else the last by name in
// the daemon's toolchain directories (docs/toolchains.md). From the directories, only a file that
// nobody but root and this user may change. FAILED_PRECONDITION where there is none.
[[nodiscard]] absl::StatusOr<std::string> FindNvdisasm(const std::string& named);

// Blocks until nvdisasm has ended, some milliseconds.
// FAILED_PRECONDITION, with what nvdisasm says, where it fails.
[[nodiscard]] absl::StatusOr<std::string> Disassemble(const std::string& nvdisasm,
                                                      std::string_view cubin);

}  // namespace kiln::cli
