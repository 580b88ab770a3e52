#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cli/requests/sass.h"

namespace kiln::cli {
namespace {

using ::testing::ElementsAre;

void AddToolchain(v1::SourceKind kind, const std::string& backend,
                  const std::vector<std::string>& stages, v1::ListToolchainsResponse& listed) {
  v1::Toolchain& toolchain = *listed.add_toolchains();
  toolchain.add_kinds(kind);
  v1::Backend& described = *toolchain.add_backends();
  described.set_backend(backend);
  described.mutable_stages()->Assign(stages.begin(), stages.end());
}

// What is left of the wanted stages.
std::vector<std::string> Left(const std::string& backend, v1::SourceKind kind,
                              const std::vector<std::string>& wanted) {
  v1::ListToolchainsResponse listed;
  AddToolchain(v1::SOURCE_KIND_TTIR, "cuda", {"ttgir", "llir", "ptx", "cubin"}, listed);
  AddToolchain(v1::SOURCE_KIND_TTIR, "hip", {"ttgir", "llir", "amdgcn", "hsaco"}, listed);
  AddToolchain(v1::SOURCE_KIND_CUDA_CXX, "cuda", {"ptx", "cubin"}, listed);
  v1::CompileRequest request;
  request.mutable_source()->set_kind(kind);
  request.mutable_target()->set_backend(backend);
  request.mutable_stages()->Assign(wanted.begin(), wanted.end());
  DropForeignStages(listed, request);
  return {request.stages().begin(), request.stages().end()};
}

TEST(ForeignStages, KeepsTheStagesOfTheBackendInTheirOrder) {
  const std::vector<std::string> wanted = {"hsaco", "ptx", "amdgcn", "ttgir", "cubin"};
  EXPECT_THAT(Left("cuda", v1::SOURCE_KIND_TTIR, wanted), ElementsAre("ptx", "ttgir", "cubin"));
  EXPECT_THAT(Left("hip", v1::SOURCE_KIND_TTIR, wanted), ElementsAre("hsaco", "amdgcn", "ttgir"));
}

TEST(ForeignStages, KeepsTheStagesOfTheSourceKind) {
  EXPECT_THAT(Left("cuda", v1::SOURCE_KIND_CUDA_CXX, {"ttgir", "ptx"}), ElementsAre("ptx"));
}

TEST(ForeignStages, UnknownNamesStay) {
  EXPECT_THAT(Left("cuda", v1::SOURCE_KIND_TTIR, {"ptx", "amdgcm", "hsaco"}),
              ElementsAre("ptx", "amdgcm"));
}

TEST(ForeignStages, KeepsAllStagesWhereNoneWouldBeLeft) {
  EXPECT_THAT(Left("cuda", v1::SOURCE_KIND_TTIR, {"amdgcn", "hsaco"}),
              ElementsAre("amdgcn", "hsaco"));
}

TEST(ForeignStages, KeepsAllStagesForAnUnknownBackend) {
  EXPECT_THAT(Left("metal", v1::SOURCE_KIND_TTIR, {"ptx", "air"}), ElementsAre("ptx", "air"));
  EXPECT_THAT(Left("hip", v1::SOURCE_KIND_CUDA_CXX, {"ptx", "hsaco"}), ElementsAre("ptx", "hsaco"));
}

TEST(ForeignStages, SassStaysWhereTheTargetHasACubin) {
  const std::vector<std::string> wanted = {"sass", "amdgcn", "cubin"};
  EXPECT_THAT(Left("cuda", v1::SOURCE_KIND_TTIR, wanted), ElementsAre("sass", "cubin"));
  EXPECT_THAT(Left("cuda", v1::SOURCE_KIND_CUDA_CXX, wanted), ElementsAre("sass", "cubin"));
  EXPECT_THAT(Left("hip", v1::SOURCE_KIND_TTIR, wanted), ElementsAre("amdgcn"));
}

TEST(ForeignStages, NoStagesStayNoStages) {
  EXPECT_THAT(Left("cuda", v1::SOURCE_KIND_TTIR, {}), ElementsAre());
}

}  // namespace
}  // namespace kiln::cli
