// What tells one worker's program from another, so that toolchains are asked again by a new one.
#pragma once

#include <string>

#include "storage/base/digest.h"
#include "storage/base/filesystem.h"

namespace kiln {

// What `sha256sum triton_worker.py kiln_triton_worker/*.py | sha256sum` prints where `program`,
// which is no link, lies: of the file and of Triton's modules. Any other program's name stands for
// itself, and one without that directory is a line alone. Blocks as a disk does.
absl::StatusOr<Digest> DigestOfWorker(const std::string& program, Filesystem& filesystem);

}  // namespace kiln
