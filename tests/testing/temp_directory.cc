#include "tests/testing/temp_directory.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace kiln {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void Die(const char* what, const std::string& path) {
  std::perror((std::string(what) + " " + path).c_str());
  std::abort();
}

// A test may have taken away its own right to write; without it nothing below can be removed.
void MakeWritable(const fs::path& root) {
  std::error_code ignored;
  fs::permissions(root, fs::perms::owner_all, fs::perm_options::add, ignored);
  fs::recursive_directory_iterator it(root, fs::directory_options::skip_permission_denied, ignored);
  for (; it != fs::recursive_directory_iterator(); it.increment(ignored)) {
    if (it->is_directory(ignored) && !it->is_symlink(ignored)) {
      fs::permissions(it->path(), fs::perms::owner_all, fs::perm_options::add, ignored);
    }
  }
}

}  // namespace

TempDirectory::TempDirectory() {
  const char* parent = std::getenv("TMPDIR");
  path_ = std::string(parent != nullptr && *parent != '\0' ? parent : "/tmp") + "/kiln-test-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr) Die("mkdtemp", path_);
}

TempDirectory::~TempDirectory() {
  std::error_code ignored;
  MakeWritable(path_);
  fs::remove_all(path_, ignored);
}

std::string TempDirectory::File(std::string_view name) const {
  return path_ + "/" + std::string(name);
}

std::string ReadFileOrDie(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) Die("open", path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void WriteFileOrDie(const std::string& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.flush();
  if (!file) Die("write", path);
}

}  // namespace kiln
