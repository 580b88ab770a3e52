#include "daemon/worker/native/kernel_description.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "storage/base/limits.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

constexpr int64_t kThreadsPerWarp = 32;
// In the artifact's metadata. A library of thousands of kernels is better asked with cuobjdump.
constexpr size_t kDescribedEntriesMax = 256;
constexpr size_t kDescribedBytesMax = limits::kToolchainMetadataBytesMax / 2;
constexpr size_t kParameterNamesBytesMax = 256 * limits::kKiB;  // of one kernel, together

const PtxEntry* ChooseEntry(const std::vector<PtxEntry>& entries, const std::string& wanted) {
  const auto chosen = std::find_if(entries.begin(), entries.end(), [&](const PtxEntry& entry) {
    return wanted.empty() || entry.name == wanted;
  });
  return chosen == entries.end() ? nullptr : &*chosen;
}

// NVRTC names a parameter by its kernel and a number, so a mangled name of a kilobyte comes back
// once for each. They say nothing that the order does not.
void LeaveOutLongNames(std::vector<KernelParameter>& parameters) {
  size_t bytes = 0;
  for (KernelParameter& each : parameters) {
    bytes += each.name.size();
    if (each.name.size() > limits::kNameBytesMax || bytes > kParameterNamesBytesMax) {
      each.name.clear();
    }
  }
}

Json OrAbsent(const std::optional<int64_t>& number) { return number ? Json(*number) : Json(); }
Json OrAbsent(const std::optional<Extent>& extent) { return extent ? Json(*extent) : Json(); }

Json DescribeEntry(const PtxEntry& entry, const PtxasUsage& usage) {
  Json parameters = Json::array();
  for (const KernelParameter& each : entry.parameters) {
    parameters.push_back(Json::array({each.name, each.type}));
  }
  return {{"name", entry.name},
          {"parameters", std::move(parameters)},
          {"required_threads", OrAbsent(entry.required_threads)},
          {"maximum_threads", OrAbsent(entry.maximum_threads)},
          {"cluster", OrAbsent(entry.cluster)},
          {"registers", OrAbsent(usage.registers)},
          {"shared_bytes", OrAbsent(usage.shared_bytes)},
          {"stack_bytes", OrAbsent(usage.stack_bytes)},
          {"spill_store_bytes", OrAbsent(usage.spill_store_bytes)},
          {"spill_load_bytes", OrAbsent(usage.spill_load_bytes)}};
}

// The first of them, as many as there is room for.
template <typename UsageOf>
Json DescribeEntries(const std::vector<PtxEntry>& entries, const UsageOf& usage_of) {
  Json described = Json::array();
  size_t bytes = 0;
  for (const PtxEntry& entry : entries) {
    Json one = DescribeEntry(entry, usage_of(entry));
    bytes += one.dump(-1, ' ', false, Json::error_handler_t::replace).size();
    if (described.size() == kDescribedEntriesMax || bytes > kDescribedBytesMax) break;
    described.push_back(std::move(one));
  }
  return described;
}

KernelMetadata MakeMetadata(const PtxEntry& entry, const PtxasUsage& usage,
                            const CompileRequest& request) {
  KernelMetadata metadata;
  metadata.name = entry.name;
  metadata.shared_bytes = usage.shared_bytes.value_or(0);
  metadata.registers = usage.registers;
  metadata.spill_bytes = usage.spill_store_bytes;
  if (entry.required_threads) {
    const Extent& threads = *entry.required_threads;
    metadata.num_warps =
        (threads[0] * threads[1] * threads[2] + kThreadsPerWarp - 1) / kThreadsPerWarp;
  }
  if (entry.cluster) {
    metadata.cluster_dims = *entry.cluster;
    const auto& dims = metadata.cluster_dims;
    metadata.num_ctas = dims[0] * dims[1] * dims[2];
  }
  metadata.parameters = entry.parameters;
  const auto& given = request.specialization.parameters;
  if (given.size() == metadata.parameters.size()) {
    for (size_t i = 0; i < given.size(); ++i) {
      metadata.parameters[i] = {given[i].name, given[i].type};
    }
  }
  return metadata;
}

}  // namespace

WorkerReply DescribeKernel(const CompileRequest& request, std::string_view ptx,
                           const std::string& log, const std::string& wanted,
                           const LoweredNames& names) {
  Json more = Json::object();
  if (!names.empty()) more["lowered_names"] = names;
  return DescribeKernel(request, PtxEntries(ptx), ReadPtxasUsage(log), wanted, log,
                        std::move(more));
}

WorkerReply DescribeKernel(const CompileRequest& request, std::vector<PtxEntry> entries,
                           const std::map<std::string, PtxasUsage>& usage,
                           const std::string& wanted, const std::string& log, Json more) {
  for (PtxEntry& entry : entries) LeaveOutLongNames(entry.parameters);
  const PtxEntry* chosen = ChooseEntry(entries, wanted);
  if (chosen == nullptr) {
    std::string which = fmt::format(" of the name {}", wanted);
    if (entries.empty()) {
      which = request.source.kind == SourceKind::kCudaCxx
                  ? "; where it is a template, name instances of it with the option "
                    "name-expressions, as kernel<float>"
                  : "";
    }
    return FailedReply("cubin", InvalidArgument("the source defines no kernel{}", which), log);
  }
  const auto usage_of = [&](const PtxEntry& entry) {
    const auto found = usage.find(entry.name);
    return found == usage.end() ? PtxasUsage() : found->second;
  };
  more["entry_count"] = entries.size();
  more["entries"] = DescribeEntries(entries, usage_of);
  WorkerReply reply;
  reply.outcome = WorkerReply::Outcome::kCompiled;
  reply.metadata = MakeMetadata(*chosen, usage_of(*chosen), request);
  reply.metadata.toolchain_metadata = more.dump(-1, ' ', false, Json::error_handler_t::replace);
  return reply;
}

std::string WantedEntry(const Options& options) {
  const auto wanted = options.find("entry");
  const auto* name =
      wanted == options.end() ? nullptr : std::get_if<std::string>(&wanted->second.value);
  return name == nullptr ? "" : *name;
}

}  // namespace kiln
