#include "daemon/toolchain/toolchain_installations.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <set>
#include <string_view>
#include <utility>

#include "daemon/toolchain/found_toolchain.h"
#include "daemon/toolchain/toolchain_selector.h"
#include "storage/base/remove_tree.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using ToolchainPtr = std::shared_ptr<const Toolchain>;

// What discovery looks for; docs/toolchains.md has all of it.
std::string_view LookedFor(std::string_view name) {
  if (name == kTriton) return "lib/python3.*/site-packages/triton/__init__.py";
  if (name == kNvrtc) return "lib64/libnvrtc.so.*, or NVIDIA's wheels in lib/python3.*";
  if (name == kClang) return "bin/clang-15 with bin/llvm-spirv-15 and bin/spirv-val";
  return "bin/ptxas, or that of Triton, PyTorch or NVIDIA's wheels in lib/python3.*";
}

// "/x/y" for "/x//y/".
fs::path Normal(const std::string& path) {
  return (fs::path(path) / "").lexically_normal().parent_path();
}

bool IsSame(const std::string& path, const std::string& other) {
  return Normal(path) == Normal(other);
}

// Whether discovery finds the toolchain in `path` itself, usable or not.
bool Holds(const std::string& path, const std::string& name) {
  const auto found = FindToolchains({path}, FileTrust());
  return std::any_of(found.begin(), found.end(), [&](const FoundToolchain& each) {
    return each.installation == path && each.name == name;
  });
}

absl::Status CheckDirectory(const std::string& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::directory) return absl::OkStatus();
  if (type == fs::file_type::not_found) return NotFound("{} is not there", path);
  if (error) return ErrnoStatus(error.value(), path);
  return NotFound("{} is no directory", path);
}

// Makes `link` lead to `directory`. Returns whether it is new.
absl::StatusOr<bool> MakeLink(const std::string& directory, const std::string& link) {
  std::error_code error;
  fs::create_directory_symlink(directory, link, error);
  if (!error) return true;
  if (error != std::errc::file_exists) {
    return ErrnoStatus(error.value(), fmt::format("make the link {}", link));
  }
  if (fs::equivalent(link, directory, error) && !error) return false;
  return AlreadyExists("{} is there already and is not {}: rename that directory", link, directory);
}

// Moves an installation out of sight. A link is gone then, otherwise the new path is returned.
absl::StatusOr<std::string> SetAside(const std::string& installation) {
  const fs::path path = Normal(installation);
  std::error_code error;
  if (fs::is_symlink(path, error)) {
    if (fs::remove(path, error)) return "";
    return ErrnoStatus(error.value(), "remove the link " + path.string());
  }
  const fs::path aside =
      path.parent_path() / fmt::format(".removing-{}-{}", path.filename().string(), ::getpid());
  fs::rename(path, aside, error);
  if (error) return ErrnoStatus(error.value(), "rename " + path.string());
  return aside.string();
}

}  // namespace

absl::StatusOr<AddedToolchain> ToolchainInstallations::Add(const ToolchainAddition& wanted) {
  const MutexLock lock(changing_);
  if (ToolchainPtr served = FindServed(wanted)) return AddedToolchain{std::move(served)};
  KILN_RETURN_IF_ERROR(CheckDirectory(wanted.path));
  if (!Holds(wanted.path, wanted.name)) {
    return NotFound("there is no {} in {}; what is looked for: {}", wanted.name, wanted.path,
                    LookedFor(wanted.name));
  }
  const fs::path real = fs::canonical(wanted.path);
  if (IsSearched(Normal(wanted.path).parent_path())) return Introduce(wanted.path, wanted);
  const std::string last = real.filename().string();
  const bool is_named_so = last.starts_with(wanted.name + "-");
  const std::string link =
      fmt::format("{}/{}", own_, is_named_so ? last : fmt::format("{}-{}", wanted.name, last));
  KILN_ASSIGN_OR_RETURN(const bool is_new, MakeLink(real, link));
  absl::StatusOr<AddedToolchain> added = Introduce(link, wanted);
  if (!added.ok() && is_new) {
    SetAside(link).IgnoreError();
    Reload().IgnoreError();
  }
  return added;
}

absl::StatusOr<RemovedInstallation> ToolchainInstallations::Remove(const std::string& selector) {
  const MutexLock lock(changing_);
  KILN_ASSIGN_OR_RETURN(const ToolchainPtr named, FindNamed(selector));
  RemovedInstallation removed{named->installation, {}};
  for (const ToolchainPtr& other : In(named->installation)) {
    const bool is_companion = other->name == kPtxas && named->name != kPtxas;
    if (other->Name() != named->Name() && !is_companion) {
      return FailedPrecondition("{} is part of {}, which has {} as well: remove that",
                                named->Name(), removed.path, other->Name());
    }
    removed.names.push_back(other->Name());
  }
  if (!IsSearched(Normal(removed.path).parent_path())) {
    return FailedPrecondition(
        "{} is one of the directories that the daemon searches, and nothing in one: have "
        "toolchain.directories name the others alone, or remove it by its own means",
        removed.path);
  }
  // Out of sight first, and deleted when nobody uses it any more.
  KILN_ASSIGN_OR_RETURN(const std::string aside, SetAside(removed.path));
  const absl::Status reloaded = Reload();
  if (!aside.empty()) {
    KILN_RETURN_IF_ERROR(
        Annotate(RemoveTree(aside),
                 fmt::format("{} is used no more, but its files stay: delete {} as their owner",
                             removed.path, aside)));
  }
  KILN_RETURN_IF_ERROR(reloaded);
  return removed;
}

absl::Status ToolchainInstallations::Reload() {
  std::promise<absl::Status> done;
  served_.Reload([&](absl::Status status) { done.set_value(std::move(status)); });
  return done.get_future().get();
}

std::vector<ToolchainPtr> ToolchainInstallations::In(const std::string& installation) const {
  std::vector<ToolchainPtr> found;
  for (const ToolchainPtr& each : served_.List()) {
    if (IsSame(each->installation, installation)) found.push_back(each);
  }
  return found;
}

// By whatever path.
ToolchainPtr ToolchainInstallations::FindServed(const ToolchainAddition& wanted) const {
  std::error_code error;
  for (const ToolchainPtr& each : served_.List()) {
    const bool is_named =
        each->name == wanted.name && (wanted.version.empty() || each->version == wanted.version);
    if (is_named && fs::equivalent(wanted.path, each->installation, error) && !error) return each;
  }
  return nullptr;
}

bool ToolchainInstallations::IsSearched(const std::string& path) const {
  return std::any_of(searched_.begin(), searched_.end(),
                     [&](const std::string& each) { return IsSame(each, path); });
}

absl::StatusOr<AddedToolchain> ToolchainInstallations::Introduce(const std::string& installation,
                                                                 const ToolchainAddition& wanted) {
  KILN_RETURN_IF_ERROR(Reload());
  if (ToolchainPtr found = FindServed(wanted)) return AddedToolchain{std::move(found), true};
  return WhyNot(installation, wanted);
}

absl::Status ToolchainInstallations::WhyNot(const std::string& installation,
                                            const ToolchainAddition& wanted) const {
  const auto current = served_.Current();
  for (const auto& rejected : current->rejected()) {
    if (!IsSame(rejected.installation, installation)) continue;
    return FailedPrecondition("{} is not used: {}; mend that or install it anew, and add it again",
                              rejected.directory, rejected.reason);
  }
  for (const ToolchainPtr& each : In(installation)) {
    if (each->name != wanted.name) continue;
    return FailedPrecondition("what it has is {}, and not {}=={}", each->Name(), wanted.name,
                              wanted.version);
  }
  const std::string last = Normal(installation).filename().string();
  if (last.find(".partial") != std::string::npos || last.find(".tmp") != std::string::npos) {
    return FailedPrecondition("{} has the name of an installation that is not finished: rename it",
                              wanted.path);
  }
  return FailedPrecondition(
      "the daemon has the same {} already, by another path ('kiln toolchain list')", wanted.name);
}

absl::StatusOr<ToolchainPtr> ToolchainInstallations::FindNamed(const std::string& selector) const {
  const auto wanted = ToolchainSelector::Parse(selector);
  ToolchainPtr named;
  std::set<std::string> installations;
  std::vector<std::string> each_one;
  std::vector<std::string> versions;
  for (const ToolchainPtr& each : served_.List()) {
    if (each->name == selector) versions.push_back(each->Name());
    if (!wanted.ok() || wanted->IsAny() || !wanted->Matches(*each)) continue;
    if (named == nullptr) named = each;
    installations.insert(Normal(each->installation));
    each_one.push_back(fmt::format("{} in {}", each->fingerprint.Hex(), each->installation));
  }
  if (installations.size() == 1) return named;
  if (named == nullptr && !versions.empty()) {
    return InvalidArgument("say which: {}", fmt::join(versions, ", "));
  }
  if (named == nullptr) {
    return NotFound("the daemon has no {}; 'kiln toolchain list' shows what it has", selector);
  }
  return FailedPrecondition("there is more than one {}: say its fingerprint instead: {}", selector,
                            fmt::join(each_one, ", "));
}

}  // namespace kiln
