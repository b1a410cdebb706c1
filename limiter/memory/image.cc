#include "limiter/memory/image.h"

#include <elf.h>

#include <cstring>
#include <initializer_list>

#include "limiter/memory/sizes.h"

namespace krux::limiter {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243b1, kFatMagic = 0xba55ed50;
constexpr uint64_t kMostEntries = 256;  // of a fat binary: one for each architecture

template <typename T>
T Read(const void* from, uint64_t offset = 0) {
  T value;
  memcpy(&value, static_cast<const char*>(from) + offset, sizeof value);
  return value;
}

bool IsElf(const void* image) { return memcmp(image, ELFMAG, SELFMAG) == 0; }

// Sections that are loaded but hold no code and no file content: .nv.global and the like.
uint64_t OfElf(const void* image) {
  const auto header = Read<Elf64_Ehdr>(image);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr)) return 0;
  uint64_t total = 0;
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    const auto section = Read<Elf64_Shdr>(image, header.e_shoff + i * sizeof(Elf64_Shdr));
    const bool variables = (section.sh_flags & SHF_ALLOC) != 0 &&
                           (section.sh_flags & SHF_EXECINSTR) == 0 &&
                           (section.sh_type == SHT_NOBITS || (section.sh_flags & SHF_WRITE) != 0);
    if (!variables || section.sh_size >= kTooLarge) continue;
    total = RoundUp(total + section.sh_size, 1);
  }
  return total;
}

uint64_t OfFatBinary(const void* image) {
  const uint64_t header_bytes = Read<uint16_t>(image, 6), bytes = Read<uint64_t>(image, 8);
  uint64_t most = 0, at = 0;
  for (uint64_t i = 0; i < kMostEntries && at + 32 < bytes; ++i) {
    const char* entry = static_cast<const char*>(image) + header_bytes + at;
    const uint32_t entry_header = Read<uint32_t>(entry, 4);
    const uint64_t payload = Read<uint64_t>(entry, 8);
    if (entry_header == 0 || payload > bytes - at) break;
    if (payload > sizeof(Elf64_Ehdr) && IsElf(entry + entry_header)) {
      const uint64_t own = OfElf(entry + entry_header);
      most = own > most ? own : most;
    }
    at += entry_header + payload;
  }
  return most;
}

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || c == '%';
}

uint64_t TypeBytes(const char* type) {
  struct Width {
    const char* digits;
    uint64_t bytes;
  };
  for (const Width& width :
       {Width{"8", 1}, Width{"16", 2}, Width{"32", 4}, Width{"64", 8}, Width{"128", 16}}) {
    const size_t length = strlen(width.digits);
    if (strncmp(type + 1, width.digits, length) == 0 && !IsNameByte(type[1 + length])) {
      return width.bytes;
    }
  }
  return 0;
}

// The declaration behind ".global", to its semicolon: the type and the product of its [n] parts.
uint64_t OfDeclaration(const char* text) {
  uint64_t element = 0, count = 1;
  for (; *text != '\0' && *text != ';' && *text != '=' && *text != '{'; ++text) {
    if (*text == '.' && strchr("bsuf", text[1]) != nullptr && text[1] != '\0' && element == 0) {
      element = TypeBytes(text + 1);
    }
    if (*text != '[') continue;
    uint64_t elements = 0;
    for (const char* digit = text + 1; *digit >= '0' && *digit <= '9'; ++digit) {
      elements = Product(elements, 10) + static_cast<uint64_t>(*digit - '0');
    }
    count = Product(count, elements);
  }
  return Product(element, count);
}

}  // namespace

uint64_t VariableBytesOfPtx(const char* text) {
  constexpr char kGlobal[] = ".global";
  uint64_t total = 0;
  for (const char* at = strstr(text, kGlobal); at != nullptr; at = strstr(at, kGlobal)) {
    // Not the ".global" of an instruction, as in ld.global.
    const bool declares = at == text || !IsNameByte(at[-1]);
    at += sizeof kGlobal - 1;
    if (declares && (*at == ' ' || *at == '\t' || *at == '\n')) {
      total = RoundUp(total + OfDeclaration(at), 1);
    }
  }
  return total;
}

uint64_t VariableBytesOf(const void* image) {
  if (image == nullptr) return 0;
  const auto magic = Read<uint32_t>(image);
  if (magic == kWrapperMagic) {
    const auto inner = Read<const void*>(image, 8);
    return inner != nullptr && Read<uint32_t>(inner) == kFatMagic ? OfFatBinary(inner) : 0;
  }
  if (magic == kFatMagic) return OfFatBinary(image);
  if (IsElf(image)) return OfElf(image);
  const char* text = static_cast<const char*>(image);
  return text[0] == '.' || text[0] == '/' || text[0] == '\n' ? VariableBytesOfPtx(text) : 0;
}

}  // namespace krux::limiter
