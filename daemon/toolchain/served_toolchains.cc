#include "daemon/toolchain/served_toolchains.h"

#include <utility>

#include "daemon/toolchain/toolchain_selector.h"
#include "storage/base/filesystem.h"
#include "storage/base/limits.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

// Running compiles may report a known change again, so changes are remembered.
constexpr size_t kChangesKnownMax = 1024;

// "" where nothing was chosen. What is no selector is as good as that, with a warning. An error
// where the file could not be read.
absl::StatusOr<std::string> ReadChoice(const std::string& path) {
  const auto content = OsFilesystem().Read(path, limits::kNameBytesMax);
  if (absl::IsNotFound(content.status())) return "";
  const absl::Status readable =
      content.ok() ? ToolchainSelector::Parse(*content).status() : content.status();
  if (readable.ok()) return content;
  LogWarning("the chosen default toolchain cannot be read",
             {{"path", path}, {"error", Message(readable)}});
  if (!content.ok()) return content;
  return "";
}

// Survives a crash as a whole or not at all. "" takes the choice back.
absl::Status WriteChoice(const std::string& path, const std::string& selector) {
  if (selector.empty()) {
    const absl::Status removed = OsFilesystem().Remove(path);
    return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
  }
  const std::string temporary = path + ".tmp";
  OsFilesystem().Remove(temporary).IgnoreError();  // of a daemon that died while it wrote
  KILN_RETURN_IF_ERROR(OsFilesystem().WriteNew(temporary, selector, 0600));
  return OsFilesystem().Rename(temporary, path);
}

}  // namespace

ServedToolchains::ServedToolchains(Parts parts)
    : parts_(std::move(parts)),
      current_(parts_.discover(DefaultSelector(""), [] { return false; })),
      thread_({[this](const auto& is_stopping) { LookAround(is_stopping); },
               [this] { return IsOutdated(); }, parts_.look_time}) {}

ServedToolchains::Found ServedToolchains::Current() const {
  const MutexLock lock(mutex_);
  return current_;
}

void ServedToolchains::Reload(BackgroundTask::Done done) { thread_.Request(std::move(done)); }

std::string ServedToolchains::DefaultSelector(const std::string& otherwise) {
  if (IsDefaultConfigured()) return parts_.configured_default;
  const auto chosen = ReadChoice(parts_.chosen_default);
  default_is_unread_ = !chosen.ok();
  return chosen.value_or(otherwise);
}

absl::Status ServedToolchains::SetDefault(const std::string& selector) {
  if (IsDefaultConfigured()) {
    return FailedPrecondition(
        "the configuration says that the default is {}, and it wins; take toolchain.default out of "
        "it and restart the daemon, or change it there",
        parts_.configured_default);
  }
  const MutexLock lock(changing_);
  const Found current = Current();
  KILN_RETURN_IF_ERROR(current->CheckDefault(selector));
  KILN_RETURN_IF_ERROR(WriteChoice(parts_.chosen_default, selector));
  Apply(current->WithDefault(selector));
  return absl::OkStatus();
}

void ServedToolchains::NoteChange(const Toolchain& toolchain, const absl::Status& why) {
  thread_.Request();
  {
    const MutexLock lock(mutex_);
    if (changed_.size() >= kChangesKnownMax) changed_.clear();
    if (!changed_.insert(toolchain.listing).second) return;
    changes_.Add();
    last_change_ = fmt::format("{}: {}", toolchain.Name(), Message(why));
  }
  LogWarning("toolchain changed on disk; what it gave since counts for nothing",
             {{"name", toolchain.Name()},
              {"fingerprint", toolchain.fingerprint.Hex()},
              {"why", Message(why)}});
}

std::string ServedToolchains::last_change() const {
  const MutexLock lock(mutex_);
  return last_change_;
}

void ServedToolchains::LookAround(const std::function<bool()>& is_stopping) {
  const auto selector = [this] { return DefaultSelector(Current()->default_selector()); };
  Found found = parts_.discover(selector(), is_stopping);
  if (is_stopping()) return;
  if (found->IsUnsettled()) found = found->Keeping(*Current());
  const MutexLock lock(changing_);
  // Somebody may have chosen another meanwhile.
  const std::string wanted = selector();
  if (found->default_selector() != wanted) found = found->WithDefault(wanted);
  Apply(std::move(found));
}

bool ServedToolchains::IsOutdated() {
  const Found current = Current();
  for (const auto& toolchain : current->List()) {
    if (toolchain->seal == nullptr) continue;
    const absl::Status same = toolchain->seal->Check();
    // What cannot be looked at now has not changed for that; a compile of its looks again.
    if (!absl::IsFailedPrecondition(same)) continue;
    NoteChange(*toolchain, same);
    return false;  // it asks
  }
  return current->IsUnsettled() || default_is_unread_ ||
         (parts_.is_outdated && parts_.is_outdated());
}

void ServedToolchains::Apply(Found found) {
  parts_.serve(*found);
  {
    const MutexLock lock(mutex_);
    current_.swap(found);
  }
  parts_.forget();
}

}  // namespace kiln
