#include "client/launch/artifact/elf_image.h"

#include "storage/base/elf_file.h"

namespace kiln::launch {

Status CheckElfImage(std::string_view image) {
  if (!IsElf64(image)) {
    return InvalidArgument(
        "the binary's {} bytes are not a 64-bit ELF file, as cubins and HSACOs are", image.size());
  }
  if (!IsWholeElf64(image)) {
    return InvalidArgument("the binary's headers point outside its {} bytes: it is cut off",
                           image.size());
  }
  return Status();
}

}  // namespace kiln::launch
