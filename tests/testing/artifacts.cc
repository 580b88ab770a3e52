#include "tests/testing/artifacts.h"

#include <random>

namespace kiln {

Digest MadeKey(std::string_view name) { return Digest::Of(fmt::format("key of {}", name)); }

std::string Noise(uint64_t seed, size_t size_bytes) {
  std::mt19937_64 random(seed);
  std::string bytes;
  bytes.reserve(size_bytes + sizeof(uint64_t));
  while (bytes.size() < size_bytes) {
    const uint64_t word = random();
    bytes.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  bytes.resize(size_bytes);
  return bytes;
}

MadeArtifact MakeArtifact(std::string_view name, size_t size_bytes) {
  const Digest key = MadeKey(name);
  const Blob ptx = Blob::FromBytes(fmt::format("// {}\n.version 8.7\n.target sm_90a\n", name));
  const Blob cubin = Blob::FromBytes(Noise(DigestHash()(key), size_bytes));
  MadeArtifact made;
  made.record.key = key;
  made.record.document = fmt::format(R"({{"name":"{}"}})", name);
  made.record.description = fmt::format("description of {}", name);
  made.record.stages = {{"ptx", ptx.digest(), ptx.size_bytes()},
                        {"cubin", cubin.digest(), cubin.size_bytes()}};
  made.record.compile_micros = 20'000;
  made.record.created_unix_ms = 1'704'067'200'000;
  made.blobs = {ptx, cubin};
  return made;
}

}  // namespace kiln
