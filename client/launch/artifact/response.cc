// Artifact::FromResponse: reads a serialized kiln.v1.CompileResponse.
#include <iterator>
#include <nlohmann/json.hpp>
#include <protozero/pbf_reader.hpp>
#include <type_traits>
#include <vector>

#include "client/launch/artifact/artifact.h"
#include "client/launch/artifact/metadata_fields.h"

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

// Beside numbers and flags of the metadata.
constexpr Field kOtherFields[] = {{kResponse, 1, "key", kText},
                                  {kResponse, 4, "metadata", kMetadata},
                                  {kResponse, 5, "stages", kStage, true},
                                  {kStage, 1, "stage", kText},
                                  {kStage, 2, "digest", kText},
                                  {kStage, 4, "content", kText},
                                  {kMetadata, 1, "name", kText},
                                  {kMetadata, 2, "target", kTarget},
                                  {kMetadata, 12, "cluster_dims", kNumber, true},
                                  {kMetadata, 17, "tensor_descriptors", kDescriptor, true},
                                  {kMetadata, 18, "parameters", kParameter, true},
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

std::vector<Field> MakeFields() {
  std::vector<Field> fields(std::begin(kOtherFields), std::end(kOtherFields));
  KernelMetadata metadata;
  ForEachField(metadata, [&](uint32_t number, const char* name, auto& member, int64_t, int64_t) {
    const bool is_flag = std::is_same_v<decltype(member), bool&>;
    fields.push_back({kMetadata, number, name, is_flag ? kFlag : kNumber});
  });
  return fields;
}

// Throws protozero::exception where `bytes` are no such message.
Json ToJson(Kind message, const protozero::data_view& bytes) {
  // Never destroyed: threads may read responses while the process exits.
  static const auto& fields = *new std::vector<Field>(MakeFields());
  Json json = Json::object();
  protozero::pbf_reader reader(bytes);
  while (reader.next()) {
    const Field* field = nullptr;
    for (const Field& each : fields) {
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
