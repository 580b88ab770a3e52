// The fast checksum against accidents: of files, of rows.
#pragma once

#include <cstdint>
#include <string_view>

namespace kiln {

// XXH3-64 with seed 0: some 30 GB/s, so that it can be checked on every hit. Says nothing against
// malice; that is Digest's part.
uint64_t Checksum64(std::string_view bytes);

}  // namespace kiln
