#include "storage/base/checksum.h"

#include <xxhash.h>
// Uses the widest vectors of this CPU. Only the xxHash library chooses at run time, so not where
// xxHash is compiled in.
#if defined(__x86_64__) && !defined(XXH_INLINE_ALL)
#include <xxh_x86dispatch.h>
#endif

namespace kiln {

uint64_t Checksum64(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace kiln
