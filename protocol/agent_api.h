// Requests to the agent on <run folder>/agent.sock (SOCK_SEQPACKET, root only, SO_PEERCRED): one
// JSON object asks, one answers, then the connection is closed, except for "run", which holds a
// private container as long as the connection lives.
//
//   who             op        asks                                   answer
//   krux-runtime    create    a container is about to be created     CreateAnswer
//   krux-runtime    delete    the container is deleted               {}
//   device plugin   gate      may this set of slots start?           {} or an error (retryable)
//   krux            run       a private container for one command    RunAnswer
//   krux            set       other shares for a living container     {}
//   krux, tests     status    everything the agent holds             an object, for people and
//   tests
//
// Every request: {"v":1,"op":"…",…}; every answer: {"v":1,"ok":true,…} or
// {"v":1,"ok":false,"code":5,"error":"one sentence that says what to do"}.
// Fields unknown to the reader are ignored; wrong or missing ones are refused by name.
//
// Header and functions link nothing but nlohmann/json (header-only): the static runtime uses them.
// Thread rule: pure functions.
#ifndef KRUX_PROTOCOL_AGENT_API_H_
#define KRUX_PROTOCOL_AGENT_API_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/result.h"
#include "protocol/grant.h"

namespace krux::api {

// The identity comes from the OCI spec's annotations, written by containerd or CRI-O.
struct CreateRequest {
  std::string container_id;
  std::string pod_uid;
  std::string pod_namespace;
  std::string pod_name;
  std::string container_name;
  std::string cgroups_path;  // linux.cgroupsPath of the spec
  bool operator==(const CreateRequest&) const = default;
};

// A file or folder of the host that goes into the container.
struct Mount {
  std::string host;
  std::string container;
  bool read_only = true;
  bool operator==(const Mount&) const = default;
};

// What the runtime must do with the spec. granted false: plain runc, no device, no driver file,
// NVIDIA_* variables taken out (the container asked for no GPU). An error answer: create fails.
struct CreateAnswer {
  bool granted = false;
  std::string reason;                     // when not granted: why, for the log
  std::vector<std::string> device_nodes;  // /dev/nvidia0, ... of exactly the granted GPUs
  std::vector<std::string> driver_files;  // host paths of libraries (libcuda.so.1, ...): the
                                          // runtime puts each, under its own file name, where the
                                          // image's loader looks
  std::vector<Mount> mounts;              // others: the container's folder, the simulated card
  std::string limiter_path;               // host path of libkrux.so
  bool operator==(const CreateAnswer&) const = default;
};

struct DeleteRequest {
  std::string container_id;
  bool operator==(const DeleteRequest&) const = default;
};

struct GateRequest {
  std::vector<std::string> device_ids;  // krux-<n>
  bool operator==(const GateRequest&) const = default;
};

struct RunRequest {
  std::vector<GpuGrant> gpus;  // uuid empty: any card with room
  bool operator==(const RunRequest&) const = default;
};

struct RunAnswer {
  std::string folder;          // the container's folder on this host
  std::vector<GpuGrant> gpus;  // with the UUIDs chosen
  std::string limiter_path;
  std::vector<std::string> driver_folders;  // for LD_LIBRARY_PATH when the simulated card is used
  bool operator==(const RunAnswer&) const = default;
};

// In force at once, until the container ends; its next instance has its grant again.
struct SetRequest {
  std::string target;  // container id, "namespace/pod" or "namespace/pod/container"
  uint64_t cores = 0;  // percent of each of its cards, 0 .. 100
  std::string policy;  // empty: as it is
  bool operator==(const SetRequest&) const = default;
};

struct StatusRequest {
  bool operator==(const StatusRequest&) const = default;
};

using Request =
    std::variant<CreateRequest, DeleteRequest, GateRequest, RunRequest, SetRequest, StatusRequest>;

std::string RequestToJson(const Request& request);
Result<Request> ParseRequest(std::string_view json);

std::string AnswerToJson(const CreateAnswer& answer);
std::string AnswerToJson(const RunAnswer& answer);
std::string EmptyAnswerJson();
std::string ErrorToJson(const Error& error);

// An {"ok":false} answer becomes its Error; a damaged one kDataLoss.
Result<CreateAnswer> ParseCreateAnswer(std::string_view json);
Result<RunAnswer> ParseRunAnswer(std::string_view json);
Status ParseEmptyAnswer(std::string_view json);

// One request and its answer over `socket_path`, waiting at most timeout_ms.
Result<std::string> Ask(const std::string& socket_path, const Request& request, int timeout_ms);

}  // namespace krux::api

#endif  // KRUX_PROTOCOL_AGENT_API_H_
