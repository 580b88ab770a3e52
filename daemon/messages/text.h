// Text of unknown origin, made fit for the wire.
#pragma once

#include <string>
#include <string_view>

namespace kiln {

// `text` with everything that is not UTF-8 replaced by U+FFFD: protobuf's string fields take
// nothing else, and compilers print anything.
std::string ToUtf8(std::string_view text);

// The beginning of a name that somebody else chose, for a message.
std::string Excerpt(std::string_view name);

// As much of the beginning of `text` as takes at most `bytes_max` when percent-encoded, which is
// how gRPC sends a status's message.
std::string CutForTrailer(std::string_view text, size_t bytes_max);

}  // namespace kiln
