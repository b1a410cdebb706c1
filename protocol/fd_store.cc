#include "protocol/fd_store.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "protocol/agent_api.h"

namespace krux::fd_store {
namespace {

using nlohmann::json;

Error Invalid(const std::string& message) {
  return Error{ErrorCode::kInvalidArgument, "descriptor store: " + message};
}

bool IsKey(const std::string& key) {
  return !key.empty() && key.size() <= kMaxKeyBytes &&
         std::all_of(key.begin(), key.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
         });
}

Result<std::string> TextField(const json& object, const char* name) {
  const auto field = object.find(name);
  if (field == object.end() || !field->is_string()) {
    return Invalid(std::string("field '") + name + "' is missing or is not a text");
  }
  return field->get<std::string>();
}

Result<json> ParseObject(const std::string& text) {
  json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return Invalid("the message is not a JSON object");
  const auto version = root.find("v");
  if (version == root.end() || *version != 1) return Invalid("the message's version is not 1");
  return root;
}

Result<Message> Ask(const std::string& socket_path, const json& request,
                    const std::vector<int>& fds, int timeout_ms) {
  KRUX_ASSIGN_OR_RETURN(const UniqueFd socket, ConnectUnix(socket_path).With("descriptor store"));
  KRUX_RETURN_IF_ERROR(SendMessage(socket.get(), request.dump(), fds));
  KRUX_ASSIGN_OR_RETURN(Message answer,
                        ReceiveMessage(socket.get(), timeout_ms).With("descriptor store"));
  KRUX_RETURN_IF_ERROR(api::ParseEmptyAnswer(answer.bytes));
  return answer;
}

json Request(const char* op, const std::string& key) {
  return json{{"v", 1}, {"op", op}, {"key", key}};
}

}  // namespace

Status Put(const std::string& socket_path, const std::string& key, int fd, int timeout_ms) {
  KRUX_RETURN_IF_ERROR(Ask(socket_path, Request("put", key), {fd}, timeout_ms));
  return Ok();
}

Result<UniqueFd> Get(const std::string& socket_path, const std::string& key, int timeout_ms) {
  KRUX_ASSIGN_OR_RETURN(Message answer, Ask(socket_path, Request("get", key), {}, timeout_ms));
  if (answer.fds.size() != 1) {
    return Error{ErrorCode::kDataLoss, "descriptor store: the answer carries no descriptor"};
  }
  return std::move(answer.fds[0]);
}

Status Drop(const std::string& socket_path, const std::string& key, int timeout_ms) {
  KRUX_RETURN_IF_ERROR(Ask(socket_path, Request("drop", key), {}, timeout_ms));
  return Ok();
}

Result<std::vector<std::string>> List(const std::string& socket_path, int timeout_ms) {
  KRUX_ASSIGN_OR_RETURN(const Message answer,
                        Ask(socket_path, json{{"v", 1}, {"op", "list"}}, {}, timeout_ms));
  KRUX_ASSIGN_OR_RETURN(const json root, ParseObject(answer.bytes));
  const auto keys = root.find("keys");
  if (keys == root.end() || !keys->is_array()) {
    return Error{ErrorCode::kDataLoss, "descriptor store: the answer carries no list of keys"};
  }
  std::vector<std::string> list;
  for (const json& key : *keys) {
    if (key.is_string()) list.push_back(key.get<std::string>());
  }
  return list;
}

Status Store::Put(const std::string& key, std::vector<UniqueFd> fds) {
  if (fds.size() != 1) return Invalid("put needs exactly one descriptor");
  if (!fds_.contains(key) && fds_.size() >= kMaxStored) {
    return Error{ErrorCode::kResourceExhausted,
                 "descriptor store: it holds " + std::to_string(kMaxStored) +
                     " descriptors already; drop those of containers that are gone"};
  }
  fds_[key] = std::move(fds[0]);
  return Ok();
}

Store::Answer Store::Handle(Message message) {
  const auto refuse = [](const Error& error) { return Answer{api::ErrorToJson(error)}; };
  auto root = ParseObject(message.bytes);
  if (!root) return refuse(root.error());
  auto op = TextField(*root, "op");
  if (!op) return refuse(op.error());
  if (*op == "list") {
    json keys = json::array();
    for (const auto& [key, fd] : fds_) keys.push_back(key);
    return Answer{json{{"v", 1}, {"ok", true}, {"keys", std::move(keys)}}.dump()};
  }
  auto key = TextField(*root, "key");
  if (!key) return refuse(key.error());
  if (!IsKey(*key)) return refuse(Invalid("the key is not a container id"));
  if (*op == "put") {
    if (auto stored = Put(*key, std::move(message.fds)); !stored) return refuse(stored.error());
    return Answer{api::EmptyAnswerJson()};
  }
  if (*op == "get") {
    const auto found = fds_.find(*key);
    if (found == fds_.end()) {
      return refuse(Error{ErrorCode::kNotFound, "descriptor store: nothing under " + *key});
    }
    return Answer{api::EmptyAnswerJson(), found->second.get()};
  }
  if (*op == "drop") {
    fds_.erase(*key);
    return Answer{api::EmptyAnswerJson()};
  }
  return refuse(Invalid("the op is unknown: put, get, drop or list"));
}

}  // namespace krux::fd_store
