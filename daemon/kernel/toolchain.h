// What the compile path knows of a toolchain, and where it asks for one. daemon/toolchain finds
// them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/kernel/kernel.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace kiln {

// The type of an option, as the backend declares it. kAny where the declaration does not tell.
enum class OptionType { kAny, kBool, kInteger, kNumber, kString, kTuple };
// As people and the wire read it: "any", "bool", "integer", "number", "string", "tuple".
std::string_view OptionTypeName(OptionType type);
std::optional<OptionType> ParseOptionType(std::string_view name);

struct OptionDeclaration {
  OptionType type = OptionType::kAny;
  // What the backend takes when the option is absent; absent itself where it is None or depends on
  // the target.
  std::optional<OptionValue> default_value;
};

// One backend of a toolchain.
struct BackendDescription {
  std::string backend;                     // "cuda", "hip"
  std::vector<std::string> architectures;  // those it is known to compile for
  // "ttgir", "llir", "ptx", "cubin": in order, the last is the final binary.
  std::vector<std::string> stages;
  // Every option it knows, launch parameters included.
  std::map<std::string, OptionDeclaration> options;

  // The stages of compiles with an option, a flag: {"dlink-time-opt": ["ltoir"]}.
  std::map<std::string, std::vector<std::string>> stages_with;

  // The stages that a compile of `kind` has: a TTGIR has those behind "ttgir".
  std::vector<std::string> StagesOf(SourceKind kind, const Options& given) const;
};

// Tells whether the files that a fingerprint covers are still as they were when it was taken.
class ToolchainSeal {
 public:
  virtual ~ToolchainSeal() = default;

  // FAILED_PRECONDITION, naming one, where anything was done to a file since then, or one was added
  // or taken away. Two changes of which the second takes back the first count as well. UNAVAILABLE
  // where it cannot be told. Blocks as a disk does, for a millisecond. Thread-safe.
  virtual absl::Status Check() const = 0;
};

// One exact compiler installation. Immutable once published.
struct Toolchain {
  std::string name;     // "triton"
  std::string version;  // "3.6.0"
  // SHA-256 over the bytes that decide output; never over a path.
  Digest fingerprint;
  std::string directory;              // where it lives; decides nothing
  std::string interpreter;            // the Python that its workers run; "" for a native toolchain
  std::vector<std::string> includes;  // directories with headers, which decide as well
  std::string assembler;              // for provenance: "ptxas 12.8.93, ptxas-blackwell 12.9.86"
  std::vector<SourceKind> kinds;
  std::vector<BackendDescription> backends;
  int64_t hidden_pointers = 0;  // scratch pointers that the launcher appends
  // The searched directory, or the one inside it, that it was found in; decides nothing.
  std::string installation;
  // Digest of the files' places and times: equal while no file has changed.
  Digest listing;
  std::shared_ptr<const ToolchainSeal> seal;  // null: it has no files

  std::string Name() const { return name + "==" + version; }  // as a selector spells it
  const BackendDescription* FindBackend(std::string_view backend) const;
};

// The toolchains that are here. Thread-safe; does not block.
class ToolchainCatalog {
 public:
  virtual ~ToolchainCatalog() = default;

  // The one that `selector` names ("" the default, "name==version", or a fingerprint's hex digits)
  // and that compiles `kind` for `target`. FAILED_PRECONDITION where none fits; the message lists
  // those there are and why each does not fit.
  virtual absl::StatusOr<std::shared_ptr<const Toolchain>> Find(std::string_view selector,
                                                                SourceKind kind,
                                                                const Target& target) const = 0;
  // The one that an empty selector means comes first, if it is here.
  virtual std::vector<std::shared_ptr<const Toolchain>> List() const = 0;
  // Whether what an empty selector means is here.
  virtual bool HasDefault() const = 0;
};

}  // namespace kiln
