#include "storage/base/checksum.h"

#include <xxhash.h>
// Takes the widest vectors that this CPU has, rather than those that every CPU of its kind has.
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#endif

namespace kiln {

uint64_t Checksum64(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace kiln
