// The part of kiln_graph.h that reads and writes segments as JSON.
#include "client/graph/c_api/c_edge.h"
#include "client/graph/segment/segment_json.h"

using namespace kiln::graph;  // NOLINT: this file is their interface

namespace {

// The text lives in `holder`.
absl::Status GiveJson(const Segment& segment, kiln_graph_segment& holder, const char** json,
                      uint64_t* json_bytes) {
  holder.json = WriteSegment(segment);
  *json = holder.json.c_str();
  if (json_bytes != nullptr) *json_bytes = holder.json.size();
  return absl::OkStatus();
}

}  // namespace

extern "C" {

kiln_graph_code kiln_graph_segment_open_json(const char* json, uint64_t json_bytes,
                                             kiln_graph_segment** segment) {
  return Guarded({json, segment}, [&] {
    auto read = ReadSegment({json, json_bytes});
    if (read.ok()) *segment = new kiln_graph_segment{.segment = *std::move(read)};
    return read.status();
  });
}

kiln_graph_code kiln_graph_segment_get_json(kiln_graph_segment* segment, const char** json,
                                            uint64_t* json_bytes) {
  return Guarded({segment, json},
                 [&] { return GiveJson(segment->segment, *segment, json, json_bytes); });
}

kiln_graph_code kiln_graph_segment_get_description(kiln_graph_segment* segment, const char** json,
                                                   uint64_t* json_bytes) {
  return Guarded({segment, json}, [&] {
    Segment bare = segment->segment;
    for (Value& value : bare.values) value.bytes = nullptr;
    return GiveJson(bare, *segment, json, json_bytes);
  });
}

}  // extern "C"
