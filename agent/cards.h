// The node's cards: what they are, whether they work, what a container with them needs. Asks the
// driver's management library about once a second from a thread of its own.
//
// Thread rule: the loop's thread, but for the probe and the library, which the worker calls.
#ifndef KRUX_AGENT_CARDS_H_
#define KRUX_AGENT_CARDS_H_

#include <sys/types.h>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/admission.h"
#include "agent/event_loop.h"
#include "gpu/driver.h"
#include "gpu/nvml.h"

namespace krux::agent {

class CardWatch {
 public:
  struct Found {
    gpu::Driver driver;
    std::shared_ptr<gpu::Nvml> nvml;  // nullptr: no driver; `driver.reason` says why
  };
  // Looks for the driver; main gives gpu::ResolveDriver and OpenDriver, tests a fake.
  using Probe = std::function<Result<Found>()>;
  using MemoryList = std::vector<Result<std::map<pid_t, uint64_t>>>;

  // Probes once before it returns; an error of that probe is returned. `changed` is called when a
  // card has come, gone, or changed its health.
  static Result<std::unique_ptr<CardWatch>> Start(EventLoop& loop, Probe probe,
                                                  std::function<void()> changed);
  ~CardWatch();

  std::vector<Card> View() const;
  const gpu::Device* Find(const std::string& uuid) const;
  const gpu::Driver& driver() const { return found_.driver; }

  // What a context takes on the card under this driver: measured, or an upper bound until then.
  uint32_t ContextMib(const std::string& uuid) const;
  // True when this changed what ContextMib says.
  bool LearnContext(const std::string& uuid, uint64_t bytes);

  // Memory by process for each of these cards; `answer` runs on the loop. Figures of a card that
  // were asked for at most `max_age` ago are given again.
  void AskMemory(std::vector<std::string> uuids, Nanos max_age,
                 std::function<void(MemoryList)> answer);

 private:
  struct Watched {
    gpu::Device device;
    std::string trouble;
    int good_polls = 0;  // since the trouble
    uint32_t context_mib = 0;
  };
  struct Poll {
    Status status;  // of the library itself
    std::vector<gpu::Device> devices;
    std::map<std::string, std::string> troubles;
  };

  struct Figures {
    Nanos asked = 0;
    Result<std::map<pid_t, uint64_t>> memory = std::map<pid_t, uint64_t>{};
  };

  CardWatch(EventLoop& loop, Probe probe, std::function<void()> changed);
  static Poll AskCards(const gpu::Nvml& nvml);
  void PollSoon();
  void OnPoll(const Poll& poll);
  bool Apply(const Poll& poll);
  bool SetTrouble(Watched& card, const std::string& trouble);

  EventLoop& loop_;
  Probe probe_;
  std::function<void()> changed_;
  Found found_;
  std::map<std::string, Watched> cards_;  // by UUID; a card that was seen stays
  EventLoop::TimerId timer_{};
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::map<std::string, Figures> figures_;  // by UUID; the worker's
  std::unique_ptr<Worker> worker_;          // last: its tasks use the others
};

}  // namespace krux::agent

#endif  // KRUX_AGENT_CARDS_H_
