// What a manifest says of where it was made. For people: it decides nothing.
#pragma once

#include <string>

#include "kiln/v1/manifest.pb.h"

namespace kiln::cli {

// Adds this machine's name, the time, and Kiln's version.
void AddWriter(v1::ManifestOrigin& origin);
// Adds this machine's GPUs and their driver's version, as NVIDIA's driver tells them.
// `folder`: /proc/driver/nvidia.
void AddDevices(const std::string& folder, v1::ManifestOrigin& origin);
// Adds "3.6.0" to what is there of "triton".
void AddVersion(const std::string& name, const std::string& version, v1::ManifestOrigin& origin);

}  // namespace kiln::cli
