// Keeps the plugin registered with the kubelet, for as long as it runs.
//
// Registers within 100 ms after kubelet.sock appears (a kubelet that restarts fails waiting pods of
// plugins that come late); again when kubelet.sock is another file, when the plugin's own socket is
// gone, when the kubelet has ended the ListAndWatch stream, and when none was opened. What happened
// is always read from the file system and the streams; inotify only wakes the loop early.
//
// Thread rule: Run on one thread.
#ifndef KRUX_DEVICE_PLUGIN_REGISTRAR_H_
#define KRUX_DEVICE_PLUGIN_REGISTRAR_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/clock.h"
#include "common/fd.h"
#include "device_plugin/folder_watch.h"
#include "device_plugin/plugin_server.h"

namespace krux::device_plugin {

class Registrar {
 public:
  struct Options {
    std::string folder;              // the kubelet's plugin folder
    PluginService::Options service;  // on_streams_changed is set by the registrar
    // Whether this instance may register; false while a newer one serves the node.
    std::function<bool()> may_register = [] { return true; };
    Nanos first_retry = 20 * kMillisecond;  // then doubled, up to last_retry
    Nanos last_retry = kSecond;
    Nanos slow_poll = 5 * kSecond;     // looks without any event
    Nanos stream_limit = 5 * kSecond;  // registered, but no stream was opened
  };

  Registrar(SlotBoard& board, Options options);

  // Until `stop_fd` is readable. On return the plugin's socket is gone and all calls have ended.
  void Run(int stop_fd);

 private:
  bool MustRegister(Nanos now);
  const char* WhyNotRegistered(const FileIdentity& kubelet, Nanos now) const;
  void Register(Nanos now);
  Status EnsureServer();
  void RetireServer();
  void Failed(const Error& error, Nanos now);
  bool Wait(int stop_fd, Nanos now);  // false: stop
  void LogOnce(const std::string& text);
  std::string KubeletSocket() const { return options_.folder + "/kubelet.sock"; }

  SlotBoard& board_;
  Options options_;
  FolderWatch watch_;
  const std::shared_ptr<UniqueFd>
      wake_;  // an eventfd; streams may outlive the registrar for a moment
  std::unique_ptr<PluginServer> server_;
  std::jthread retiring_;  // ends the last server, which may take 300 ms
  bool registered_ = false;
  FileIdentity seen_kubelet_;        // the last one looked at
  FileIdentity registered_kubelet_;  // the one registered with
  Nanos registered_at_ = 0;
  Nanos retry_at_ = 0;
  Nanos retry_delay_;
  std::string logged_;
};

}  // namespace krux::device_plugin

#endif  // KRUX_DEVICE_PLUGIN_REGISTRAR_H_
