#include "daemon/sandbox/jail_needs.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <set>

#include "daemon/process/loaded_libraries.h"

namespace kiln {
namespace {

// Where the system keeps libraries and nothing else.
constexpr std::array kSystemLibraries = {"/lib/",     "/lib32/",     "/lib64/",
                                         "/usr/lib/", "/usr/lib64/", "/usr/local/lib/"};

// A file of /proc/self/maps, or ""; "55d0 r-xp 0000 08:01 42   /usr/lib/x.so" has five fields
// before.
std::string MappedFile(const std::string& line) {
  const size_t begin = line.find('/');
  std::error_code error;
  if (begin == std::string::npos || !std::filesystem::is_regular_file(line.substr(begin), error)) {
    return "";
  }
  return line.substr(begin);
}

std::string DirectoryOrFile(const std::string& library) {
  for (const std::string_view directory : kSystemLibraries) {
    if (library.starts_with(directory)) return library.substr(0, library.rfind('/'));
  }
  return library;
}

}  // namespace

JailNeeds NeedsOfThisProcess(const std::vector<std::string>& programs) {
  std::set<std::string> started(programs.begin(), programs.end());
  for (const std::string& program : programs) {
    if (std::string loader = LoaderOf(program); !loader.empty()) started.insert(std::move(loader));
  }
  std::set<std::string> read;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (const std::string file = MappedFile(line); !file.empty())
      read.insert(DirectoryOrFile(file));
  }
  return {{started.begin(), started.end()}, {read.begin(), read.end()}};
}

}  // namespace kiln
