// The part of Agent that shows what it holds, for people and tests.
#include <nlohmann/json.hpp>
#include <utility>

#include "agent/agent.h"
#include "common/unix_socket.h"

namespace krux::agent {
namespace {

using nlohmann::json;

constexpr size_t kMaxAnswerBytes = kMaxMessageBytes - 1024;

json GpuOf(const GpuGrant& grant, const Container* container, uint32_t index,
           const std::vector<LeaseService::TenantView>& leases) {
  json gpu{{"uuid", grant.uuid},
           {"memMiB", grant.memory_mib},
           {"cores", grant.cores},
           {"policy", ComputePolicyName(grant.policy)},
           {"priority", PriorityName(grant.priority)}};
  if (container == nullptr) return gpu;
  gpu["usedBytes"] = container->account().Used(index);
  for (const LeaseService::TenantView& view : leases) {
    if (view.tenant != container->spec().id || view.page_gpu != index) continue;
    gpu["share1s"] = view.lease.share_1s;
    gpu["share60s"] = view.lease.share_60s;
    gpu["usedNanos"] = view.lease.used;
    gpu["holding"] = view.lease.holding;
    gpu["waiting"] = view.lease.waiting;
    gpu["straggling"] = view.lease.straggling;
    gpu["together"] = view.together;
    gpu["waitingNanos"] = view.lease.waiting_for;
    gpu["waitedNanos"] = view.lease.waited;
    gpu["leases"] = view.lease.leases;
  }
  return gpu;
}

json ProcessesOf(const Container& container) {
  json list = json::array();
  for (const LimiterSessions::ProcessView& process : container.Processes()) {
    json charged = json::array();
    for (uint32_t g = 0; g < container.spec().gpus.size(); ++g) {
      charged.push_back(container.account().Charged(process.slot, g));
    }
    list.push_back({{"slot", process.slot},
                    {"pid", process.pid},
                    {"connected", process.connected},
                    {"ended", process.ended},
                    {"chargedBytes", std::move(charged)}});
  }
  return list;
}

}  // namespace

std::string Agent::StatusJson() const {
  const std::vector<LeaseService::TenantView> leases = leases_.Snapshot();
  json gpus = json::array();
  for (const Card& card : cards_->View()) {
    const GpuLoad load = ledger_.LoadOf(card.uuid);
    gpus.push_back({{"uuid", card.uuid},
                    {"memoryMiB", card.memory_mib},
                    {"model", cards_->Find(card.uuid)->model},
                    {"trouble", card.trouble},
                    {"grantedMiB", load.memory_mib},
                    {"grantedCores", load.cores},
                    {"contextMiB", cards_->ContextMib(card.uuid)}});
  }
  json pods = json::array();
  for (const auto& [uid, pod] : ledger_.pods()) {
    json containers = json::array();
    for (const LedgerContainer& entry : pod.containers) {
      const auto living = living_.find(entry.id);
      const Container* container =
          living == living_.end() ? nullptr : living->second.container.get();
      json shown{{"name", entry.name},
                 {"id", entry.id},
                 {"kind", static_cast<int>(entry.kind)},
                 {"gpus", json::array()}};
      for (uint32_t g = 0; g < entry.gpus.size(); ++g) {
        shown["gpus"].push_back(GpuOf(entry.gpus[g], container, g, leases));
      }
      if (container != nullptr) shown["processes"] = ProcessesOf(*container);
      containers.push_back(std::move(shown));
    }
    pods.push_back({{"uid", uid},
                    {"namespace", pod.name_space},
                    {"name", pod.name},
                    {"private", pod.is_private},
                    {"containers", std::move(containers)}});
  }
  json root{{"v", 1},
            {"ok", true},
            {"node", options_.node},
            {"version", KRUX_VERSION},
            {"driver", gpu::DriverKindName(cards_->driver().kind)},
            {"driverReason", cards_->driver().reason},
            {"podsKnown", pods_known_},
            {"podsTrouble", pods_trouble_},
            {"podsSeen", pods_.size()},
            {"waiting", waiting_.size()},
            {"gpus", std::move(gpus)},
            {"pods", std::move(pods)}};
  const auto dump = [&] { return root.dump(-1, ' ', false, json::error_handler_t::replace); };
  std::string text = dump();
  if (text.size() <= kMaxAnswerBytes) return text;
  // One message has a limit: the processes go first, then the containers.
  root["cutOff"] = "processes";
  for (json& pod : root["pods"]) {
    for (json& container : pod["containers"]) container.erase("processes");
  }
  text = dump();
  if (text.size() <= kMaxAnswerBytes) return text;
  root["cutOff"] = "pods";
  root["pods"] = json::array();
  return dump();
}

}  // namespace krux::agent
