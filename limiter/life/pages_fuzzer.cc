// Whatever stands in the pages that others write, the limiter's checks and its account neither
// crash nor charge past the limit.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "limiter/life/pages.h"
#include "limiter/memory/account.h"
#include "limiter/testing/memory_pages.h"

namespace {

using namespace krux::limiter;

// Copies garbage over a page as far as it goes.
template <typename Page>
void Scribble(Page* page, const uint8_t* data, size_t size) {
  memcpy(static_cast<void*>(page), data, size < sizeof(Page) ? size : sizeof(Page));
}

void UseAccount(MemoryPages& pages, const uint8_t* data, size_t size) {
  Account account;
  account.Attach(pages.limits.get(), pages.account.get(), 0, 1);
  Scribble(&pages.account->gpus, data, size);
  Scribble(&pages.account->processes[0], data, size);
  const uint64_t limit = account.Limit(0);
  for (size_t i = 0; i + 8 < size && i < 512; i += 8) {
    uint64_t bytes = 0;
    memcpy(&bytes, data + i, sizeof bytes);
    if (data[i] % 3 == 0) {
      account.Return(0, bytes);
    } else if (account.Charge(0, bytes) && account.Used(0) > limit) {
      __builtin_trap();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static_cast<void>(static_cast<bool>(CheckLimits(data, size)));
  static_cast<void>(static_cast<bool>(CheckAccount(data, size, 1)));
  MemoryPages pages(uint64_t{1} << 32);
  UseAccount(pages, data, size);
  return 0;
}
