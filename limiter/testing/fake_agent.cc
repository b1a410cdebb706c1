#include "limiter/testing/fake_agent.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "common/clock.h"
#include "common/unix_socket.h"
#include "protocol/names.h"

namespace krux::limiter {
namespace {

void Check(bool ok, const char* what) {
  if (ok) return;
  perror(what);
  abort();
}

uint64_t MeasureTsc() {
  const Nanos start = MonotonicNow();
  const uint64_t ticks = __rdtsc();
  while (MonotonicNow() - start < 10 * kMillisecond) {
  }
  const uint64_t passed = __rdtsc() - ticks;
  return static_cast<uint64_t>(static_cast<double>(passed) * 1e9 /
                               static_cast<double>(MonotonicNow() - start));
}

}  // namespace

TempFolder::TempFolder() {
  char name[] = "/tmp/krux-limiter-test-XXXXXX";
  Check(mkdtemp(name) != nullptr, "mkdtemp");
  path_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

FakeAgent::FakeAgent(std::string folder, std::vector<Gpu> gpus, bool grant_on_want)
    : folder_(std::move(folder)),
      gpu_count_(static_cast<uint32_t>(gpus.size())),
      grant_on_want_(grant_on_want),
      tsc_per_second_(MeasureTsc()) {
  MakeLimits(gpus);
  MakeAccount(gpu_count_);
  Start();
}

FakeAgent::~FakeAgent() {
  Stop();
  munmap(limits_, sizeof(LimitsPage));
  munmap(account_, sizeof(AccountPage));
}

void FakeAgent::MakeLimits(const std::vector<Gpu>& gpus) {
  const std::string path = folder_ + "/" + names::kLimitsFile;
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  Check(fd.valid() && ftruncate(fd.get(), sizeof(LimitsPage)) == 0, "limits");
  limits_ = static_cast<LimitsPage*>(
      mmap(nullptr, sizeof(LimitsPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
  Check(limits_ != MAP_FAILED, "mmap limits");
  limits_->magic = kPageMagic;
  limits_->version = kLimitsVersion;
  limits_->size_bytes = sizeof(LimitsPage);
  limits_->gpu_count = gpu_count_;
  limits_->tsc_per_second = tsc_per_second_;
  for (size_t i = 0; i < gpus.size(); ++i) {
    GpuLimits& gpu = limits_->gpus[i];
    memcpy(gpu.uuid, gpus[i].uuid.data(), sizeof gpu.uuid);
    gpu.memory_limit_bytes = gpus[i].limit_bytes;
    gpu.memory_physical_bytes = gpus[i].physical_bytes;
    gpu.context_mib = gpus[i].context_mib;
    gpu.lease_word = 2;  // epoch 1, not held
  }
}

void FakeAgent::MakeAccount(uint32_t gpu_count) {
  account_fd_ = UniqueFd(memfd_create("account", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  Check(ftruncate(account_fd_.get(), sizeof(AccountPage)) == 0, "account");
  Check(fcntl(account_fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0,
        "seals");
  account_ = static_cast<AccountPage*>(
      mmap(nullptr, sizeof(AccountPage), PROT_READ | PROT_WRITE, MAP_SHARED, account_fd_.get(), 0));
  Check(account_ != MAP_FAILED, "mmap account");
  account_->magic = kPageMagic;
  account_->version = kAccountVersion;
  account_->size_bytes = sizeof(AccountPage);
  account_->gpu_count = gpu_count;
}

void FakeAgent::ReplaceAccount() {
  const std::lock_guard<std::mutex> lock(mutex_);
  munmap(account_, sizeof(AccountPage));
  MakeAccount(gpu_count_);
  account_changed_ = true;
}

void FakeAgent::Start() {
  auto listener = ListenUnix(folder_ + "/" + names::kLimiterSocket, 0666);
  Check(listener.has_value(), "listen");
  listener_ = std::move(*listener);
  stopping_ = false;
  thread_ = std::thread([this] { Serve(); });
}

void FakeAgent::Stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  thread_.join();
  listener_.Reset();
  const std::lock_guard<std::mutex> lock(mutex_);
  clients_.clear();
}

void FakeAgent::Serve() {
  while (!stopping_) {
    std::vector<pollfd> sources{{listener_.get(), POLLIN, 0}};
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const auto& [fd, client] : clients_) sources.push_back({fd, POLLIN, 0});
    }
    if (poll(sources.data(), sources.size(), 5) <= 0) continue;
    if (sources[0].revents != 0) Accept();
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 1; i < sources.size(); ++i) {
      if (sources[i].revents == 0) continue;
      const auto found = clients_.find(sources[i].fd);
      if (found == clients_.end() || ReadFrom(found->second)) continue;
      account_->processes[found->second.slot].in_use = 0;
      clients_.erase(found);
    }
  }
}

void FakeAgent::Accept() {
  UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.valid()) return;
  auto message = ReceiveMessage(socket.get(), 1000);
  if (!message || message->bytes.size() != sizeof(wire::Hello)) return;
  wire::Hello hello;
  memcpy(&hello, message->bytes.data(), sizeof hello);
  const std::lock_guard<std::mutex> lock(mutex_);
  wire::Welcome welcome;
  last_resume_slot_ = hello.resume_slot;
  welcome.slot = hello.resume_slot == wire::Hello::kNoSlot ? next_slot_++ : hello.resume_slot;
  welcome.account_changed = account_changed_ ? 1 : 0;
  account_->processes[welcome.slot].in_use = 1;
  account_->processes[welcome.slot].pid = hello.pid;
  const std::string bytes(reinterpret_cast<const char*>(&welcome), sizeof welcome);
  if (!SendMessage(socket.get(), bytes, {account_fd_.get()})) return;
  ++hellos_;
  const int fd = socket.get();
  clients_[fd] = Client{std::move(socket), welcome.slot};
}

bool FakeAgent::ReadFrom(Client& client) {
  auto message = ReceiveMessage(client.socket.get(), 0);
  if (!message || message->bytes.empty()) return false;
  if (message->bytes.size() != sizeof(wire::Event)) return true;
  wire::Event event;
  memcpy(&event, message->bytes.data(), sizeof event);
  OnEvent(event);
  return true;
}

void FakeAgent::OnEvent(const wire::Event& event) {
  const auto kind = static_cast<uint32_t>(event.kind);
  if (kind < 8) ++events_[kind];
  const bool held = (limits_->gpus[event.gpu].lease_word & 1) != 0;
  if (event.kind == wire::EventKind::kWant && grant_on_want_ && !held) Grant(event.gpu, UINT64_MAX);
}

void FakeAgent::Grant(uint32_t gpu, uint64_t end_tsc) {
  GpuLimits& lease = limits_->gpus[gpu];
  lease.lease_end_tsc = end_tsc;
  lease.lease_word = ((lease.lease_word >> 1) + 1) << 1 | 1;
  syscall(SYS_futex, &lease.lease_word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

void FakeAgent::End(uint32_t gpu) {
  GpuLimits& lease = limits_->gpus[gpu];
  const uint32_t epoch = lease.lease_word >> 1;
  lease.lease_word = (epoch + 1) << 1;
  syscall(SYS_futex, &lease.lease_word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
  wire::Notice notice;
  notice.gpu = gpu;
  notice.epoch = epoch;
  const std::string bytes(reinterpret_cast<const char*>(&notice), sizeof notice);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [fd, client] : clients_) static_cast<void>(SendMessage(fd, bytes, {}, false));
}

bool FakeAgent::Drained(uint32_t gpu) const {
  for (const ProcessSlot& slot : account_->processes) {
    if (slot.in_use != 0 && slot.gpus[gpu].active_epoch != 0) return false;
  }
  return true;
}

uint32_t FakeAgent::EventsSeen(wire::EventKind kind) const {
  return events_[static_cast<uint32_t>(kind)];
}

}  // namespace krux::limiter
