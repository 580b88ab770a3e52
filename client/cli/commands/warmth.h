// Whether everything that manifests name is in the cache.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/commands/request_source.h"
#include "client/cli/commands/session.h"
#include "client/rpc/client.h"
#include "storage/base/clock.h"
#include "storage/base/status.h"

namespace kiln::cli {

struct WarmthQuestion {
  std::vector<std::string> files;  // that can be read twice
  RequestTemplate shape;
  Shard shard;
};

// Asks once and prints the state: complete, partial or failed, and what is not there. The store is
// asked, so what was evicted since counts as missing. kOk: complete. kFailed: partial or failed.
[[nodiscard]] absl::StatusOr<ExitCode> ShowWarmth(const WarmthQuestion& question, Session& session);

// Asks again for what is not there until nothing is, or until --timeout: then the state is printed
// as above. Shows progress. A daemon that restarts meanwhile is waited for.
[[nodiscard]] absl::StatusOr<ExitCode> WaitForWarmth(const WarmthQuestion& question,
                                                     Session& session);

// What a warm that got everything came to, kept in the own namespace of its user: the keys, under a
// digest of the manifests, the flags and the daemon's toolchains. The next warm of the same looks
// for these artifacts, and reads no source. Not thread-safe; blocks.
class WarmMarker {
 public:
  struct Found {
    uint64_t kernels = 0;
    uint64_t bytes = 0;  // of their binaries
  };

  // Both outlive it.
  WarmMarker(const WarmthQuestion& question, Client& client)
      : question_(question), client_(client), name_(NameOf(question, client.hot_directory())) {}

  // The entry's key. Returns nothing for JSON lines: they name other files, whose content may
  // change.
  [[nodiscard]] static std::optional<std::string> NameOf(const WarmthQuestion& question,
                                                         const std::string& hot_directory);

  // Where there is a marker, and each of its artifacts is in the hot directory now. Leases them.
  [[nodiscard]] std::optional<Found> Find(const CallOptions& call) const;

  // Adds the key of an artifact that the warm got.
  void Add(const std::string& key);
  // Writes the marker, unless a file or the toolchains changed since it was made. REQUIRES: every
  // artifact was added.
  void Keep(const CallOptions& call) const;

 private:
  const WarmthQuestion& question_;
  Client& client_;
  const std::optional<std::string> name_;
  std::string keys_;
};

}  // namespace kiln::cli
