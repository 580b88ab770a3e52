// What is stored of a tuning: one entry per kernel and launch, so that a further candidate leaves
// the others' entries as they are.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "client/launch/artifact/artifact.h"
#include "client/launch/driver/driver.h"
#include "client/launch/launch_plan.h"
#include "client/launch/run_timer.h"

namespace kiln::launch {

// Of the artifact (by its key; by its binary and metadata where it has none), the device's model,
// the driver's version, the launch's grid and block, and the caller's words for the problem.
// Printable; always of the same length.
std::string TuningKey(const ArtifactId& artifact, const DeviceFacts& device, const LaunchCall& call,
                      std::string_view problem);

// JSON of at most kTuningRecordBytesMax bytes.
inline constexpr size_t kTuningRecordBytesMax = 256;
std::string EncodeRunTimes(const RunTimes& times);
// Nothing: it is not such a record, or one of a later format.
std::optional<RunTimes> DecodeRunTimes(std::string_view record);

}  // namespace kiln::launch
