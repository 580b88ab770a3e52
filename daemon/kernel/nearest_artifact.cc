#include "daemon/kernel/nearest_artifact.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/kernel/artifact_document.h"
#include "daemon/kernel/request_document.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

using NearestJson = nlohmann::ordered_json;
// What decides the bytes, by what a person calls it.
using RequestFields = std::map<std::string, std::string>;

constexpr size_t kPageRecords = 512;
constexpr size_t kDigestDigits = 12;
constexpr char kSourcePaths[] = "source paths";

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || c == '.';
}

// The name that follows the first `mark` in the text.
std::string NameAfter(std::string_view text, std::string_view mark) {
  const size_t found = text.find(mark);
  if (found == std::string_view::npos) return "";
  const std::string_view rest = text.substr(found + mark.size());
  return std::string(rest.begin(), std::find_if_not(rest.begin(), rest.end(), IsNameCharacter));
}

// The name of the first function behind the word kernel or __kernel.
std::string OpenClKernelName(std::string_view text) {
  const size_t found = text.find("kernel ");
  return found == std::string_view::npos ? "" : NameAfter(text.substr(found), "void ");
}

// The name of the first __global__ function, which is part of the entry point's name.
std::string CudaKernelName(std::string_view text) {
  const size_t found = text.find("__global__");
  if (found == std::string_view::npos) return "";
  std::string name = NameAfter(text.substr(found), "void ");
  return name.starts_with("__launch_bounds__") ? NameAfter(text.substr(found), ") ") : name;
}

std::string KernelNameOf(const KernelSource& source) {
  std::string name;
  if (source.kind == SourceKind::kCudaCxx) name = CudaKernelName(source.text);
  if (source.kind == SourceKind::kOpenCl) name = OpenClKernelName(source.text);
  if (source.kind == SourceKind::kPtx) name = NameAfter(source.text, ".entry ");
  if (source.kind == SourceKind::kTtir || source.kind == SourceKind::kTtgir) {
    name = NameAfter(source.text, "tt.func public @");
  }
  return name.empty() ? source.name : name;
}

std::string TextValue(const std::string& text) {
  return fmt::format("{} ({} bytes)", Digest::Of(text).Hex().substr(0, kDigestDigits), text.size());
}

// The files that the locations of Triton IR name ("file":line:column), and the text without them.
std::pair<std::string, std::string> SplitPaths(std::string_view text) {
  std::string paths, rest;
  for (size_t open; (open = text.find('"')) != std::string_view::npos;) {
    size_t end = open + 1;
    while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
    end = std::min(end + 1, text.size());
    const std::string_view after = text.substr(end, 2);
    const bool is_path = after.size() == 2 && after[0] == ':' && after[1] >= '0' && after[1] <= '9';
    rest += text.substr(0, open);
    (is_path ? paths : rest) += text.substr(open, end - open);
    text.remove_prefix(end);
  }
  return {paths, rest.append(text)};
}

std::string ValueText(const NearestJson& value) {
  std::string text = value.is_string()
                         ? value.get<std::string>()
                         : value.dump(-1, ' ', false, NearestJson::error_handler_t::replace);
  if (text.size() > limits::kNearestValueBytesMax) {
    text = fmt::format("{}... ({})", text.substr(0, kDigestDigits), TextValue(text));
  }
  return text;
}

std::string MemberText(const NearestJson& object, const char* name) {
  return object.contains(name) ? ValueText(object[name]) : std::string();
}

RequestFields FieldsOf(const NearestJson& document) {
  const NearestJson& line = document.at("request");
  RequestFields fields;
  fields["kind"] = MemberText(line, "kind");
  fields["target"] = MemberText(line, "target");
  fields["toolchain"] = fmt::format("{} ({})", MemberText(document, "toolchain"),
                                    MemberText(document, "fingerprint").substr(0, kDigestDigits));
  if (line.contains("ptxas")) fields["ptxas"] = MemberText(line, "ptxas").substr(0, kDigestDigits);
  for (const char* group : {"launch", "options"}) {
    if (!line.contains(group)) continue;
    for (const auto& [name, value] : line[group].items()) fields[name] = ValueText(value);
  }
  if (line.contains("specialization")) {
    fields["parameters"] = ValueText(line["specialization"].at("parameters"));
  }
  if (line.contains("headers")) {
    for (const auto& [name, text] : line["headers"].items()) {
      fields["header " + name] = TextValue(text.get<std::string>());
    }
  }
  const auto source = line.at("source").get<std::string>();
  const std::string kind = fields["kind"];
  const bool is_triton = kind == "ttir" || kind == "ttgir";
  const auto [paths, rest] = is_triton ? SplitPaths(source) : std::pair(std::string(), source);
  if (!paths.empty()) fields[kSourcePaths] = TextValue(paths);
  fields["source"] = TextValue(rest);
  return fields;
}

// Nothing where it is no request that this daemon knows.
std::optional<RequestFields> ParseFields(std::string_view text) {
  try {
    return FieldsOf(NearestJson::parse(text));
  } catch (const NearestJson::exception&) {
    return std::nullopt;
  }
}

// What an absent field means.
std::string AbsentValue(const std::string& field) {
  if (field == "ptxas") return "the toolchain's own";
  const bool is_text = field == kSourcePaths || field.starts_with("header ");
  return field == "parameters" || is_text ? "none" : "default";
}

std::vector<RequestDifference> Compare(const RequestFields& asked, const RequestFields& stored) {
  std::vector<RequestDifference> differences;
  const auto value = [](const RequestFields& fields, const std::string& name) {
    const auto found = fields.find(name);
    return found == fields.end() ? AbsentValue(name) : found->second;
  };
  RequestFields all = asked;
  all.insert(stored.begin(), stored.end());
  for (const auto& [name, unused] : all) {
    RequestDifference difference{name, value(asked, name), value(stored, name)};
    if (difference.asked != difference.stored) differences.push_back(std::move(difference));
  }
  if (differences.size() == 1 && differences[0].field == kSourcePaths) {
    differences[0].stored = "others: see KILN_BASEDIRS";  // docs/python.md
  }
  return differences;
}

struct Search {
  const CallContext& context;
  BlobStore& blobs;
  const Digest key;  // what was asked for may be stored by now
  const std::string name;
  const bool is_mangled;
  const RequestFields asked;
  uint64_t request_bytes = 0;
  NearestSearch result = {};

  // False: enough has been read.
  bool Look(const FoundArtifact& found) {
    ++result.records;
    if (found.record->key == key) return true;
    // Most are of other kernels; that their documents need not be parsed for.
    if (found.record->document.find(name) == std::string::npos) return true;
    const auto document = ParseDocument(found.record->document);
    if (!document.ok() || !IsNamed(document->metadata.name)) return true;
    const StageReference* request = FindStage(found.record->stages, kRequestStage);
    if (request == nullptr) return true;
    request_bytes += request->size_bytes;
    if (request_bytes > limits::kNearestRequestBytesMax) return false;
    const absl::StatusOr<FoundBlob> blob = blobs.GetBlob(context, request->digest);
    if (!blob.ok()) return true;  // evicted in between
    if (const auto stored = ParseFields(blob->blob.bytes())) Weigh(found, *document, *stored);
    return true;
  }

  bool IsNamed(const std::string& stored) const {
    return stored == name || (is_mangled && stored.find(name) != std::string::npos);
  }

  void Weigh(const FoundArtifact& found, const ArtifactDocument& document,
             const RequestFields& stored) {
    std::vector<RequestDifference> differences = Compare(asked, stored);
    const int64_t created = found.record->created_unix_ms;
    if (result.nearest) {
      const NearestArtifact& best = *result.nearest;
      if (differences.size() > best.differences.size()) return;
      if (differences.size() == best.differences.size() && created <= best.created_unix_ms) return;
    }
    result.nearest = NearestArtifact{found.record->key, document.provenance.toolchain,
                                     document.metadata.target, created, std::move(differences)};
  }
};

}  // namespace

absl::StatusOr<NearestSearch> FindNearest(const CallContext& context, const Clock& clock,
                                          ArtifactIndex& index, BlobStore& blobs,
                                          const CompileJob& asked) {
  Search search{context,
                blobs,
                asked.key,
                KernelNameOf(asked.request.source),
                asked.request.source.kind == SourceKind::kCudaCxx,
                ParseFields(WriteRequest(asked)).value_or(RequestFields())};
  search.result.has_seen_all = search.name.empty();
  std::optional<Digest> after;
  for (size_t seen = 0; !search.result.has_seen_all && seen < limits::kNearestRecordsMax;
       seen += kPageRecords) {
    KILN_RETURN_IF_ERROR(StillWanted(context, clock));
    KILN_ASSIGN_OR_RETURN(const auto page, index.Scan(context, after, kPageRecords));
    for (const FoundArtifact& found : page) {
      if (!search.Look(found)) return std::move(search.result);
    }
    search.result.has_seen_all = page.size() < kPageRecords;
    if (!page.empty()) after = page.back().record->key;
  }
  return std::move(search.result);
}

}  // namespace kiln
