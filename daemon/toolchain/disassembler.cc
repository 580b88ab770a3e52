#include "daemon/toolchain/disassembler.h"

#include <nlohmann/json.hpp>

#include "daemon/toolchain/describe_program.h"
#include "daemon/toolchain/native_toolchain.h"
#include "daemon/toolchain/toolchain_files.h"
#include "daemon/toolchain/version.h"
#include "daemon/worker/json_reader.h"
#include "storage/base/limits.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

absl::StatusOr<std::shared_ptr<const Toolchain>> ExamineDisassembler(
    const NativeToolchain& found, const std::string& native_worker,
    const std::string& work_directory) {
  if (!found.problem.empty()) return FailedPrecondition("{}", found.problem);
  KILN_ASSIGN_OR_RETURN(
      const std::string text,
      RunDescribe({native_worker, "--describe", "--output-fd", "3", "--nvdisasm", found.path},
                  work_directory, limits::kToolchainDescribeTime));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  JsonReader reader(json, "its description");
  auto toolchain = std::make_shared<Toolchain>();
  toolchain->name = "nvdisasm";
  toolchain->version = reader.String("version", limits::kNameBytesMax);
  KILN_RETURN_IF_ERROR(reader.status());
  toolchain->directory = found.path;
  KILN_ASSIGN_OR_RETURN(const ToolchainFile file, InspectFile(found.path));
  KILN_ASSIGN_OR_RETURN(toolchain->fingerprint, FingerprintFile(file));
  return std::shared_ptr<const Toolchain>(std::move(toolchain));
}

}  // namespace

std::shared_ptr<const Toolchain> FindDisassembler(const std::vector<std::string>& directories,
                                                  const std::string& native_worker,
                                                  const std::string& work_directory) {
  std::shared_ptr<const Toolchain> best;
  if (native_worker.empty()) return best;
  for (const NativeToolchain& found : FindDisassemblers(directories)) {
    auto examined = ExamineDisassembler(found, native_worker, work_directory);
    if (!examined.ok()) {
      LogWarning("disassembler rejected",
                 {{"path", found.path}, {"reason", Message(examined.status())}});
    } else if (best == nullptr || Version(best->version) < Version((*examined)->version)) {
      best = *std::move(examined);
    }
  }
  if (best != nullptr) {
    LogInfo("disassembler found", {{"name", best->Name()}, {"path", best->directory}});
  }
  return best;
}

}  // namespace kiln
