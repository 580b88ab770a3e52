#include "daemon/toolchain/named_owners.h"

#include "storage/base/log.h"

namespace kiln {

FileOwners NamedOwners::Known() {
  AskForUnknown();
  given_ = known_.further.size();
  return known_;
}

bool NamedOwners::HasMore() {
  AskForUnknown();
  return known_.further.size() > given_;
}

void NamedOwners::AskForUnknown() {
  std::erase_if(unknown_, [this](const std::string& name) {
    const absl::StatusOr<uid_t> uid = find_(name);
    if (uid.ok()) {
      known_.further.push_back(*uid);
    } else if (told_.insert(name).second) {
      LogWarning(
          "toolchain.trusted_owners names a user who cannot be found; until then, no "
          "toolchain with files of that user is taken",
          {{"user", name}, {"error", Message(uid.status())}});
    }
    return uid.ok();
  });
}

}  // namespace kiln
