// Fat binaries: a header, then entries of one image each, plain or packed with LZ4 or Zstandard.
// The forms in which they come: the container itself, or the wrapper that nvcc puts around it
// (version 1: one container; version 2: a list of containers, linked before).
#include <lz4.h>
#include <zstd.h>

#include <cstring>

#include "sim/cuda/image.h"

namespace krux::sim {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243b1;
constexpr uint32_t kContainerMagic = 0xba55ed50;
constexpr size_t kMostUnpacked = 512 << 20;
constexpr int kMostLinked = 4096;

struct Wrapper {
  uint32_t magic;
  uint32_t version;
  const void* data;
  const void* const* linked;  // version 2: containers, null at the end
};

struct Container {
  uint32_t magic;
  uint16_t version;
  uint16_t header_bytes;
  uint64_t bytes;  // without this header
};

struct Entry {
  uint16_t kind;  // 1: PTX, 2: cubin
  uint16_t version;
  uint32_t header_bytes;
  uint64_t payload_bytes;
  uint32_t packed_bytes;  // 0: not packed
  uint32_t unused[2];
  uint32_t capability;
  uint32_t address_bits;
  uint32_t unused2;
  uint64_t flags;
  uint64_t unused3;
  uint64_t unpacked_bytes;
};
static_assert(sizeof(Entry) == 64);

constexpr uint16_t kPtx = 1;
constexpr uint16_t kCubin = 2;
constexpr uint64_t kLz4 = 0x2000;
constexpr uint64_t kZstd = 0x8000;

// The first entry header at the start of `bytes`, and the rest after the entry; false at the end.
bool NextEntry(std::string_view* bytes, Entry* entry, std::string_view* payload) {
  if (bytes->size() < sizeof(Entry)) return false;
  std::memcpy(entry, bytes->data(), sizeof *entry);
  if (entry->header_bytes < sizeof(Entry) || entry->header_bytes > bytes->size() ||
      entry->payload_bytes > bytes->size() - entry->header_bytes) {
    return false;
  }
  *payload = bytes->substr(entry->header_bytes, entry->payload_bytes);
  bytes->remove_prefix(entry->header_bytes + entry->payload_bytes);
  return true;
}

bool UnpackLz4(std::string_view packed, std::string* out) {
  const int bytes = LZ4_decompress_safe(packed.data(), out->data(), static_cast<int>(packed.size()),
                                        static_cast<int>(out->size()));
  if (bytes < 0) return false;
  out->resize(static_cast<size_t>(bytes));
  return true;
}

bool UnpackZstd(std::string_view packed, std::string* out) {
  const size_t bytes = ZSTD_decompress(out->data(), out->size(), packed.data(), packed.size());
  if (ZSTD_isError(bytes) != 0) return false;
  out->resize(bytes);
  return true;
}

// The entry's image; `storage` holds it if it was packed. Empty: damaged.
std::string_view Unpack(const Entry& entry, std::string_view payload, std::string* storage) {
  if ((entry.flags & (kLz4 | kZstd)) == 0) return payload;
  if (entry.packed_bytes > payload.size() || entry.unpacked_bytes > kMostUnpacked) return {};
  storage->resize(entry.unpacked_bytes);
  const std::string_view packed = payload.substr(0, entry.packed_bytes);
  const bool is_good =
      (entry.flags & kZstd) != 0 ? UnpackZstd(packed, storage) : UnpackLz4(packed, storage);
  return is_good ? std::string_view(*storage) : std::string_view();
}

// As the driver chooses: code for the very card first, then code of the same generation, then the
// newest PTX that the card can have. 0: does not suit.
int Rank(const Entry& entry, int capability) {
  const int made_for = static_cast<int>(entry.capability);
  if (made_for > capability || made_for <= 0) return 0;
  if (entry.kind == kPtx) return made_for;
  return entry.kind == kCubin && made_for / 10 == capability / 10 ? 1000 + made_for : 0;
}

CUresult ReadEntry(const Entry& entry, std::string_view payload, int capability, Image* out) {
  std::string storage;
  std::string_view image = Unpack(entry, payload, &storage);
  if (image.empty()) return CUDA_ERROR_INVALID_IMAGE;
  if (entry.kind == kCubin) {
    out->binary_version = static_cast<int>(entry.capability);
    return ReadCubin(image, out);
  }
  return ReadPtx(image.substr(0, image.find('\0')), capability, out);
}

CUresult ReadWrapper(const Wrapper& wrapper, size_t limit, int capability, Image* out) {
  if (wrapper.version == 1) {
    const size_t bytes = FatbinBytes(wrapper.data, limit);
    if (bytes == 0) return CUDA_ERROR_INVALID_IMAGE;
    return ReadFatbin({static_cast<const char*>(wrapper.data), bytes}, capability, out);
  }
  if (wrapper.version != 2 || wrapper.linked == nullptr) return CUDA_ERROR_INVALID_IMAGE;
  for (int i = 0; i < kMostLinked && wrapper.linked[i] != nullptr; ++i) {
    const size_t bytes = FatbinBytes(wrapper.linked[i], limit);
    if (bytes == 0) return CUDA_ERROR_INVALID_IMAGE;
    const CUresult result =
        ReadFatbin({static_cast<const char*>(wrapper.linked[i]), bytes}, capability, out);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace

size_t FatbinBytes(const void* data, size_t limit) {
  Container container{};
  if (data == nullptr || limit < sizeof container) return 0;
  std::memcpy(&container, data, sizeof container);
  if (container.magic != kContainerMagic || container.header_bytes < sizeof container ||
      container.header_bytes > limit || container.bytes > limit - container.header_bytes) {
    return 0;
  }
  return container.header_bytes + container.bytes;
}

CUresult ReadFatbin(std::string_view bytes, int capability, Image* out) {
  Container container{};
  if (FatbinBytes(bytes.data(), bytes.size()) == 0) return CUDA_ERROR_INVALID_IMAGE;
  std::memcpy(&container, bytes.data(), sizeof container);
  std::string_view rest = bytes.substr(container.header_bytes, container.bytes);
  Entry best{};
  std::string_view best_payload;
  int best_rank = 0;
  Entry entry;
  std::string_view payload;
  while (NextEntry(&rest, &entry, &payload)) {
    const int rank = Rank(entry, capability);
    if (rank <= best_rank) continue;
    best = entry;
    best_payload = payload;
    best_rank = rank;
  }
  if (best_rank == 0) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  return ReadEntry(best, best_payload, capability, out);
}

CUresult ReadImage(const void* data, size_t limit, int capability, Image* out) {
  uint32_t magic = 0;
  if (limit < sizeof magic) return CUDA_ERROR_INVALID_IMAGE;
  // Text may be shorter than four bytes, so it is looked at one by one.
  const auto* start = static_cast<const char*>(data);
  for (size_t i = 0; i < sizeof magic; ++i) {
    if (start[i] == '\0') return CUDA_ERROR_INVALID_IMAGE;
  }
  std::memcpy(&magic, data, sizeof magic);
  if (magic == kWrapperMagic) {
    Wrapper wrapper{};
    if (limit < sizeof wrapper) return CUDA_ERROR_INVALID_IMAGE;
    std::memcpy(&wrapper, data, sizeof wrapper);
    return ReadWrapper(wrapper, limit, capability, out);
  }
  if (const size_t bytes = FatbinBytes(data, limit); bytes > 0) {
    return ReadFatbin({start, bytes}, capability, out);
  }
  if (const size_t bytes = CubinBytes(data, limit); bytes > 0) {
    const std::string_view cubin(start, bytes);
    const int made_for = CubinCapability(cubin);
    if (made_for / 10 != capability / 10 || made_for > capability) {
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    out->binary_version = made_for;
    return ReadCubin(cubin, out);
  }
  return ReadPtx({start, strnlen(start, limit)}, capability, out);
}

}  // namespace krux::sim
