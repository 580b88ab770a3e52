// A directory that looks like a toolchain and says of itself what a test wants.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/toolchain/found_toolchain.h"

namespace kiln {

// A virtual environment as `deploy/install-toolchain` makes it, with a shell script for a Python
// and files of a few bytes for Triton.
class FakeToolchain {
 public:
  // Makes it at `path`, whose parent exists.
  explicit FakeToolchain(std::string path, std::string version = "3.6.0",
                         std::string python = "3.11");

  const std::string& path() const { return path_; }
  std::string package() const { return site_packages_ + "/triton"; }
  const std::string& site_packages() const { return site_packages_; }
  std::string interpreter() const { return path_ + "/bin/python"; }
  FoundToolchain AsFound() const;

  // A file of the package, by its path relative to that.
  void Write(std::string_view path, std::string_view content) const;

  // What it answers when asked what it can do. At first that of Describes("3.6.0").
  void Answer(std::string_view json) const;
  // Runs `commands` of sh instead of answering.
  void Run(std::string_view commands) const;
  // How often it was asked.
  int TimesAsked() const;

 private:
  std::string path_;
  std::string python_;
  std::string version_;
  std::string site_packages_;
};

// FindToolchains, less what is no Triton: a fake one's ptxas cannot be run.
std::vector<FoundToolchain> FindTritons(const std::vector<std::string>& directories);

// A file that its owner may run, and the directories that it lies in.
void WriteProgram(const std::string& path, std::string_view content);

// The JSON of a Triton of that version, which compiles for cuda:80, cuda:90 and hip:gfx942.
std::string Describes(std::string_view version);

}  // namespace kiln
