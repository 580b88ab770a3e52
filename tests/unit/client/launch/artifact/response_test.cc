#include <gtest/gtest.h>

#include <functional>
#include <protozero/pbf_writer.hpp>

#include "client/launch/artifact/artifact.h"
#include "kiln/v1/kernel_service.pb.h"
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
  v1::StageBlob stage;
  stage.set_stage(name);
  stage.set_digest(digest);
  stage.set_size_bytes(kCubin.size());
  if (content) stage.set_content(*content);
  return stage.SerializeAsString();
}

// A value of its own for each field.
v1::KernelMetadata AllMetadata() {
  v1::KernelMetadata metadata;
  metadata.set_name("softmax");
  metadata.mutable_target()->set_backend("cuda");
  metadata.mutable_target()->set_architecture("90a");
  metadata.mutable_target()->set_warp_size(32);
  metadata.set_shared_bytes(31);
  metadata.set_num_warps(32);
  metadata.set_num_ctas(4);
  metadata.set_warp_size(64);
  metadata.set_global_scratch_bytes(33);
  metadata.set_global_scratch_align(34);
  metadata.set_profile_scratch_bytes(35);
  metadata.set_profile_scratch_align(36);
  metadata.set_tensor_memory_columns(37);
  for (const int64_t size : {2, 2, 1}) metadata.add_cluster_dims(size);
  metadata.set_launch_pdl(true);
  metadata.set_launch_cooperative_grid(true);
  metadata.set_registers(255);
  metadata.set_spill_bytes(12);
  v1::TensorDescriptorMetadata& descriptor = *metadata.add_tensor_descriptors();
  descriptor.set_swizzle(3);
  descriptor.set_elem_size(2);
  descriptor.set_elem_type(6);
  for (const int64_t size : {128, 64}) descriptor.add_block_size(size);
  descriptor.set_fp4_padded(true);
  for (const char* name : {"x", "y"}) {
    v1::KernelParameter& parameter = *metadata.add_parameters();
    parameter.set_name(name);
    parameter.set_type("*fp32");
  }
  metadata.set_hidden_pointers(2);
  metadata.set_toolchain_metadata(R"({"triton_version": "3.6.0"})");
  return metadata;
}

std::string Response(const std::vector<std::string>& stages,
                     const std::string& key = BytesOf(Sha256("key")),
                     const std::string& metadata = AllMetadata().SerializeAsString()) {
  v1::CompileResponse response;
  response.set_key(key);
  response.set_outcome(v1::OUTCOME_HIT);
  for (const std::string& stage : stages) {
    EXPECT_TRUE(response.add_stages()->ParseFromString(stage));
  }
  response.mutable_provenance();
  std::string bytes = response.SerializeAsString();
  pbf_writer(bytes).add_message(v1::CompileResponse::kMetadataFieldNumber, metadata);
  return bytes;
}

// Every field of `message` has a value, in the messages within it, too.
void ExpectAllSet(const google::protobuf::Message& message) {
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* const field = message.GetDescriptor()->field(i);
    const google::protobuf::Reflection& reflection = *message.GetReflection();
    const bool is_set = field->is_repeated() ? reflection.FieldSize(message, field) > 0
                                             : reflection.HasField(message, field);
    ASSERT_TRUE(is_set) << field->full_name() << " is new: does a launch need it?";
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    ExpectAllSet(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, 0)
                                      : reflection.GetMessage(message, field));
  }
}

Status Refusal(const std::string& response) { return Artifact::FromResponse(response).status(); }

// The messages are protobuf's own: a change of protos/kiln/v1 that the reader does not know fails.
TEST(ResponseTest, EveryFieldOfTheMetadataIsRead) {
  ExpectAllSet(AllMetadata());
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

TEST(ResponseTest, AnOldWritersListIsReadAndALaterFieldPassedOver) {
  v1::KernelMetadata without = AllMetadata();
  without.clear_tensor_descriptors();
  std::string metadata = without.SerializeAsString();
  pbf_writer writer(metadata);
  constexpr auto kBlockSize = v1::TensorDescriptorMetadata::kBlockSizeFieldNumber;
  writer.add_message(v1::KernelMetadata::kTensorDescriptorsFieldNumber,
                     Message([](pbf_writer& descriptor) {
                       descriptor.add_int64(kBlockSize, 128);  // not packed
                       descriptor.add_int64(kBlockSize, 64);
                     }));
  writer.add_string(1000, "a later field");
  const auto artifact =
      Artifact::FromResponse(Response({Stage("cubin", kCubin)}, BytesOf(Sha256("key")), metadata));
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_EQ((*artifact)->metadata().tensor_descriptors.at(0).block_size,
            (std::vector<int64_t>{128, 64}));
}

TEST(ResponseTest, RefusalsSayWhatIsMissing) {
  EXPECT_EQ(Refusal(Response({Stage("ptx", "text")})).message(),
            "the response has no cubin, hsaco or spv: ask for that stage");
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

TEST(ResponseTest, RefusesBytesThatAreNotACompileResponse) {
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
