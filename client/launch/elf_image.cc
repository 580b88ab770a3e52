#include "client/launch/elf_image.h"

#include <elf.h>

#include <cstring>

namespace kiln::launch {
namespace {

bool IsInside(std::string_view image, uint64_t offset, uint64_t size) {
  return offset <= image.size() && size <= image.size() - offset;
}

template <typename T>
T ReadAt(std::string_view image, uint64_t offset) {
  T value;
  std::memcpy(&value, image.data() + offset, sizeof value);
  return value;
}

bool SectionsAreInside(std::string_view image, const Elf64_Ehdr& header) {
  if (header.e_shnum == 0) return true;
  if (header.e_shentsize != sizeof(Elf64_Shdr) ||
      !IsInside(image, header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr))) {
    return false;
  }
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    const auto section = ReadAt<Elf64_Shdr>(image, header.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL) continue;
    if (!IsInside(image, section.sh_offset, section.sh_size)) return false;
  }
  return true;
}

bool SegmentsAreInside(std::string_view image, const Elf64_Ehdr& header) {
  if (header.e_phnum == 0) return true;
  if (header.e_phentsize != sizeof(Elf64_Phdr) ||
      !IsInside(image, header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr))) {
    return false;
  }
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = ReadAt<Elf64_Phdr>(image, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (!IsInside(image, segment.p_offset, segment.p_filesz)) return false;
  }
  return true;
}

}  // namespace

Status CheckElfImage(std::string_view image) {
  if (image.size() < sizeof(Elf64_Ehdr) || std::memcmp(image.data(), ELFMAG, SELFMAG) != 0 ||
      image[EI_CLASS] != ELFCLASS64) {
    return InvalidArgument("the binary's {} bytes are no 64-bit ELF file, as cubins and HSACOs are",
                           image.size());
  }
  const auto header = ReadAt<Elf64_Ehdr>(image, 0);
  if (!SectionsAreInside(image, header) || !SegmentsAreInside(image, header)) {
    return InvalidArgument("the binary's headers point outside its {} bytes: it is cut off",
                           image.size());
  }
  return Status();
}

}  // namespace kiln::launch
