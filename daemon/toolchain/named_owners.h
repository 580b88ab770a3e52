// The users whom toolchain.trusted_owners names.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/toolchain/ownership_check.h"
#include "storage/base/status.h"

namespace kiln {

// As far as the system's database knows them. That may be a directory on a network, which is not
// there when a machine starts, or fails later: whoever is not known is left out with a warning and
// asked for again, and whoever was known once stays so.
//
// Not thread-safe. Blocks as the database does.
class NamedOwners {
 public:
  using Find = std::function<absl::StatusOr<uid_t>(const std::string& name)>;

  // `shared` as in FileOwners; `find` is FindUser, or a test's own.
  NamedOwners(const std::vector<std::string>& names, std::optional<uid_t> shared, Find find)
      : unknown_(names), known_{{}, shared}, find_(std::move(find)) {}

  // Asks for those who are not known yet. Whether somebody is known now who was not.
  bool Ask();
  const FileOwners& known() const { return known_; }

 private:
  std::vector<std::string> unknown_;
  std::set<std::string> told_;  // of these, those whom the log has named
  FileOwners known_;
  const Find find_;
};

}  // namespace kiln
