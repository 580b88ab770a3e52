#include "tests/fuzz/random_request.h"

#include <fuzzer/FuzzedDataProvider.h>

namespace kiln {
namespace {

constexpr const char* kNames[] = {
    "num_warps",  "num_stages",          "num_ctas",    "maxnreg",   "cluster_dims",
    "launch_pdl", "enable_fp_fusion",    "ptx_options", "warp_size", "arch",
    "debug",      "supported_fp8_dtypes"};
constexpr SourceKind kKinds[] = {SourceKind::kTtir, SourceKind::kTtgir, SourceKind::kCudaCxx,
                                 SourceKind::kPtx, SourceKind::kOpenCl};
constexpr const char* kBackends[] = {"cuda", "hip", "spirv"};
constexpr const char* kArchitectures[] = {"90", "100", "gfx942", "1.2"};

std::string Text(FuzzedDataProvider& data) { return data.ConsumeRandomLengthString(24); }

OptionValue RandomValue(FuzzedDataProvider& data, int depth) {
  switch (data.ConsumeIntegralInRange(0, depth > 0 ? 5 : 4)) {
    case 0:
      return {data.ConsumeBool()};
    case 1:
      return {data.ConsumeIntegral<int64_t>()};
    case 2:
      return {data.ConsumeIntegralInRange<int64_t>(-1, 65)};
    case 3:
      return {data.ConsumeFloatingPoint<double>()};
    case 4:
      return {Text(data)};
    default: {
      OptionTuple tuple;
      for (int i = data.ConsumeIntegralInRange(0, 4); i > 0; --i) {
        tuple.push_back(RandomValue(data, depth - 1));
      }
      return {std::move(tuple)};
    }
  }
}

std::optional<int64_t> MaybeSmall(FuzzedDataProvider& data) {
  if (data.ConsumeBool()) return std::nullopt;
  return data.ConsumeIntegralInRange<int64_t>(-1, 65);
}

Parameter RandomParameter(FuzzedDataProvider& data) {
  Parameter parameter{Text(data), Text(data), {}, std::nullopt};
  for (int i = data.ConsumeIntegralInRange(0, 2); i > 0; --i) {
    parameter.attributes[Text(data)] = data.ConsumeIntegral<int64_t>();
  }
  if (data.ConsumeBool()) parameter.constant = RandomValue(data, 2);
  return parameter;
}

}  // namespace

CompileRequest RandomRequest(FuzzedDataProvider& data) {
  CompileRequest request;
  request.source.kind = data.PickValueInArray(kKinds);
  request.source.text = Text(data);
  request.target.backend = data.ConsumeBool() ? data.PickValueInArray(kBackends) : Text(data);
  request.target.architecture =
      data.ConsumeBool() ? data.PickValueInArray(kArchitectures) : Text(data);
  request.target.warp_size = data.ConsumeIntegralInRange(0, 65);
  request.launch.num_warps = MaybeSmall(data);
  request.launch.num_stages = MaybeSmall(data);
  request.launch.num_ctas = MaybeSmall(data);
  request.launch.maxnreg = MaybeSmall(data);
  if (data.ConsumeBool()) request.launch.launch_pdl = data.ConsumeBool();
  if (data.ConsumeBool()) request.launch.cluster_dims = {1, data.ConsumeIntegral<int8_t>(), 1};
  for (int i = data.ConsumeIntegralInRange(0, 3); i > 0; --i) {
    const std::string name = data.ConsumeBool() ? data.PickValueInArray(kNames) : Text(data);
    request.options[name] = RandomValue(data, 10);
  }
  for (int i = data.ConsumeIntegralInRange(0, 3); i > 0; --i) {
    request.specialization.parameters.push_back(RandomParameter(data));
  }
  if (data.ConsumeBool()) request.ptxas = Text(data);
  for (int i = data.ConsumeIntegralInRange(0, 3); i > 0; --i) {
    request.headers.push_back({Text(data), Text(data)});
  }
  return request;
}

}  // namespace kiln
