#include "agent/pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/units.h"

namespace krux::agent {
namespace {

constexpr int kAccountSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr int kRepairTries = 64;
// No context of a known driver is larger; more is an allocation that the account has not seen.
constexpr uint64_t kMaxContextBytes = 8 * kGiB;

Result<Mapping> Map(int fd, size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return ErrnoError(errno, "mapping a page");
  return Mapping(address, bytes);
}

// used -= bytes, never below zero: a tenant can have written anything.
void Subtract(std::atomic<uint64_t>& used, uint64_t bytes) {
  uint64_t seen = used.load();
  while (!used.compare_exchange_weak(seen, seen - std::min(seen, bytes))) {
  }
}

// used = sum of charged over the slots in use, if no process is in the middle of a charge. The dead
// are left out: they would wait for each other for ever.
bool RepairUsed(AccountPage* page, uint32_t gpu) {
  for (int i = 0; i < kRepairTries; ++i) {
    uint64_t seen = page->gpus[gpu].used_bytes.load();
    uint64_t sum = 0;
    bool quiet = true;
    for (ProcessSlot& slot : page->processes) {
      if (slot.in_use.load() != kSlotInUse) continue;
      // In this order: a charge that ends between the two loads is then in the sum.
      quiet = quiet && slot.gpus[gpu].pending_bytes.load() == 0;
      sum += slot.gpus[gpu].charged_bytes.load();
    }
    if (quiet && page->gpus[gpu].used_bytes.compare_exchange_strong(seen, sum)) return true;
  }
  return false;
}

void ClearSlot(ProcessSlot& slot) {
  slot.pid.store(0);
  for (ProcessSlot::PerGpu& gpu : slot.gpus) {
    gpu.charged_bytes.store(0);
    gpu.pending_bytes.store(0);
    gpu.context_bytes.store(0);
    gpu.active_epoch.store(0);
    gpu.blocked.store(0);
    gpu.launches.store(0);
    gpu.refused.store(0);
    gpu.unlisted_bytes.store(0);
  }
}

}  // namespace

Mapping::Mapping(Mapping&& other) noexcept
    : address_(std::exchange(other.address_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (address_ != nullptr) munmap(address_, bytes_);
}

Result<LimitsFile> LimitsFile::Open(const std::string& path, const std::vector<PageGpu>& gpus) {
  if (gpus.empty() || gpus.size() > kMaxPageGpus) {
    return Error{ErrorCode::kInvalidArgument, "a container has 1 to 16 GPUs"};
  }
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd.valid()) return ErrnoError(errno, "opening " + path);
  if (fchmod(fd.get(), 0644) != 0 || ftruncate(fd.get(), sizeof(LimitsPage)) != 0) {
    return ErrnoError(errno, "sizing " + path);
  }
  LimitsFile file;
  KRUX_ASSIGN_OR_RETURN(file.mapping_, Map(fd.get(), sizeof(LimitsPage)));
  LimitsPage* page = file.page();
  page->sequence.fetch_or(1);
  page->size_bytes = sizeof(LimitsPage);
  page->gpu_count = static_cast<uint32_t>(gpus.size());
  for (size_t i = 0; i < gpus.size(); ++i) {
    GpuLimits& limits = page->gpus[i];
    std::memcpy(limits.uuid, gpus[i].uuid.bytes, sizeof limits.uuid);
    limits.memory_limit_bytes.store(gpus[i].grant.memory_mib * kMiB);
    limits.memory_physical_bytes.store(gpus[i].physical_bytes);
    limits.cores_percent.store(gpus[i].grant.cores);
    limits.policy.store(static_cast<uint32_t>(gpus[i].grant.policy));
    limits.priority.store(static_cast<uint32_t>(gpus[i].grant.priority));
    limits.context_mib.store(gpus[i].context_mib);
  }
  page->version = kLimitsVersion;
  page->magic = kPageMagic;
  page->sequence.fetch_add(1);
  return file;
}

void LimitsFile::SetContextMib(uint32_t gpu, uint32_t mib) {
  page()->gpus[gpu].context_mib.store(mib);
}

void LimitsFile::SetShares(uint32_t gpu, const GpuGrant& grant) {
  GpuLimits& limits = page()->gpus[gpu];
  limits.cores_percent.store(grant.cores);
  limits.policy.store(static_cast<uint32_t>(grant.policy));
}

Result<Account> Account::Make(uint32_t gpu_count) {
  Account account;
  account.gpu_count_ = gpu_count;
  account.fd_.Reset(memfd_create("krux-account", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!account.fd_.valid()) return ErrnoError(errno, "making an account page");
  if (ftruncate(account.fd(), sizeof(AccountPage)) != 0 ||
      fcntl(account.fd(), F_ADD_SEALS, kAccountSeals) != 0) {
    return ErrnoError(errno, "sealing an account page");
  }
  KRUX_ASSIGN_OR_RETURN(account.mapping_, Map(account.fd(), sizeof(AccountPage)));
  AccountPage* page = account.page();
  page->version = kAccountVersion;
  page->size_bytes = sizeof(AccountPage);
  page->gpu_count = gpu_count;
  page->magic = kPageMagic;
  return account;
}

Result<Account> Account::Adopt(UniqueFd fd, uint32_t gpu_count) {
  struct stat info{};
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (fstat(fd.get(), &info) != 0 || info.st_size != sizeof(AccountPage) || seals < 0 ||
      (seals & kAccountSeals) != kAccountSeals) {
    return Error{ErrorCode::kDataLoss, "the kept descriptor is not a sealed account page"};
  }
  Account account;
  account.gpu_count_ = gpu_count;
  account.fd_ = std::move(fd);
  KRUX_ASSIGN_OR_RETURN(account.mapping_, Map(account.fd(), sizeof(AccountPage)));
  const AccountPage* page = account.page();
  if (page->magic != kPageMagic || page->version != kAccountVersion ||
      page->gpu_count != gpu_count) {
    return Error{ErrorCode::kDataLoss, "the kept account page has another version or form"};
  }
  return account;
}

void Account::ClaimSlot(uint32_t slot, int32_t container_pid) {
  ProcessSlot& process = page()->processes[slot];
  ClearSlot(process);
  process.pid.store(container_pid);
  process.in_use.store(kSlotInUse);
}

bool Account::CreditSlot(uint32_t slot) {
  ProcessSlot& process = page()->processes[slot];
  bool done = true;
  for (uint32_t g = 0; g < gpu_count_; ++g) {
    ProcessSlot::PerGpu& gpu = process.gpus[g];
    if (gpu.pending_bytes.load() == 0) {
      Subtract(page()->gpus[g].used_bytes, gpu.charged_bytes.exchange(0));
      continue;
    }
    // It died between the two words of a charge: only the sum over all tells what is true. The
    // pending word stays until that was done, so that a second call does it again.
    gpu.charged_bytes.store(0);
    process.in_use.store(kSlotDead);
    done = RepairUsed(page(), g) && done;
  }
  if (!done) return false;
  process.in_use.store(kSlotFree);
  ClearSlot(process);
  return true;
}

void Account::SeedSlot(uint32_t slot, uint32_t gpu, uint64_t driver_bytes) {
  page()->gpus[gpu].used_bytes.fetch_add(driver_bytes);
  page()->processes[slot].gpus[gpu].charged_bytes.fetch_add(driver_bytes);
}

Result<Account::Settled> Account::SettleContext(uint32_t slot, uint32_t gpu, uint64_t driver_bytes,
                                                Direction direction) {
  ProcessSlot::PerGpu& mine = page()->processes[slot].gpus[gpu];
  const uint64_t charged = mine.charged_bytes.load();
  const uint64_t context = mine.context_bytes.load();
  if (mine.pending_bytes.load() != 0 || mine.charged_bytes.load() != charged) {
    return Error{ErrorCode::kUnavailable, "the process is charging memory at this moment"};
  }
  const uint64_t unlisted = mine.unlisted_bytes.load();
  const uint64_t not_others = context + std::min(unlisted, UINT64_MAX - context);
  const uint64_t others = charged - std::min(charged, not_others);
  const uint64_t wanted = std::min(driver_bytes - std::min(driver_bytes, others), kMaxContextBytes);
  const bool only_context = others == 0 && unlisted == 0;
  if (direction == Direction::kUp && wanted <= context) return Settled{context, only_context};
  mine.context_bytes.store(wanted);
  if (wanted > context) {
    page()->gpus[gpu].used_bytes.fetch_add(wanted - context);
    mine.charged_bytes.fetch_add(wanted - context);
  } else {
    Subtract(mine.charged_bytes, context - wanted);
    Subtract(page()->gpus[gpu].used_bytes, context - wanted);
  }
  return Settled{wanted, only_context};
}

uint64_t Account::Used(uint32_t gpu) const { return page()->gpus[gpu].used_bytes.load(); }

uint64_t Account::Charged(uint32_t slot, uint32_t gpu) const {
  return page()->processes[slot].gpus[gpu].charged_bytes.load();
}

uint64_t Account::ChargedAndListed(uint32_t slot, uint32_t gpu) const {
  const ProcessSlot::PerGpu& mine = page()->processes[slot].gpus[gpu];
  const uint64_t charged = mine.charged_bytes.load();
  return charged - std::min(charged, mine.unlisted_bytes.load());
}

}  // namespace krux::agent
