// Tests only: tenants and a GPU in virtual time around an Arbiter. A client launches kernels of
// one length while its lease lasts; a kernel that has begun runs to its end, so leases overrun as
// they do on a card. Messages take time. The world checks at each step that nobody is let in while
// another one may still have work, but for those that have outlived the grace.
#ifndef KRUX_AGENT_ARBITER_WORLD_H_
#define KRUX_AGENT_ARBITER_WORLD_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <queue>
#include <vector>

#include "agent/arbiter.h"

namespace krux::agent {

struct ClientPlan {
  Shares shares;
  Nanos kernel = 2 * kMillisecond;
  Nanos in_flight = 0;  // work that is queued behind the kernel that runs
  Nanos burst = 0;      // GPU time wanted at once; 0 = without end
  Nanos gap = 0;        // of the host between bursts
  Nanos arrives = 0;
  Nanos leaves = Arbiter::kOpenEnd;
  bool never_drains = false;
};

class World {
 public:
  using Id = Arbiter::TenantId;

  struct Client {
    ClientPlan plan;
    bool present = false;
    bool running = false;
    bool granted = false;
    bool reporting = false;  // its message that it has no work is on the way
    Nanos first_kernel = 0;  // of this lease
    Nanos lease_end = 0;
    Nanos left_of_burst = 0;
    uint64_t lease = 0;  // events of older leases are void
    Nanos gpu_time = 0;  // kernels that ran
    Nanos ended = 0;
    Nanos last_progress = 0;
    Nanos longest_gap = 0;
    std::vector<std::pair<Nanos, Nanos>> runs;
  };

  explicit World(const Arbiter::Options& options = {}) : options_(options), arbiter_(options) {}

  Id Add(const ClientPlan& plan) {
    const Id id = next_id_++;
    clients_[id].plan = plan;
    Post(plan.arrives, Event::kArrive, id);
    if (plan.leaves != Arbiter::kOpenEnd) Post(plan.leaves, Event::kLeave, id);
    return id;
  }

  void SetSharesAt(Nanos when, Id id, const Shares& shares) {
    changes_.push_back(shares);
    Post(when, Event::kChange, id, changes_.size() - 1);
  }

  void SetTogetherAt(Nanos when, bool together) {
    Post(when, together ? Event::kTogether : Event::kTurns, 0);
  }

  void RunUntil(Nanos end) {
    while (true) {
      const Nanos timer = arbiter_.NextTimer(now_);
      const Nanos event = events_.empty() ? Arbiter::kOpenEnd : events_.top().when;
      const Nanos next = std::min(timer, event);
      if (next > end) break;
      ASSERT_GE(next, now_);
      ASSERT_LT(++steps_, 20'000'000) << "the world spins";
      Idle(next);
      now_ = next;
      if (event <= timer) Handle();
      Apply();
      if (::testing::Test::HasFatalFailure()) return;
    }
    Idle(end);
    now_ = end;
  }

  // GPU time of the client in [from, to), in percent of it.
  double Percent(Id id, Nanos from, Nanos to) const {
    Nanos sum = 0;
    const Client& client = clients_.at(id);
    for (const auto& [begin, end] : client.runs) {
      sum += std::max<Nanos>(0, std::min(end, to) - std::max(begin, from));
    }
    // A run that is not over is not in the list yet.
    if (client.running) sum += std::max<Nanos>(0, to - std::max(client.first_kernel, from));
    return 100.0 * static_cast<double>(sum) / static_cast<double>(to - from);
  }

  const Client& client(Id id) const { return clients_.at(id); }
  Arbiter& arbiter() { return arbiter_; }
  Nanos now() const { return now_; }
  Nanos idle_while_wanted() const { return idle_while_wanted_; }
  size_t steps() const { return steps_; }

  static constexpr Nanos kWakeUp = 50 * kMicrosecond;   // grant to first kernel
  static constexpr Nanos kMessage = 30 * kMicrosecond;  // limiter to agent
  static constexpr Nanos kIdleAfter = 100 * kMicrosecond;

 private:
  struct Event {
    enum Kind {
      kArrive,
      kLeave,
      kChange,
      kWant,
      kStop,
      kBurstOver,
      kIdle,
      kDrained,
      kTogether,
      kTurns
    };
    Nanos when;
    uint64_t order;
    Kind kind;
    Id id;
    uint64_t lease;
    bool operator<(const Event& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };

  void Post(Nanos when, Event::Kind kind, Id id, uint64_t lease = 0) {
    events_.push(Event{when, order_++, kind, id, lease});
  }

  // The time from now_ to `next` passes.
  void Idle(Nanos next) {
    bool used = false;
    bool wanted = false;
    for (auto& [id, client] : clients_) {
      used |= client.granted || client.running || client.reporting;
      const bool unlimited = client.plan.shares.policy != ComputePolicy::kFixed;
      wanted |= client.present && unlimited && arbiter_.Waits(id);
    }
    if (!used && wanted) idle_while_wanted_ += next - now_;
  }

  void Handle() {
    const Event event = events_.top();
    events_.pop();
    if (event.kind == Event::kTogether || event.kind == Event::kTurns) {
      return arbiter_.SetTogether(event.kind == Event::kTogether, now_);
    }
    Client& client = clients_.at(event.id);
    if (event.kind == Event::kArrive) {
      client.present = true;
      client.left_of_burst = client.plan.burst;
      client.last_progress = now_;
      arbiter_.Add(event.id, client.plan.shares, now_);
      Post(now_ + kMessage, Event::kWant, event.id);
      return;
    }
    if (!client.present) return;
    switch (event.kind) {
      case Event::kLeave:
        if (client.running) Stop(client, now_);
        client.present = client.granted = client.reporting = false;
        arbiter_.Remove(event.id, now_);
        break;
      case Event::kChange:
        client.plan.shares = changes_[event.lease];
        arbiter_.SetShares(event.id, client.plan.shares, now_);
        break;
      case Event::kWant:
        arbiter_.OnWant(event.id, now_);
        break;
      default:
        if (event.lease == client.lease) HandleLease(event, client);
    }
  }

  void HandleLease(const Event& event, Client& client) {
    switch (event.kind) {
      case Event::kStop:  // the last kernel that the lease allows is over
        if (!client.running) break;
        Stop(client, now_);
        Post(now_ + kMessage, Event::kDrained, event.id, client.lease);
        break;
      case Event::kBurstOver:
        if (!client.running) break;
        Stop(client, now_);
        client.left_of_burst = client.plan.burst;
        Post(now_ + kIdleAfter, Event::kIdle, event.id, client.lease);
        Post(now_ + std::max(client.plan.gap, kIdleAfter + kMessage), Event::kWant, event.id);
        break;
      case Event::kIdle:
        NoWork(event.id, client);
        break;
      case Event::kDrained:
        NoWork(event.id, client);
        Post(now_ + kMessage, Event::kWant, event.id);
        break;
      default:
        break;
    }
  }

  void NoWork(Id id, Client& client) {
    client.reporting = false;
    if (client.plan.never_drains) return;
    // A lease that the agent has not ended yet only stops being used.
    if (client.granted)
      arbiter_.OnIdle(id, now_);
    else
      arbiter_.OnDrained(id, now_);
  }

  void Stop(Client& client, Nanos when) {
    client.running = false;
    client.reporting = true;
    if (when <= client.first_kernel) return;
    client.gpu_time += when - client.first_kernel;
    client.left_of_burst -= when - client.first_kernel;
    client.runs.emplace_back(client.first_kernel, when);
    client.last_progress = when;
  }

  // When the last kernel launched before `end` is over, and when the burst is.
  void Plan(Id id, Client& client, Nanos end) {
    const Nanos kernel = client.plan.kernel;
    ++client.lease;
    if (client.plan.burst > 0) {
      const Nanos over = client.first_kernel + client.left_of_burst;
      if (over <= end || end == Arbiter::kOpenEnd) {
        Post(std::max(over, now_), Event::kBurstOver, id, client.lease);
        return;
      }
    }
    if (end == Arbiter::kOpenEnd || client.plan.never_drains) return;
    const Nanos span = std::max<Nanos>(end - client.first_kernel, 0) + client.plan.in_flight;
    const Nanos kernels = (span + kernel - 1) / kernel;
    Post(std::max(client.first_kernel + kernels * kernel, now_), Event::kStop, id, client.lease);
  }

  void Apply() {
    for (int round = 0; round < 8; ++round) {
      const auto actions = arbiter_.Decide(now_);
      if (actions.empty()) return;
      for (const auto& action : actions) Do(action);
    }
    FAIL() << "the arbiter never comes to rest";
  }

  void Do(const Arbiter::Action& action) {
    ASSERT_TRUE(clients_.contains(action.tenant));
    Client& client = clients_[action.tenant];
    ASSERT_TRUE(client.present);
    switch (action.kind) {
      case Arbiter::Action::Kind::kGrant:
        CheckExclusive(action.tenant);
        ASSERT_FALSE(client.granted);
        client.granted = client.running = true;
        client.first_kernel = now_ + kWakeUp;
        client.lease_end = action.deadline;
        client.longest_gap =
            std::max(client.longest_gap, client.first_kernel - client.last_progress);
        Plan(action.tenant, client, action.deadline);
        break;
      case Arbiter::Action::Kind::kExtend:
        ASSERT_TRUE(client.granted);
        client.lease_end = action.deadline;
        if (client.running) Plan(action.tenant, client, action.deadline);
        break;
      case Arbiter::Action::Kind::kEnd:
        ASSERT_TRUE(client.granted);
        client.granted = false;
        client.ended = now_;
        if (client.plan.never_drains) break;
        if (client.running)
          Plan(action.tenant, client, std::min(now_, client.lease_end));
        else
          NoWork(action.tenant, client);
        break;
    }
  }

  void CheckExclusive(Id newcomer) {
    if (arbiter_.together()) {
      const Shares& shares = clients_[newcomer].plan.shares;
      ASSERT_TRUE(shares.policy == ComputePolicy::kBalance || shares.cores == 100);
      ASSERT_NE(shares.priority, Priority::kLatency);
      return;
    }
    for (const auto& [id, client] : clients_) {
      if (id == newcomer || !client.present) continue;
      ASSERT_FALSE(client.granted) << "two tenants hold the card";
      if (!client.running) continue;
      ASSERT_GE(now_ - client.ended, options_.grace) << "let in before the drain";
    }
  }

  Arbiter::Options options_;
  Arbiter arbiter_;
  std::map<Id, Client> clients_;
  std::priority_queue<Event> events_;
  std::vector<Shares> changes_;
  Nanos now_ = 0;
  Nanos idle_while_wanted_ = 0;
  uint64_t order_ = 0;
  size_t steps_ = 0;
  Id next_id_ = 1;
};

}  // namespace krux::agent

#endif  // KRUX_AGENT_ARBITER_WORLD_H_
