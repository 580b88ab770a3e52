// One zstd context of each kind per thread.
#pragma once

#include <zstd.h>

#include <memory>

namespace kiln {

// Making a context costs more than a small kernel's compression: it asks the processor what it is,
// which takes microseconds on a virtual machine. Parameters that are set stay set, for
// ZSTD_compress2; ZSTD_compressCCtx ignores them.
inline ZSTD_CCtx* CompressionContext() {
  struct Free {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  };
  thread_local const std::unique_ptr<ZSTD_CCtx, Free> context(ZSTD_createCCtx());
  return context.get();
}

inline ZSTD_DCtx* DecompressionContext() {
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  thread_local const std::unique_ptr<ZSTD_DCtx, Free> context(ZSTD_createDCtx());
  return context.get();
}

}  // namespace kiln
