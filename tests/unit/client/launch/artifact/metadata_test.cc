#include "client/launch/artifact/metadata.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "client/launch/artifact/artifact.h"
#include "client/launch/artifact/parameter_type.h"
#include "tests/testing/launch/launch_artifacts.h"

namespace kiln::launch {
namespace {

Status Parse(const std::string& patch) {
  return ParseDescription(MadeDocument("k", {{"x", "i32"}}, patch)).status();
}

TEST(MetadataTest, ReadsADocument) {
  const auto read = ParseDescription(MadeDocument(
      "k", {{"a", "*fp16"}, {"", "i32"}},
      R"({"num_ctas": 2, "cluster_dims": [2, 1, 1], "shared_bytes": 99, "launch_pdl": true,
          "tensor_descriptors": [{"swizzle": 3, "elem_size": 2, "elem_type": 6,
                                  "block_size": [128, 64], "fp4_padded": false}]})"));
  ASSERT_TRUE(read.ok()) << read.status().message();
  const KernelMetadata& metadata = read->metadata;
  EXPECT_EQ(metadata.backend, "cuda");
  EXPECT_EQ(metadata.architecture, "90");
  EXPECT_EQ(metadata.num_ctas, 2);
  EXPECT_EQ(metadata.cluster_dims, (std::array<int64_t, 3>{2, 1, 1}));
  EXPECT_TRUE(metadata.launch_pdl);
  EXPECT_FALSE(metadata.launch_cooperative_grid);
  EXPECT_EQ(metadata.parameters[0].type, "*fp16");
  EXPECT_EQ(metadata.tensor_descriptors[0].block_size, (std::vector<int64_t>{128, 64}));
  EXPECT_TRUE(metadata.IsTriton());
}

TEST(MetadataTest, TargetMayBeOneWord) {
  const auto read = ParseDescription(MadeDocument("k", {}, R"({"target": "hip:gfx942"})"));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->metadata.backend, "hip");
  EXPECT_EQ(read->metadata.architecture, "gfx942");
}

TEST(MetadataTest, ClustersWithoutDimensionsAreARow) {
  for (const char* patch :
       {R"({"num_ctas": 4, "cluster_dims": []})", R"({"num_ctas": 4, "cluster_dims": null})"}) {
    const auto read = ParseDescription(MadeDocument("k", {}, patch));
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->metadata.cluster_dims, (std::array<int64_t, 3>{4, 1, 1})) << patch;
  }
}

TEST(MetadataTest, NumberOutOfBoundsIsRefused) {
  for (const char* patch :
       {R"({"num_warps": -1})", R"({"num_warps": 65})", R"({"num_ctas": 0})", R"({"num_ctas": 4})",
        R"({"shared_bytes": "many"})", R"({"cluster_dims": [1, 1]})",
        R"({"cluster_dims": [1, 1, 17]})", R"({"parameters": 3})", R"({"parameters": [3]})",
        R"({"name": ""})", R"({"name": null})", R"({"target": "cuda"})", R"({"launch_pdl": 1})",
        R"({"hidden_pointers": 17})", R"({"global_scratch_bytes": 1e300})"}) {
    EXPECT_EQ(Parse(patch).code(), Code::kInvalidArgument) << patch;
  }
}

std::string TextOf(const std::string& patch) {
  const auto read = ParseDescription(MadeDocument("k", {{"x", "i32"}}, patch));
  EXPECT_TRUE(read.ok()) << patch << ": " << read.status().message();
  return read.ok() ? read->metadata_text : "";
}

TEST(MetadataTest, TextDiffersWithEachField) {
  std::set<std::string> texts = {TextOf("{}")};
  size_t count = 1;
  for (const std::string& patch :
       std::initializer_list<std::string>{R"({"name": "l"})",
                                          R"({"target": "hip:90"})",
                                          R"({"target": "cuda:80"})",
                                          R"({"shared_bytes": 7})",
                                          R"({"num_warps": 7})",
                                          R"({"warp_size": 64})",
                                          R"({"num_ctas": 2, "cluster_dims": [2, 1, 1]})",
                                          R"({"num_ctas": 2, "cluster_dims": [1, 2, 1]})",
                                          R"({"global_scratch_bytes": 7})",
                                          R"({"global_scratch_align": 7})",
                                          R"({"profile_scratch_bytes": 7})",
                                          R"({"profile_scratch_align": 7})",
                                          R"({"tensor_memory_columns": 7})",
                                          R"({"launch_pdl": true})",
                                          R"({"launch_cooperative_grid": true})",
                                          R"({"hidden_pointers": 1})",
                                          R"({"toolchain_metadata": {"triton_version": "3.6.0"}})",
                                          R"({"parameters": [{"name": "y", "type": "i32"}]})",
                                          R"({"parameters": [{"name": "x", "type": "i64"}]})",
                                          R"({"tensor_descriptors": [{}]})",
                                          R"({"tensor_descriptors": [{"swizzle": 3}]})",
                                          R"({"tensor_descriptors": [{"elem_size": 3}]})",
                                          R"({"tensor_descriptors": [{"elem_type": 3}]})",
                                          R"({"tensor_descriptors": [{"block_size": [3]}]})",
                                          R"({"tensor_descriptors": [{"fp4_padded": true}]})",
                                          R"({"tensor_descriptors": [{}],
               "toolchain_metadata": {"tensordesc_meta": [{"is_im2col": true}]}})"}) {
    texts.insert(TextOf(patch));
    EXPECT_EQ(texts.size(), ++count) << patch;
  }
}

TEST(MetadataTest, TextDoesNotDependOnSpacesAndOrder) {
  const std::string target = R"("target": "cuda:90")";
  const auto text_of = [](const std::string& metadata) {
    return ParseDescription("{\"metadata\": {" + metadata + "}}")->metadata_text;
  };
  EXPECT_EQ(text_of(R"("name": "k", )" + target), text_of(target + R"(  ,"name":"k")"));
}

TEST(MetadataTest, InvalidJsonIsRefused) {
  for (const char* text : {"", "{", "[]", "{}", "{\"metadata\": []}", "\xff\xfe"}) {
    EXPECT_EQ(ParseDescription(text).status().code(), Code::kInvalidArgument) << text;
  }
}

TEST(ParameterTypeTest, BytesByAnySpelling) {
  const std::pair<const char*, size_t> types[] = {{"*fp16", 8},
                                                  {"!tt.ptr<f16>", 8},
                                                  {"i1", 1},
                                                  {"u1", 1},
                                                  {"i8", 1},
                                                  {"u16", 2},
                                                  {"i32", 4},
                                                  {"s64", 8},
                                                  {"fp16", 2},
                                                  {"bf16", 2},
                                                  {"f32", 4},
                                                  {"fp64", 8},
                                                  {"fp8e4nv", 1},
                                                  {"f8E5M2", 1},
                                                  {"b8[128]", 128},
                                                  {"b64", 8},
                                                  {"pred", 1},
                                                  {"tensordesc<f16[2]>", 128},
                                                  {"!tt.tensordesc<tensor<128x64xf16>>", 128},
                                                  {"nvTmaDesc", 128}};
  for (const auto& [type, bytes] : types) EXPECT_EQ(BytesOfType(type), bytes) << type;
}

TEST(ParameterTypeTest, UnknownTypesHaveNoSize) {
  for (const char* type : {"", "i", "i0", "x32", "i32x", "b8[", "b8[x]", "what", "i999"}) {
    EXPECT_EQ(BytesOfType(type), 0u) << type;
  }
}

TEST(ElfImageTest, HeadersThatPointOutsideAreRefused) {
  std::string image = MadeElf(std::string(sizeof(Elf64_Shdr), '\0'));
  EXPECT_TRUE(CheckImage("cuda", image).ok());
  auto& header = *reinterpret_cast<Elf64_Ehdr*>(image.data());
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 1;
  header.e_shoff = sizeof header;
  EXPECT_TRUE(CheckImage("cuda", image).ok());
  auto& section = *reinterpret_cast<Elf64_Shdr*>(image.data() + sizeof header);
  section.sh_type = SHT_PROGBITS;
  section.sh_offset = 1;
  section.sh_size = ~uint64_t{0};
  EXPECT_EQ(CheckImage("cuda", image).code(), Code::kInvalidArgument);
  section.sh_size = image.size() - 1;
  EXPECT_TRUE(CheckImage("cuda", image).ok());
  header.e_shoff = image.size() - 8;
  EXPECT_EQ(CheckImage("cuda", image).code(), Code::kInvalidArgument);
}

TEST(SpirvImageTest, OnlyWholeWordsBehindTheHeaderAreAModule) {
  const std::string module = std::string("\x03\x02\x23\x07", 4) + std::string(16, '\0');
  EXPECT_TRUE(CheckImage("spirv", module).ok());
  EXPECT_FALSE(CheckImage("cuda", module).ok());
  for (const std::string& wrong :
       {std::string(), module.substr(0, 16), module + "x", std::string(20, '\0'), MadeElf("")}) {
    EXPECT_EQ(CheckImage("spirv", wrong).code(), Code::kInvalidArgument) << wrong.size();
  }
}

}  // namespace
}  // namespace kiln::launch
