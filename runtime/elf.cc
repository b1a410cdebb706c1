#include "runtime/elf.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

namespace krux::runtime {
namespace {

constexpr size_t kMaxSegments = 256;
constexpr size_t kMaxDynamicBytes = 64 * 1024;
constexpr size_t kMaxVersionBytes = 256 * 1024;
constexpr size_t kMaxStringBytes = 4 * 1024 * 1024;
constexpr int kMaxVersions = 1024;
constexpr std::string_view kVersionPrefix = "GLIBC_";

Error Wrong(const std::string& message) { return Error{ErrorCode::kInvalidArgument, message}; }

Result<std::string> ReadRange(const ElfFile& file, uint64_t offset, uint64_t bytes) {
  if (offset > file.size || bytes > file.size - offset) return Wrong("is cut off or damaged");
  return file.read(offset, bytes);
}

template <typename T>
T StructAt(const std::string& bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

Result<Elf64_Ehdr> ReadHeader(const ElfFile& file) {
  if (file.size == 0) return Wrong("is empty");
  if (file.size < sizeof(Elf64_Ehdr)) return Wrong("is no ELF file");
  KRUX_ASSIGN_OR_RETURN(const std::string bytes, ReadRange(file, 0, sizeof(Elf64_Ehdr)));
  const auto header = StructAt<Elf64_Ehdr>(bytes, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return Wrong("is no ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return Wrong("is not a 64-bit library");
  if (header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != EM_X86_64) {
    return Wrong("is not made for x86-64");
  }
  if (header.e_type != ET_DYN) return Wrong("is no shared library");
  return header;
}

Result<std::vector<Elf64_Phdr>> ReadSegments(const ElfFile& file, const Elf64_Ehdr& header) {
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0 ||
      header.e_phnum > kMaxSegments) {
    return Wrong("has a damaged table of segments");
  }
  KRUX_ASSIGN_OR_RETURN(const std::string bytes,
                        ReadRange(file, header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr)));
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  for (size_t i = 0; i < segments.size(); ++i) {
    segments[i] = StructAt<Elf64_Phdr>(bytes, i * sizeof(Elf64_Phdr));
  }
  return segments;
}

// The bytes at a virtual address up to `wanted`, or to the end of the file's part of the segment.
Result<std::string> ReadAddress(const ElfFile& file, const std::vector<Elf64_Phdr>& segments,
                                uint64_t address, uint64_t wanted) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr ||
        address - segment.p_vaddr >= segment.p_filesz) {
      continue;
    }
    const uint64_t inside = address - segment.p_vaddr;
    if (segment.p_offset > file.size || inside > file.size - segment.p_offset) break;
    const uint64_t offset = segment.p_offset + inside;
    return ReadRange(file, offset,
                     std::min({wanted, segment.p_filesz - inside, file.size - offset}));
  }
  return Wrong("has an address outside its segments");
}

// What the dynamic section says about version definitions.
struct Versions {
  uint64_t definitions = 0;
  uint64_t count = 0;
  uint64_t strings = 0;
  uint64_t string_bytes = 0;
};

Result<Versions> ReadDynamic(const ElfFile& file, const std::vector<Elf64_Phdr>& segments) {
  Versions versions;
  const auto dynamic = std::find_if(segments.begin(), segments.end(),
                                    [](const Elf64_Phdr& s) { return s.p_type == PT_DYNAMIC; });
  if (dynamic == segments.end()) return versions;
  KRUX_ASSIGN_OR_RETURN(
      const std::string bytes,
      ReadRange(file, dynamic->p_offset, std::min<uint64_t>(dynamic->p_filesz, kMaxDynamicBytes)));
  for (size_t at = 0; at + sizeof(Elf64_Dyn) <= bytes.size(); at += sizeof(Elf64_Dyn)) {
    const auto entry = StructAt<Elf64_Dyn>(bytes, at);
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_VERDEF) versions.definitions = entry.d_un.d_ptr;
    if (entry.d_tag == DT_VERDEFNUM) versions.count = entry.d_un.d_val;
    if (entry.d_tag == DT_STRTAB) versions.strings = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) versions.string_bytes = entry.d_un.d_val;
  }
  return versions;
}

// "GLIBC_2.17" or "GLIBC_2.2.5"; nothing for other names.
std::optional<GlibcVersion> AsGlibcVersion(std::string_view name) {
  if (!name.starts_with(kVersionPrefix)) return std::nullopt;
  const char* end = name.data() + name.size();
  GlibcVersion version;
  const auto major = std::from_chars(name.data() + kVersionPrefix.size(), end, version.major);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') return std::nullopt;
  const auto minor = std::from_chars(major.ptr + 1, end, version.minor);
  if (minor.ec != std::errc()) return std::nullopt;
  return version;
}

std::string_view TextAt(const std::string& strings, uint64_t offset) {
  if (offset >= strings.size()) return {};
  const std::string_view rest = std::string_view(strings).substr(offset);
  return rest.substr(0, rest.find('\0'));
}

}  // namespace

Result<ElfFile> ElfFromFd(int fd) {
  struct stat about{};
  if (fstat(fd, &about) != 0) return ErrnoError(errno, "looking at a library");
  if (!S_ISREG(about.st_mode)) return Wrong("is not a regular file");
  ElfFile file;
  file.size = static_cast<uint64_t>(about.st_size);
  file.read = [fd](uint64_t offset, size_t bytes) -> Result<std::string> {
    std::string text(bytes, '\0');
    size_t done = 0;
    while (done < bytes) {
      const ssize_t n =
          pread(fd, text.data() + done, bytes - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoError(errno, "can't be read");
      if (n == 0) return Wrong("became shorter while it was read");
      done += static_cast<size_t>(n);
    }
    return text;
  };
  return file;
}

ElfFile ElfFromBytes(std::string_view bytes) {
  return ElfFile{bytes.size(), [bytes](uint64_t offset, size_t size) -> Result<std::string> {
                   return std::string(bytes.substr(offset, size));
                 }};
}

Status CheckLibrary(const ElfFile& file) {
  KRUX_ASSIGN_OR_RETURN(const Elf64_Ehdr header, ReadHeader(file));
  KRUX_ASSIGN_OR_RETURN(const std::vector<Elf64_Phdr> segments, ReadSegments(file, header));
  bool loads = false;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD) continue;
    loads = true;
    if (segment.p_offset > file.size || segment.p_filesz > file.size - segment.p_offset) {
      return Wrong("is cut off or damaged");
    }
  }
  if (!loads) return Wrong("has nothing to load");
  return Ok();
}

Result<std::optional<GlibcVersion>> NewestGlibc(const ElfFile& file) {
  KRUX_ASSIGN_OR_RETURN(const Elf64_Ehdr header, ReadHeader(file));
  KRUX_ASSIGN_OR_RETURN(const std::vector<Elf64_Phdr> segments, ReadSegments(file, header));
  KRUX_ASSIGN_OR_RETURN(const Versions versions, ReadDynamic(file, segments));
  std::optional<GlibcVersion> newest;
  if (versions.definitions == 0 || versions.strings == 0) return newest;
  KRUX_ASSIGN_OR_RETURN(const std::string definitions,
                        ReadAddress(file, segments, versions.definitions, kMaxVersionBytes));
  KRUX_ASSIGN_OR_RETURN(const std::string strings,
                        ReadAddress(file, segments, versions.strings,
                                    std::min<uint64_t>(versions.string_bytes, kMaxStringBytes)));
  uint64_t at = 0;
  for (int i = 0; i < kMaxVersions && at + sizeof(Elf64_Verdef) <= definitions.size(); ++i) {
    const auto definition = StructAt<Elf64_Verdef>(definitions, at);
    const uint64_t name_at = at + definition.vd_aux;
    if (definition.vd_cnt > 0 && name_at + sizeof(Elf64_Verdaux) <= definitions.size()) {
      const auto name = StructAt<Elf64_Verdaux>(definitions, name_at);
      const auto version = AsGlibcVersion(TextAt(strings, name.vda_name));
      if (version && (!newest || *newest < *version)) newest = version;
    }
    if (definition.vd_next == 0) break;
    at += definition.vd_next;
  }
  return newest;
}

}  // namespace krux::runtime
