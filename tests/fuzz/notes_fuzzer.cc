// What a compiler wrote about somebody's source, as the daemon looks for notes in it.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "daemon/kernel/compile_notes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto notes = kiln::NotesIn({reinterpret_cast<const char*>(data), size});
  if (notes.size() > kiln::kCompileNotesMax) std::abort();
  for (const kiln::CompileNote& note : notes) {
    if (note.line < 0 || note.column < 0) std::abort();
    if (note.file.size() > kiln::kCompileNoteBytesMax) std::abort();
    if (note.message.size() > kiln::kCompileNoteBytesMax) std::abort();
  }
  return 0;
}
