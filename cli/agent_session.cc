#include "cli/agent_session.h"

#include <unistd.h>
#include <nlohmann/json.hpp>

#include <utility>

#include "cli/local_agent.h"
#include "common/unix_socket.h"
#include "protocol/names.h"

namespace krux::cli {
namespace {

using nlohmann::json;

constexpr int kAnswerMs = 30'000;
constexpr int kTries = 3;

std::string NodeSocket() { return std::string(names::kRunFolder) + "/" + names::kAgentSocket; }

bool Answers(const std::string& socket) { return ConnectUnix(socket).has_value(); }

// A Krux container has its limits from outside; so has a command of `krux run`.
Status CheckNotInside() {
  const std::string limits = std::string(names::kContainerMount) + "/" + names::kLimitsFile;
  if (access(limits.c_str(), F_OK) == 0) {
    return Error{ErrorCode::kFailedPrecondition,
                 "this is a Krux container already: its limits hold, run the command directly"};
  }
  if (getenv(names::kFolderVariable) != nullptr) {
    return Error{ErrorCode::kFailedPrecondition,
                 "this runs inside `krux run` already: its limits hold, run the command directly"};
  }
  return Ok();
}

struct KnownCard {
  std::string uuid;
  uint64_t memory_mib = 0;
};

struct KnownAgent {
  std::string driver;
  std::string driver_reason;
  std::vector<KnownCard> cards;
};

Result<KnownAgent> Learn(const std::string& socket) {
  KRUX_ASSIGN_OR_RETURN(const std::string text, api::Ask(socket, api::StatusRequest{}, kAnswerMs));
  KRUX_RETURN_IF_ERROR(api::ParseEmptyAnswer(text));
  const json root = json::parse(text, nullptr, false);
  KnownAgent agent;
  const auto text_of = [](const json& object, const char* name) {
    const auto field = object.find(name);
    return field != object.end() && field->is_string() ? field->get<std::string>() : std::string();
  };
  agent.driver = text_of(root, "driver");
  agent.driver_reason = text_of(root, "driverReason");
  const auto cards = root.find("gpus");
  if (cards == root.end() || !cards->is_array()) return agent;
  for (const json& card : *cards) {
    if (!card.is_object()) continue;
    KnownCard known{text_of(card, "uuid"), 0};
    const auto memory = card.find("memoryMiB");
    if (memory != card.end() && memory->is_number_unsigned()) known.memory_mib = *memory;
    agent.cards.push_back(std::move(known));
  }
  return agent;
}

// Fills in what only the agent knows: the card of an index, the memory of "all".
Result<GpuGrant> Complete(const RunPlan& plan, const KnownAgent& agent) {
  if (agent.cards.empty()) {
    return Error{ErrorCode::kNotFound,
                 "no GPU found" +
                     (agent.driver_reason.empty() ? "" : " (" + agent.driver_reason + ")") +
                     ": install the NVIDIA driver, or use --gpu sim for the simulated card"};
  }
  if (plan.driver != "auto" && !agent.driver.empty() && plan.driver != agent.driver) {
    return Error{ErrorCode::kFailedPrecondition,
                 "--gpu " + plan.driver + ": the agent that runs serves '" + agent.driver +
                     "' cards; end its commands first or choose another --run-folder"};
  }
  GpuGrant grant = plan.grant;
  if (plan.gpu_index) {
    if (*plan.gpu_index >= agent.cards.size()) {
      return Error{ErrorCode::kInvalidArgument,
                   "--gpu " + std::to_string(*plan.gpu_index) + ": there are " +
                       std::to_string(agent.cards.size()) + " cards, counted from 0"};
    }
    grant.uuid = agent.cards[*plan.gpu_index].uuid;
  }
  if (grant.memory_mib != 0) return grant;
  for (const KnownCard& card : agent.cards) {
    if (!grant.uuid.empty() && grant.uuid != card.uuid) continue;
    grant.memory_mib = card.memory_mib;
    break;
  }
  if (grant.memory_mib != 0) return grant;
  return Error{ErrorCode::kNotFound, "no card " + grant.uuid + " here: `krux status` lists them"};
}

Result<Session> Request(const std::string& socket, const RunPlan& plan) {
  KRUX_ASSIGN_OR_RETURN(const KnownAgent agent, Learn(socket));
  KRUX_ASSIGN_OR_RETURN(GpuGrant grant, Complete(plan, agent));
  api::RunRequest request;
  request.gpus.push_back(std::move(grant));
  Session session;
  KRUX_ASSIGN_OR_RETURN(session.connection, ConnectUnix(socket));
  KRUX_RETURN_IF_ERROR(SendMessage(session.connection.get(), api::RequestToJson(request)));
  KRUX_ASSIGN_OR_RETURN(const Message answer, ReceiveMessage(session.connection.get(), kAnswerMs));
  if (answer.bytes.empty()) {
    return Error{ErrorCode::kUnavailable, "the Krux agent closed the connection"};
  }
  KRUX_ASSIGN_OR_RETURN(session.answer, api::ParseRunAnswer(answer.bytes));
  return session;
}

bool IsGone(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kNotFound;
}

}  // namespace

Result<Session> OpenSession(const RunPlan& plan) {
  KRUX_RETURN_IF_ERROR(CheckNotInside());
  if (plan.run_folder.empty() && Answers(NodeSocket())) return Request(NodeSocket(), plan);
  const std::string folder = LocalFolder(plan.run_folder);
  const std::string socket = folder + "/" + names::kAgentSocket;
  KRUX_RETURN_IF_ERROR(PrepareFolder(folder));
  const std::string sim_folder = SimFolder(folder);
  for (int i = 1;; ++i) {
    KRUX_RETURN_IF_ERROR(EnsureLocalAgent(folder, plan.driver, sim_folder));
    auto session = Request(socket, plan);
    // An agent that was about to end, with its last client gone, is no answer: start another.
    const bool again = !session && IsGone(session.error()) && !Answers(socket) && i < kTries;
    if (again) continue;
    if (session) session->sim_folder = sim_folder;
    return session;
  }
}

namespace {

Result<std::string> AskAny(const std::string& run_folder, const api::Request& request) {
  std::string socket = NodeSocket();
  if (!run_folder.empty() || !Answers(socket)) {
    socket = LocalFolder(run_folder) + "/" + names::kAgentSocket;
  }
  auto text = api::Ask(socket, request, kAnswerMs);
  if (!text && IsGone(text.error())) {
    return Error{ErrorCode::kUnavailable, "no Krux agent runs here: nobody answers on " + socket};
  }
  return text;
}

}  // namespace

Result<std::string> AskStatus(const std::string& run_folder) {
  return AskAny(run_folder, api::StatusRequest{});
}

Status SetShares(const std::string& run_folder, const api::SetRequest& request) {
  KRUX_ASSIGN_OR_RETURN(const std::string answer, AskAny(run_folder, request));
  return api::ParseEmptyAnswer(answer);
}

}  // namespace krux::cli
