#include "daemon/toolchain/disassembler.h"

#include <nlohmann/json.hpp>

#include "daemon/process/json_reader.h"
#include "daemon/toolchain/describe_program.h"
#include "daemon/toolchain/file_snapshot.h"
#include "daemon/toolchain/toolchain_files.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

absl::StatusOr<std::shared_ptr<const FileSnapshot>> SealProgram(const std::string& path) {
  SealedFiles what;
  what.list = [path]() -> absl::StatusOr<FileListing> {
    KILN_ASSIGN_OR_RETURN(ToolchainFile file, InspectFile(path));
    return FileListing{{std::move(file)}, {}, {}};
  };
  return FileSnapshot::Take(std::move(what));
}

absl::StatusOr<std::string> AskVersion(const std::string& path, const DescribeProgram& program) {
  KILN_ASSIGN_OR_RETURN(
      const std::string text,
      RunDescribe({program.path, "--describe", "--output-fd", "3", "--nvdisasm", path},
                  program.work_directory, program.time));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  JsonReader reader(json, "its description");
  std::string version = reader.String("version", limits::kNameBytesMax);
  if (!reader.status().ok()) return FailedPrecondition("{}", Message(reader.status()));
  return version;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Toolchain>> ExamineDisassembler(
    const NativeToolchain& found, const DescribeProgram& program) {
  KILN_RETURN_IF_ERROR(found.problem);
  KILN_ASSIGN_OR_RETURN(const auto seal, SealProgram(found.path));
  auto toolchain = std::make_shared<Toolchain>();
  toolchain->name = "nvdisasm";
  toolchain->directory = found.path;
  toolchain->installation = found.installation;
  KILN_ASSIGN_OR_RETURN(toolchain->fingerprint, FingerprintFile(seal->files().at(0)));
  KILN_ASSIGN_OR_RETURN(toolchain->version, AskVersion(found.path, program));
  toolchain->listing = ListingDigest(seal->files().at(0));
  toolchain->seal = seal;
  return std::shared_ptr<const Toolchain>(std::move(toolchain));
}

}  // namespace kiln
