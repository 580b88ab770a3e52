#include "client/cli/requests/request_json.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "client/cli/output/enum_names.h"
#include "client/cli/requests/options.h"
#include "client/cli/requests/ptxas_selector.h"
#include "storage/base/limits.h"

namespace kiln::cli {
namespace {

absl::StatusOr<std::string> StringOf(const Json& json) {
  if (!json.is_string()) return InvalidArgument("is {}, not a string", json.type_name());
  return json.get<std::string>();
}

absl::StatusOr<int64_t> IntegerOf(const Json& json) {
  if (json.is_number_float()) return InvalidArgument("is {}, not an integer", Dump(json));
  if (!json.is_number_integer()) return InvalidArgument("is {}, not an integer", json.type_name());
  return ToInt64(json);
}

absl::StatusOr<bool> BoolOf(const Json& json) {
  if (!json.is_boolean()) return InvalidArgument("is {}, not a boolean", json.type_name());
  return json.get<bool>();
}

// An array of what kRead reads.
template <typename Item, auto kRead>
absl::StatusOr<std::vector<Item>> ArrayOf(const Json& json) {
  if (!json.is_array()) return InvalidArgument("is {}, not an array", json.type_name());
  std::vector<Item> items;
  for (size_t i = 0; i < json.size(); ++i) {
    auto item = kRead(json[i]);
    if (!item.ok()) return Annotate(item.status(), fmt::format("item {}", i));
    items.push_back(*std::move(item));
  }
  return items;
}
constexpr auto StringsOf = ArrayOf<std::string, StringOf>;
constexpr auto IntegersOf = ArrayOf<int64_t, IntegerOf>;

// A string that kParse understands.
template <auto kParse>
auto WordOf(const Json& json) -> decltype(kParse(std::string_view())) {
  KILN_ASSIGN_OR_RETURN(const std::string word, StringOf(json));
  return kParse(word);
}

// Fields by name, each with what reads its value into the message.
template <typename Message>
using FieldReaders = std::map<std::string_view, absl::Status (*)(const Json&, Message&)>;

// A reader from two halves: JSON to value, and the message's own setter.
template <auto kRead, auto kSet, typename Message>
absl::Status Set(const Json& json, Message& message) {
  KILN_ASSIGN_OR_RETURN(const auto value, kRead(json));
  (message.*kSet)(value);
  return absl::OkStatus();
}

// Reads a string or message into the field that the message hands out to be changed.
template <auto kRead, auto kMutable, typename Message>
absl::Status Assign(const Json& json, Message& message) {
  KILN_ASSIGN_OR_RETURN(*(message.*kMutable)(), kRead(json));
  return absl::OkStatus();
}

template <typename Message>
absl::Status ReadFields(const Json& object, const FieldReaders<Message>& readers,
                        Message& message) {
  if (!object.is_object()) return InvalidArgument("is {}, not an object", object.type_name());
  for (const auto& [name, value] : object.items()) {
    const auto reader = readers.find(name);
    if (reader == readers.end()) {
      std::string known;
      for (const auto& entry : readers) known += fmt::format(" {}", entry.first);
      return InvalidArgument("there is no field '{}'; there are{}", name, known);
    }
    if (value.is_null()) continue;
    KILN_RETURN_IF_ERROR(Annotate(reader->second(value, message), fmt::format("field '{}'", name)));
  }
  return absl::OkStatus();
}

absl::Status ReadClusterDims(const Json& json, v1::LaunchParameters& launch) {
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, IntegersOf(json));
  launch.mutable_cluster_dims()->Assign(dims.begin(), dims.end());
  return absl::OkStatus();
}

absl::Status ReadLaunch(const Json& json, v1::CompileRequest& request) {
  using Launch = v1::LaunchParameters;
  static const FieldReaders<Launch> kReaders = {
      {"num_warps", Set<IntegerOf, &Launch::set_num_warps>},
      {"num_stages", Set<IntegerOf, &Launch::set_num_stages>},
      {"num_ctas", Set<IntegerOf, &Launch::set_num_ctas>},
      {"maxnreg", Set<IntegerOf, &Launch::set_maxnreg>},
      {"launch_pdl", Set<BoolOf, &Launch::set_launch_pdl>},
      {"launch_cooperative_grid", Set<BoolOf, &Launch::set_launch_cooperative_grid>},
      {"cluster_dims", ReadClusterDims},
  };
  return ReadFields(json, kReaders, *request.mutable_launch());
}

absl::Status ReadAttributes(const Json& json, v1::Parameter& parameter) {
  if (!json.is_object()) return InvalidArgument("is {}, not an object", json.type_name());
  for (const auto& [name, value] : json.items()) {
    const auto integer = IntegerOf(value);
    if (!integer.ok()) return Annotate(integer.status(), fmt::format("'{}'", name));
    (*parameter.mutable_attributes())[name] = *integer;
  }
  return absl::OkStatus();
}

absl::Status ReadParameter(const Json& json, v1::Parameter& parameter) {
  using Parameter = v1::Parameter;
  static const FieldReaders<Parameter> kReaders = {
      {"name", Assign<StringOf, &Parameter::mutable_name>},
      {"type", Assign<StringOf, &Parameter::mutable_type>},
      {"attributes", ReadAttributes},
      {"constant", Assign<ToOptionValue, &Parameter::mutable_constant>},
  };
  return ReadFields(json, kReaders, parameter);
}

absl::Status ReadSpecialization(const Json& json, v1::CompileRequest& request) {
  const bool is_object = json.is_object() && json.size() == 1 && json.contains("parameters");
  const Json& parameters = is_object ? json.at("parameters") : json;
  if (!parameters.is_array()) return InvalidArgument("is not {{\"parameters\": [...]}}");
  for (size_t i = 0; i < parameters.size(); ++i) {
    v1::Parameter& parameter = *request.mutable_specialization()->add_parameters();
    KILN_RETURN_IF_ERROR(
        Annotate(ReadParameter(parameters[i], parameter), fmt::format("parameter {}", i)));
  }
  return absl::OkStatus();
}

// The request's name belongs to its caller, and a source in a file needs the folder.
absl::Status ReadElsewhere(const Json& json, v1::CompileRequest&) {
  return StringOf(json).status();
}

// A path means the file's bytes: the daemon may have them under another.
absl::Status ReadPtxas(const Json& json, v1::CompileRequest& request) {
  KILN_ASSIGN_OR_RETURN(const std::string word, StringOf(json));
  KILN_ASSIGN_OR_RETURN(*request.mutable_ptxas(), PtxasSelector(word));
  return absl::OkStatus();
}

// ReadOptionsByName reads the field once the options are known.
absl::Status ReadLater(const Json&, v1::CompileRequest&) { return absl::OkStatus(); }

// {"name.h": "text", …}
absl::Status ReadHeaders(const Json& json, v1::CompileRequest& request) {
  if (!json.is_object()) return InvalidArgument("is {}, not an object", json.type_name());
  for (const auto& [name, text] : json.items()) {
    auto content = StringOf(text);
    if (!content.ok()) return Annotate(content.status(), fmt::format("'{}'", name));
    v1::SourceHeader& header = *request.add_headers();
    header.set_name(name);
    header.set_text(*std::move(content));
  }
  return absl::OkStatus();
}

absl::Status ReadSourceText(const Json& json, v1::CompileRequest& request) {
  return Assign<StringOf, &v1::KernelSource::mutable_text>(json, *request.mutable_source());
}

absl::Status ReadKind(const Json& json, v1::CompileRequest& request) {
  return Set<WordOf<ParseSourceKind>, &v1::KernelSource::set_kind>(json, *request.mutable_source());
}

absl::Status ReadStages(const Json& json, v1::CompileRequest& request) {
  KILN_ASSIGN_OR_RETURN(const std::vector<std::string> stages, StringsOf(json));
  request.mutable_stages()->Assign(stages.begin(), stages.end());
  return absl::OkStatus();
}

const FieldReaders<v1::CompileRequest>& RequestReaders() {
  using Request = v1::CompileRequest;
  static const FieldReaders<Request> kReaders = {
      {"name", ReadElsewhere},
      {"source_file", ReadElsewhere},
      {"source", ReadSourceText},
      {"kind", ReadKind},
      {"target", Assign<WordOf<ParseTarget>, &Request::mutable_target>},
      {"options", SetOptions},
      {"toolchain", Assign<StringOf, &Request::mutable_toolchain>},
      {"ptxas", ReadPtxas},
      {"headers", ReadHeaders},
      {"defines", ReadLater},
      {"std", ReadLater},
      {"name_expressions", ReadLater},
      {"specialization", ReadSpecialization},
      {"launch", ReadLaunch},
      {"stages", ReadStages},
      {"priority", Set<WordOf<ParsePriority>, &Request::set_priority>},
      {"cache_policy", Set<WordOf<ParseCachePolicy>, &Request::set_cache_policy>},
      {"job", Assign<StringOf, &Request::mutable_job>},
  };
  return kReaders;
}

bool IsGiven(const Json& object, const char* name) {
  return object.contains(name) && !object.at(name).is_null();
}

// Fields that stand for options of NVRTC.
absl::Status ReadOptionsByName(const Json& object, v1::CompileRequest& request) {
  static constexpr std::pair<const char*, const char*> kWords[] = {
      {"defines", "define-macro"}, {"std", "std"}, {"name_expressions", "name-expressions"}};
  for (const auto& [word, option] : kWords) {
    if (!IsGiven(object, word)) continue;
    const Json& value = object.at(word);
    const absl::Status fits =
        std::string_view(word) == "std" ? StringOf(value).status() : StringsOf(value).status();
    KILN_RETURN_IF_ERROR(Annotate(fits, fmt::format("field '{}'", word)));
    if (request.options().contains(option)) {
      return InvalidArgument("field '{}' is the option '{}'; give one of the two", word, option);
    }
    Json single = Json::object();
    single[option] = value;
    KILN_RETURN_IF_ERROR(SetOptions(single, request));
  }
  return absl::OkStatus();
}

absl::Status ReadSourceFile(const std::string& path, const std::string& folder,
                            v1::CompileRequest& request) {
  const std::string full = path.starts_with('/') ? path : folder + "/" + path;
  KILN_ASSIGN_OR_RETURN(*request.mutable_source()->mutable_text(), ReadSource(full));
  if (request.source().kind() == v1::SOURCE_KIND_UNSPECIFIED) {
    request.mutable_source()->set_kind(SourceKindOfFile(path));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::CompileRequest> ParseRequest(const Json& json, const std::string& folder) {
  v1::CompileRequest request;
  KILN_RETURN_IF_ERROR(ReadFields(json, RequestReaders(), request));
  KILN_RETURN_IF_ERROR(ReadOptionsByName(json, request));
  const bool has_file = IsGiven(json, "source_file");
  if (IsGiven(json, "source") == has_file) {
    return InvalidArgument("give either 'source' or 'source_file'");
  }
  if (has_file) {
    KILN_RETURN_IF_ERROR(
        Annotate(ReadSourceFile(json.at("source_file").get<std::string>(), folder, request),
                 "field 'source_file'"));
  }
  if (request.source().kind() == v1::SOURCE_KIND_UNSPECIFIED) {
    request.mutable_source()->set_kind(v1::SOURCE_KIND_TTIR);
  }
  return request;
}

absl::Status CheckSource(const std::string& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return ErrnoStatus(errno, path);
  if (!S_ISREG(status.st_mode)) return InvalidArgument("{} is not a regular file", path);
  if (::access(path.c_str(), R_OK) != 0) return ErrnoStatus(errno, path);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadSource(const std::string& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return ErrnoStatus(errno, path);
  // Opening a pipe or a device could block for ever.
  if (!S_ISREG(status.st_mode)) return InvalidArgument("{} is not a regular file", path);
  std::ifstream stream(path, std::ios::binary);
  if (!stream.is_open()) return ErrnoStatus(errno, path);
  std::string text(
      std::min<size_t>(static_cast<size_t>(status.st_size), limits::kSourceBytesMax + 1), '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  return text;
}

std::string ContractName(std::string_view name) {
  // Through JSON, whose writer knows how to replace what is not UTF-8.
  std::string valid = Json::parse(Dump(Json(name))).get<std::string>();
  if (valid.size() <= limits::kNameBytesMax) return valid;
  size_t end = limits::kNameBytesMax;
  while (end > 0 && (static_cast<unsigned char>(valid[end]) & 0xC0) == 0x80) --end;
  return valid.substr(0, end);
}

}  // namespace kiln::cli
