// The canonical encoding: different requests never share a key, and equal ones never have two.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdlib>

#include "daemon/kernel/compile_key.h"
#include "daemon/kernel/request_resolver.h"
#include "tests/fuzz/random_request.h"
#include "tests/testing/fake_catalog.h"

namespace kiln {
namespace {

// Compares encodings: == for floating point calls equal or different what the key does not.
bool SameOptions(const Options& a, const Options& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const auto& one, const auto& other) {
           return one.first == other.first &&
                  EncodedValue(one.second) == EncodedValue(other.second);
         });
}

bool SameParameter(const Parameter& a, const Parameter& b) {
  if (a.name != b.name || a.type != b.type || a.attributes != b.attributes) return false;
  if (a.constant.has_value() != b.constant.has_value()) return false;
  return !a.constant || EncodedValue(*a.constant) == EncodedValue(*b.constant);
}

bool SameHeader(const SourceHeader& a, const SourceHeader& b) {
  return a.name == b.name && a.text == b.text;
}

// In everything that decides bytes.
bool Same(const CompileRequest& a, const CompileRequest& b) {
  const auto& these = a.specialization.parameters;
  const auto& those = b.specialization.parameters;
  return a.source.kind == b.source.kind && a.source.text == b.source.text && a.target == b.target &&
         a.launch == b.launch && SameOptions(a.options, b.options) && a.ptxas == b.ptxas &&
         std::equal(a.headers.begin(), a.headers.end(), b.headers.begin(), b.headers.end(),
                    SameHeader) &&
         std::equal(these.begin(), these.end(), those.begin(), those.end(), SameParameter);
}

void CheckEncoding(const CompileRequest& a, const CompileRequest& b) {
  const Digest toolchain = Digest::Of("toolchain");
  if ((CanonicalEncoding(a, toolchain) == CanonicalEncoding(b, toolchain)) != Same(a, b))
    std::abort();
}

// A request that was brought into canonical form is in it.
void CheckResolving(CompileRequest request) {
  static const auto* const catalog = new FakeCatalog({MakeTriton()});
  const RequestResolver resolver(*catalog);
  const auto once = resolver.Resolve(std::move(request));
  if (!once.ok()) return;
  const auto twice = resolver.Resolve((*once)->request);
  if (!twice.ok() || (*twice)->key != (*once)->key) std::abort();
}

}  // namespace
}  // namespace kiln

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  FuzzedDataProvider data(bytes, size);
  const kiln::CompileRequest first = kiln::RandomRequest(data);
  const kiln::CompileRequest second = kiln::RandomRequest(data);
  kiln::CheckEncoding(first, second);
  kiln::CheckEncoding(first, first);
  kiln::CheckResolving(first);
  return 0;
}
