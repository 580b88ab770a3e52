// The stored form of a tuning: one entry per kernel and launch, so that a new candidate does not
// change the entries of the others.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "client/launch/artifact/artifact.h"
#include "client/launch/driver/driver.h"
#include "client/launch/launch_plan.h"
#include "client/launch/run_timer.h"

namespace kiln::launch {

// A digest of the artifact's id, the device's model, the driver's version, the launch's grid and
// block, and the problem. Printable; always of the same length.
std::string TuningKey(const ArtifactId& artifact, const DeviceFacts& device, const LaunchCall& call,
                      std::string_view problem);

// JSON of at most kTuningRecordBytesMax bytes.
inline constexpr size_t kTuningRecordBytesMax = 256;
std::string EncodeRunTimes(const RunTimes& times);
// Nothing: not such a record, or a later format.
std::optional<RunTimes> DecodeRunTimes(std::string_view record);

}  // namespace kiln::launch
