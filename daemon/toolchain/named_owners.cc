#include "daemon/toolchain/named_owners.h"

#include "storage/base/log.h"

namespace kiln {

bool NamedOwners::Ask() {
  return std::erase_if(unknown_, [this](const std::string& name) {
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
         }) > 0;
}

}  // namespace kiln
