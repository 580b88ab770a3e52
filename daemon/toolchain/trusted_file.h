// Whose files are run with the daemon's rights.
#pragma once

#include <string>

namespace kiln {

// Why what is at `path`, a file or a directory, must not decide what the daemon runs; "" where it
// may. Only root and the daemon's own user may be able to write to it. A group may where it is the
// owner's alone, as a system with user private groups (umask 002) makes them: of the owner's name,
// or root's, and with no other members. Blocks as a disk does, and as the system's database of
// groups.
std::string WhyNotTrusted(const std::string& path);

}  // namespace kiln
