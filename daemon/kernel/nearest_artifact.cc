#include "daemon/kernel/nearest_artifact.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "daemon/kernel/artifact_document.h"
#include "daemon/kernel/request_document.h"
#include "storage/base/limits.h"
#include "storage/lookup_without_use.h"

namespace kiln {
namespace {

using NearestJson = nlohmann::ordered_json;
// What decides the bytes, by what a person calls it.
using RequestFields = std::map<std::string, std::string>;

constexpr size_t kPageUsages = 4096;
constexpr size_t kDigestDigits = 12;
constexpr char kSource[] = "source";
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
  fields[kSource] = TextValue(rest);
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

// How many things differ; of as many, another source is farther away than another option.
std::pair<size_t, bool> Distance(const std::vector<RequestDifference>& differences) {
  const bool is_source = std::ranges::any_of(differences, [](const RequestDifference& one) {
    return one.field == kSource || one.field == kSourcePaths;
  });
  return {differences.size(), is_source};
}

// An artifact of a kernel of the same name. The one to compare first comes first.
struct Candidate {
  size_t different_words = 0;  // of what lists show of the options
  int64_t created_unix_ms = 0;
  Digest key;

  bool operator<(const Candidate& other) const {
    return different_words != other.different_words ? different_words < other.different_words
                                                    : created_unix_ms > other.created_unix_ms;
  }
};

std::vector<std::string_view> WordsOf(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

// Words of one text that are not in the other.
size_t CountDifferent(const std::vector<std::string_view>& asked, std::string_view stored) {
  size_t common = 0;
  const std::vector<std::string_view> others = WordsOf(stored);
  for (const std::string_view word : others) {
    if (std::find(asked.begin(), asked.end(), word) != asked.end()) ++common;
  }
  return others.size() + asked.size() - 2 * std::min(common, asked.size());
}

struct Search {
  const CallContext& context;
  const Clock& clock;
  ArtifactIndex& index;
  BlobStore& blobs;
  const Digest key;  // what was asked for may be stored by now
  const std::string name;
  const bool is_mangled;
  const std::string options;
  const RequestFields asked;
  uint64_t request_bytes = 0;
  size_t records_read = 0;
  NearestSearch result = {};

  absl::Status Run() {
    KILN_ASSIGN_OR_RETURN(std::vector<Candidate> candidates, Candidates());
    const size_t compared = std::min(candidates.size(), limits::kNearestComparedMax);
    std::partial_sort(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(compared),
                      candidates.end());
    if (compared < candidates.size() || records_read > limits::kNearestRecordsMax) {
      result.has_seen_all = false;
    }
    for (size_t i = 0; i < compared; ++i) {
      KILN_RETURN_IF_ERROR(StillWanted(context, clock));
      KILN_ASSIGN_OR_RETURN(const auto found, LookupWithoutUse(context, index, candidates[i].key));
      if (!found || Look(*found)) continue;
      result.has_seen_all = false;
      break;
    }
    return absl::OkStatus();
  }

  // Without reading their records.
  absl::StatusOr<std::vector<Candidate>> Candidates() {
    const std::vector<std::string_view> words = WordsOf(options);
    std::unordered_map<std::string, size_t>
        different;  // most kernels have options that others have
    std::vector<Candidate> candidates;
    std::optional<Digest> after;
    while (!result.has_seen_all && result.records < limits::kNearestUsagesMax) {
      KILN_RETURN_IF_ERROR(StillWanted(context, clock));
      KILN_ASSIGN_OR_RETURN(const auto page, index.ScanUsages(context, after, kPageUsages));
      for (const auto& [stored, usage] : page) {
        ++result.records;
        if (stored == key || !MayBeNamed(stored, usage)) continue;
        const auto [known, is_new] = different.try_emplace(usage.options);
        if (is_new) known->second = CountDifferent(words, usage.options);
        candidates.push_back({known->second, usage.created_unix_ms, stored});
      }
      result.has_seen_all = page.size() < kPageUsages;
      if (!page.empty()) after = page.back().key;
    }
    return candidates;
  }

  bool MayBeNamed(const Digest& stored, const ArtifactUsage& usage) {
    if (usage.HasName()) return IsNamed(usage.name, limits::kListedNameBytesMax);
    if (++records_read > limits::kNearestRecordsMax) return false;
    const auto found = LookupWithoutUse(context, index, stored);
    if (!found.ok() || !*found) return false;
    // Most are of other kernels; that their documents need not be parsed for.
    return (*found)->record->document.find(name) != std::string::npos;
  }

  // False: enough has been read.
  bool Look(const FoundArtifact& found) {
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

  // `bytes_max`: where `stored` is cut off.
  bool IsNamed(std::string_view stored, size_t bytes_max = SIZE_MAX) const {
    return stored == std::string_view(name).substr(0, bytes_max) ||
           (is_mangled && stored.find(name) != std::string_view::npos);
  }

  void Weigh(const FoundArtifact& found, const ArtifactDocument& document,
             const RequestFields& stored) {
    std::vector<RequestDifference> differences = Compare(asked, stored);
    // Candidates come in order: an earlier one is more alike in what lists show, or younger.
    if (result.nearest && Distance(differences) >= Distance(result.nearest->differences)) return;
    result.nearest = NearestArtifact{found.record->key,
                                     document.provenance.toolchain,
                                     document.provenance.toolchain_fingerprint,
                                     document.metadata.target,
                                     found.record->created_unix_ms,
                                     std::move(differences)};
  }
};

}  // namespace

absl::StatusOr<NearestSearch> FindNearest(const CallContext& context, const Clock& clock,
                                          ArtifactIndex& index, BlobStore& blobs,
                                          const CompileJob& asked) {
  Search search{context,
                clock,
                index,
                blobs,
                asked.key,
                KernelNameOf(asked.request.source),
                asked.request.source.kind == SourceKind::kCudaCxx,
                ListOptions(asked.request).substr(0, limits::kListedOptionsBytesMax),
                ParseFields(WriteRequest(asked)).value_or(RequestFields())};
  search.result.has_seen_all = search.name.empty();
  KILN_RETURN_IF_ERROR(search.Run());
  return std::move(search.result);
}

}  // namespace kiln
