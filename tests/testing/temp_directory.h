// A directory that lives as long as a test.
#pragma once

#include <string>
#include <string_view>

namespace kiln {

// Makes a private directory under $TMPDIR (/tmp where unset); removes it and everything in it when
// destroyed, read-only entries included. Aborts the test program where it cannot make one.
class TempDirectory {
 public:
  TempDirectory();
  ~TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const { return path_; }
  // path() + "/" + name.
  std::string File(std::string_view name) const;

 private:
  std::string path_;
};

// The whole content of a file; aborts where it cannot be read.
std::string ReadFileOrDie(const std::string& path);
// Replaces the whole content of a file; aborts where it cannot.
void WriteFileOrDie(const std::string& path, std::string_view content);

}  // namespace kiln
