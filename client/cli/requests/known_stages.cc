#include "client/cli/requests/known_stages.h"

#include <algorithm>

#include "client/cli/requests/sass.h"

namespace kiln::cli {
namespace {

bool IsFor(const v1::Backend& backend, std::string_view stage) {
  return std::find(backend.stages().begin(), backend.stages().end(), stage) !=
         backend.stages().end();
}

}  // namespace

KnownStages::KnownStages(const v1::ListToolchainsResponse& listed) {
  for (const v1::Toolchain& toolchain : listed.toolchains()) {
    for (const v1::Backend& backend : toolchain.backends()) {
      all_.insert(backend.stages().begin(), backend.stages().end());
      all_.insert(kSassStage);
      for (const int kind : toolchain.kinds()) {
        own_[{backend.backend(), static_cast<v1::SourceKind>(kind)}].insert(
            backend.stages().begin(), backend.stages().end());
        if (IsFor(backend, kCubinStage))
          own_[{backend.backend(), static_cast<v1::SourceKind>(kind)}].insert(kSassStage);
      }
    }
  }
}

void KnownStages::DropForeignStages(v1::CompileRequest& request) const {
  const auto own = own_.find({request.target().backend(), request.source().kind()});
  if (own == own_.end()) return;
  const auto is_foreign = [&](const std::string& stage) {
    return own->second.count(stage) == 0 && all_.count(stage) != 0;
  };
  auto& wanted = *request.mutable_stages();
  if (std::all_of(wanted.begin(), wanted.end(), is_foreign)) return;
  wanted.erase(std::remove_if(wanted.begin(), wanted.end(), is_foreign), wanted.end());
}

}  // namespace kiln::cli
