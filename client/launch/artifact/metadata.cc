#include "client/launch/artifact/metadata.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "client/launch/artifact/metadata_fields.h"
#include "storage/base/limits.h"

namespace kiln::launch {
namespace {

using Json = nlohmann::json;

// Why the JSON is refused. Readers throw it, so that reading is a plain list of fields.
struct Refusal {
  std::string why;
};

// The fields of an object.
class Reader {
 public:
  Reader(const Json& json, std::string_view what) : json_(json), what_(what) {
    if (!json.is_object()) Fail(" is not an object");
  }

  void Number(const char* name, int64_t min, int64_t max, int64_t& out) {
    if (const Json* value = Find(name)) Read(*value, name, min, max, out);
  }
  void Numbers(const char* name, size_t length_max, int64_t min, int64_t max,
               std::vector<int64_t>& out) {
    const Json* list = List(name, length_max);
    if (list == nullptr) return;
    out.resize(list->size());
    for (size_t i = 0; i < out.size(); ++i) Read((*list)[i], name, min, max, out[i]);
  }
  void Flag(const char* name, bool& out) {
    const Json* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_boolean()) return Fail(fmt::format(".{} is neither true nor false", name));
    out = value->get<bool>();
  }
  void Text(const char* name, std::string& out) {
    const Json* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_string()) return Fail(fmt::format(".{} is not a string", name));
    out = value->get<std::string>();
  }
  // Null where it is absent.
  const Json* List(const char* name, size_t length_max) {
    const Json* value = Find(name);
    if (value != nullptr && (!value->is_array() || value->size() > length_max)) {
      Fail(fmt::format(".{} is not an array of at most {}", name, length_max));
    }
    return value;
  }
  const Json* Find(const char* name) {
    const auto found = json_.find(name);
    return found == json_.end() ? nullptr : &*found;
  }
  [[noreturn]] void Fail(std::string_view why) { throw Refusal{fmt::format("{}{}", what_, why)}; }

 private:
  void Read(const Json& value, const char* name, int64_t min, int64_t max, int64_t& out) {
    if (!value.is_number_integer()) return Fail(fmt::format(".{} is not a whole number", name));
    const auto number = value.get<int64_t>();
    if (number < min || number > max) {
      return Fail(fmt::format(".{} is {}, which is not from {} to {}", name, number, min, max));
    }
    out = number;
  }

  const Json& json_;
  const std::string_view what_;
};

// "cuda:90", or the object of a document.
void ReadTarget(Reader& reader, KernelMetadata& metadata) {
  const Json* target = reader.Find("target");
  if (target == nullptr) return reader.Fail(".target is missing");
  if (target->is_string()) {
    const auto text = target->get<std::string>();
    const size_t colon = text.find(':');
    if (colon == std::string::npos) return reader.Fail(".target is not BACKEND:ARCHITECTURE");
    metadata.backend = text.substr(0, colon);
    metadata.architecture = text.substr(colon + 1, text.find(':', colon + 1) - colon - 1);
    return;
  }
  Reader inner(*target, "metadata.target");
  inner.Text("backend", metadata.backend);
  inner.Text("architecture", metadata.architecture);
}

void ReadClusterDims(Reader& reader, KernelMetadata& metadata) {
  // Triton's default for a number of CTAs.
  metadata.cluster_dims = {metadata.num_ctas, 1, 1};
  std::vector<int64_t> dims;
  reader.Numbers("cluster_dims", 3, 1, limits::kNumCtasMax, dims);
  if (dims.empty()) return;
  if (dims.size() != 3) return reader.Fail(".cluster_dims has not three values");
  if (const int64_t product = dims[0] * dims[1] * dims[2]; product != metadata.num_ctas) {
    return reader.Fail(
        fmt::format(".cluster_dims make {} CTAs, .num_ctas says {}", product, metadata.num_ctas));
  }
  std::copy_n(dims.begin(), 3, metadata.cluster_dims.begin());
}

void ReadItem(Reader& reader, Parameter& parameter) {
  reader.Text("name", parameter.name);
  reader.Text("type", parameter.type);
}

void ReadItem(Reader& reader, TensorDescriptorMetadata& descriptor) {
  constexpr size_t kRankMax = 5;  // of a CUtensorMap
  reader.Number("swizzle", 0, 16, descriptor.swizzle);
  reader.Number("elem_size", 0, 16, descriptor.elem_size);
  reader.Number("elem_type", 0, 64, descriptor.elem_type);
  reader.Numbers("block_size", kRankMax, 0, INT32_MAX, descriptor.block_size);
  reader.Flag("fp4_padded", descriptor.fp4_padded);
}

template <typename Item>
void ReadItems(Reader& reader, const char* name, std::vector<Item>& items) {
  const Json* list = reader.List(name, limits::kParametersMax);
  if (list == nullptr) return;
  const std::string what = fmt::format("metadata.{}", name);
  for (const Json& item : *list) {
    Reader inner(item, what);
    ReadItem(inner, items.emplace_back());
  }
}

// Major and minor version as one number: 3007 of "3.7.1". 0: it says none.
int TritonVersion(const Json& told) {
  const auto version = told.find("triton_version");
  int major = 0, minor = 0;
  if (version == told.end() || !version->is_string()) return 0;
  const int found = std::sscanf(version->get<std::string>().c_str(), "%4d.%3d", &major, &minor);
  return found == 2 ? major * 1000 + minor : 0;
}

// Reads fields of Triton's own metadata that Kiln's fields lack: an object, or the text of one.
// Without it, or from another toolchain, the rules of Triton 3.7 hold.
void ReadToolchainMetadata(Reader& reader, KernelMetadata& metadata) {
  const Json* value = reader.Find("toolchain_metadata");
  if (value == nullptr) return;
  const Json told =
      value->is_string() ? Json::parse(value->get<std::string>(), nullptr, false) : *value;
  if (!told.is_object()) return;
  const int version = TritonVersion(told);
  metadata.counts_padded_elements = version > 0 && version < 3007;
  const auto list = told.find("tensordesc_meta");
  if (list == told.end() || !list->is_array()) return;
  for (size_t i = 0; i < std::min(list->size(), metadata.tensor_descriptors.size()); ++i) {
    const Json& item = (*list)[i];
    metadata.tensor_descriptors[i].is_im2col =
        item.is_object() && item.value("is_im2col", Json()) == Json(true);
  }
}

void ReadMetadata(const Json& json, KernelMetadata& metadata) {
  Reader reader(json, "metadata");
  reader.Text("name", metadata.name);
  ReadTarget(reader, metadata);
  ForEachField(metadata, [&](int, const char* name, auto& member, int64_t min, int64_t max) {
    if constexpr (std::is_same_v<decltype(member), bool&>) {
      reader.Flag(name, member);
    } else {
      reader.Number(name, min, max, member);
    }
  });
  ReadClusterDims(reader, metadata);
  ReadItems(reader, "tensor_descriptors", metadata.tensor_descriptors);
  ReadToolchainMetadata(reader, metadata);
  ReadItems(reader, "parameters", metadata.parameters);
  if (metadata.name.empty()) reader.Fail(".name is missing");
}

bool IsBinary(const Json& stage) {
  if (!stage.is_object()) return false;
  const auto name = stage.find("stage");
  return name != stage.end() && (*name == "cubin" || *name == "hsaco" || *name == "spv");
}

// The stages are in the order of the request, so the binary may be any of them. Without a binary,
// the last stage is read: the refusal names it.
void ReadStages(Reader& reader, ArtifactDescription& description) {
  const Json* stages = reader.List("stages", limits::kStagesMax);
  if (stages == nullptr || stages->empty()) return;
  const auto found = std::find_if(stages->begin(), stages->end(), IsBinary);
  Reader chosen(found == stages->end() ? stages->back() : *found, "stages");
  chosen.Text("stage", description.binary_stage);
  chosen.Text("digest", description.binary_digest);
  chosen.Text("file", description.binary_file);
}

}  // namespace

StatusOr<ArtifactDescription> ParseDescription(std::string_view json) {
  if (json.size() > limits::kRecordBytesMax) {
    return InvalidArgument("{} bytes of JSON, an artifact has at most {}", json.size(),
                           limits::kRecordBytesMax);
  }
  const Json parsed = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded() || !parsed.is_object() || !parsed.contains("metadata")) {
    return InvalidArgument(
        "this is not the JSON of an artifact: an object with `metadata`, as `kiln "
        "compile -o` writes it");
  }
  ArtifactDescription description;
  description.metadata_text = parsed["metadata"].dump();
  try {
    ReadMetadata(parsed["metadata"], description.metadata);
    Reader reader(parsed, "");
    reader.Text("key", description.key);
    ReadStages(reader, description);
  } catch (const Refusal& refusal) {
    return InvalidArgument("{}", refusal.why);
  }
  return description;
}

}  // namespace kiln::launch
