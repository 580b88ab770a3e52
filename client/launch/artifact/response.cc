// Artifact::FromResponse: reads a serialized kiln.v1.CompileResponse.
#include <nlohmann/json.hpp>
#include <protozero/pbf_reader.hpp>

#include "client/launch/artifact/artifact.h"

namespace kiln::launch {
namespace {

using Json = nlohmann::json;

enum Kind { kNumber, kFlag, kText, kResponse, kStage, kMetadata, kTarget, kDescriptor, kParameter };

// A field that a launch needs, of the message `in`. Its number is that in protos/kiln/v1.
struct Field {
  Kind in;
  uint32_t number;
  const char* name;
  Kind kind;
  bool is_list = false;
};

constexpr Field kFields[] = {{kResponse, 1, "key", kText},
                             {kResponse, 4, "metadata", kMetadata},
                             {kResponse, 5, "stages", kStage, true},
                             {kStage, 1, "stage", kText},
                             {kStage, 2, "digest", kText},
                             {kStage, 4, "content", kText},
                             {kMetadata, 1, "name", kText},
                             {kMetadata, 2, "target", kTarget},
                             {kMetadata, 3, "shared_bytes", kNumber},
                             {kMetadata, 4, "num_warps", kNumber},
                             {kMetadata, 5, "num_ctas", kNumber},
                             {kMetadata, 6, "warp_size", kNumber},
                             {kMetadata, 7, "global_scratch_bytes", kNumber},
                             {kMetadata, 8, "global_scratch_align", kNumber},
                             {kMetadata, 9, "profile_scratch_bytes", kNumber},
                             {kMetadata, 10, "profile_scratch_align", kNumber},
                             {kMetadata, 11, "tensor_memory_columns", kNumber},
                             {kMetadata, 12, "cluster_dims", kNumber, true},
                             {kMetadata, 13, "launch_pdl", kFlag},
                             {kMetadata, 14, "launch_cooperative_grid", kFlag},
                             {kMetadata, 17, "tensor_descriptors", kDescriptor, true},
                             {kMetadata, 18, "parameters", kParameter, true},
                             {kMetadata, 19, "hidden_pointers", kNumber},
                             {kMetadata, 20, "toolchain_metadata", kText},
                             {kTarget, 1, "backend", kText},
                             {kTarget, 2, "architecture", kText},
                             {kDescriptor, 1, "swizzle", kNumber},
                             {kDescriptor, 2, "elem_size", kNumber},
                             {kDescriptor, 3, "elem_type", kNumber},
                             {kDescriptor, 4, "block_size", kNumber, true},
                             {kDescriptor, 5, "fp4_padded", kFlag},
                             {kParameter, 1, "name", kText},
                             {kParameter, 2, "type", kText}};

// Throws protozero::exception where `bytes` are no such message.
Json ToJson(Kind message, const protozero::data_view& bytes) {
  Json json = Json::object();
  protozero::pbf_reader reader(bytes);
  while (reader.next()) {
    const Field* field = nullptr;
    for (const Field& each : kFields) {
      if (each.in == message && each.number == reader.tag()) field = &each;
    }
    if (field == nullptr) {
      reader.skip();
      continue;
    }
    const auto value = [&]() -> Json& {
      return field->is_list ? json[field->name].emplace_back() : json[field->name];
    };
    if (reader.wire_type() == protozero::pbf_wire_type::varint && field->kind <= kFlag) {
      const int64_t number = reader.get_int64();
      value() = field->kind == kFlag ? Json(number != 0) : Json(number);
    } else if (reader.wire_type() != protozero::pbf_wire_type::length_delimited ||
               field->kind == kFlag) {
      throw protozero::unknown_pbf_wire_type_exception();
    } else if (field->kind == kNumber) {
      for (const int64_t number : reader.get_packed_int64()) value() = number;
    } else {
      const protozero::data_view view = reader.get_view();
      value() = field->kind == kText ? Json(std::string(view.data(), view.size()))
                                     : ToJson(field->kind, view);
    }
  }
  return json;
}

}  // namespace

StatusOr<std::shared_ptr<const Artifact>> Artifact::FromResponse(std::string_view response) {
  Json message;
  try {
    message = ToJson(kResponse, {response.data(), response.size()});
  } catch (const protozero::exception& exception) {
    return InvalidArgument("this is no kiln.v1.CompileResponse: {}", exception.what());
  }
  const std::string key = message.value("key", "");
  for (const Json& stage : message["stages"]) {
    const std::string name = stage.value("stage", "");
    if (name != "cubin" && name != "hsaco" && name != "spv") continue;
    const std::string digest = stage.value("digest", "");
    if (key.size() != sizeof(Sha256Digest) || digest.size() != sizeof(Sha256Digest) ||
        !stage.contains("content")) {
      return InvalidArgument("the response has no key, or no digest or content of its {}", name);
    }
    const std::string document = Json({{"metadata", message["metadata"]}})
                                     .dump(-1, ' ', false, Json::error_handler_t::replace);
    return FromBytes(document, stage["content"].get_ref<const std::string&>(),
                     DigestAt(digest.data()), DigestAt(key.data()));
  }
  return InvalidArgument("the response has no cubin, hsaco or spv: ask for that stage");
}

}  // namespace kiln::launch
