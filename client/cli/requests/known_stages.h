// The stages that the daemon's toolchains have, for commands that ask for kernels of several
// backends at once.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "kiln/v1/kernel_service.pb.h"

namespace kiln::cli {

// Immutable.
class KnownStages {
 public:
  explicit KnownStages(const v1::ListToolchainsResponse& listed);

  // Takes away the wanted stages that are not this request's, but another's: amdgcn of a kernel for
  // cuda. All stay where they are all another's, and a name that is nobody's stays as well, so that
  // the daemon says what is wrong with them.
  void DropForeignStages(v1::CompileRequest& request) const;

 private:
  // By backend and kind of source, whichever toolchain of those that compile it is taken.
  std::map<std::pair<std::string, v1::SourceKind>, std::set<std::string>> own_;
  std::set<std::string> all_;
};

}  // namespace kiln::cli
