// A manifest that somebody sent: frames of zstd around any index and any page.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "client/cli/requests/manifest_frame.h"
#include "client/cli/requests/manifest_reader.h"
#include "client/cli/requests/request_json.h"
#include "storage/base/unique_fd.h"
#include "storage/bundle/zstd_frame.h"

namespace kiln::cli {
namespace {

// The first byte says how much of the input is the index; the rest is a page.
std::string Manifest(std::string_view input) {
  const size_t split =
      input.empty() ? 0 : static_cast<uint8_t>(input.front()) * (input.size() - 1) / 255;
  if (!input.empty()) input.remove_prefix(1);
  v1::ManifestIndex index;
  // What cannot be parsed is an index with the fields that could.
  (void)index.ParsePartialFromArray(input.data(), static_cast<int>(split));
  std::string file(kManifestMagic);
  const std::string page = *CompressFrame(input.substr(split));
  if (index.pages_size() > 0) {
    index.mutable_pages(0)->set_offset(file.size());
    index.mutable_pages(0)->set_size(page.size());
  }
  file += page;
  const std::string frame = *CompressFrame(index.SerializeAsString());
  const ManifestTrailer trailer{file.size(), frame.size(), Digest::Of(frame)};
  return file + frame + trailer.Encode();
}

// Opens the bytes as a file.
void Read(std::string_view bytes) {
  const UniqueFd file(::memfd_create("manifest", MFD_CLOEXEC));
  if (::write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) return;
  auto reader = ManifestReader::Open("/proc/self/fd/" + std::to_string(file.get()));
  if (!reader.ok()) return;
  while (const auto named = reader->Next()) {
    // What comes out can be written and has an identity.
    if (named->request.ok() && RequestDigest(*named->request).IsZero()) std::abort();
  }
}

}  // namespace
}  // namespace kiln::cli

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  kiln::cli::Read(input);
  kiln::cli::Read(kiln::cli::Manifest(input));
  return 0;
}
