#include "daemon/kernel/kernel.h"

namespace kiln {

std::string_view SourceKindName(SourceKind kind) {
  switch (kind) {
    case SourceKind::kTtir:
      return "ttir";
    case SourceKind::kCudaCxx:
      return "cuda";
    case SourceKind::kPtx:
      return "ptx";
    case SourceKind::kTtgir:
      return "ttgir";
    case SourceKind::kOpenCl:
      return "opencl";
  }
  return "unknown";
}

absl::StatusOr<SourceKind> ParseSourceKind(std::string_view name) {
  for (const SourceKind kind : {SourceKind::kTtir, SourceKind::kTtgir, SourceKind::kCudaCxx,
                                SourceKind::kPtx, SourceKind::kOpenCl}) {
    if (name == SourceKindName(kind)) return kind;
  }
  return InvalidArgument("unknown source kind '{}'; use ttir, ttgir, cuda, ptx or opencl", name);
}

absl::StatusOr<Target> Target::Parse(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == text.size() ||
      text.find(':', colon + 1) != std::string_view::npos) {
    return InvalidArgument(
        "'{}' is not a target; write backend:architecture, such as cuda:90 or hip:gfx942", text);
  }
  Target target;
  target.backend = text.substr(0, colon);
  target.architecture = text.substr(colon + 1);
  return target;
}

}  // namespace kiln
