#include "client/cli/commands/toolchain_layout.h"

#include <fmt/ranges.h>
#include <glob.h>

#include <filesystem>
#include <map>

namespace kiln::cli {
namespace {

struct Sought {
  std::vector<std::string> files;
  std::string_view holders;   // whose directory has them
  std::string_view released;  // what can be installed instead, or ""
};

const Sought& SoughtOf(std::string_view name) {
  static const auto* const sought = new std::map<std::string_view, Sought>{
      {"triton",
       {{"lib/python3*/site-packages/triton/__init__.py"},
        "of a virtual environment with Triton",
        "triton==3.6.0"}},
      {"nvrtc",
       {{"lib64/libnvrtc.so.*", "lib/python3*/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.*",
         "lib/python3*/site-packages/nvidia/cu13/lib/libnvrtc.so.*"},
        "of a CUDA toolkit, or of a virtual environment with NVIDIA's wheels",
        "nvrtc==12.9.86"}},
      {"ptxas",
       {{"bin/ptxas", "lib/python3*/site-packages/triton/backends/nvidia/bin/ptxas",
         "lib/python3*/site-packages/triton/backends/nvidia/bin/ptxas-blackwell",
         "lib/python3*/site-packages/torch/bin/ptxas",
         "lib/python3*/site-packages/nvidia/cuda_nvcc/bin/ptxas",
         "lib/python3*/site-packages/nvidia/cu13/bin/ptxas"},
        "of a CUDA toolkit, or of a virtual environment with Triton, PyTorch or NVIDIA's wheels",
        ""}}};
  static const auto* const none = new Sought;
  const auto found = sought->find(name);
  return found == sought->end() ? *none : found->second;
}

// What is not meant as a pattern.
std::string Literal(const std::string& path) {
  std::string literal;
  for (const char c : path) {
    if (std::string_view("*?[\\").find(c) != std::string_view::npos) literal += '\\';
    literal += c;
  }
  return literal;
}

std::vector<std::string> Matches(const std::string& directory, const std::string& pattern) {
  glob_t found = {};
  std::vector<std::string> paths;
  if (::glob((Literal(directory) + '/' + pattern).c_str(), 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  return paths;
}

// "" where `directory` holds `name`.
std::string WhyNot(const std::string& directory, std::string_view name) {
  std::error_code error;
  const auto type = std::filesystem::status(directory, error).type();
  if (type == std::filesystem::file_type::not_found) return directory + " is not there";
  if (error) return fmt::format("{}: {}", directory, error.message());
  if (type != std::filesystem::file_type::directory) return directory + " is no directory";
  std::string no_file;
  for (const std::string& pattern : SoughtFiles(name)) {
    for (const std::string& path : Matches(directory, pattern)) {
      if (std::filesystem::is_regular_file(path, error)) return "";
      no_file = path;
    }
  }
  return no_file.empty() ? fmt::format("there is no {} in {}", name, directory)
                         : no_file + " is no file, or a link that leads to none";
}

}  // namespace

const std::vector<std::string>& SoughtFiles(std::string_view name) { return SoughtOf(name).files; }

absl::Status CheckHolds(const std::string& directory, std::string_view name) {
  const std::string why = WhyNot(directory, name);
  if (why.empty()) return absl::OkStatus();
  const Sought& sought = SoughtOf(name);
  std::string next;
  if (!sought.released.empty()) {
    next = fmt::format(", or 'kiln toolchain add {}', which installs one", sought.released);
  }
  return NotFound("{}; what is looked for in a directory: {}. Give that {}{}", why,
                  fmt::join(sought.files, ", "), sought.holders, next);
}

}  // namespace kiln::cli
