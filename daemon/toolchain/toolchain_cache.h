// What was learned of toolchains, so that a restart need not learn it again.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/kernel/nearest_artifact.h"
#include "daemon/toolchain/toolchain_files.h"
#include "storage/base/digest.h"
#include "storage/base/filesystem.h"

namespace kiln {

// Fingerprints by the listing of the files they cover, by fingerprint the text that it is the
// digest of, and descriptions by fingerprint and by the program that asked for them. One file each
// in one directory. Only speeds things up: what is missing, damaged or cannot be written is learned
// anew. Not thread-safe; blocks as a disk does.
class ToolchainCache {
 public:
  // `directory` is made where it is missing, but not its parents; "" keeps nothing. Nor does one
  // that others could write to, with a warning: they could give their own toolchain another's name.
  // `filesystem` outlives the cache.
  ToolchainCache(std::string directory, Filesystem& filesystem);

  std::optional<Digest> FindFingerprint(const Digest& listing);
  void StoreFingerprint(const Digest& listing, const Digest& fingerprint);
  bool HasText(const Digest& fingerprint);
  void StoreText(const ToolchainFingerprint& fingerprint);
  std::optional<std::string> FindDescription(const Digest& fingerprint, const Digest& script);
  void StoreDescription(const Digest& fingerprint, const Digest& script,
                        const std::string& description);

  // Removes files of a cache that nobody asked for since construction: those of toolchains that are
  // gone, and those that were never finished. Of the texts of such toolchains the
  // limits::kToolchainTextsMax youngest stay, to compare with.
  void RemoveUnused();

 private:
  std::optional<std::string> Read(const std::string& name);
  void Write(const std::string& name, const std::string& content);

  std::string directory_;  // "" where it is not used
  Filesystem& filesystem_;
  std::set<std::string> used_;
};

// What differs between two toolchains, from the texts that a cache keeps in the directory: each
// file that is not the same, up to limits::kToolchainDifferencesMax of them. Empty where one of the
// texts is not there. Thread-safe; blocks as a disk does.
std::vector<RequestDifference> CompareToolchains(const std::string& directory,
                                                 Filesystem& filesystem, const Digest& asked,
                                                 const Digest& stored);

}  // namespace kiln
