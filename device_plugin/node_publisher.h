// Publishes the node's cards as the KruxNode object, which the scheduler reads:
//
//   {"apiVersion":"krux.io/v1alpha1","kind":"KruxNode","metadata":{"name":"<node>"},
//    "spec":{"gpus":[{"uuid":"GPU-…","model":"NVIDIA H200","memoryMiB":143771,"healthy":true,
//                      "numaNode":0,"linkedTo":["GPU-…"]}]}}
//
// Written when the inventory changes, and every few minutes in case somebody deleted the object (an
// apply that changes nothing costs the API server no write). Failures are tried again with growing
// pauses; nothing else of the plugin ever waits for it.
//
// Thread rule: Publish from any thread, never blocks; Run on a thread of its own.
#ifndef KRUX_DEVICE_PLUGIN_NODE_PUBLISHER_H_
#define KRUX_DEVICE_PLUGIN_NODE_PUBLISHER_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "common/clock.h"
#include "device_plugin/inventory.h"

namespace krux::device_plugin {

std::string KruxNodeJson(const std::string& node, const Inventory& inventory);
std::string KruxNodePath(const std::string& node);

// A node name as Kubernetes allows it (it stands in a URL).
Status CheckNodeName(const std::string& node);

class NodePublisher {
 public:
  using Apply = std::function<Status(const std::string& path, const std::string& json)>;
  struct Options {
    std::string node;
    Nanos first_retry = kSecond;  // then doubled, up to last_retry, each with up to a half more
    Nanos last_retry = 60 * kSecond;
    Nanos refresh = 300 * kSecond;
  };

  NodePublisher(Options options, Apply apply)
      : options_(std::move(options)), apply_(std::move(apply)) {}

  void Publish(const Inventory& inventory);

  // Until the stop is asked for.
  void Run(const std::stop_token& stop);

 private:
  // Applies what there is; the pause until the next try.
  Nanos Step(const std::string& json);

  const Options options_;
  const Apply apply_;
  Nanos retry_ = 0;  // Run's thread only; 0 after a success
  std::string logged_;

  std::mutex mutex_;  // guards all below
  std::condition_variable_any changed_;
  std::optional<Inventory> inventory_;
  bool dirty_ = false;
};

}  // namespace krux::device_plugin

#endif  // KRUX_DEVICE_PLUGIN_NODE_PUBLISHER_H_
