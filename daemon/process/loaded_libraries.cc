#include "daemon/process/loaded_libraries.h"

#include <elf.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>

#include "daemon/process/output_capture.h"
#include "daemon/process/spawn.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

// "	libm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x…)", and for the loader "	/lib64/ld-…
// (0x…)";
// "" for the library that is the kernel's.
std::string FileIn(const std::string& line) {
  const size_t begin = line.find('/');
  const size_t end = line.rfind(" (0x");
  return begin == std::string::npos || end == std::string::npos ? ""
                                                                : line.substr(begin, end - begin);
}

absl::StatusOr<std::string> RunLoader(const std::string& loader, const std::string& program) {
  KILN_ASSIGN_OR_RETURN(const OutputCapture said, OutputCapture::Create());
  SpawnCommand command;
  command.arguments = {loader, "--inhibit-cache", "--list", program};
  command.directory = "/";
  KILN_ASSIGN_OR_RETURN(const pid_t pid, Spawn(command, said.fd(), -1));
  int wait_status = 0;
  if (!ReapChild(pid, kPatience, &wait_status)) {
    ::kill(-pid, SIGKILL);
    ReapChild(pid, kPatience, nullptr);
    return Unavailable("{} does not say within {} s what {} loads", loader, kPatience.count(),
                       program);
  }
  std::string output = said.Tail(limits::kMiB);
  if (wait_status == 0) return output;
  return FailedPrecondition("{} loads no libraries for {}: {}", loader, program, output);
}

}  // namespace

std::string LoaderOf(const std::string& program) {
  std::ifstream file(program, std::ios::binary);
  Elf64_Ehdr header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header)) return "";
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) {
    return "";
  }
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    file.seekg(
        static_cast<std::streamoff>(header.e_phoff + static_cast<uint64_t>(i) * sizeof segment));
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof segment)) return "";
    if (segment.p_type != PT_INTERP) continue;
    std::string loader;
    file.seekg(static_cast<std::streamoff>(segment.p_offset));
    std::getline(file, loader, '\0');
    return loader;
  }
  return "";
}

absl::StatusOr<std::vector<std::string>> LibrariesOf(const std::string& program) {
  const std::string loader = LoaderOf(program);
  if (loader.empty()) return FailedPrecondition("{} is no program that has libraries", program);
  KILN_ASSIGN_OR_RETURN(const std::string output, RunLoader(loader, program));
  std::vector<std::string> libraries;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (std::string file = FileIn(line); !file.empty()) {
      libraries.push_back(std::move(file));
    } else if (line.ends_with("not found")) {
      return FailedPrecondition("{} lacks a library: {}", program, line.substr(1));
    }
  }
  return libraries;
}

}  // namespace kiln
