// The way from a directory to what a path leads to.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <string>

#include "storage/base/status.h"

namespace kiln {

// What is met: a directory on the way, a link, or at the end what the path leads to. `info` is what
// lstat says of it; null where nothing is there, which ends the way: whoever may write to the
// holder decides what comes there.
using OnPathStep = std::function<absl::Status(const std::string& holder, const std::string& entry,
                                              const struct stat* info)>;

// Goes as the kernel goes, through each link by itself, so that each directory by which somebody
// could put another thing at the end is the holder of a step. `from` is a directory with no link in
// its path, and `path` relative to it, or absolute. An error of `on_step`'s ends it; UNAVAILABLE
// where it could not look. Links that lead round in a circle end it as well, which is no error.
// Blocks as a disk does.
absl::Status WalkPath(const std::string& from, const std::string& path, const OnPathStep& on_step);

}  // namespace kiln
