// The part of Agent that starts, ends and takes up containers.
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <utility>

#include "agent/agent.h"
#include "agent/processes.h"
#include "common/log.h"
#include "protocol/fd_store.h"
#include "protocol/names.h"

namespace krux::agent {
namespace {

constexpr int kStoreTimeoutMs = 1000;
constexpr uint64_t kFullSweep = 10;           // every so many sweeps all containers are looked at
constexpr Nanos kTimeToBegin = 60 * kSecond;  // from the agent's answer to the first process
constexpr int kSweepsToBeGone = 2;

// Seconds since the folder was made or changed; a large number when it is not there.
double AgeOf(const std::string& folder) {
  struct stat info{};
  if (stat(folder.c_str(), &info) != 0) return 1e9;
  return std::difftime(std::time(nullptr), info.st_mtim.tv_sec);
}

bool AnyListedLives(const std::string& process_file) {
  // Private containers have no cgroup: what their processes were is in the process file.
  FILE* file = fopen(process_file.c_str(), "re");
  if (file == nullptr) return false;
  unsigned slot = 0;
  int pid = 0;
  unsigned long long start = 0;
  bool lives = false;
  while (!lives && fscanf(file, "%u %d %llu", &slot, &pid, &start) == 3) {
    const auto now = StartTimeOf(pid);
    lives = now.has_value() && *now == start;
  }
  fclose(file);
  return lives;
}

}  // namespace

// The ledger is on disk before it counts.
Status Agent::Commit(Ledger next) {
  if (next.pods() == ledger_.pods()) return Ok();
  if (!options_.ledger_path.empty()) {
    KRUX_RETURN_IF_ERROR(SaveLedger(options_.ledger_path, next));
  }
  ledger_ = std::move(next);
  return Ok();
}

Status Agent::StartContainer(const LedgerPod& plan, const Ledger::Place& place,
                             const std::string& id, const std::string& cgroups_path) {
  Ledger next = ledger_;
  next.PutPod(plan);
  KRUX_ASSIGN_OR_RETURN(const std::string replaced, next.SetInstance(place, id, cgroups_path));
  KRUX_RETURN_IF_ERROR(Commit(std::move(next)));
  if (!replaced.empty()) {
    KRUX_LOG_INFO("container replaced pod={} container={} old_id={} new_id={}", plan.FullName(),
                  place.container, replaced, id);
    ReleaseContainer(replaced, "a new instance takes its place");
  }
  living_.erase(id);
  auto opened = OpenContainer(*ledger_.FindContainer(place), plan.is_private, false);
  if (opened) return Ok();
  ReleaseContainer(id, "it could not be set up");
  return opened.error();
}

Status Agent::OpenContainer(const LedgerContainer& entry, bool is_private, bool is_adopted) {
  Living& living = living_[entry.id];
  living.since = MonotonicNow();
  // A taken up private container has lost its caller together with the old agent.
  living.caller_gone = is_adopted;
  UniqueFd kept;
  if (is_adopted) {
    auto found = fd_store::Get(PluginSocket(), entry.id, kStoreTimeoutMs);
    if (found) kept = std::move(*found);
    if (!kept.valid()) {
      KRUX_LOG_WARN("account lost, a new one is made id={} reason=\"{}\"", entry.id,
                    found.error().message);
    }
  }
  ContainerSpec spec{entry.id, entry.cgroups_path, entry.gpus, is_private, entry.owner};
  Container::Hooks hooks;
  hooks.context_learned = [this](const std::string& uuid, uint64_t bytes) {
    OnContextLearned(uuid, bytes);
  };
  hooks.all_gone = [this, is_private](const std::string& id) {
    if (!is_private) return;
    loop_.Post([this, alive = std::weak_ptr<bool>(alive_), id] {
      if (!alive.expired()) OnPrivateEnd(id);
    });
  };
  KRUX_ASSIGN_OR_RETURN(living.container,
                        Container::Open(ContainerEnv(), std::move(spec), std::move(kept),
                                        is_adopted, std::move(hooks)));
  KeepDescriptor(*living.container);
  return Ok();
}

void Agent::ReleaseContainer(const std::string& id, const std::string& why) {
  const bool is_known = living_.erase(id) > 0 || ledger_.FindInstance(id, nullptr) != nullptr;
  if (!is_known) return;
  Container::RemoveFiles(ContainerEnv(), id);
  worker_->Do([socket = PluginSocket(), id] {
    (void)fd_store::Drop(socket, id, kStoreTimeoutMs);  // the next list of keys corrects it
  });
  Ledger next = ledger_;
  next.ClearInstance(id);
  if (auto committed = Commit(next); !committed) {
    // It is gone all the same; a ledger on disk that still has it only holds room back.
    KRUX_LOG_ERROR("container end not written id={} reason=\"{}\"", id, committed.error().message);
    ledger_ = std::move(next);
  }
  KRUX_LOG_INFO("container ended id={} reason=\"{}\"", id, why);
  FreeFinishedPods();
  TryWaitingSoon();
  CheckIdle();
}

// No container of it lives and none will be started again.
bool Agent::IsOver(const LedgerPod& pod) const {
  if (pod.AnyAlive()) return false;
  if (pod.is_private) return true;
  const Pod* known = FindPod(pod.uid);
  if (known == nullptr) return pods_known_;
  return known->finished || known->deleting;
}

void Agent::FreeFinishedPods() {
  Ledger next = ledger_;
  for (const auto& [uid, pod] : ledger_.pods()) {
    if (!IsOver(pod)) continue;
    KRUX_LOG_INFO("pod freed pod={} pod_uid={}", pod.FullName(), uid);
    next.ErasePod(uid);
  }
  if (next.pods().size() == ledger_.pods().size()) return;
  if (auto committed = Commit(next); !committed) {
    KRUX_LOG_ERROR("freed pods not written reason=\"{}\"", committed.error().message);
    ledger_ = std::move(next);
  }
  TryWaitingSoon();
}

void Agent::OnPrivateEnd(const std::string& id) {
  const auto living = living_.find(id);
  if (living == living_.end() || !living->second.caller_gone) return;
  const Container* container = living->second.container.get();
  if (container != nullptr && container->AnyProcess()) return;
  ReleaseContainer(id, "the command has ended");
}

void Agent::OnContextLearned(const std::string& uuid, uint64_t bytes) {
  if (!cards_->LearnContext(uuid, bytes)) return;
  for (auto& [id, living] : living_) {
    if (living.container != nullptr)
      living.container->SetContextMib(uuid, cards_->ContextMib(uuid));
  }
}

// After a restart: what the ledger calls alive either still is, or ended while nobody looked.
void Agent::AdoptAll() {
  std::map<std::string, std::string> asked;
  std::map<std::string, std::pair<LedgerContainer, bool>> entries;
  for (const auto& [uid, pod] : ledger_.pods()) {
    for (const LedgerContainer& container : pod.containers) {
      if (container.id.empty()) continue;
      asked[container.id] = container.cgroups_path;
      entries.emplace(container.id, std::pair(container, pod.is_private));
    }
  }
  const auto alive = parts_.find_alive(asked);
  for (const auto& [id, entry] : entries) {
    const auto& [container, is_private] = entry;
    const bool lives = is_private ? AnyListedLives(ProcessesFolder() + "/" + id)
                                  : !alive || alive->contains(id) ||
                                        AgeOf(ContainersFolder() + "/" + id) <
                                            static_cast<double>(kTimeToBegin / kSecond);
    if (!lives) {
      ReleaseContainer(id, "it ended while the agent was away");
      continue;
    }
    auto opened = OpenContainer(container, is_private, /*is_adopted=*/true);
    if (opened) {
      KRUX_LOG_INFO("container taken up id={}", id);
    } else {
      KRUX_LOG_ERROR("container not taken up, its room stays held id={} reason=\"{}\"", id,
                     opened.error().message);
    }
  }
  RemoveStrangers();
}

// Folders that no ledger entry stands for: an agent died between the two.
void Agent::RemoveStrangers() {
  std::error_code ignored;
  for (const std::string& folder : {ContainersFolder(), ProcessesFolder()}) {
    std::vector<std::string> strangers;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      const std::string id = entry.path().filename().string();
      if (!living_.contains(id)) strangers.push_back(id);
    }
    for (const std::string& id : strangers) Container::RemoveFiles(ContainerEnv(), id);
  }
}

// The account outlives this process in the plugin. Without it a restart makes a new account.
void Agent::KeepDescriptor(const Container& container) {
  if (options_.ledger_path.empty()) return;
  auto copy = std::make_shared<UniqueFd>(dup(container.account().fd()));
  worker_->Do([socket = PluginSocket(), id = container.spec().id, copy] {
    if (auto kept = fd_store::Put(socket, id, copy->get(), kStoreTimeoutMs); !kept) {
      KRUX_LOG_WARN("account not kept outside the agent id={} reason=\"{}\"", id,
                    kept.error().message);
    }
  });
}

// The plugin may have been restarted: then it has forgotten all; or it has some that are gone.
void Agent::KeepDescriptors() {
  if (options_.ledger_path.empty()) return;
  worker_->Do([this, alive = std::weak_ptr<bool>(alive_), socket = PluginSocket()] {
    auto keys = fd_store::List(socket, kStoreTimeoutMs);
    if (!keys) return;
    loop_.Post([this, alive, socket, keys = std::set<std::string>(keys->begin(), keys->end())] {
      if (alive.expired()) return;
      for (const auto& [id, living] : living_) {
        if (living.container != nullptr && !keys.contains(id)) KeepDescriptor(*living.container);
      }
      for (const std::string& key : keys) {
        if (living_.contains(key)) continue;
        worker_->Do([socket, key] { (void)fd_store::Drop(socket, key, kStoreTimeoutMs); });
      }
    });
  });
}

void Agent::SweepSoon() {
  sweep_timer_ = loop_.After(options_.sweep_period, [this] {
    if (sweeps_++ % kFullSweep == 0) KeepDescriptors();
    Sweep();
  });
}

// Ends that nobody told of (the runtime was killed, the agent was away): each second for pods that
// are over, less often for all others. What counts is that no process is in the cgroup.
void Agent::Sweep() {
  std::map<std::string, std::string> asked;
  for (const auto& [uid, pod] : ledger_.pods()) {
    if (pod.is_private) continue;
    const Pod* known = FindPod(uid);
    const bool is_over = known == nullptr ? pods_known_ : known->finished || known->deleting;
    for (const LedgerContainer& container : pod.containers) {
      if (container.id.empty() || (!is_over && sweeps_ % kFullSweep != 0)) continue;
      const auto living = living_.find(container.id);
      const bool is_young =
          living != living_.end() && MonotonicNow() - living->second.since < kTimeToBegin;
      if (is_over || !is_young) asked[container.id] = container.cgroups_path;
    }
  }
  if (asked.empty()) return SweepSoon();
  worker_->Do([this, alive = std::weak_ptr<bool>(alive_), asked, find = parts_.find_alive] {
    auto found = find(asked);
    loop_.Post([this, alive, asked, found = std::move(found)] {
      if (alive.expired()) return;
      std::set<std::string> ids;
      for (const auto& [id, path] : asked) ids.insert(id);
      if (found) OnSweep(ids, *found);
      SweepSoon();
    });
  });
}

void Agent::OnSweep(const std::set<std::string>& asked, const std::set<std::string>& alive) {
  for (const std::string& id : asked) {
    const auto living = living_.find(id);
    if (living == living_.end()) continue;
    if (alive.contains(id)) {
      living->second.sweeps_without_process = 0;
    } else if (++living->second.sweeps_without_process >= kSweepsToBeGone) {
      ReleaseContainer(id, "no process of it is left");
    }
  }
}

}  // namespace krux::agent
