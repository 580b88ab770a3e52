// What a manifest says of where it was made. For people: it decides nothing.
#pragma once

#include <string>

#include "kiln/v1/manifest.pb.h"

namespace kiln::cli {

// Adds this machine's name, the time, and Kiln's version.
void AddWriter(v1::ManifestOrigin& origin);
// Adds this machine's GPUs and their driver's version, as the files of NVIDIA's driver have them.
// The plug-in does the same in Python, for recordings.
void AddDevices(v1::ManifestOrigin& origin, const std::string& folder = "/proc/driver/nvidia");
// Adds a version to the list of a tool: "3.5.1, 3.6.0". Each once.
void AddVersion(const std::string& tool, const std::string& version, v1::ManifestOrigin& origin);

}  // namespace kiln::cli
