// The requests behind artifacts that a daemon has stored.
#pragma once

#include "client/cli/commands/session.h"
#include "client/cli/requests/manifest_writer.h"
#include "client/rpc/admin_client.h"

namespace kiln::cli {

// What people are told where a job's manifest has no keys.
inline constexpr char kOtherUsersKeys[] =
    "  try: run kiln record --job as the job's user, whose keys nobody else gets\n";

// Adds those that are wanted to a manifest, a page at a time, with the keys that the caller's jobs
// looked them up by and their tunings; to `origin` the versions of the toolchains. Says on the
// console which cannot be read, and leaves them out.
[[nodiscard]] absl::Status AddStoredRequests(AdminClient& admin,
                                             admin::v1::ListRequestsRequest wanted,
                                             Session& session, ManifestWriter& writer,
                                             v1::ManifestOrigin& origin);

}  // namespace kiln::cli
