// A small agent for tests: one container folder with a limits page and a socket, an account, and a
// hand on every lease. Serves its clients from a thread of its own.
// Thread rule: all methods from the test's thread.
#ifndef KRUX_LIMITER_TESTING_FAKE_AGENT_H_
#define KRUX_LIMITER_TESTING_FAKE_AGENT_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/fd.h"
#include "protocol/limiter_messages.h"
#include "protocol/pages.h"

namespace krux::limiter {

// A temporary folder that goes with its object.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class FakeAgent {
 public:
  struct Gpu {
    std::array<uint8_t, 16> uuid{};
    uint64_t limit_bytes = uint64_t{4} << 30;
    uint64_t physical_bytes = uint64_t{140} << 30;
    uint32_t context_mib = 520;
  };

  // `folder` must exist. `grant_on_want`: a lease without an end for whoever asks.
  FakeAgent(std::string folder, std::vector<Gpu> gpus, bool grant_on_want = true);
  ~FakeAgent();

  // As if the agent were killed, and as if it were started again (with the same account).
  void Stop();
  void Start();
  // From now on new clients get another account; processes move their charges to it.
  void ReplaceAccount();

  void Grant(uint32_t gpu, uint64_t end_tsc);
  // Ends the lease and tells all clients.
  void End(uint32_t gpu);
  // Whether no process says that it may have work under the GPU's last lease.
  bool Drained(uint32_t gpu) const;

  LimitsPage& limits() { return *limits_; }
  AccountPage& account() { return *account_; }
  const std::string& folder() const { return folder_; }
  uint64_t tsc_per_second() const { return tsc_per_second_; }
  uint32_t EventsSeen(wire::EventKind kind) const;
  uint32_t hellos() const { return hellos_; }
  uint32_t last_resume_slot() const { return last_resume_slot_; }

 private:
  struct Client {
    UniqueFd socket;
    uint32_t slot = 0;
  };

  void MakeLimits(const std::vector<Gpu>& gpus);
  void MakeAccount(uint32_t gpu_count);
  void Serve();
  void Accept();
  bool ReadFrom(Client& client);
  void OnEvent(const wire::Event& event);

  std::string folder_;
  uint32_t gpu_count_ = 0;
  bool grant_on_want_ = true;
  uint64_t tsc_per_second_ = 0;
  LimitsPage* limits_ = nullptr;
  AccountPage* account_ = nullptr;
  UniqueFd account_fd_;
  bool account_changed_ = false;
  UniqueFd listener_;
  std::mutex mutex_;
  std::map<int, Client> clients_;
  uint32_t next_slot_ = 0;
  std::atomic<uint32_t> events_[8] = {};
  std::atomic<uint32_t> hellos_{0};
  std::atomic<uint32_t> last_resume_slot_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_TESTING_FAKE_AGENT_H_
