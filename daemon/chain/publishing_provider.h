// Publishes artifacts that are found in the store.
#pragma once

#include <memory>

#include "daemon/chain/forwarding_provider.h"
#include "storage/artifact_publisher.h"
#include "storage/base/executor.h"

namespace kiln {

// The publisher listens to the index, so a compiled artifact is published when it is stored. A hit
// counts as a use there. An artifact that has left the hot directory since is published again,
// through `executor`, after the answer.
//
// Changes no answer. Thread-safe; does not block. Publisher and executor outlive it.
class PublishingProvider final : public ForwardingProvider {
 public:
  PublishingProvider(std::unique_ptr<CompilationProvider> next, ArtifactPublisher& publisher,
                     Executor& executor)
      : ForwardingProvider("publishing", std::move(next)),
        publisher_(publisher),
        executor_(executor) {}

  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override;

 private:
  void NoteHit(const CompileResult& result);

  ArtifactPublisher& publisher_;
  Executor& executor_;
};

}  // namespace kiln
