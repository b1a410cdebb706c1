#include "protocol/agent_api.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "common/unix_socket.h"

namespace krux::api {
namespace {

using nlohmann::json;

constexpr size_t kMaxListEntries = 1024;

Error Invalid(const std::string& message) {
  return Error{ErrorCode::kInvalidArgument, "agent message: " + message};
}

// Reads fields of one object; the first wrong one is kept and the rest is skipped.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {}

  void Text(const char* name, std::string& out) {
    const json* field = Find(name);
    if (field == nullptr) return;
    if (!field->is_string()) return Fail(name, "a text");
    out = field->get<std::string>();
  }
  void NonEmptyText(const char* name, std::string& out) {
    Text(name, out);
    if (ok() && out.empty()) Fail(name, "a text that is not empty");
  }
  void Bool(const char* name, bool& out) {
    const json* field = Find(name);
    if (field == nullptr) return;
    if (!field->is_boolean()) return Fail(name, "true or false");
    out = field->get<bool>();
  }
  void Number(const char* name, uint64_t low, uint64_t high, uint64_t& out) {
    const json* field = Find(name);
    if (field == nullptr) return;
    if (!field->is_number_unsigned() || field->get<uint64_t>() < low ||
        field->get<uint64_t>() > high) {
      return Fail(name,
                  "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
    }
    out = field->get<uint64_t>();
  }
  void Texts(const char* name, std::vector<std::string>& out) {
    for (const json& entry : List(name)) {
      if (!entry.is_string()) return Fail(name, "a list of texts");
      out.push_back(entry.get<std::string>());
    }
  }
  // The list `name`, or an empty one when the field is wrong.
  const json& List(const char* name) {
    static const json empty = json::array();
    const json* field = Find(name);
    if (field == nullptr) return empty;
    if (!field->is_array() || field->size() > kMaxListEntries) {
      Fail(name, "a list of at most " + std::to_string(kMaxListEntries) + " entries");
      return empty;
    }
    return *field;
  }
  void Fail(const char* name, const std::string& wanted) {
    if (ok()) error_ = Invalid(std::string("field '") + name + "' must be " + wanted);
  }
  bool ok() const { return error_.message.empty(); }
  const Error& error() const { return error_; }

 private:
  const json* Find(const char* name) {
    if (!ok()) return nullptr;
    const auto field = object_.find(name);
    if (field == object_.end()) {
      Fail(name, "there");
      return nullptr;
    }
    return &*field;
  }
  const json& object_;
  Error error_;
};

json Envelope(const char* op) { return json{{"v", 1}, {"op", op}}; }

json GpuToJson(const GpuGrant& gpu) {
  return json{{"uuid", gpu.uuid},
              {"memMiB", gpu.memory_mib},
              {"cores", gpu.cores},
              {"policy", ComputePolicyName(gpu.policy)},
              {"priority", PriorityName(gpu.priority)}};
}

Result<GpuGrant> GpuFromJson(const json& object) {
  if (!object.is_object()) return Invalid("a GPU is not an object");
  Fields fields(object);
  GpuGrant gpu;
  uint64_t cores = 0;
  std::string policy;
  std::string priority;
  fields.Text("uuid", gpu.uuid);
  fields.Number("memMiB", 1, kMaxGpuMemoryMib, gpu.memory_mib);
  fields.Number("cores", 0, 100, cores);
  fields.Text("policy", policy);
  fields.Text("priority", priority);
  if (!fields.ok()) return fields.error();
  gpu.cores = static_cast<uint32_t>(cores);
  if (!gpu.uuid.empty()) KRUX_RETURN_IF_ERROR(ParseGpuUuid(gpu.uuid));
  KRUX_ASSIGN_OR_RETURN(gpu.policy, ParseComputePolicy(policy));
  KRUX_ASSIGN_OR_RETURN(gpu.priority, ParsePriority(priority));
  return gpu;
}

Result<std::vector<GpuGrant>> GpusFromJson(Fields& fields) {
  std::vector<GpuGrant> gpus;
  const json& list = fields.List("gpus");
  if (fields.ok() && (list.empty() || list.size() > kMaxGpusPerContainer)) {
    fields.Fail("gpus", "a list of 1 to " + std::to_string(kMaxGpusPerContainer) + " GPUs");
  }
  if (!fields.ok()) return fields.error();
  for (const json& entry : list) {
    KRUX_ASSIGN_OR_RETURN(GpuGrant gpu, GpuFromJson(entry));
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

json GpusToJson(const std::vector<GpuGrant>& gpus) {
  json list = json::array();
  for (const GpuGrant& gpu : gpus) list.push_back(GpuToJson(gpu));
  return list;
}

struct ToJson {
  json operator()(const CreateRequest& r) const {
    json j = Envelope("create");
    j.update({{"containerId", r.container_id},
              {"podUid", r.pod_uid},
              {"podNamespace", r.pod_namespace},
              {"podName", r.pod_name},
              {"container", r.container_name},
              {"cgroupsPath", r.cgroups_path}});
    return j;
  }
  json operator()(const DeleteRequest& r) const {
    json j = Envelope("delete");
    j["containerId"] = r.container_id;
    return j;
  }
  json operator()(const GateRequest& r) const {
    json j = Envelope("gate");
    j["deviceIds"] = r.device_ids;
    return j;
  }
  json operator()(const RunRequest& r) const {
    json j = Envelope("run");
    j["gpus"] = GpusToJson(r.gpus);
    return j;
  }
  json operator()(const SetRequest& r) const {
    json j = Envelope("set");
    j.update({{"target", r.target}, {"cores", r.cores}, {"policy", r.policy}});
    return j;
  }
  json operator()(const StatusRequest&) const { return Envelope("status"); }
};

Result<Request> ParseByOp(const std::string& op, Fields& fields) {
  if (op == "create") {
    CreateRequest r;
    fields.NonEmptyText("containerId", r.container_id);
    fields.NonEmptyText("podUid", r.pod_uid);
    fields.Text("podNamespace", r.pod_namespace);
    fields.Text("podName", r.pod_name);
    fields.NonEmptyText("container", r.container_name);
    fields.Text("cgroupsPath", r.cgroups_path);
    if (!fields.ok()) return fields.error();
    return Request(std::move(r));
  }
  if (op == "delete") {
    DeleteRequest r;
    fields.NonEmptyText("containerId", r.container_id);
    if (!fields.ok()) return fields.error();
    return Request(std::move(r));
  }
  if (op == "gate") {
    GateRequest r;
    fields.Texts("deviceIds", r.device_ids);
    if (!fields.ok()) return fields.error();
    return Request(std::move(r));
  }
  if (op == "run") {
    RunRequest r;
    KRUX_ASSIGN_OR_RETURN(r.gpus, GpusFromJson(fields));
    return Request(std::move(r));
  }
  if (op == "set") {
    SetRequest r;
    fields.NonEmptyText("target", r.target);
    fields.Number("cores", 0, 100, r.cores);
    fields.Text("policy", r.policy);
    if (!fields.ok()) return fields.error();
    if (!r.policy.empty()) KRUX_RETURN_IF_ERROR(ParseComputePolicy(r.policy));
    return Request(std::move(r));
  }
  if (op == "status") return Request(StatusRequest{});
  return Invalid("op '" + op.substr(0, 32) +
                 "' is unknown: create, delete, gate, run, set or status");
}

// The object of an answer that says ok, or the Error that it carries.
Result<json> OpenAnswer(std::string_view text) {
  json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const Error damaged{ErrorCode::kDataLoss, "the agent's answer is damaged"};
  if (!root.is_object()) return damaged;
  const auto ok = root.find("ok");
  if (ok == root.end() || !ok->is_boolean()) return damaged;
  if (ok->get<bool>()) return root;
  const auto code = root.find("code");
  const auto error = root.find("error");
  if (code == root.end() || !code->is_number_integer() || error == root.end() ||
      !error->is_string()) {
    return damaged;
  }
  return Error{static_cast<ErrorCode>(code->get<int>()), error->get<std::string>()};
}

json OkAnswer() { return json{{"v", 1}, {"ok", true}}; }

}  // namespace

std::string RequestToJson(const Request& request) { return std::visit(ToJson{}, request).dump(); }

Result<Request> ParseRequest(std::string_view text) {
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return Invalid("not a JSON object");
  Fields fields(root);
  uint64_t version = 0;
  std::string op;
  fields.Number("v", 1, 1, version);
  fields.Text("op", op);
  if (!fields.ok()) return fields.error();
  return ParseByOp(op, fields);
}

std::string AnswerToJson(const CreateAnswer& answer) {
  json mounts = json::array();
  for (const Mount& mount : answer.mounts) {
    mounts.push_back(
        {{"host", mount.host}, {"container", mount.container}, {"readOnly", mount.read_only}});
  }
  json j = OkAnswer();
  j.update({{"granted", answer.granted},
            {"reason", answer.reason},
            {"deviceNodes", answer.device_nodes},
            {"driverFiles", answer.driver_files},
            {"mounts", std::move(mounts)},
            {"limiter", answer.limiter_path}});
  return j.dump();
}

std::string AnswerToJson(const RunAnswer& answer) {
  json j = OkAnswer();
  j.update({{"folder", answer.folder},
            {"gpus", GpusToJson(answer.gpus)},
            {"limiter", answer.limiter_path},
            {"driverFolders", answer.driver_folders}});
  return j.dump();
}

std::string EmptyAnswerJson() { return OkAnswer().dump(); }

std::string ErrorToJson(const Error& error) {
  // Messages can quote text of others: bytes that are no UTF-8 are replaced, never thrown about.
  return json{
      {"v", 1}, {"ok", false}, {"code", static_cast<int>(error.code)}, {"error", error.message}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<CreateAnswer> ParseCreateAnswer(std::string_view text) {
  KRUX_ASSIGN_OR_RETURN(const json root, OpenAnswer(text));
  Fields fields(root);
  CreateAnswer answer;
  fields.Bool("granted", answer.granted);
  fields.Text("reason", answer.reason);
  fields.Texts("deviceNodes", answer.device_nodes);
  fields.Texts("driverFiles", answer.driver_files);
  fields.Text("limiter", answer.limiter_path);
  for (const json& entry : fields.List("mounts")) {
    if (!entry.is_object()) return Invalid("a mount is not an object");
    Fields mount_fields(entry);
    Mount mount;
    mount_fields.NonEmptyText("host", mount.host);
    mount_fields.NonEmptyText("container", mount.container);
    mount_fields.Bool("readOnly", mount.read_only);
    if (!mount_fields.ok()) return mount_fields.error();
    answer.mounts.push_back(std::move(mount));
  }
  if (!fields.ok()) return fields.error();
  return answer;
}

Result<RunAnswer> ParseRunAnswer(std::string_view text) {
  KRUX_ASSIGN_OR_RETURN(const json root, OpenAnswer(text));
  Fields fields(root);
  RunAnswer answer;
  fields.NonEmptyText("folder", answer.folder);
  fields.Text("limiter", answer.limiter_path);
  fields.Texts("driverFolders", answer.driver_folders);
  KRUX_ASSIGN_OR_RETURN(answer.gpus, GpusFromJson(fields));
  return answer;
}

Status ParseEmptyAnswer(std::string_view text) {
  KRUX_RETURN_IF_ERROR(OpenAnswer(text));
  return Ok();
}

Result<std::string> Ask(const std::string& socket_path, const Request& request, int timeout_ms) {
  KRUX_ASSIGN_OR_RETURN(const UniqueFd socket, ConnectUnix(socket_path).With("the Krux agent"));
  KRUX_RETURN_IF_ERROR(SendMessage(socket.get(), RequestToJson(request)));
  KRUX_ASSIGN_OR_RETURN(
      Message answer, ReceiveMessage(socket.get(), timeout_ms).With("waiting for the Krux agent"));
  if (answer.bytes.empty()) {
    return Error{ErrorCode::kUnavailable, "the Krux agent closed the connection without an answer"};
  }
  return std::move(answer.bytes);
}

}  // namespace krux::api
