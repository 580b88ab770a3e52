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

  // Drops the stages that only other backends have: amdgcn from a kernel for cuda. Keeps all stages
  // if none is this backend's, and keeps unknown names: the daemon then says what is wrong.
  void DropForeignStages(v1::CompileRequest& request) const;

 private:
  // The stages of all toolchains for a backend and a kind of source.
  std::map<std::pair<std::string, v1::SourceKind>, std::set<std::string>> own_;
  std::set<std::string> all_;
};

}  // namespace kiln::cli
