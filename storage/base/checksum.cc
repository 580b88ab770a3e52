#include "storage/base/checksum.h"

#include <xxhash.h>
// Takes the widest vectors that this CPU has, rather than those that every CPU of its kind has. Not
// where xxHash is compiled in: only its library chooses at run time.
#if defined(__x86_64__) && !defined(XXH_INLINE_ALL)
#include <xxh_x86dispatch.h>
#endif

namespace kiln {

uint64_t Checksum64(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace kiln
