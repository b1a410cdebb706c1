// Pages in shared anonymous memory, as the agent would set them up, for tests of one module.
#ifndef KRUX_LIMITER_TESTING_MEMORY_PAGES_H_
#define KRUX_LIMITER_TESTING_MEMORY_PAGES_H_

#include <sys/mman.h>

#include <cstdint>
#include <new>

#include "protocol/pages.h"

namespace krux::limiter {

// Shared with fork children.
template <typename Page>
class SharedPage {
 public:
  SharedPage()
      : page_(new(mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0)) Page) {}
  ~SharedPage() { munmap(page_, sizeof(Page)); }
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;
  Page* get() { return page_; }
  Page* operator->() { return page_; }

 private:
  Page* page_;
};

struct MemoryPages {
  explicit MemoryPages(uint64_t limit_bytes) {
    limits->magic = account->magic = kPageMagic;
    limits->version = kLimitsVersion;
    account->version = kAccountVersion;
    limits->size_bytes = sizeof(LimitsPage);
    account->size_bytes = sizeof(AccountPage);
    limits->gpu_count = account->gpu_count = 1;
    limits->tsc_per_second = 2000000000;
    limits->gpus[0].memory_limit_bytes = limit_bytes;
    limits->gpus[0].memory_physical_bytes = uint64_t{1} << 40;
  }
  SharedPage<LimitsPage> limits;
  SharedPage<AccountPage> account;
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_TESTING_MEMORY_PAGES_H_
