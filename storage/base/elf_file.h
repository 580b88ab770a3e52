// Checks that an ELF file is complete.
#pragma once

#include <elf.h>

#include <cassert>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace kiln {
namespace elf_internal {

inline bool IsInside(std::string_view image, uint64_t offset, uint64_t size) {
  return offset <= image.size() && size <= image.size() - offset;
}

template <typename T>
T ReadAt(std::string_view image, uint64_t offset) {
  T value;
  std::memcpy(&value, image.data() + offset, sizeof value);
  return value;
}

// Whether a table of `count` entries lies in the image, and `is_inside` holds for each entry.
template <typename Entry, typename Predicate>
bool TableIsInside(std::string_view image, uint64_t offset, uint64_t entry_bytes, uint64_t count,
                   Predicate is_inside) {
  if (count == 0) return true;
  if (entry_bytes != sizeof(Entry) || !IsInside(image, offset, count * sizeof(Entry))) return false;
  for (uint64_t i = 0; i < count; ++i) {
    if (!is_inside(ReadAt<Entry>(image, offset + i * sizeof(Entry)))) return false;
  }
  return true;
}

}  // namespace elf_internal

inline bool IsElf64(std::string_view image) {
  return image.size() >= sizeof(Elf64_Ehdr) && std::memcmp(image.data(), ELFMAG, SELFMAG) == 0 &&
         image[EI_CLASS] == ELFCLASS64;
}

// Whether the headers, and everything they point to, end within the image.
// REQUIRES: IsElf64(image).
inline bool IsWholeElf64(std::string_view image) {
  using namespace elf_internal;
  assert(IsElf64(image));
  const auto header = ReadAt<Elf64_Ehdr>(image, 0);
  const auto section_is_inside = [image](const Elf64_Shdr& section) {
    return section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL ||
           IsInside(image, section.sh_offset, section.sh_size);
  };
  const auto segment_is_inside = [image](const Elf64_Phdr& segment) {
    return IsInside(image, segment.p_offset, segment.p_filesz);
  };
  return TableIsInside<Elf64_Shdr>(image, header.e_shoff, header.e_shentsize, header.e_shnum,
                                   section_is_inside) &&
         TableIsInside<Elf64_Phdr>(image, header.e_phoff, header.e_phentsize, header.e_phnum,
                                   segment_is_inside);
}

}  // namespace kiln
