// A shared library opened at run time.
#pragma once

#include <string>
#include <vector>

#include "client/launch/artifact/status.h"

namespace kiln::launch {

// Never closed: drivers must not be unloaded.
class SharedLibrary {
 public:
  // A path, or a name that the loader looks up. UNAVAILABLE, with the loader's words.
  static StatusOr<SharedLibrary> Open(const std::string& path);
  // The first of these names that the process has loaded already, or else the first that there is:
  // two runtimes of one device in a process do not know of each other.
  static StatusOr<SharedLibrary> OpenFirst(const std::vector<std::string>& names);

  // Null where it is not there.
  void* Find(const char* symbol) const;
  const std::string& path() const { return path_; }
  // Equal for two handles of one library, whatever names opened them.
  const void* id() const { return handle_; }

 private:
  SharedLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  void* handle_;
  std::string path_;
};

}  // namespace kiln::launch
