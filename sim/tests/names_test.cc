// Names of the driver: what each release exports, and what a real framework asks for.
#include <dlfcn.h>

#include <fstream>
#include <sstream>

#include "sim/tests/sim_test.h"

namespace krux::sim {
namespace {

struct Row {
  std::string name;
  std::string since;
  std::string version;
};

std::vector<Row> Names() {
  std::ifstream file(KRUX_SIM_SOURCE "/cuda/names/names.txt");
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("cu", 0) != 0) continue;
    std::istringstream fields(line);
    Row row;
    fields >> row.name >> row.since >> row.version;
    rows.push_back(row);
  }
  return rows;
}

struct Release {
  const char* name;
  int version;
  size_t exports;  // 620: as the vendor's libcuda 535 has
  const char* library;
};
constexpr Release kReleases[] = {{"12.2", 12020, 620, KRUX_SIM_CUDA_12_2},
                                 {"12.4", 12040, 656, KRUX_SIM_CUDA_12_4},
                                 {"12.9", 12090, 684, KRUX_SIM_CUDA_12_9},
                                 {"13.0", 13000, 702, KRUX_SIM_CUDA_13_0}};

class ReleaseTest : public SimTest, public ::testing::WithParamInterface<Release> {};

TEST_P(ReleaseTest, ExportsExactlyItsNames) {
  InChild([] {
    const Release& release = GetParam();
    void* library = dlopen(release.library, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    size_t exports = 0;
    for (const Row& row : Names()) {
      const bool belongs = row.since <= release.name;
      exports += belongs ? 1 : 0;
      EXPECT_EQ(dlsym(library, row.name.c_str()) != nullptr, belongs) << row.name;
    }
    EXPECT_EQ(exports, release.exports);
    int version = 0;
    auto* get = reinterpret_cast<CUresult (*)(int*)>(dlsym(library, "cuDriverGetVersion"));
    ASSERT_NE(get, nullptr);
    KRUX_CUDA_OK(get(&version));
    EXPECT_EQ(version, release.version);
  });
}

INSTANTIATE_TEST_SUITE_P(All, ReleaseTest, ::testing::ValuesIn(kReleases), [](const auto& row) {
  return "Cuda" + std::to_string(row.param.version);
});

TEST(NamesTest, AnswersWhatPyTorchAsksFor) {
  std::ifstream file(KRUX_SIM_SOURCE "/tests/data/pytorch_2.11_requests.txt");
  int asked = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string how;
    std::string name;
    int version = 0;
    cuuint64_t flags = 0;
    fields >> how >> name >> version >> flags;
    if (how == "dlsym") {
      EXPECT_NE(dlsym(RTLD_DEFAULT, name.c_str()), nullptr) << line;
    } else if (how == "cuGetProcAddress") {
      void* address = nullptr;
      CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
      EXPECT_EQ(cuGetProcAddress(name.c_str(), &address, version, flags, &status), CUDA_SUCCESS)
          << line;
      EXPECT_NE(address, nullptr) << line;
      EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS) << line;
    } else {
      continue;
    }
    ++asked;
  }
  EXPECT_GT(asked, 500);
  // The empty name was asked for too: found nothing, and that was no error.
  void* address = &asked;
  EXPECT_EQ(cuGetProcAddress("", &address, 0, 0, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(address, nullptr);
}

}  // namespace
}  // namespace krux::sim
