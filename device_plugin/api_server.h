// The Kubernetes API server as far as the plugin needs it: one object, applied.
// Thread rule: thread-safe; each call is one request and blocks for at most 10 s.
#ifndef KRUX_DEVICE_PLUGIN_API_SERVER_H_
#define KRUX_DEVICE_PLUGIN_API_SERVER_H_

#include <string>

#include "common/result.h"

namespace krux::device_plugin {

class ApiServer {
 public:
  struct Options {
    std::string url;         // "https://10.0.0.1:6443"
    std::string ca_file;     // empty: the system's authorities
    std::string token_file;  // read for each request, since the kubelet rotates it; empty: no token
  };

  explicit ApiServer(Options options) : options_(std::move(options)) {}

  // Server-side apply of `json` to the object at `path` ("/apis/…"), made when it does not exist.
  // kUnavailable: the server can't be reached or is busy. kNotFound: it does not know the kind.
  // kPermissionDenied: token missing, stale or without the right.
  Status Apply(const std::string& path, const std::string& json) const;

 private:
  const Options options_;
};

}  // namespace krux::device_plugin

#endif  // KRUX_DEVICE_PLUGIN_API_SERVER_H_
