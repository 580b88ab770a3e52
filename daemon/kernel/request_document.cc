#include "daemon/kernel/request_document.h"

#include <nlohmann/json.hpp>

namespace kiln {
namespace {

using RequestJson = nlohmann::ordered_json;

constexpr int kRequestFormat = 1;

RequestJson ToRequestJson(const OptionValue& option) {
  if (const auto* tuple = std::get_if<OptionTuple>(&option.value)) {
    RequestJson array = RequestJson::array();
    for (const OptionValue& item : *tuple) array.push_back(ToRequestJson(item));
    return array;
  }
  if (const auto* text = std::get_if<std::string>(&option.value)) return *text;
  if (const auto* number = std::get_if<double>(&option.value)) return *number;
  if (const auto* flag = std::get_if<bool>(&option.value)) return *flag;
  return std::get<int64_t>(option.value);
}

RequestJson WriteLaunch(const LaunchParameters& launch) {
  RequestJson json = RequestJson::object();
  const auto add = [&json](const char* name, const auto& value) {
    if (value) json[name] = *value;
  };
  add("num_warps", launch.num_warps);
  add("num_stages", launch.num_stages);
  add("num_ctas", launch.num_ctas);
  add("maxnreg", launch.maxnreg);
  add("cluster_dims", launch.cluster_dims);
  add("launch_pdl", launch.launch_pdl);
  add("launch_cooperative_grid", launch.launch_cooperative_grid);
  return json;
}

RequestJson WriteParameters(const Specialization& specialization) {
  RequestJson list = RequestJson::array();
  for (const Parameter& parameter : specialization.parameters) {
    RequestJson json = {{"name", parameter.name}, {"type", parameter.type}};
    if (!parameter.attributes.empty()) json["attributes"] = parameter.attributes;
    if (parameter.constant) json["constant"] = ToRequestJson(*parameter.constant);
    list.push_back(std::move(json));
  }
  return list;
}

std::string TargetWord(const Target& target) {
  if (target.warp_size == 0) return target.ToString();
  return fmt::format("{}:{}", target.ToString(), target.warp_size);
}

RequestJson WriteLine(const CompileJob& job) {
  const CompileRequest& request = job.request;
  RequestJson line;
  if (!request.source.name.empty()) line["name"] = request.source.name;
  line["kind"] = SourceKindName(request.source.kind);
  line["target"] = TargetWord(request.target);
  line["toolchain"] = job.toolchain->Name();
  if (!request.ptxas.empty()) line["ptxas"] = request.ptxas;
  RequestJson launch = WriteLaunch(request.launch);
  if (!launch.empty()) line["launch"] = std::move(launch);
  for (const auto& [name, value] : request.options) line["options"][name] = ToRequestJson(value);
  if (!request.specialization.parameters.empty()) {
    line["specialization"]["parameters"] = WriteParameters(request.specialization);
  }
  for (const SourceHeader& header : request.headers) line["headers"][header.name] = header.text;
  line["source"] = request.source.text;
  return line;
}

}  // namespace

std::string WriteRequest(const CompileJob& job) {
  const RequestJson json = {{"format", kRequestFormat},
                            {"toolchain", job.toolchain->Name()},
                            {"fingerprint", job.toolchain->fingerprint.Hex()},
                            {"request", WriteLine(job)}};
  return json.dump(-1, ' ', false, RequestJson::error_handler_t::replace);
}

}  // namespace kiln
