#include "agent/cards.h"

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "common/units.h"

namespace krux::agent {
namespace {

constexpr Nanos kPollPeriod = kSecond;
// A card that was in trouble is believed again after so many good polls in a row.
constexpr int kGoodPolls = 5;
// The primary context of a process: 518 MiB on an H200 with driver 580. Until one was measured on
// this card a little more is reserved, so that the limit holds before the agent has settled it.
constexpr uint32_t kAssumedContextMib = 520;
constexpr uint32_t kMaxContextMib = 2048;

}  // namespace

CardWatch::CardWatch(EventLoop& loop, Probe probe, std::function<void()> changed)
    : loop_(loop),
      probe_(std::move(probe)),
      changed_(std::move(changed)),
      worker_(std::make_unique<Worker>()) {}

Result<std::unique_ptr<CardWatch>> CardWatch::Start(EventLoop& loop, Probe probe,
                                                    std::function<void()> changed) {
  std::unique_ptr<CardWatch> watch(new CardWatch(loop, std::move(probe), std::move(changed)));
  KRUX_ASSIGN_OR_RETURN(watch->found_, watch->probe_());
  KRUX_LOG_INFO("driver chosen kind={} reason=\"{}\"",
                gpu::DriverKindName(watch->found_.driver.kind), watch->found_.driver.reason);
  if (watch->found_.nvml != nullptr) watch->Apply(AskCards(*watch->found_.nvml));
  watch->timer_ = loop.After(kPollPeriod, [w = watch.get()] { w->PollSoon(); });
  return watch;
}

CardWatch::~CardWatch() { loop_.Cancel(timer_); }

CardWatch::Poll CardWatch::AskCards(const gpu::Nvml& nvml) {
  Poll poll;
  auto list = nvml.ListDevices();
  if (!list) {
    poll.status = list.error();
    return poll;
  }
  poll.devices = std::move(list->devices);
  for (const gpu::Device& device : poll.devices) {
    if (auto health = nvml.CheckHealth(device.uuid); !health) {
      poll.troubles[device.uuid] = health.error().message;
    }
  }
  return poll;
}

// The answer of another thread comes back through the loop and finds the object alive or not.
void CardWatch::PollSoon() {
  worker_->Do([this, alive = std::weak_ptr<bool>(alive_), found = found_, probe = probe_] {
    Found now = found;
    if (now.nvml == nullptr) {
      if (auto again = probe()) now = std::move(*again);
    }
    Poll poll;
    if (now.nvml != nullptr) poll = AskCards(*now.nvml);
    // A library whose kernel driver went away does not come back: a new one is opened next time.
    if (!poll.status && poll.status.error().code == ErrorCode::kUnavailable) now.nvml = nullptr;
    loop_.Post([this, alive, now = std::move(now), poll = std::move(poll)] {
      if (alive.expired()) return;
      found_ = now;
      OnPoll(poll);
    });
  });
}

void CardWatch::OnPoll(const Poll& poll) {
  timer_ = loop_.After(kPollPeriod, [this] { PollSoon(); });
  if (Apply(poll)) changed_();
}

bool CardWatch::SetTrouble(Watched& card, const std::string& trouble) {
  if (!trouble.empty()) {
    card.good_polls = 0;
    if (card.trouble == trouble) return false;
    KRUX_LOG_ERROR("gpu in trouble gpu_uuid={} reason=\"{}\"", card.device.uuid, trouble);
    card.trouble = trouble;
    return true;
  }
  if (card.trouble.empty() || ++card.good_polls < kGoodPolls) return false;
  KRUX_LOG_INFO("gpu healthy again gpu_uuid={}", card.device.uuid);
  card.trouble.clear();
  return true;
}

bool CardWatch::Apply(const Poll& poll) {
  bool changed = false;
  for (const gpu::Device& device : poll.devices) {
    auto [card, is_new] = cards_.try_emplace(device.uuid);
    card->second.device = device;
    if (is_new) {
      changed = true;
      KRUX_LOG_INFO("gpu found gpu_uuid={} model=\"{}\" memory_mib={}", device.uuid, device.model,
                    device.memory_bytes / kMiB);
    }
    const auto trouble = poll.troubles.find(device.uuid);
    changed |= SetTrouble(card->second, trouble == poll.troubles.end() ? "" : trouble->second);
  }
  for (auto& [uuid, card] : cards_) {
    const std::string& name = uuid;
    const bool listed = std::any_of(poll.devices.begin(), poll.devices.end(),
                                    [&name](const auto& d) { return d.uuid == name; });
    if (listed) continue;
    changed |= SetTrouble(
        card, poll.status ? "the driver does not list it any more" : poll.status.error().message);
  }
  return changed;
}

std::vector<Card> CardWatch::View() const {
  std::vector<Card> view;
  for (const auto& [uuid, card] : cards_) {
    view.push_back({uuid, card.device.memory_bytes / kMiB, card.trouble});
  }
  // People count cards as the driver does.
  std::sort(view.begin(), view.end(), [this](const Card& a, const Card& b) {
    return Find(a.uuid)->minor < Find(b.uuid)->minor;
  });
  return view;
}

const gpu::Device* CardWatch::Find(const std::string& uuid) const {
  const auto found = cards_.find(uuid);
  return found == cards_.end() ? nullptr : &found->second.device;
}

uint32_t CardWatch::ContextMib(const std::string& uuid) const {
  const auto found = cards_.find(uuid);
  const bool measured = found != cards_.end() && found->second.context_mib != 0;
  return measured ? found->second.context_mib : kAssumedContextMib;
}

bool CardWatch::LearnContext(const std::string& uuid, uint64_t bytes) {
  const auto found = cards_.find(uuid);
  const auto mib = static_cast<uint32_t>((bytes + kMiB - 1) / kMiB);
  if (found == cards_.end() || mib == 0 || mib > kMaxContextMib) return false;
  // The least of all figures: one can be too large (a tenant allocated at that moment, or hides
  // what it has), none is smaller than the context.
  if (found->second.context_mib != 0 && mib >= found->second.context_mib) return false;
  KRUX_LOG_INFO("context measured gpu_uuid={} context_mib={}", uuid, mib);
  found->second.context_mib = mib;
  return true;
}

void CardWatch::AskMemory(std::vector<std::string> uuids, Nanos max_age,
                          std::function<void(MemoryList)> answer) {
  worker_->Do(
      [this, uuids = std::move(uuids), max_age, answer = std::move(answer), nvml = found_.nvml] {
        MemoryList list;
        for (const std::string& uuid : uuids) {
          Figures& figures = figures_[uuid];
          const Nanos now = MonotonicNow();
          if (figures.asked == 0 || now - figures.asked > max_age) {
            figures.memory = nvml != nullptr
                                 ? nvml->ProcessMemory(uuid)
                                 : Error{ErrorCode::kUnavailable, "no driver answers on this node"};
            figures.asked = now;
          }
          list.push_back(figures.memory);
        }
        loop_.Post([answer, list = std::move(list)] { answer(list); });
      });
}

}  // namespace krux::agent
