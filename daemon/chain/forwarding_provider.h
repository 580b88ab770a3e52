// The base of the chain's decorators: a provider that passes every call on to the next.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "daemon/chain/compilation_provider.h"

namespace kiln {

// Thread-safe, as long as the next provider is. Does not block itself.
class ForwardingProvider : public CompilationProvider {
 public:
  FoundResult Find(const CallContext& context, const CompileJobPtr& job) override {
    return next_->Find(context, job);
  }
  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override {
    next_->Compile(std::move(context), std::move(job), std::move(done));
  }
  void Raise(const Digest& key, const CallContext& waiter) override { next_->Raise(key, waiter); }
  // "name(next)"
  std::string Describe() const final { return name_ + "(" + next_->Describe() + ")"; }

 protected:
  ForwardingProvider(std::string name, std::unique_ptr<CompilationProvider> next)
      : name_(std::move(name)), next_(std::move(next)) {}

  CompilationProvider& next() const { return *next_; }

 private:
  const std::string name_;
  const std::unique_ptr<CompilationProvider> next_;
};

}  // namespace kiln
