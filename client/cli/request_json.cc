#include "client/cli/request_json.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <map>
#include <utility>

#include "client/cli/options.h"
#include "client/cli/words.h"
#include "storage/base/limits.h"

namespace kiln::cli {
namespace {

absl::StatusOr<std::string> StringOf(const Json& json) {
  if (!json.is_string()) return InvalidArgument("is {}, not a string", json.type_name());
  return json.get<std::string>();
}

absl::StatusOr<int64_t> IntegerOf(const Json& json) {
  if (!json.is_number_integer()) return InvalidArgument("is {}, not an integer", json.type_name());
  return json.get<int64_t>();
}

absl::StatusOr<bool> BoolOf(const Json& json) {
  if (!json.is_boolean()) return InvalidArgument("is {}, not a boolean", json.type_name());
  return json.get<bool>();
}

absl::StatusOr<std::vector<std::string>> StringsOf(const Json& json) {
  if (!json.is_array()) return InvalidArgument("is {}, not an array", json.type_name());
  std::vector<std::string> strings;
  for (const Json& item : json) {
    KILN_ASSIGN_OR_RETURN(strings.emplace_back(), StringOf(item));
  }
  return strings;
}

absl::StatusOr<std::vector<int64_t>> IntegersOf(const Json& json) {
  if (!json.is_array()) return InvalidArgument("is {}, not an array", json.type_name());
  std::vector<int64_t> integers;
  for (const Json& item : json) {
    KILN_ASSIGN_OR_RETURN(integers.emplace_back(), IntegerOf(item));
  }
  return integers;
}

// A string that `parse` understands.
template <typename Parse>
auto WordOf(Parse parse) {
  return [parse](const Json& json) -> decltype(parse(std::string_view())) {
    KILN_ASSIGN_OR_RETURN(const std::string word, StringOf(json));
    return parse(word);
  };
}

// Fields by name, each with what reads its value into the message.
template <typename Message>
using FieldReaders =
    std::map<std::string, std::function<absl::Status(const Json&, Message&)>, std::less<>>;

// A reader from two halves: JSON to value, value into message.
template <typename Message, typename Read, typename Set>
std::function<absl::Status(const Json&, Message&)> Field(Read read, Set set) {
  return [read, set](const Json& json, Message& message) -> absl::Status {
    KILN_ASSIGN_OR_RETURN(auto value, read(json));
    set(message, std::move(value));
    return absl::OkStatus();
  };
}

template <typename Message>
absl::Status ReadFields(const Json& object, const FieldReaders<Message>& readers,
                        Message& message) {
  if (!object.is_object()) return InvalidArgument("is {}, not an object", object.type_name());
  for (const auto& [name, value] : object.items()) {
    const auto reader = readers.find(name);
    if (reader == readers.end()) {
      std::string known;
      for (const auto& entry : readers) known += " " + entry.first;
      return InvalidArgument("there is no field '{}'; there are{}", name, known);
    }
    if (value.is_null()) continue;
    KILN_RETURN_IF_ERROR(Annotate(reader->second(value, message), fmt::format("field '{}'", name)));
  }
  return absl::OkStatus();
}

absl::Status ReadLaunch(const Json& json, v1::CompileRequest& request) {
  using Launch = v1::LaunchParameters;
  static const FieldReaders<Launch> kReaders = {
      {"num_warps",
       Field<Launch>(IntegerOf, [](Launch& launch, int64_t n) { launch.set_num_warps(n); })},
      {"num_stages",
       Field<Launch>(IntegerOf, [](Launch& launch, int64_t n) { launch.set_num_stages(n); })},
      {"num_ctas",
       Field<Launch>(IntegerOf, [](Launch& launch, int64_t n) { launch.set_num_ctas(n); })},
      {"maxnreg",
       Field<Launch>(IntegerOf, [](Launch& launch, int64_t n) { launch.set_maxnreg(n); })},
      {"launch_pdl",
       Field<Launch>(BoolOf, [](Launch& launch, bool on) { launch.set_launch_pdl(on); })},
      {"launch_cooperative_grid",
       Field<Launch>(BoolOf,
                     [](Launch& launch, bool on) { launch.set_launch_cooperative_grid(on); })},
      {"cluster_dims", Field<Launch>(IntegersOf,
                                     [](Launch& launch, const std::vector<int64_t>& dims) {
                                       launch.mutable_cluster_dims()->Assign(dims.begin(),
                                                                             dims.end());
                                     })},
  };
  return ReadFields(json, kReaders, *request.mutable_launch());
}

absl::Status ReadAttributes(const Json& json, v1::Parameter& parameter) {
  if (!json.is_object()) return InvalidArgument("is {}, not an object", json.type_name());
  for (const auto& [name, value] : json.items()) {
    KILN_ASSIGN_OR_RETURN((*parameter.mutable_attributes())[name], IntegerOf(value));
  }
  return absl::OkStatus();
}

absl::Status ReadParameter(const Json& json, v1::Parameter& parameter) {
  using Parameter = v1::Parameter;
  static const FieldReaders<Parameter> kReaders = {
      {"name",
       Field<Parameter>(StringOf, [](Parameter& p, std::string s) { p.set_name(std::move(s)); })},
      {"type",
       Field<Parameter>(StringOf, [](Parameter& p, std::string s) { p.set_type(std::move(s)); })},
      {"attributes", ReadAttributes},
      {"constant", Field<Parameter>(ToOptionValue,
                                    [](Parameter& p, v1::OptionValue value) {
                                      *p.mutable_constant() = std::move(value);
                                    })},
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

const FieldReaders<v1::CompileRequest>& RequestReaders() {
  using Request = v1::CompileRequest;
  static const FieldReaders<Request> kReaders = {
      {"name", ReadElsewhere},
      {"source_file", ReadElsewhere},
      {"source", Field<Request>(StringOf,
                                [](Request& request, std::string text) {
                                  request.mutable_source()->set_text(std::move(text));
                                })},
      {"kind", Field<Request>(WordOf(ParseSourceKind),
                              [](Request& request, v1::SourceKind kind) {
                                request.mutable_source()->set_kind(kind);
                              })},
      {"target", Field<Request>(WordOf(ParseTarget),
                                [](Request& request, v1::Target target) {
                                  *request.mutable_target() = std::move(target);
                                })},
      {"options", [](const Json& json, Request& request) { return SetOptions(json, request); }},
      {"toolchain",
       Field<Request>(StringOf, [](Request& request,
                                   std::string text) { request.set_toolchain(std::move(text)); })},
      {"specialization", ReadSpecialization},
      {"launch", ReadLaunch},
      {"stages", Field<Request>(StringsOf,
                                [](Request& request, const std::vector<std::string>& stages) {
                                  request.mutable_stages()->Assign(stages.begin(), stages.end());
                                })},
      {"priority", Field<Request>(WordOf(ParsePriority),
                                  [](Request& request, v1::Priority priority) {
                                    request.set_priority(priority);
                                  })},
      {"cache_policy", Field<Request>(WordOf(ParseCachePolicy),
                                      [](Request& request, v1::CachePolicy policy) {
                                        request.set_cache_policy(policy);
                                      })},
      {"job", Field<Request>(StringOf, [](Request& request,
                                          std::string text) { request.set_job(std::move(text)); })},
  };
  return kReaders;
}

bool IsGiven(const Json& object, const char* name) {
  return object.contains(name) && !object.at(name).is_null();
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
