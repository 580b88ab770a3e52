#include "daemon/chain/compilation_provider.h"

namespace kiln {

// A leaf has no queue to move anything in.
void CompilationProvider::Raise(const Digest& /*key*/, const CallContext& /*waiter*/) {}

}  // namespace kiln
