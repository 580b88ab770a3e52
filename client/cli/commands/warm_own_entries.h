// Lookup keys and tunings of manifests, for the processes of the user who warms.
#pragma once

#include <string>
#include <vector>

#include "client/cli/commands/session.h"
#include "client/rpc/client.h"

namespace kiln::cli {

// Puts the entries that each manifest names into the caller's own namespace, so that a job finds
// its kernels before it lowers them, and measures nothing again. Passes over manifests that others
// can write, and those whose entries were put already. It is only a short cut: a failure is said on
// standard error. REQUIRES: the artifacts are stored; entries of those that are not are left out.
void WarmOwnEntries(Client& client, Session& session, const std::vector<std::string>& files);

}  // namespace kiln::cli
