#include "daemon/kernel/compile_key.h"

#include <bit>

#include "daemon/kernel/launch_options.h"

namespace kiln {
namespace {

constexpr std::string_view kScheme = "kiln-key-v1";

// Beside the ptxas, whose bytes are its fingerprint, how kiln-worker calls it decides the cubin:
// the options that it adds, under which name it has the PTX read, that ptxas finds no file with
// stat. Raised by hand with these (ptxas_compiler.cc), here and in client/python/kiln/key.py, so
// that what was made otherwise is not found any more. kTritonCall and kNvrtcCall are the same for
// the other toolchains, whose fingerprints have room for it.
constexpr int64_t kPtxasCall = 2;

// The primitives of docs/key.md. Every element is either of fixed size or carries its length, so no
// two different requests share an encoding.
class Encoder {
 public:
  void Count(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8)
      bytes_ += static_cast<char>((value >> shift) & 0xff);
  }
  void Bytes(std::string_view value) {
    Count(value.size());
    bytes_ += value;
  }
  void Integer(int64_t value) {
    bytes_ += 'i';
    Count(static_cast<uint64_t>(value));
  }
  void Value(const OptionValue& value) {
    std::visit([this](const auto& held) { Held(held); }, value.value);
  }
  void Absent() { bytes_ += '-'; }
  void Map(const Options& options) {
    Count(options.size());
    for (const auto& [name, value] : options) {
      Bytes(name);
      Value(value);
    }
  }
  void Reserve(size_t size) { bytes_.reserve(size); }
  std::string Finish() { return std::move(bytes_); }

 private:
  void Held(bool value) {
    bytes_ += 'b';
    bytes_ += value ? '\1' : '\0';
  }
  void Held(int64_t value) { Integer(value); }
  void Held(double value) {
    bytes_ += 'd';
    Count(std::bit_cast<uint64_t>(value));
  }
  void Held(const std::string& value) {
    bytes_ += 's';
    Bytes(value);
  }
  void Held(const OptionTuple& items) {
    bytes_ += 't';
    Count(items.size());
    for (const OptionValue& item : items) Value(item);
  }

  std::string bytes_;
};

void EncodeParameter(Encoder& encoder, const Parameter& parameter) {
  encoder.Bytes(parameter.name);
  encoder.Bytes(parameter.type);
  encoder.Count(parameter.attributes.size());
  for (const auto& [name, value] : parameter.attributes) {
    encoder.Bytes(name);
    encoder.Integer(value);
  }
  if (parameter.constant) {
    encoder.Value(*parameter.constant);
  } else {
    encoder.Absent();
  }
}

}  // namespace

std::string CanonicalEncoding(const CompileRequest& canonical,
                              const Digest& toolchain_fingerprint) {
  Encoder encoder;
  encoder.Reserve(canonical.source.text.size() + 1024);
  encoder.Bytes(kScheme);
  encoder.Bytes("source");
  encoder.Bytes(SourceKindName(canonical.source.kind));
  encoder.Bytes(canonical.source.text);
  encoder.Bytes("target");
  encoder.Bytes(canonical.target.backend);
  encoder.Bytes(canonical.target.architecture);
  encoder.Integer(canonical.target.warp_size);
  encoder.Bytes("specialization");
  encoder.Count(canonical.specialization.parameters.size());
  for (const Parameter& parameter : canonical.specialization.parameters) {
    EncodeParameter(encoder, parameter);
  }
  encoder.Bytes("launch");
  encoder.Map(LaunchOptions(canonical.launch));
  encoder.Bytes("options");
  encoder.Map(canonical.options);
  encoder.Bytes("toolchain");
  encoder.Bytes(toolchain_fingerprint.Bytes());
  if (canonical.source.kind == SourceKind::kPtx) {
    encoder.Bytes("call");
    encoder.Integer(kPtxasCall);
  }
  if (!canonical.ptxas.empty()) {
    encoder.Bytes("ptxas");
    encoder.Bytes(canonical.ptxas);
  }
  if (!canonical.headers.empty()) {
    encoder.Bytes("headers");
    encoder.Count(canonical.headers.size());
    for (const SourceHeader& header : canonical.headers) {
      encoder.Bytes(header.name);
      encoder.Bytes(header.text);
    }
  }
  return encoder.Finish();
}

Digest CompileKey(const CompileRequest& canonical, const Digest& toolchain_fingerprint) {
  return Digest::Of(CanonicalEncoding(canonical, toolchain_fingerprint));
}

std::string EncodedValue(const OptionValue& value) {
  Encoder encoder;
  encoder.Value(value);
  return encoder.Finish();
}

}  // namespace kiln
