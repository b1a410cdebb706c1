// The part of Agent that knows the pods, and when there is nothing left to do.
#include <utility>

#include "agent/agent.h"
#include "common/log.h"
#include "protocol/names.h"

namespace krux::agent {
void Agent::OnPodEvent(PodEvent event) {
  switch (event.kind) {
    case PodEvent::Kind::kChanged:
      pods_[event.pod.uid] = std::move(event.pod);
      break;
    case PodEvent::Kind::kGone:
      pods_.erase(event.uid);
      break;
    case PodEvent::Kind::kSynced:
      std::erase_if(pods_, [&](const auto& entry) { return !event.uids.contains(entry.first); });
      if (!pods_known_) KRUX_LOG_INFO("pods known count={}", pods_.size());
      pods_known_ = true;
      pods_trouble_.clear();
      break;
    case PodEvent::Kind::kTrouble:
      if (pods_trouble_ != event.reason) {
        KRUX_LOG_WARN("pods not known now reason=\"{}\"", event.reason);
      }
      pods_known_ = false;
      pods_trouble_ = std::move(event.reason);
      break;
  }
  FreeFinishedPods();
  TryWaitingSoon();
}

const Pod* Agent::FindPod(const std::string& uid) const {
  const auto found = pods_.find(uid);
  return found == pods_.end() ? nullptr : &found->second;
}

const Pod* Agent::FindOwner(const DeviceOwner& owner) const {
  if (!owner.pod_uid.empty()) return FindPod(owner.pod_uid);
  const Pod* best = nullptr;
  for (const auto& [uid, pod] : pods_) {
    if (pod.name_space != owner.name_space || pod.name != owner.pod_name) continue;
    // Of two pods of one name the older one is on its way out.
    if (best == nullptr || best->deleting || best->finished) best = &pod;
  }
  return best;
}

NodeView Agent::View() const { return NodeView{options_.node, cards_->View(), pods_known_}; }

void Agent::CheckIdle() {
  if (!options_.exit_when_idle || server_ == nullptr) return;
  loop_.Cancel(idle_timer_);
  had_client_ = had_client_ || server_->connections() > 0;
  if (server_->connections() > 0 || !living_.empty()) return;
  idle_timer_ = loop_.After(had_client_ ? options_.idle_time : options_.first_client_time, [this] {
    KRUX_LOG_INFO("no client left, ending");
    loop_.Stop();
  });
}

Container::Env Agent::ContainerEnv() {
  return Container::Env{loop_,
                        leases_,
                        *cards_,
                        ContainersFolder(),
                        ProcessesFolder(),
                        parts_.check_peer,
                        options_.over_limit,
                        options_.look_period};
}

std::string Agent::ContainersFolder() const {
  return options_.run_folder + "/" + names::kContainersFolder;
}

std::string Agent::ProcessesFolder() const { return options_.run_folder + "/processes"; }

std::string Agent::PluginSocket() const { return options_.run_folder + "/" + names::kPluginSocket; }

}  // namespace krux::agent
