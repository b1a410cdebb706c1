// For tests of this module: a shared library of a few hundred bytes that defines the versions asked
// for, so that any glibc can be put into a made-up image.
//
// Layout: file header, two segments, dynamic section, version definitions, strings. Addresses are
// file offsets + kBase.
#ifndef KRUX_RUNTIME_TESTING_FAKE_ELF_H_
#define KRUX_RUNTIME_TESTING_FAKE_ELF_H_

#include <elf.h>

#include <cstring>
#include <string>
#include <vector>

namespace krux::runtime::testing {

template <typename T>
void AppendStruct(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

inline std::string FakeElf(const std::vector<std::string>& versions) {
  constexpr uint64_t kBase = 0x10000;
  constexpr size_t kDynamicEntries = 5;
  const size_t dynamic_at = sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr);
  const size_t versions_at = dynamic_at + kDynamicEntries * sizeof(Elf64_Dyn);
  const size_t step = sizeof(Elf64_Verdef) + sizeof(Elf64_Verdaux);
  const size_t strings_at = versions_at + versions.size() * step;

  std::string strings(1, '\0');
  std::string definitions;
  for (size_t i = 0; i < versions.size(); ++i) {
    Elf64_Verdef definition{};
    definition.vd_version = 1;
    definition.vd_cnt = 1;
    definition.vd_aux = sizeof(Elf64_Verdef);
    definition.vd_next = i + 1 < versions.size() ? static_cast<Elf64_Word>(step) : 0;
    AppendStruct(definitions, definition);
    Elf64_Verdaux name{};
    name.vda_name = static_cast<Elf64_Word>(strings.size());
    AppendStruct(definitions, name);
    strings += versions[i] + '\0';
  }
  const size_t size = strings_at + strings.size();

  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_DYN;
  header.e_machine = EM_X86_64;
  header.e_phoff = sizeof(Elf64_Ehdr);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 2;
  Elf64_Phdr load{};
  load.p_type = PT_LOAD;
  load.p_vaddr = kBase;
  load.p_filesz = size;
  Elf64_Phdr dynamic{};
  dynamic.p_type = PT_DYNAMIC;
  dynamic.p_offset = dynamic_at;
  dynamic.p_filesz = kDynamicEntries * sizeof(Elf64_Dyn);

  std::string out;
  AppendStruct(out, header);
  AppendStruct(out, load);
  AppendStruct(out, dynamic);
  AppendStruct(out, Elf64_Dyn{DT_VERDEF, {versions.empty() ? 0 : kBase + versions_at}});
  AppendStruct(out, Elf64_Dyn{DT_VERDEFNUM, {versions.size()}});
  AppendStruct(out, Elf64_Dyn{DT_STRTAB, {kBase + strings_at}});
  AppendStruct(out, Elf64_Dyn{DT_STRSZ, {strings.size()}});
  AppendStruct(out, Elf64_Dyn{DT_NULL, {0}});
  return out + definitions + strings;
}

}  // namespace krux::runtime::testing

#endif  // KRUX_RUNTIME_TESTING_FAKE_ELF_H_
