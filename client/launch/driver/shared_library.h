// A shared library opened at run time.
#pragma once

#include <string>
#include <vector>

#include "client/launch/artifact/status.h"
#include "client/launch/driver/abi.h"

namespace kiln::launch {

// Finds a driver's functions. Never closed: drivers must not be unloaded.
class SharedLibrary {
 public:
  // Paths, or names that the loader looks up. The first that the process has loaded already, or
  // else the first that there is: two runtimes of one device in a process do not know of each
  // other. UNAVAILABLE, with the loader's words for the first.
  static StatusOr<SharedLibrary> Open(const std::vector<std::string>& names);

  // A null function where it is not there.
  template <typename Type>
  void Find(abi::EntryPoint<Type>& entry, const char* name) const {
    entry = {name, reinterpret_cast<Type*>(FunctionAt(name))};
  }
  template <typename Type>
  void Require(abi::EntryPoint<Type>& entry, const char* name) {
    Find(entry, name);
    if (entry.function == nullptr && missing_ == nullptr) missing_ = name;
  }
  // The first required function that the library does not have; null: it has them all.
  const char* missing() const { return missing_; }

  const std::string& path() const { return path_; }
  // Equal for two handles of one library, whatever names opened them.
  const void* id() const { return handle_; }

 private:
  SharedLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  void* FunctionAt(const char* symbol) const;

  void* handle_;
  std::string path_;
  const char* missing_ = nullptr;
};

}  // namespace kiln::launch
