#include "client/cli/requests/bundle_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "storage/base/limits.h"
#include "storage/bundle/bundle_format.h"
#include "storage/bundle/signature.h"

namespace kiln::cli {
namespace {

constexpr size_t kSizeBytes = 4;

// Fewer than `size` bytes only at the end of the file.
absl::StatusOr<std::string> Read(int file, size_t size) {
  std::string bytes(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(file, bytes.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read the bundle");
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace

absl::StatusOr<BundleReader> BundleReader::Open(const std::string& path) {
  UniqueFd file(path == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                            : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return ErrnoStatus(errno, path);
  KILN_ASSIGN_OR_RETURN(std::string begin, Read(file.get(), kBundleMagic.size() + kBundleIdBytes));
  if (begin.size() < kBundleMagic.size() + kBundleIdBytes) {
    return DataLoss("it is no bundle, or is cut off");
  }
  const std::string_view name = kBundleMagic.substr(0, kBundleMagic.size() - 1);
  if (!begin.starts_with(name)) return DataLoss("it is no bundle");
  if (!begin.starts_with(kBundleMagic)) {
    return FailedPrecondition("the bundle has version {}, and this kiln reads version {}",
                              static_cast<int>(begin[name.size()]),
                              static_cast<int>(kBundleMagic.back()));
  }
  return BundleReader(std::move(file), begin.substr(kBundleMagic.size()));
}

absl::StatusOr<std::optional<BundleFrame>> BundleReader::Next() {
  KILN_ASSIGN_OR_RETURN(const std::string number, Read(file_.get(), kSizeBytes));
  if (number.empty()) return std::nullopt;
  size_t size = 0;
  for (size_t i = 0; i < number.size(); ++i) {
    size |= size_t{static_cast<unsigned char>(number[i])} << (8 * i);
  }
  if (number.size() == kSizeBytes && size > limits::kBundleFrameBytesMax) {
    return DataLoss("the bundle is damaged: a block is larger than blocks are");
  }
  BundleFrame block{number_++, {}, {}};
  KILN_ASSIGN_OR_RETURN(block.frame, Read(file_.get(), size));
  KILN_ASSIGN_OR_RETURN(block.signature, Read(file_.get(), kSignatureBytes));
  if (number.size() < kSizeBytes || block.signature.size() < kSignatureBytes) {
    return DataLoss("the bundle is cut off");
  }
  return block;
}

}  // namespace kiln::cli
