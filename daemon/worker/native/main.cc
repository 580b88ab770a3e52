// kiln-worker: compiles PTX, CUDA C++ and OpenCL C for kilnd, with one toolchain.
//
//   kiln-worker --describe (--ptxas FILE | --nvrtc LIBRARY | --clang FILE) [--include DIRECTORY] …
//       Prints one JSON object that says what this toolchain is and can do, and exits.
//   kiln-worker --zygote --control-fd N --parent PID (--ptxas FILE | …)
//       Opens the toolchain, and then forks one worker process per request of the daemon.
//
// daemon/worker/protocol.md says what goes over the two sockets, and how processes live and die.

#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "daemon/worker/native/clang_compiler.h"
#include "daemon/worker/native/job_server.h"
#include "daemon/worker/native/large_pages.h"
#include "daemon/worker/native/nvrtc_compiler.h"
#include "daemon/worker/native/ptxas_compiler.h"
#include "daemon/worker/native/zygote_server.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

constexpr int kDescribeProtocol = 1;

struct WorkerFlags {
  bool describe = false;
  bool zygote = false;
  int output_fd = STDOUT_FILENO;
  int control_fd = -1;
  int parent = -1;
  std::string ptxas;
  std::string nvrtc;
  std::string clang;
  std::vector<std::string> includes;
};

absl::StatusOr<std::unique_ptr<NativeCompiler>> OpenCompiler(const WorkerFlags& flags) {
  if (!flags.nvrtc.empty()) return NvrtcCompiler::Open(flags.nvrtc, flags.includes);
  if (!flags.clang.empty()) return ClangCompiler::Open(flags.clang, flags.includes);
  return PtxasCompiler::Open(flags.ptxas);
}

absl::Status RunDescription(const WorkerFlags& flags) {
  DoNotRandomizePrograms();
  KILN_ASSIGN_OR_RETURN(const auto compiler, OpenCompiler(flags));
  KILN_ASSIGN_OR_RETURN(nlohmann::json description, compiler->Describe());
  description["protocol"] = kDescribeProtocol;
  if (::dprintf(flags.output_fd, "%s\n", description.dump().c_str()) >= 0) return absl::OkStatus();
  return ErrnoStatus(errno, "write the description");
}

absl::StatusOr<std::unique_ptr<NativeCompiler>> OpenForkable(const WorkerFlags& flags) {
  KILN_ASSIGN_OR_RETURN(auto compiler, OpenCompiler(flags));
  KILN_RETURN_IF_ERROR(CheckForkable());
  return compiler;
}

// A compile takes about as much memory as the last one gave back: a page fault for each page of it,
// a thirtieth of a small compile's time. These are what the C library comes to by itself, at most,
// in a process that frees large blocks.
void KeepFreedMemory() {
  constexpr int kOwnMappingBytesMin = 32 * static_cast<int>(limits::kMiB);
  ::mallopt(M_MMAP_THRESHOLD, kOwnMappingBytesMin);
  ::mallopt(M_TRIM_THRESHOLD, 2 * kOwnMappingBytesMin);
}

absl::Status RunZygote(const WorkerFlags& flags) {
  DieWith(flags.parent, SIGTERM);
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
    return ErrnoStatus(errno, "become a subreaper");
  std::signal(SIGINT, SIG_IGN);
  UniqueFd control(flags.control_fd);
  ::fcntl(control.get(), F_SETFD, FD_CLOEXEC);
  KeepFreedMemory();
  const auto compiler = OpenForkable(flags);
  if (!compiler.ok()) {
    const std::string text =
        nlohmann::json{{"type", "failed"}, {"message", Message(compiler.status())}}.dump(
            -1, ' ', false, nlohmann::json::error_handler_t::replace);
    (void)!::send(control.get(), text.data(), text.size(), MSG_NOSIGNAL);
    return compiler.status();
  }
  if (!flags.nvrtc.empty()) MoveToLargePages(flags.nvrtc);
  return ZygoteServer(std::move(control), **compiler).Serve();
}

int WorkerMain(int argc, char** argv) {
  CLI::App app("Compiles PTX, CUDA C++ and OpenCL C for kilnd, which starts it.", "kiln-worker");
  WorkerFlags flags;
  auto* const describe =
      app.add_flag("--describe", flags.describe, "Print what this toolchain is and can do");
  app.add_flag("--zygote", flags.zygote, "Serve fork requests on the control socket")
      ->excludes(describe);
  app.add_option("--output-fd", flags.output_fd, "Where --describe prints to");
  app.add_option("--control-fd", flags.control_fd, "The control socket");
  app.add_option("--parent", flags.parent, "The daemon's pid");
  auto* const ptxas = app.add_option("--ptxas", flags.ptxas, "The ptxas to run");
  auto* const nvrtc = app.add_option("--nvrtc", flags.nvrtc, "The libnvrtc.so to compile with");
  auto* const clang = app.add_option(
      "--clang", flags.clang, "The clang to compile with, beside its llvm-spirv and spirv-val");
  nvrtc->excludes(ptxas)->excludes(clang);
  clang->excludes(ptxas);
  app.add_option("--include", flags.includes, "A directory with headers; repeated for several")
      ->excludes(ptxas);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? EXIT_SUCCESS : 2;
  }
  const bool has_toolchain = !flags.ptxas.empty() || !flags.nvrtc.empty() || !flags.clang.empty();
  if (flags.describe == flags.zygote || (flags.zygote && flags.control_fd < 0) || !has_toolchain) {
    std::fputs("kiln-worker: kilnd starts this program; see daemon/worker/protocol.md\n", stderr);
    return 2;
  }
  const absl::Status status = flags.describe ? RunDescription(flags) : RunZygote(flags);
  if (status.ok()) return EXIT_SUCCESS;
  std::fprintf(stderr, "kiln-worker: %s\n", std::string(Message(status)).c_str());
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::WorkerMain(argc, argv); }
