// What a compiler adds to its complaint.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// A template may be instantiated by any number of others.
inline constexpr size_t kCompileNotesMax = 16;
inline constexpr size_t kCompileNoteBytesMax = 1024;  // of a message, and of a file's name

// Where else to look, and why.
struct CompileNote {
  std::string file;  // as the compiler names it; "" where it is the source itself
  int line = 0;      // 1-based; 0: unknown
  int column = 0;
  std::string message;  // one line
  friend bool operator==(const CompileNote&, const CompileNote&) = default;
};

// The notes of the first error in a compiler's output, in its order, at most kCompileNotesMax.
// Knows two forms:
//
//   kernel.ttir:1:1: note: …                    MLIR and LLVM
//   a.h(1): note #3326-D: …                     NVRTC, and
//             detected during:
//               instantiation of "…" at line 3 of kernel.cu
//
// ptxas has no notes. `output` is anybody's text.
std::vector<CompileNote> NotesIn(std::string_view output);

}  // namespace kiln
