#include "limiter/memory/image.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace krux::limiter {
namespace {

TEST(Image, SumsTheVariablesOfPtx) {
  EXPECT_EQ(VariableBytesOfPtx(".version 7.0\n.visible .global .align 16 .b8 big[1048576];\n"
                               ".global .f64 m[3][5];\n.global .u32 one;\n"
                               ".visible .entry k(.param .u64 p)\n{ ld.global.u32 %r1, [%r2]; }\n"),
            1048576U + 120 + 4);
}

TEST(Image, HostileTextDoesNotWrap) {
  EXPECT_GE(VariableBytesOfPtx(".global .b8 a[99999999999999999999999999];"), uint64_t{1} << 60);
  EXPECT_EQ(VariableBytesOfPtx(".global"), 0U);
  EXPECT_EQ(VariableBytesOfPtx(".global .b8 a["), 0U);
}

// A cubin with one section of variables and one of code.
std::vector<char> Cubin(uint64_t variables) {
  Elf64_Ehdr header{};
  memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shoff = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 2;
  Elf64_Shdr sections[2] = {};
  sections[0].sh_type = SHT_NOBITS;
  sections[0].sh_flags = SHF_ALLOC | SHF_WRITE;
  sections[0].sh_size = variables;
  sections[1].sh_type = SHT_PROGBITS;
  sections[1].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
  sections[1].sh_size = 5000;
  std::vector<char> bytes(sizeof header + sizeof sections);
  memcpy(bytes.data(), &header, sizeof header);
  memcpy(bytes.data() + sizeof header, sections, sizeof sections);
  return bytes;
}

TEST(Image, SumsTheVariablesOfACubinAndOfAFatBinary) {
  const std::vector<char> cubin = Cubin(123456);
  EXPECT_EQ(VariableBytesOf(cubin.data()), 123456U);

  constexpr uint32_t kEntryHeader = 64;
  std::vector<char> fat(16 + kEntryHeader + cubin.size());
  const uint32_t magic = 0xba55ed50, entry_header = kEntryHeader;
  const uint16_t header_bytes = 16;
  const uint64_t bytes = kEntryHeader + cubin.size(), payload = cubin.size();
  memcpy(fat.data(), &magic, 4);
  memcpy(fat.data() + 6, &header_bytes, 2);
  memcpy(fat.data() + 8, &bytes, 8);
  memcpy(fat.data() + 16 + 4, &entry_header, 4);
  memcpy(fat.data() + 16 + 8, &payload, 8);
  memcpy(fat.data() + 16 + kEntryHeader, cubin.data(), cubin.size());
  EXPECT_EQ(VariableBytesOf(fat.data()), 123456U);
  const void* wrapper[2] = {nullptr, fat.data()};
  const uint32_t wrapper_magic = 0x466243b1;
  memcpy(wrapper, &wrapper_magic, 4);
  EXPECT_EQ(VariableBytesOf(wrapper), 123456U);
}

TEST(Image, WhatIsNotKnownCountsNothing) {
  EXPECT_EQ(VariableBytesOf(nullptr), 0U);
  EXPECT_EQ(VariableBytesOf("(\x01\x02\x03 some other form of image"), 0U);
}

}  // namespace
}  // namespace krux::limiter
