// The key: SHA-256 over everything that decides the bytes of an artifact. docs/key.md specifies the
// encoding byte by byte; client/python/kiln/key.py and tests/vectors/compile_key.json hold the
// same.
#pragma once

#include <string>

#include "daemon/kernel/kernel.h"
#include "storage/base/digest.h"

namespace kiln {

// The bytes that are hashed. `canonical` is a request as RequestResolver leaves it: launch
// parameters not among the options, what equals the toolchain's default absent, the warp size
// filled in.
std::string CanonicalEncoding(const CompileRequest& canonical, const Digest& toolchain_fingerprint);

Digest CompileKey(const CompileRequest& canonical, const Digest& toolchain_fingerprint);

// One typed value as the encoding has it. Two values are the same to a compiler only where these
// bytes are: 1, 1.0, true and "1" all differ, and so do 0.0 and -0.0.
std::string EncodedValue(const OptionValue& value);

}  // namespace kiln
