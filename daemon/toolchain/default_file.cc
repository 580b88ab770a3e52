#include "daemon/toolchain/default_file.h"

#include "daemon/toolchain/toolchain_selector.h"
#include "storage/base/limits.h"
#include "storage/base/log.h"

namespace kiln {

absl::StatusOr<std::string> DefaultFile::Read() const {
  const auto content = filesystem_.Read(path_, limits::kNameBytesMax);
  if (absl::IsNotFound(content.status())) return "";
  const absl::Status readable =
      content.ok() ? ToolchainSelector::Parse(*content).status() : content.status();
  if (readable.ok()) return content;
  LogWarning("the chosen default toolchain cannot be read",
             {{"path", path_}, {"error", Message(readable)}});
  if (!content.ok()) return content;
  return "";
}

absl::Status DefaultFile::Write(const std::string& selector) {
  if (selector.empty()) {
    const absl::Status removed = filesystem_.Remove(path_);
    return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
  }
  const std::string temporary = path_ + ".tmp";
  filesystem_.Remove(temporary).IgnoreError();  // of a daemon that died while it wrote
  KILN_RETURN_IF_ERROR(filesystem_.WriteNew(temporary, selector, 0600));
  return filesystem_.Rename(temporary, path_);
}

}  // namespace kiln
