// Cubins: ELF files of the vendor's machine. Kernels are symbols; what they need stands in the
// sections .nv.info (attributes by symbol), .nv.info.<kernel> (parameters) and .nv.shared.<kernel>.
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "sim/cuda/image.h"

namespace krux::sim {
namespace {

constexpr uint16_t kMachineCuda = 190;
constexpr unsigned char kEntrySymbol = 0x10;  // in st_other: a kernel, not a device function

// Attributes of .nv.info: format, number, and two bytes of value, or of length for kSized.
constexpr uint8_t kSized = 4;
constexpr uint8_t kMaxThreads = 0x05;
constexpr uint8_t kFrameSize = 0x11;
constexpr uint8_t kParameter = 0x17;
constexpr uint8_t kParameterBytes = 0x19;
constexpr uint8_t kRegisters = 0x2f;

template <typename T>
bool ReadAt(std::string_view bytes, uint64_t offset, T* out) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return false;
  std::memcpy(out, bytes.data() + offset, sizeof(T));
  return true;
}

class Elf {
 public:
  explicit Elf(std::string_view bytes) : bytes_(bytes) {}

  bool Open() {
    if (!ReadAt(bytes_, 0, &header_) || header_.e_machine != kMachineCuda ||
        header_.e_shentsize != sizeof(Elf64_Shdr)) {
      return false;
    }
    sections_.resize(header_.e_shnum);
    for (size_t i = 0; i < sections_.size(); ++i) {
      if (!ReadAt(bytes_, header_.e_shoff + i * sizeof(Elf64_Shdr), &sections_[i])) return false;
    }
    return header_.e_shstrndx < sections_.size();
  }

  const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  std::string_view NameOf(const Elf64_Shdr& section) const {
    return TextAt(header_.e_shstrndx, section.sh_name);
  }
  // Empty for what has no bytes in the file, or lies outside of it.
  std::string_view Contents(const Elf64_Shdr& section) const {
    if (section.sh_type == SHT_NOBITS || section.sh_offset > bytes_.size() ||
        section.sh_size > bytes_.size() - section.sh_offset) {
      return {};
    }
    return bytes_.substr(section.sh_offset, section.sh_size);
  }
  std::string_view TextAt(size_t section, uint64_t offset) const {
    if (section >= sections_.size()) return {};
    const std::string_view text = Contents(sections_[section]);
    if (offset >= text.size()) return {};
    return text.substr(offset, text.find('\0', offset) - offset);
  }

 private:
  std::string_view bytes_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Shdr> sections_;
};

struct Found {
  std::map<std::string, ImageFunction, std::less<>> functions;
  std::map<uint32_t, std::string> symbol_names;  // of kernels, by number
  bool has_reserved_shared = false;
};

template <typename F>
void ForEachAttribute(std::string_view info, F visit) {
  while (info.size() >= 4) {
    const auto format = static_cast<uint8_t>(info[0]);
    const auto number = static_cast<uint8_t>(info[1]);
    uint16_t value = 0;
    ReadAt(info, 2, &value);
    info.remove_prefix(4);
    const size_t length = format == kSized ? value : 0;
    if (length > info.size()) return;
    visit(number, value, info.substr(0, length));
    info.remove_prefix(length);
  }
}

void ReadParameters(std::string_view info, ImageFunction* function) {
  std::map<uint16_t, Parameter> parameters;
  ForEachAttribute(info, [&](uint8_t number, uint16_t value, std::string_view data) {
    uint16_t ordinal = 0;
    uint16_t offset = 0;
    uint32_t packed = 0;
    uint32_t threads[3] = {};
    if (number == kParameter && ReadAt(data, 4, &ordinal) && ReadAt(data, 6, &offset) &&
        ReadAt(data, 8, &packed)) {
      parameters[ordinal] = {offset, packed >> 18};
    } else if (number == kParameterBytes) {
      function->parameter_bytes = value;
    } else if (number == kMaxThreads && ReadAt(data, 0, &threads)) {
      const uint64_t most = uint64_t{threads[0]} * threads[1] * threads[2];
      if (most > 0 && most < 1024) function->max_threads = static_cast<int>(most);
    }
  });
  for (const auto& [ordinal, parameter] : parameters) {
    function->parameters.push_back(parameter);
    function->parameter_bytes =
        std::max(function->parameter_bytes, parameter.offset + parameter.bytes);
  }
}

void ReadAttributes(std::string_view info, Found* found) {
  ForEachAttribute(info, [&](uint8_t number, uint16_t, std::string_view data) {
    uint32_t symbol = 0;
    uint32_t value = 0;
    if (!ReadAt(data, 0, &symbol) || !ReadAt(data, 4, &value)) return;
    const auto name = found->symbol_names.find(symbol);
    if (name == found->symbol_names.end()) return;
    ImageFunction& function = found->functions[name->second];
    if (number == kFrameSize) function.local_bytes = value;
    if (number == kRegisters && value > 0 && value <= 255) {
      function.registers = static_cast<int>(value);
    }
  });
}

bool StartsWith(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

void AddGlobal(const Elf& elf, const Elf64_Sym& symbol, std::string_view name, Image* out) {
  const Elf64_Shdr& section = elf.sections()[symbol.st_shndx];
  const std::string_view kind = elf.NameOf(section);
  if (!StartsWith(kind, ".nv.global") && kind != ".nv.constant3") return;
  if (symbol.st_size == 0) return;
  ImageGlobal global;
  global.name = name;
  global.bytes = symbol.st_size;
  const std::string_view contents = elf.Contents(section);
  if (symbol.st_value < contents.size()) {
    global.initial = contents.substr(symbol.st_value, symbol.st_size);
  }
  out->globals.push_back(std::move(global));
}

void ReadSymbols(const Elf& elf, const Elf64_Shdr& table, Found* found, Image* out) {
  const std::string_view contents = elf.Contents(table);
  Elf64_Sym symbol;
  for (uint32_t i = 0; ReadAt(contents, i * sizeof symbol, &symbol); ++i) {
    const std::string_view name = elf.TextAt(table.sh_link, symbol.st_name);
    if (symbol.st_shndx == SHN_UNDEF) {
      out->calls_malloc |= name == "malloc";
      out->calls_printf |= name == "vprintf";
    }
    if (name.empty() || symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= elf.sections().size()) {
      continue;
    }
    if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && (symbol.st_other & kEntrySymbol) != 0) {
      found->functions[std::string(name)].name = name;
      found->symbol_names[i] = name;
    } else if (ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT) {
      AddGlobal(elf, symbol, name, out);
    }
  }
}

void ReadSection(const Elf& elf, const Elf64_Shdr& section, Found* found) {
  const std::string_view name = elf.NameOf(section);
  if (name == ".nv.shared.reserved.0") {
    found->has_reserved_shared = true;
  } else if (name == ".nv.info") {
    ReadAttributes(elf.Contents(section), found);
  } else if (StartsWith(name, ".nv.info.")) {
    const auto function = found->functions.find(name.substr(9));
    if (function != found->functions.end()) {
      ReadParameters(elf.Contents(section), &function->second);
    }
  } else if (StartsWith(name, ".nv.shared.")) {
    const auto function = found->functions.find(name.substr(11));
    if (function != found->functions.end()) function->second.shared_bytes = section.sh_size;
  }
}

// Since sm_90 a kernel's shared memory starts with a kilobyte of the system's, which is not
// counted.
void LeaveOutReserved(Found* found) {
  constexpr uint64_t kReserved = 1024;
  for (auto& [name, function] : found->functions) {
    function.shared_bytes -= std::min(function.shared_bytes, kReserved);
  }
}

}  // namespace

size_t CubinBytes(const void* data, size_t limit) {
  Elf64_Ehdr header;
  if (limit < sizeof header) return 0;
  if (std::memcmp(data, ELFMAG, SELFMAG) != 0) return 0;
  std::memcpy(&header, data, sizeof header);
  if (header.e_machine != kMachineCuda || header.e_ident[EI_CLASS] != ELFCLASS64) return 0;
  // The section headers are followed by the program headers, or by nothing.
  const uint64_t sections = header.e_shoff + uint64_t{header.e_shnum} * header.e_shentsize;
  const uint64_t programs = header.e_phoff + uint64_t{header.e_phnum} * header.e_phentsize;
  const uint64_t end = std::max({sections, programs, uint64_t{sizeof header}});
  return header.e_shoff <= limit && header.e_phoff <= limit && end <= limit ? end : 0;
}

int CubinCapability(std::string_view bytes) {
  Elf64_Ehdr header;
  if (!ReadAt(bytes, 0, &header)) return 0;
  // Up to ABI 7 the low byte of the flags; since then the byte above it.
  const bool is_new = header.e_ident[EI_ABIVERSION] >= 8;
  return static_cast<int>(is_new ? header.e_flags >> 8 & 0xff : header.e_flags & 0xff);
}

CUresult ReadCubin(std::string_view bytes, Image* out) {
  Elf elf(bytes);
  if (!elf.Open()) return CUDA_ERROR_INVALID_IMAGE;
  Found found;
  for (const Elf64_Shdr& section : elf.sections()) {
    if (section.sh_type == SHT_SYMTAB) ReadSymbols(elf, section, &found, out);
  }
  for (const Elf64_Shdr& section : elf.sections()) ReadSection(elf, section, &found);
  if (found.has_reserved_shared) LeaveOutReserved(&found);
  for (auto& [name, function] : found.functions) out->functions.push_back(std::move(function));
  return CUDA_SUCCESS;
}

}  // namespace krux::sim
