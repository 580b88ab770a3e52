#include "daemon/kernel/request_document.h"

#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "daemon/kernel/launch_options.h"
#include "daemon/kernel/option_json.h"

namespace kiln {
namespace {

using RequestJson = nlohmann::ordered_json;

constexpr int kRequestFormat = 1;

RequestJson WriteLaunch(const LaunchParameters& launch) {
  RequestJson json = RequestJson::object();
  ForEachLaunchParameter(launch, [&json](const char* name, const auto& value) {
    if (value) json[name] = *value;
  });
  return json;
}

RequestJson WriteParameters(const Specialization& specialization) {
  RequestJson list = RequestJson::array();
  for (const Parameter& parameter : specialization.parameters) {
    RequestJson json = {{"name", parameter.name}, {"type", parameter.type}};
    if (!parameter.attributes.empty()) json["attributes"] = parameter.attributes;
    if (parameter.constant) json["constant"] = OptionToJson(*parameter.constant);
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
  for (const auto& [name, value] : request.options) line["options"][name] = OptionToJson(value);
  if (!request.specialization.parameters.empty()) {
    line["specialization"]["parameters"] = WriteParameters(request.specialization);
  }
  for (const SourceHeader& header : request.headers) line["headers"][header.name] = header.text;
  line["source"] = request.source.text;
  return line;
}

std::string OptionText(const OptionValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.value)) return *text;
  return OptionToJson(value).dump(-1, ' ', false, RequestJson::error_handler_t::replace);
}

// The shapes of the largest tensors in Triton IR, largest first: "128x256,64x256". Triton folds
// constants in, so configurations of one kernel may differ in shapes alone. Any two of the three
// shapes of a product tell all of its tile.
std::string LargestTiles(std::string_view text) {
  constexpr std::string_view kTensor = "tensor<";
  constexpr size_t kListed = 2;
  constexpr size_t kShapeBytesMax = 32;
  std::set<std::pair<uint64_t, std::string_view>, std::greater<>> largest;
  for (size_t at = 0; (at = text.find(kTensor, at)) != std::string_view::npos;) {
    at += kTensor.size();
    // "128x64x" of "128x64xf16>".
    const auto sides = text.substr(at, text.find_first_not_of("0123456789x", at) - at);
    if (!sides.ends_with('x') || sides.size() > kShapeBytesMax) continue;
    uint64_t elements = 1, side = 0;
    for (const char c : sides) {
      if (c == 'x') {
        elements *= std::exchange(side, 0);
      } else {
        side = 10 * side + static_cast<uint64_t>(c - '0');
      }
    }
    largest.emplace(elements, sides.substr(0, sides.size() - 1));
    if (largest.size() > kListed) largest.erase(std::prev(largest.end()));
  }
  std::string list;
  for (const auto& [elements, shape] : largest) (list += list.empty() ? "" : ",") += shape;
  return list;
}

}  // namespace

std::string ListOptions(const CompileRequest& request) {
  std::string list;
  const auto add = [&list](std::string_view word) {
    if (!list.empty()) list += ' ';
    list += word;
  };
  const SourceKind kind = request.source.kind;
  if (kind == SourceKind::kTtir || kind == SourceKind::kTtgir) {
    if (const std::string tiles = LargestTiles(request.source.text); !tiles.empty())
      add("tiles=" + tiles);
  }
  for (const Parameter& parameter : request.specialization.parameters) {
    if (parameter.constant) add(parameter.name + "=" + OptionText(*parameter.constant));
  }
  Options others = request.options;
  if (const auto macros = others.extract("define-macro")) {
    const auto* several = std::get_if<OptionTuple>(&macros.mapped().value);
    if (several == nullptr) add(OptionText(macros.mapped()));
    for (const OptionValue& macro : several == nullptr ? OptionTuple() : *several) {
      add(OptionText(macro));
    }
  }
  others.merge(LaunchOptions(request.launch));
  for (const auto& [name, value] : others) {
    add((name.starts_with("num_") ? name.substr(4) : name) + "=" + OptionText(value));
  }
  return list;
}

std::string WriteRequest(const CompileJob& job) {
  const RequestJson json = {{"format", kRequestFormat},
                            {"toolchain", job.toolchain->Name()},
                            {"fingerprint", job.toolchain->fingerprint.Hex()},
                            {"request", WriteLine(job)}};
  return json.dump(-1, ' ', false, RequestJson::error_handler_t::replace);
}

}  // namespace kiln
