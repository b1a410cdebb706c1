// The agent's side of a container's two shared pages (protocol/pages.h): making them, finding them
// again after a restart, and the moves on the account that are the agent's: settling a context,
// crediting what a dead process held.
//
// The account is a tenant's to scribble on: every figure read from it is bounded, and nothing but
// the account itself is computed from it.
//
// Thread rule: one thread (the loop's) makes, writes and drops them; limiters change the memory
// at any time.
#ifndef KRUX_AGENT_PAGES_H_
#define KRUX_AGENT_PAGES_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/fd.h"
#include "common/result.h"
#include "protocol/grant.h"
#include "protocol/pages.h"

namespace krux::agent {

// A mapping that is undone with the object. Move-only.
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* address, size_t bytes) : address_(address), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();
  void* address() const { return address_; }

 private:
  void* address_ = nullptr;
  size_t bytes_ = 0;
};

// What the limits page says of one GPU, beside the lease.
struct PageGpu {
  UuidBytes uuid;
  uint64_t physical_bytes = 0;
  uint32_t context_mib = 0;
  GpuGrant grant;
};

// The limits page: a file that is written in place, so that whoever has mapped it sees it. An old
// file keeps its lease epochs. The file is not replaced: a container has it mounted.
class LimitsFile {
 public:
  static Result<LimitsFile> Open(const std::string& path, const std::vector<PageGpu>& gpus);
  LimitsPage* page() const { return static_cast<LimitsPage*>(mapping_.address()); }
  void SetContextMib(uint32_t gpu, uint32_t mib);
  void SetShares(uint32_t gpu, const GpuGrant& grant);

 private:
  Mapping mapping_;
};

class Account {
 public:
  // A new memfd, sized and sealed.
  static Result<Account> Make(uint32_t gpu_count);
  // One that an earlier agent made. kDataLoss when its size, seals or header are not those of an
  // account, so that it can't be cut off under us.
  static Result<Account> Adopt(UniqueFd fd, uint32_t gpu_count);

  int fd() const { return fd_.get(); }
  AccountPage* page() const { return static_cast<AccountPage*>(mapping_.address()); }

  void ClaimSlot(uint32_t slot, int32_t container_pid);
  // The process is gone: what it was charged is credited and the slot is free again. False: other
  // processes are in the middle of a charge and the sum can't be taken now; call again soon.
  // Correct whatever the dead process was doing when it died.
  bool CreditSlot(uint32_t slot);

  // In a new account for a process that was charged in a lost one: what the driver says it holds.
  void SeedSlot(uint32_t slot, uint32_t gpu, uint64_t driver_bytes);

  struct Settled {
    uint64_t context_bytes = 0;  // as it is now
    bool only_context = false;   // nothing else was charged: the figure is a context's true size
  };
  enum class Direction { kBoth, kUp };
  // The driver says that the process holds `driver_bytes` on the GPU: what the account does not
  // know of is the context. What is charged and not listed by the driver (managed memory) stays.
  // kUnavailable when the process was charging meanwhile: ask again.
  Result<Settled> SettleContext(uint32_t slot, uint32_t gpu, uint64_t driver_bytes,
                                Direction direction = Direction::kBoth);

  uint64_t Used(uint32_t gpu) const;
  uint64_t Charged(uint32_t slot, uint32_t gpu) const;
  // The part of it that the driver lists under the process.
  uint64_t ChargedAndListed(uint32_t slot, uint32_t gpu) const;

 private:
  UniqueFd fd_;
  Mapping mapping_;
  uint32_t gpu_count_ = 0;
};

}  // namespace krux::agent

#endif  // KRUX_AGENT_PAGES_H_
