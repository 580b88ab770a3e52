// Shared by the implementation of kiln_launch.h: handles, errors, structs of any size.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <memory>
#include <new>
#include <string>

#include "client/launch/kiln_launch.h"
#include "client/launch/launcher.h"
#include "client/launch/tensor_descriptor.h"
#include "client/launch/tuner.h"

struct kiln_launch_runtime {
  explicit kiln_launch_runtime(std::unique_ptr<kiln::launch::Driver> driver)
      : launcher(std::move(driver)) {}

  kiln::launch::Launcher launcher;
  kiln::launch::Tuner tuner{launcher};
};

struct kiln_launch_artifact {
  std::shared_ptr<const kiln::launch::Artifact> artifact;
};

struct kiln_launch_kernel {
  kiln::launch::Launcher& launcher;
  std::shared_ptr<kiln::launch::Kernel> kernel;
};

struct kiln_launch_descriptor {
  std::unique_ptr<kiln::launch::TensorDescriptor> descriptor;
};

namespace kiln::launch {

// Both keep the error for kiln_launch_error. REQUIRES: !status.ok(); an exception is being handled.
kiln_launch_code ReportFailure(const Status& status);
kiln_launch_code ReportException() noexcept;

template <typename... Pointers>
Status CheckNotNull(Pointers... pointers) {
  if (((pointers != nullptr) && ...)) return Status();
  return InvalidArgument("an argument is NULL that must not be");
}

// Runs `body`, which returns a Status.
template <typename Body>
kiln_launch_code Guarded(Body body) noexcept {
  try {
    const Status status = body();
    if (status.ok()) return KILN_LAUNCH_OK;
    return ReportFailure(status);
  } catch (...) {
    return ReportException();
  }
}

// The same, once it is clear that no pointer of `required` is null.
template <typename Body>
kiln_launch_code Guarded(std::initializer_list<const void*> required, Body body) noexcept {
  return Guarded([&] {
    for (const void* pointer : required) LAUNCH_RETURN_IF_ERROR(CheckNotNull(pointer));
    return Status(body());
  });
}

// Reads a struct of an older or a newer program.
template <typename Struct>
StatusOr<Struct> Read(const Struct* given) {
  Struct known{};
  if (given == nullptr) return known;
  if (given->size < sizeof given->size) {
    return InvalidArgument("a struct's size is {}: set it to sizeof the struct", given->size);
  }
  std::memcpy(&known, given, std::min<size_t>(given->size, sizeof known));
  return known;
}

template <typename Struct>
Status CheckHasSize(const Struct* out) {
  if (out != nullptr && out->size >= sizeof out->size) return Status();
  return InvalidArgument("a struct that is to be filled in has no size: set it to sizeof it");
}

template <typename Struct>
Status Write(Struct value, Struct* out) {
  LAUNCH_RETURN_IF_ERROR(CheckHasSize(out));
  value.size = out->size;
  std::memcpy(out, &value, std::min<size_t>(out->size, sizeof value));
  return Status();
}

template <size_t n>
void CopyText(const std::string& text, char (&out)[n]) {
  const size_t length = std::min(text.size(), n - 1);
  std::memcpy(out, text.data(), length);
  out[length] = '\0';
}

}  // namespace kiln::launch
