#include "client/cli/requests/foreign_stages.h"

#include <algorithm>
#include <set>
#include <string>

#include "client/cli/requests/sass.h"

namespace kiln::cli {

void DropForeignStages(const v1::ListToolchainsResponse& listed, v1::CompileRequest& request) {
  std::set<std::string> all = {kSassStage};
  std::set<std::string> own;
  for (const v1::Toolchain& toolchain : listed.toolchains()) {
    const auto& kinds = toolchain.kinds();
    const bool is_of_kind =
        std::find(kinds.begin(), kinds.end(), request.source().kind()) != kinds.end();
    for (const v1::Backend& backend : toolchain.backends()) {
      std::set<std::string> stages(backend.stages().begin(), backend.stages().end());
      if (stages.contains(kCubinStage)) stages.insert(kSassStage);
      all.insert(stages.begin(), stages.end());
      if (is_of_kind && backend.backend() == request.target().backend()) own.merge(stages);
    }
  }
  if (own.empty()) return;
  const auto is_foreign = [&](const std::string& stage) {
    return !own.contains(stage) && all.contains(stage);
  };
  auto& wanted = *request.mutable_stages();
  if (std::all_of(wanted.begin(), wanted.end(), is_foreign)) return;
  wanted.erase(std::remove_if(wanted.begin(), wanted.end(), is_foreign), wanted.end());
}

}  // namespace kiln::cli
