#include <gtest/gtest.h>

#include <functional>
#include <protozero/pbf_writer.hpp>

#include "client/launch/artifact/artifact.h"
#include "tests/testing/launch/launch_artifacts.h"

namespace kiln::launch {
namespace {

using protozero::pbf_writer;
using Parts = std::function<void(pbf_writer&)>;

const std::string kCubin = MadeElf("some code");

std::string BytesOf(const Sha256Digest& digest) { return {digest.begin(), digest.end()}; }

std::string Message(const Parts& parts) {
  std::string bytes;
  pbf_writer writer(bytes);
  parts(writer);
  return bytes;
}

std::string Stage(const std::string& name, const std::optional<std::string>& content,
                  const std::string& digest = BytesOf(Sha256(kCubin))) {
  return Message([&](pbf_writer& stage) {
    stage.add_string(1, name);
    stage.add_bytes(2, digest);
    stage.add_uint64(3, kCubin.size());
    if (content) stage.add_bytes(4, *content);
  });
}

// A value of its own for each field of kiln.v1.KernelMetadata.
const std::string kAllMetadata = Message([](pbf_writer& metadata) {
  metadata.add_string(1, "softmax");
  metadata.add_message(2, Message([](pbf_writer& target) {
                         target.add_string(1, "cuda");
                         target.add_string(2, "90a");
                         target.add_int32(3, 32);
                       }));
  int64_t number = 30;
  for (uint32_t field = 3; field <= 11; ++field) {
    metadata.add_int64(field, field == 5 ? 4 : field == 6 ? 64 : ++number);
  }
  const std::vector<int64_t> cluster = {2, 2, 1};
  metadata.add_packed_int64(12, cluster.begin(), cluster.end());
  metadata.add_bool(13, true);
  metadata.add_bool(14, true);
  metadata.add_int64(15, 255);
  metadata.add_int64(16, 12);
  metadata.add_message(17, Message([](pbf_writer& descriptor) {
                         descriptor.add_int64(1, 3);
                         descriptor.add_int64(2, 2);
                         descriptor.add_int64(3, 6);
                         descriptor.add_int64(4, 128);  // not packed, as old writers have it
                         descriptor.add_int64(4, 64);
                         descriptor.add_bool(5, true);
                       }));
  for (const char* name : {"x", "y"}) {
    metadata.add_message(18, Message([&](pbf_writer& parameter) {
                           parameter.add_string(1, name);
                           parameter.add_string(2, "*fp32");
                         }));
  }
  metadata.add_int64(19, 2);
  metadata.add_string(20, R"({"triton_version": "3.6.0"})");
  metadata.add_string(1000, "a later field");
});

std::string Response(const std::vector<std::string>& stages,
                     const std::string& key = BytesOf(Sha256("key"))) {
  return Message([&](pbf_writer& response) {
    response.add_bytes(1, key);
    response.add_enum(2, 1);
    response.add_message(4, kAllMetadata);
    for (const std::string& stage : stages) response.add_message(5, stage);
    response.add_message(6, std::string());
  });
}

Status Refusal(const std::string& response) { return Artifact::FromResponse(response).status(); }

TEST(ResponseTest, EveryFieldOfTheMetadataIsRead) {
  const auto artifact =
      Artifact::FromResponse(Response({Stage("ptx", "text"), Stage("cubin", kCubin)}));
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_EQ((*artifact)->binary(), kCubin);
  EXPECT_EQ((*artifact)->id().key, Sha256("key"));
  const KernelMetadata& metadata = (*artifact)->metadata();
  EXPECT_EQ(metadata.name, "softmax");
  EXPECT_EQ(metadata.backend, "cuda");
  EXPECT_EQ(metadata.architecture, "90a");
  EXPECT_EQ(metadata.shared_bytes, 31);
  EXPECT_EQ(metadata.num_warps, 32);
  EXPECT_EQ(metadata.num_ctas, 4);
  EXPECT_EQ(metadata.warp_size, 64);
  EXPECT_EQ(metadata.global_scratch_bytes, 33);
  EXPECT_EQ(metadata.global_scratch_align, 34);
  EXPECT_EQ(metadata.profile_scratch_bytes, 35);
  EXPECT_EQ(metadata.profile_scratch_align, 36);
  EXPECT_EQ(metadata.tensor_memory_columns, 37);
  EXPECT_EQ(metadata.cluster_dims, (std::array<int64_t, 3>{2, 2, 1}));
  EXPECT_TRUE(metadata.launch_pdl);
  EXPECT_TRUE(metadata.launch_cooperative_grid);
  ASSERT_EQ(metadata.tensor_descriptors.size(), 1u);
  EXPECT_EQ(metadata.tensor_descriptors[0].swizzle, 3);
  EXPECT_EQ(metadata.tensor_descriptors[0].elem_size, 2);
  EXPECT_EQ(metadata.tensor_descriptors[0].elem_type, 6);
  EXPECT_EQ(metadata.tensor_descriptors[0].block_size, (std::vector<int64_t>{128, 64}));
  EXPECT_TRUE(metadata.tensor_descriptors[0].fp4_padded);
  ASSERT_EQ(metadata.parameters.size(), 2u);
  EXPECT_EQ(metadata.parameters[1].name, "y");
  EXPECT_EQ(metadata.parameters[1].type, "*fp32");
  EXPECT_EQ(metadata.hidden_pointers, 2);
  EXPECT_TRUE(metadata.counts_padded_elements) << "the version of Triton decides";
}

TEST(ResponseTest, RefusalsSayWhatIsMissing) {
  EXPECT_EQ(Refusal(Response({Stage("ptx", "text")})).message(),
            "the response has neither a cubin nor an hsaco: ask for that stage");
  for (const std::string& response :
       {Response({Stage("cubin", std::nullopt)}), Response({Stage("hsaco", kCubin, "short")}),
        Response({Stage("cubin", kCubin)}, "short")}) {
    EXPECT_NE(Refusal(response).message().find("has no key, or no digest or content of its"),
              std::string_view::npos);
  }
  EXPECT_EQ(Refusal(Response({Stage("cubin", "other bytes")})).code(), Code::kDataLoss);
  EXPECT_EQ(Refusal(Response({Stage("cubin", "not ELF", BytesOf(Sha256("not ELF")))})).code(),
            Code::kInvalidArgument);
}

TEST(ResponseTest, WhatIsNoSuchMessageIsRefused) {
  for (const std::string& bytes :
       {std::string("{}"), std::string(40, '\xff'), std::string("\x20\x01", 2),
        Message([](pbf_writer& response) { response.add_int64(1, 7); })}) {
    EXPECT_EQ(Refusal(bytes).code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(Refusal("").code(), Code::kInvalidArgument);
}

TEST(ResponseTest, NoPrefixAndNoDamageReadsOutside) {
  const std::string whole = Response({Stage("cubin", kCubin)});
  for (size_t size = 0; size < whole.size(); ++size) {
    // An exact copy, so that the address sanitizer sees a read past the end.
    const std::vector<char> prefix(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    static_cast<void>(Artifact::FromResponse({prefix.data(), prefix.size()}));
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int flip : {0x01, 0x07, 0x80, 0xff}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      static_cast<void>(Artifact::FromResponse(damaged));
    }
  }
}

}  // namespace
}  // namespace kiln::launch
