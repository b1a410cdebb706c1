// Images: fat binaries, packed entries, cubins, PTX; and the private tables of the runtime.
#include "sim/cuda/image.h"

#include <lz4.h>
#include <zstd.h>

#include "sim/cuda/integrity.h"
#include "sim/tests/sim_test.h"

namespace krux::sim {
namespace {

constexpr char kText[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .global .align 4 .u32 counter = 7;\n"
    ".global .align 8 .f64 halves[3] = {0d3FE0000000000000, -1, 0x10};\n"
    ".visible .entry small(.param .u64 out, .param .u8 flag, .param .f64 x)\n"
    ".maxntid 128, 2, 1\n{\n .shared .align 4 .b8 s[512];\n ret;\n}\n";

enum class Packing { kNone, kLz4, kZstd };

template <typename T>
void Put(std::string* bytes, size_t offset, T value) {
  std::memcpy(bytes->data() + offset, &value, sizeof value);
}

std::string Entry(uint16_t kind, uint32_t capability, const std::string& image, Packing packing) {
  std::string payload = image;
  if (packing == Packing::kLz4) {
    payload.resize(static_cast<size_t>(LZ4_compressBound(static_cast<int>(image.size()))));
    payload.resize(static_cast<size_t>(LZ4_compress_default(image.data(), payload.data(),
                                                            static_cast<int>(image.size()),
                                                            static_cast<int>(payload.size()))));
  } else if (packing == Packing::kZstd) {
    payload.resize(ZSTD_compressBound(image.size()));
    payload.resize(ZSTD_compress(payload.data(), payload.size(), image.data(), image.size(), 3));
  }
  const auto packed = static_cast<uint32_t>(payload.size());
  payload.resize((payload.size() + 7) / 8 * 8);
  std::string entry(64, '\0');
  Put<uint16_t>(&entry, 0, kind);
  Put<uint32_t>(&entry, 4, 64);
  Put<uint64_t>(&entry, 8, payload.size());
  Put<uint32_t>(&entry, 28, capability);
  if (packing != Packing::kNone) {
    Put<uint32_t>(&entry, 16, packed);
    Put<uint64_t>(&entry, 40, packing == Packing::kZstd ? 0x8000 : 0x2000);
    Put<uint64_t>(&entry, 56, image.size());
  }
  return entry + payload;
}

std::string Container(const std::string& entries) {
  std::string header(16, '\0');
  Put<uint32_t>(&header, 0, 0xba55ed50);
  Put<uint16_t>(&header, 4, 1);
  Put<uint16_t>(&header, 6, 16);
  Put<uint64_t>(&header, 8, entries.size());
  return header + entries;
}

CUresult Read(const std::string& bytes, int capability, Image* image) {
  return ReadImage(bytes.data(), bytes.size(), capability, image);
}

TEST(ImageTest, ReadsWhatPtxSays) {
  Image image;
  KRUX_CUDA_OK(ReadPtx(kText, 90, &image));
  ASSERT_EQ(image.functions.size(), 1U);
  const ImageFunction& function = image.functions[0];
  EXPECT_EQ(function.name, "small");
  EXPECT_EQ(function.max_threads, 256);
  EXPECT_EQ(function.shared_bytes, 512U);
  ASSERT_EQ(function.parameters.size(), 3U);
  EXPECT_EQ(function.parameters[2].offset, 16U);
  EXPECT_EQ(image.ptx_version, 80);
  EXPECT_EQ(image.binary_version, 90);
  ASSERT_EQ(image.globals.size(), 2U);
  EXPECT_EQ(image.globals[0].initial, std::string("\7\0\0\0", 4));
  double half = 0;
  std::memcpy(&half, image.globals[1].initial.data(), sizeof half);
  EXPECT_EQ(half, 0.5);
}

TEST(ImageTest, UnpacksEachKindOfEntry) {
  for (const Packing packing : {Packing::kNone, Packing::kLz4, Packing::kZstd}) {
    Image image;
    KRUX_CUDA_OK(Read(Container(Entry(1, 80, kText, packing)), 90, &image));
    EXPECT_EQ(image.functions.size(), 1U);
  }
}

TEST(ImageTest, ChoosesTheNewestThatTheCardCanRun) {
  auto named = [](const std::string& name, const std::string& target) {
    return ".version 7.0\n.target " + target + "\n.entry " + name + "()\n{\n}\n";
  };
  const std::string bytes = Container(Entry(1, 75, named("old", "sm_75"), Packing::kNone) +
                                      Entry(1, 80, named("new", "sm_80"), Packing::kNone) +
                                      Entry(1, 100, named("future", "sm_100"), Packing::kNone));
  Image image;
  KRUX_CUDA_OK(Read(bytes, 90, &image));
  EXPECT_EQ(image.functions[0].name, "new");
  Image none;
  EXPECT_EQ(Read(bytes, 70, &none), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

TEST(ImageTest, RefusesWhatIsDamaged) {
  const std::string good = Container(Entry(1, 80, kText, Packing::kZstd));
  // No byte that is cut off or turned makes it read beyond the image; ASan watches.
  for (size_t length = 0; length < good.size(); ++length) {
    Image image;
    const std::string cut = good.substr(0, length);
    EXPECT_NE(ReadFatbin(cut, 90, &image), CUDA_SUCCESS) << length;
  }
  for (size_t i = 0; i < good.size(); ++i) {
    Image image;
    std::string turned = good;
    turned[i] = static_cast<char>(turned[i] ^ 0x55);
    ReadFatbin(turned, 90, &image);
  }
  Image image;
  EXPECT_EQ(Read("hello, world", 90, &image), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(Read(std::string("\x7f"
                             "ELF\0\0\0\0",
                             8),
                 90, &image),
            CUDA_ERROR_INVALID_IMAGE);
}

// Test vectors of RFC 1319, appendix A.5.
TEST(IntegrityTest, SumsAsTheStandardSays) {
  auto hex = [](const Digest& digest) {
    std::string text;
    for (const unsigned char byte : digest) {
      char pair[3];
      std::snprintf(pair, sizeof pair, "%02x", byte);
      text += pair;
    }
    return text;
  };
  EXPECT_EQ(hex(Md2("")), "8350e5a3e24c153df2275c9f80692773");
  EXPECT_EQ(hex(Md2("abc")), "da853b0d3f88d99b30283a69e6ded6bb");
  EXPECT_EQ(hex(Md2("abcdefghijklmnopqrstuvwxyz")), "4e8ddff3650292ab5a4108c3aa47940b");
}

using TablesTest = SimTest;

const void* TableOf(const char* id) {
  CUuuid uuid;
  std::memcpy(uuid.bytes, id, sizeof uuid.bytes);
  const void* table = nullptr;
  const CUresult result = cuGetExportTable(&table, &uuid);
  EXPECT_EQ(result == CUDA_SUCCESS, table != nullptr);
  return table;
}
constexpr char kRuntimeId[] = "\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9";
constexpr char kStorageId[] = "\xc6\x93\x33\x6e\x11\x21\xdf\x11\xa8\xc3\x68\xf3\x55\xd8\x95\x93";

TEST_F(TablesTest, GivesThePrimaryContextWithoutMakingIt) {
  InChild([] {
    KRUX_CUDA_OK(cuInit(0));
    const auto* table = static_cast<void* const*>(TableOf(kRuntimeId));
    ASSERT_EQ(*reinterpret_cast<const size_t*>(table), 104U);
    auto* get = reinterpret_cast<CUresult (*)(CUcontext*, CUdevice)>(table[2]);
    CUcontext handle = nullptr;
    KRUX_CUDA_OK(get(&handle, 0));
    unsigned flags = 0;
    int is_active = 1;
    KRUX_CUDA_OK(cuDevicePrimaryCtxGetState(0, &flags, &is_active));
    EXPECT_EQ(is_active, 0);
    KRUX_CUDA_OK(cuCtxSetCurrent(handle));
    CUdeviceptr block = 0;
    EXPECT_EQ(cuMemAlloc(&block, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CUcontext retained = nullptr;
    KRUX_CUDA_OK(cuDevicePrimaryCtxRetain(&retained, 0));
    EXPECT_EQ(retained, handle);
    KRUX_CUDA_OK(cuMemAlloc(&block, 1));
    EXPECT_EQ(TableOf("sixteen letters."), nullptr);
  });
}

TEST_F(TablesTest, KeepsValuesInContextsAndTellsOfTheirEnd) {
  InChild([] {
    KRUX_CUDA_OK(cuInit(0));
    CUcontext context = nullptr;
    KRUX_CUDA_OK(cuDevicePrimaryCtxRetain(&context, 0));
    const auto* table = static_cast<void* const*>(TableOf(kStorageId));
    using Destroy = void (*)(CUcontext, void*, void*);
    auto* put = reinterpret_cast<CUresult (*)(CUcontext, void*, void*, Destroy)>(table[0]);
    auto* get = reinterpret_cast<CUresult (*)(void**, CUcontext, void*)>(table[2]);
    static int ended = 0;
    int key = 0;
    int value = 5;
    void* found = nullptr;
    EXPECT_EQ(get(&found, context, &key), CUDA_ERROR_INVALID_HANDLE);
    KRUX_CUDA_OK(put(context, &key, &value,
                     [](CUcontext, void*, void* stored) { ended = *static_cast<int*>(stored); }));
    KRUX_CUDA_OK(get(&found, context, &key));
    EXPECT_EQ(found, &value);
    KRUX_CUDA_OK(cuDevicePrimaryCtxReset(0));
    EXPECT_EQ(ended, 5);
    EXPECT_EQ(get(&found, context, &key), CUDA_ERROR_INVALID_HANDLE);
  });
}

}  // namespace
}  // namespace krux::sim
