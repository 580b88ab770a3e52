#include "daemon/process/output_capture.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "storage/base/limits.h"

namespace kiln {

absl::StatusOr<OutputCapture> OutputCapture::Create() {
  UniqueFd file(::memfd_create("kiln-worker-output", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return ErrnoStatus(errno, "memfd_create");
  if (::ftruncate(file.get(), static_cast<off_t>(limits::kWorkerOutputBytesMax)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    return ErrnoStatus(errno, "limit a worker's output");
  }
  return OutputCapture(std::move(file));
}

std::string OutputCapture::Tail(size_t bytes_max) const {
  // Where the next write goes: the size so far, unless the process moved it, which hurts only
  // itself.
  const auto position = static_cast<size_t>(std::max<off_t>(::lseek(file_.get(), 0, SEEK_CUR), 0));
  const size_t end = std::min(position, limits::kWorkerOutputBytesMax);
  const size_t size = std::min(end, bytes_max);
  std::string tail(size, '\0');
  const ssize_t got = ::pread(file_.get(), tail.data(), size, static_cast<off_t>(end - size));
  tail.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return tail;
}

}  // namespace kiln
