// Compiles in the worker processes of one toolchain: the leaf of the chain.
#pragma once

#include <memory>
#include <string>

#include "daemon/chain/compilation_provider.h"
#include "daemon/pool/worker_pool.h"
#include "storage/base/clock.h"

namespace kiln {

// Turns jobs into requests of a worker pool, and replies into artifacts whose digests are computed
// here, never taken from a worker.
//
// What the compiler says of the source is a CompileResult. A Status is one of WorkerPool's, or
// INVALID_ARGUMENT for an option that cannot be passed on. Does not look at the job's SourceKind or
// at its toolchain's fingerprint: routing has.
//
// Thread-safe; does not block. `done` is called on a thread of the pool.
class PooledProvider final : public CompilationProvider {
 public:
  // `clock` outlives it. The pool ends with it.
  PooledProvider(std::shared_ptr<const Toolchain> toolchain, WorkerPoolOptions options,
                 const Clock& clock);

  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override;
  void Raise(const Digest& key, const CallContext& waiter) override {
    if (!IsAhead(waiter.priority)) pool_.Raise(key);
  }
  std::string Describe() const override;

  WorkerPool& pool() { return pool_; }

 private:
  const std::shared_ptr<const Toolchain> toolchain_;
  const Clock& clock_;
  const std::string host_;
  WorkerPool pool_;  // last: its threads call back into the rest
};

// How to start the zygote of a Triton toolchain: its own interpreter, isolated from the daemon's
// environment. `script` is triton_worker.py; `directory` becomes private to the zygote.
// `allocator`: the library whose malloc it and its workers use; "": the C library's.
ZygoteCommand TritonZygoteCommand(const Toolchain& toolchain, const std::string& script,
                                  const std::string& directory, const std::string& allocator);

// How to start the zygote of a native toolchain, which kiln-worker (`program`) runs. kiln-worker
// refuses a toolchain that no longer has the fingerprint. `allocator` as above.
ZygoteCommand NativeZygoteCommand(const Toolchain& toolchain, const std::string& program,
                                  const std::string& directory, const std::string& allocator);

}  // namespace kiln
