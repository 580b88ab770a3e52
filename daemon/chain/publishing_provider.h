// Keeps in the hot directory what is being asked for.
#pragma once

#include <memory>
#include <string>

#include "daemon/chain/compilation_provider.h"
#include "storage/base/executor.h"
#include "storage/hot/hot_directory.h"

namespace kiln {

// What was compiled is published by the store's change (HotDirectory is a listener); what was
// found may have left the hot directory since, so every hit counts as a use there, and an artifact
// that is not published is, through `executor`, after the answer.
//
// Changes no answer. Thread-safe; does not block. Hot directory and executor outlive it.
class PublishingProvider final : public CompilationProvider {
 public:
  PublishingProvider(std::unique_ptr<CompilationProvider> next, HotDirectory& hot,
                     Executor& executor)
      : next_(std::move(next)), hot_(hot), executor_(executor) {}

  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override;
  void Raise(const Digest& key, const CallContext& waiter) override { next_->Raise(key, waiter); }
  std::string Describe() const override { return "publishing(" + next_->Describe() + ")"; }

 private:
  void NoteHit(const CompileResult& result);

  const std::unique_ptr<CompilationProvider> next_;
  HotDirectory& hot_;
  Executor& executor_;
};

}  // namespace kiln
