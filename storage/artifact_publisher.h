// Where artifacts are published for clients to read without asking the daemon.
#pragma once

#include "storage/artifact_index.h"

namespace kiln {

// A listener of the index: what is put there is published, what is removed is withdrawn.
// Thread-safe. NoteUse blocks on a short mutex only, the others as a disk does.
class ArtifactPublisher : public ArtifactListener {
 public:
  // Whether the artifact is published; it then counts as just used.
  virtual bool NoteUse(const Digest& key) = 0;
};

}  // namespace kiln
