#include "device_plugin/node_publisher.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>

#include "common/log.h"

namespace krux::device_plugin {
namespace {

constexpr size_t kMaxNodeName = 253;

// A fleet that lost its API server must not come back in step.
Nanos WithJitter(Nanos pause) {
  static thread_local std::minstd_rand random{std::random_device{}()};
  return pause + std::uniform_int_distribution<Nanos>(0, pause / 2)(random);
}

}  // namespace

std::string KruxNodeJson(const std::string& node, const Inventory& inventory) {
  nlohmann::json gpus = nlohmann::json::array();
  for (const Gpu& gpu : inventory.gpus) {
    gpus.push_back({{"uuid", gpu.uuid},
                    {"model", gpu.model},
                    {"memoryMiB", gpu.memory_mib},
                    {"healthy", gpu.healthy}});
    if (gpu.numa_node >= 0) gpus.back()["numaNode"] = gpu.numa_node;
    if (!gpu.linked_to.empty()) gpus.back()["linkedTo"] = gpu.linked_to;
  }
  const nlohmann::json object = {{"apiVersion", "krux.io/v1alpha1"},
                                 {"kind", "KruxNode"},
                                 {"metadata", {{"name", node}}},
                                 {"spec", {{"gpus", std::move(gpus)}}}};
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string KruxNodePath(const std::string& node) {
  return "/apis/krux.io/v1alpha1/kruxnodes/" + node;
}

Status CheckNodeName(const std::string& node) {
  const bool good =
      !node.empty() && node.size() <= kMaxNodeName &&
      std::all_of(node.begin(), node.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
      });
  if (good) return Ok();
  return Error{ErrorCode::kInvalidArgument,
               "node name '" + node + "' is not one that Kubernetes allows: a-z, 0-9, '-' and '.'"};
}

void NodePublisher::Publish(const Inventory& inventory) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    inventory_ = inventory;
    dirty_ = true;
  }
  changed_.notify_all();
}

Nanos NodePublisher::Step(const std::string& json) {
  const Status applied = apply_(KruxNodePath(options_.node), json);
  if (applied) {
    if (retry_ != 0 || logged_ != json) KRUX_LOG_INFO("published KruxNode {}", json);
    logged_ = json;
    retry_ = 0;
    return WithJitter(options_.refresh);
  }
  const std::string text = applied.error().ToString();
  if (text != logged_) KRUX_LOG_WARN("publishing KruxNode: {}; trying again", text);
  logged_ = text;
  retry_ = std::min(retry_ == 0 ? options_.first_retry : retry_ * 2, options_.last_retry);
  return WithJitter(retry_);
}

void NodePublisher::Run(const std::stop_token& stop) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, stop, [this] { return dirty_; });
  while (!stop.stop_requested()) {
    dirty_ = false;
    const std::string json = KruxNodeJson(options_.node, *inventory_);
    lock.unlock();
    const Nanos pause = Step(json);
    lock.lock();
    changed_.wait_for(lock, stop, std::chrono::nanoseconds(pause), [this] { return dirty_; });
  }
}

}  // namespace krux::device_plugin
