// Where artifacts are published for clients to read without asking the daemon.
#pragma once

#include <span>

#include "storage/artifact_index.h"

namespace kiln {

// A listener of the index: what is put there is published, what is removed is withdrawn.
// Thread-safe. NoteUse blocks on a short mutex only, the others as a disk does.
class ArtifactPublisher : public ArtifactListener {
 public:
  // Whether the artifact is published; it then counts as just used.
  virtual bool NoteUse(const Digest& key) = 0;
  // Publishes an artifact that a look-up found in the store. Does nothing where it is published
  // already, and where its key has changed since the look-up could have happened.
  // REQUIRES: `blobs` holds the final binary.
  virtual void Publish(const ArtifactRecord& record, std::span<const Blob> blobs) = 0;
};

}  // namespace kiln
