// The account's protocol (protocol/pages.h) under SIGKILL, with the limiter's and the agent's real
// code on both sides: a limiter process is stepped instruction by instruction, and wherever it has
// changed the page it is killed there, alone and between the steps of another process.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "agent/pages.h"
#include "limiter/memory/account.h"

namespace krux {
namespace {

constexpr uint64_t kLimit = 1000;
constexpr uint64_t kHeld = 300;  // by each process before its operation
constexpr uint64_t kBytes = 40;  // what the operation moves

using Operation = std::function<void(limiter::Account&)>;
struct Named {
  const char* name;
  Operation run;
  uint64_t held_after;  // when nobody kills it
};

std::vector<Named> Operations() {
  return {
      {"charge", [](limiter::Account& a) { (void)a.Charge(0, kBytes); }, kHeld + kBytes},
      {"return", [](limiter::Account& a) { a.Return(0, kBytes); }, kHeld - kBytes},
      {"refused", [](limiter::Account& a) { (void)a.Charge(0, kLimit); }, kHeld},
      {"anyway", [](limiter::Account& a) { a.ChargeAnyway(0, kBytes); }, kHeld + kBytes},
      {"settle up", [](limiter::Account& a) { (void)a.Settle(0, 10, 50); }, kHeld + 40},
      {"settle down", [](limiter::Account& a) { (void)a.Settle(0, 50, 10); }, kHeld - 40},
      {"context", [](limiter::Account& a) { (void)a.ChargeContext(0, kBytes); }, kHeld + kBytes},
  };
}

class World {
 public:
  World() : account_(std::move(agent::Account::Make(1).value())) {
    void* memory = mmap(nullptr, sizeof(LimitsPage), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    limits_ = new (memory) LimitsPage;
    limits_->gpu_count = 1;
    limits_->gpus[0].memory_limit_bytes = kLimit;
    limits_->gpus[0].memory_physical_bytes = uint64_t{1} << 40;
  }
  ~World() { munmap(limits_, sizeof(LimitsPage)); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  agent::Account& account() { return account_; }
  const LimitsPage* limits() const { return limits_; }
  uint64_t used() { return account_.Used(0); }
  uint64_t charged(uint32_t slot) { return account_.Charged(slot, 0); }

  // What a store can change of the account of the first GPU.
  using Image = std::array<uint64_t, 7>;
  Image ImageNow() {
    const AccountPage* page = account_.page();
    Image image = {page->gpus[0].used_bytes};
    for (size_t slot = 0; slot < 2; ++slot) {
      const ProcessSlot::PerGpu& gpu = page->processes[slot].gpus[0];
      image[1 + 3 * slot] = gpu.pending_bytes;
      image[2 + 3 * slot] = gpu.charged_bytes;
      image[3 + 3 * slot] = gpu.context_bytes;
    }
    return image;
  }

 private:
  agent::Account account_;
  LimitsPage* limits_;
};

// A process with a slot that will do one operation, one instruction at a time.
class Stepped {
 public:
  Stepped(World& world, uint32_t slot, const Operation& operation) : world_(world) {
    world.account().ClaimSlot(slot, 1);
    pid_ = fork();
    if (pid_ == 0) Child(slot, operation);
    can_trace_ = AwaitStop() == SIGSTOP;
  }
  ~Stepped() { Kill(); }
  Stepped(const Stepped&) = delete;
  Stepped& operator=(const Stepped&) = delete;

  bool can_trace() const { return can_trace_; }

  // Until it has changed the page so many times more. False: the operation is over before that.
  bool RunUntilChanges(int changes) {
    for (World::Image before = world_.ImageNow(); changes > 0;) {
      if (!Step()) return false;
      const World::Image now = world_.ImageNow();
      if (now == before) continue;
      before = now;
      --changes;
    }
    return true;
  }
  void RunToEnd() {
    while (Step()) {
    }
  }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  [[noreturn]] void Child(uint32_t slot, const Operation& operation) {
    limiter::Account account;
    account.Attach(world_.limits(), world_.account().page(), slot, 1);
    (void)account.Charge(0, kHeld);
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    raise(SIGSTOP);
    operation(account);
    raise(SIGSTOP);
    for (;;) pause();
  }
  int AwaitStop() {
    int status = 0;
    if (waitpid(pid_, &status, 0) != pid_ || !WIFSTOPPED(status)) return -1;
    return WSTOPSIG(status);
  }
  bool Step() {
    if (over_) return false;
    ptrace(PTRACE_SINGLESTEP, pid_, nullptr, nullptr);
    over_ = AwaitStop() != SIGTRAP;
    return !over_;
  }

  World& world_;
  pid_t pid_ = -1;
  bool can_trace_ = false;
  bool over_ = false;
};

constexpr int kMostChanges = 20;  // of one operation; a test says that there are no more

// The number of changes that the operation makes to the page.
int ChangesOf(const Named& operation) {
  World world;
  Stepped process(world, 0, operation.run);
  int changes = 0;
  while (changes < kMostChanges && process.RunUntilChanges(1)) ++changes;
  EXPECT_EQ(world.charged(0), operation.held_after) << operation.name;
  return changes;
}

class EveryKill : public ::testing::Test {
 protected:
  void SetUp() override {
    World world;
    if (!Stepped(world, 0, Operations()[0].run).can_trace()) {
      GTEST_SKIP() << "this machine does not let a process trace its child";
    }
  }
};

TEST_F(EveryKill, LeavesNothingOfTheDeadAndAllOfTheLiving) {
  for (const Named& operation : Operations()) {
    const int changes = ChangesOf(operation);
    ASSERT_LT(changes, kMostChanges);
    for (int at = 0; at <= changes; ++at) {
      World world;
      Stepped living(world, 1, [](limiter::Account&) {});
      Stepped victim(world, 0, operation.run);
      victim.RunUntilChanges(at);
      victim.Kill();
      ASSERT_TRUE(world.account().CreditSlot(0)) << operation.name << " killed at " << at;
      EXPECT_EQ(world.used(), kHeld) << operation.name << " killed at " << at;
      EXPECT_EQ(world.charged(1), kHeld);
    }
  }
}

// All pairs of operations, killed at all points, with the other one at all of its points.
TEST_F(EveryKill, BetweenTheStepsOfAnotherProcess) {
  const std::vector<Named> operations = Operations();
  for (const Named& dying : {operations[0], operations[1]}) {
    for (const Named& living : {operations[0], operations[1], operations[2]}) {
      const int dying_changes = ChangesOf(dying), living_changes = ChangesOf(living);
      for (int at = 0; at <= dying_changes; ++at) {
        for (int other = 0; other <= living_changes; ++other) {
          World world;
          Stepped peer(world, 1, living.run), victim(world, 0, dying.run);
          victim.RunUntilChanges(at);
          peer.RunUntilChanges(other);
          victim.Kill();
          // It may have to wait for the peer, and is asked again; the peer waits for nobody.
          const bool at_once = world.account().CreditSlot(0);
          peer.RunToEnd();
          if (!at_once) {
            ASSERT_TRUE(world.account().CreditSlot(0));
          }
          EXPECT_EQ(world.used(), living.held_after)
              << dying.name << " killed at " << at << ", " << living.name << " at " << other;
          EXPECT_EQ(world.charged(1), living.held_after);
          EXPECT_LE(world.used(), kLimit);
        }
      }
    }
  }
}

}  // namespace
}  // namespace krux
