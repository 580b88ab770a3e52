#include "daemon/policy/same_code.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "storage/base/elf_file.h"

namespace kiln {
namespace {

using elf_internal::ReadAt;

template <typename Record>
bool BytesAreEqual(const Record& one, const Record& other) {
  return std::memcmp(&one, &other, sizeof one) == 0;
}

struct CodeSection {
  Elf64_Shdr header;  // without its place in the file
  std::string_view name;
  std::string_view content;

  // ".debug_line", ".nv_debug_line_sass", ".rel.debug_frame", from Blackwell on
  // ".nv.merc.rela.debug_line"; nothing that is loaded.
  bool IsForDebuggers() const {
    std::string_view stem = name;
    for (const std::string_view prefix : {".nv.merc.", ".rela.", ".rel."}) {
      if (stem.starts_with(prefix)) stem.remove_prefix(prefix.size() - 1);
    }
    return (header.sh_flags & SHF_ALLOC) == 0 &&
           (stem.starts_with(".debug_") || stem.starts_with(".nv_debug_"));
  }
};

bool operator==(const CodeSection& one, const CodeSection& other) {
  if (one.name != other.name || one.IsForDebuggers() != other.IsForDebuggers()) return false;
  return one.IsForDebuggers() ||
         (BytesAreEqual(one.header, other.header) && one.content == other.content);
}

struct CodeFile {
  Elf64_Ehdr header;  // without the places of its tables
  std::vector<CodeSection> sections;
  std::vector<Elf64_Phdr> segments;  // without their places
};

// The text at `offset` of a table of names, which may lie about where it ends.
std::string_view NameAt(std::string_view names, uint64_t offset) {
  if (offset >= names.size()) return {};
  names.remove_prefix(offset);
  return names.substr(0, names.find('\0'));
}

std::optional<CodeFile> ReadCodeFile(std::string_view image) {
  if (!IsElf64(image) || !IsWholeElf64(image)) return std::nullopt;
  CodeFile file{ReadAt<Elf64_Ehdr>(image, 0), {}, {}};
  for (uint64_t i = 0; i < file.header.e_shnum; ++i) {
    CodeSection section{
        ReadAt<Elf64_Shdr>(image, file.header.e_shoff + i * sizeof(Elf64_Shdr)), {}, {}};
    const bool has_content =
        section.header.sh_type != SHT_NOBITS && section.header.sh_type != SHT_NULL;
    if (has_content) {
      section.content = image.substr(section.header.sh_offset, section.header.sh_size);
    }
    section.header.sh_offset = 0;
    file.sections.push_back(section);
  }
  if (file.header.e_shstrndx >= file.sections.size()) return std::nullopt;
  const std::string_view names = file.sections[file.header.e_shstrndx].content;
  for (CodeSection& section : file.sections) section.name = NameAt(names, section.header.sh_name);
  for (uint64_t i = 0; i < file.header.e_phnum; ++i) {
    file.segments.push_back(
        ReadAt<Elf64_Phdr>(image, file.header.e_phoff + i * sizeof(Elf64_Phdr)));
    file.segments.back().p_offset = 0;
  }
  file.header.e_shoff = file.header.e_phoff = 0;
  return file;
}

}  // namespace

bool HaveSameCode(std::string_view one, std::string_view other) {
  const std::optional<CodeFile> a = ReadCodeFile(one);
  const std::optional<CodeFile> b = ReadCodeFile(other);
  return a && b && BytesAreEqual(a->header, b->header) && a->sections == b->sections &&
         std::equal(a->segments.begin(), a->segments.end(), b->segments.begin(), b->segments.end(),
                    BytesAreEqual<Elf64_Phdr>);
}

}  // namespace kiln
