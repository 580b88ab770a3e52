// ELF files made by hand.
#pragma once

#include <elf.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

struct SmallSection {
  std::string name;
  std::string content;
  uint64_t flags = 0;
};

// With these sections in this order, and a table of names behind them.
inline std::string MakeSmallElf(const std::vector<SmallSection>& sections) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<Elf64_Half>(sections.size() + 1);
  header.e_shstrndx = static_cast<Elf64_Half>(sections.size());
  std::string body;
  std::string names;
  std::string table;
  const auto add = [&](const std::string& name, const std::string& content, uint64_t flags) {
    Elf64_Shdr section{};
    section.sh_name = static_cast<Elf64_Word>(names.find(name + '\0'));
    section.sh_type = SHT_PROGBITS;
    section.sh_flags = flags;
    section.sh_offset = sizeof header + body.size();
    section.sh_size = content.size();
    body += content;
    table.append(reinterpret_cast<const char*>(&section), sizeof section);
  };
  for (const SmallSection& each : sections) names += each.name + '\0';
  names += std::string(".shstrtab") + '\0';
  for (const SmallSection& each : sections) add(each.name, each.content, each.flags);
  add(".shstrtab", names, 0);
  header.e_shoff = sizeof header + body.size();
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + body + table;
}

}  // namespace kiln
