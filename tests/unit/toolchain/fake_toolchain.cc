#include "tests/unit/toolchain/fake_toolchain.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

void WriteWithParents(const std::string& path, std::string_view content) {
  fs::create_directories(fs::path(path).parent_path());
  WriteFileOrDie(path, content);
}

}  // namespace

void WriteProgram(const std::string& path, std::string_view content) {
  WriteWithParents(path, content);
  fs::permissions(path, fs::perms::owner_all);
}

FakeToolchain::FakeToolchain(std::string path, std::string version, std::string python)
    : path_(std::move(path)),
      python_(std::move(python)),
      version_(std::move(version)),
      site_packages_(fmt::format("{}/lib/python{}/site-packages", path_, python_)) {
  WriteProgram(interpreter(),
               "#!/bin/sh\n"
               "here=$(dirname \"$0\")/..\n"
               "echo asked >> \"$here/asked\"\n"
               "[ ! -e \"$here/commands\" ] || . \"$here/commands\"\n"
               "cat \"$here/answer.json\" >&3\n");
  Answer(Describes(version_));
  Write("__init__.py", fmt::format("__version__ = '{}'\n", version_));
  Write("knobs.py", "");
  Write("_C/libtriton.so", "code");
  Write("backends/nvidia/compiler.py", "stages");
  Write("backends/nvidia/bin/ptxas", "assembler");
  Write("backends/nvidia/lib/libdevice.10.bc", "bitcode");
  WriteWithParents(fmt::format("{}/triton-{}.dist-info/RECORD", site_packages_, version_),
                   "triton-x.dist-info/RECORD,,\ntriton/__init__.py,sha256=x,12\n");
}

FoundToolchain FakeToolchain::AsFound() const {
  return {.name = std::string(kTriton),
          .path = path_,
          .installation = path_,
          .interpreter = interpreter(),
          .package = package(),
          .python = python_,
          .version = version_};
}

std::vector<FoundToolchain> FindTritons(const std::vector<std::string>& directories) {
  std::vector<FoundToolchain> found = FindToolchains(directories, FileTrust());
  std::erase_if(found, [](const FoundToolchain& each) { return each.name != kTriton; });
  return found;
}

void FakeToolchain::Write(std::string_view path, std::string_view content) const {
  WriteWithParents(fmt::format("{}/{}", package(), path), content);
}

void FakeToolchain::Answer(std::string_view json) const {
  WriteFileOrDie(path_ + "/answer.json", json);
}

void FakeToolchain::Run(std::string_view commands) const {
  WriteFileOrDie(path_ + "/commands", fmt::format("{}\n", commands));
}

int FakeToolchain::TimesAsked() const {
  if (!fs::exists(path_ + "/asked")) return 0;
  const std::string asked = ReadFileOrDie(path_ + "/asked");
  return static_cast<int>(std::count(asked.begin(), asked.end(), '\n'));
}

std::string Describes(std::string_view version) {
  return R"({"protocol": 1, "name": "triton", "version": ")" + std::string(version) +
         R"(", "python": "3.11.2", "assembler": "ptxas 12.8.93", "hidden_pointers": 2,
 "kinds": ["ttir"], "backends": [
 {"backend": "cuda", "architectures": ["80", "90"], "stages": ["ttgir", "llir", "ptx", "cubin"],
  "options": {"num_warps": {"type": "integer", "default": 4}, "maxnreg": {"type": "integer"}}},
 {"backend": "hip", "architectures": ["gfx942"], "stages": ["ttgir", "llir", "amdgcn", "hsaco"],
  "options": {"num_warps": {"type": "integer", "default": 4}}}]})";
}

}  // namespace kiln
