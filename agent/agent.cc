#include "agent/agent.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/file.h"
#include "common/log.h"
#include "protocol/names.h"

namespace krux::agent {
namespace {

void Answer(const std::shared_ptr<Caller>& caller, const Error& error, const std::string& what) {
  KRUX_LOG_WARN("refused {} code={} reason=\"{}\"", what, ErrorCodeName(error.code), error.message);
  caller->Answer(api::ErrorToJson(error));
}

std::string NameOf(const api::CreateRequest& request) {
  return request.pod_namespace + "/" + request.pod_name + "/" + request.container_name;
}

}  // namespace

Agent::Agent(Options options, Parts parts)
    : options_(std::move(options)),
      parts_(std::move(parts)),
      loop_(*parts_.loop),
      leases_(*parts_.leases),
      worker_(std::make_unique<Worker>()) {}

Result<std::unique_ptr<Agent>> Agent::Start(Options options, Parts parts) {
  std::unique_ptr<Agent> agent(new Agent(std::move(options), std::move(parts)));
  KRUX_RETURN_IF_ERROR(agent->Open());
  return agent;
}

Status Agent::Open() {
  // First of all: a second agent on the same folder must change nothing.
  KRUX_RETURN_IF_ERROR(TakeRunFolder());
  KRUX_RETURN_IF_ERROR(MakeDirectories(ContainersFolder(), 0755));
  KRUX_RETURN_IF_ERROR(MakeDirectories(ProcessesFolder(), 0700));
  if (!options_.ledger_path.empty()) {
    KRUX_ASSIGN_OR_RETURN(ledger_, LoadLedger(options_.ledger_path));
  }
  KRUX_ASSIGN_OR_RETURN(cards_,
                        CardWatch::Start(loop_, parts_.probe, [this] { TryWaitingSoon(); }));
  AdoptAll();
  SweepSoon();
  if (parts_.pods != nullptr) {
    parts_.pods->Start([this, alive = std::weak_ptr<bool>(alive_)](PodEvent event) {
      loop_.Post([this, alive, event = std::move(event)] {
        if (!alive.expired()) OnPodEvent(event);
      });
    });
  }
  KRUX_ASSIGN_OR_RETURN(server_, RequestServer::Listen(
                                     loop_, options_.run_folder + "/" + names::kAgentSocket,
                                     [this](api::Request request, const CallerPtr& caller) {
                                       OnRequest(std::move(request), caller);
                                     },
                                     [this] { CheckIdle(); }));
  CheckIdle();
  return Ok();
}

Status Agent::TakeRunFolder() {
  KRUX_RETURN_IF_ERROR(MakeDirectories(options_.run_folder, 0755));
  const std::string path = options_.run_folder + "/agent.lock";
  lock_.Reset(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock_.valid()) return ErrnoError(errno, "opening " + path);
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return Ok();
  return Error{ErrorCode::kAlreadyExists,
               "another krux-agent runs with the run folder " + options_.run_folder};
}

Agent::~Agent() {
  alive_.reset();
  parts_.pods.reset();
  worker_.reset();
  loop_.Cancel(sweep_timer_);
  loop_.Cancel(idle_timer_);
  for (Waiting& waiting : waiting_) loop_.Cancel(waiting.deadline);
  server_.reset();
  // Not one tenant after the other: the windows of those that are left would grow.
  for (auto& [id, living] : living_) {
    if (living.container != nullptr) living.container->LeaveLeases();
  }
  parts_.leases.reset();
  living_.clear();
}

void Agent::OnRequest(api::Request request, const CallerPtr& caller) {
  if (const auto* create = std::get_if<api::CreateRequest>(&request)) {
    OnCreate(*create, caller);
  } else if (const auto* end = std::get_if<api::DeleteRequest>(&request)) {
    OnDelete(*end, caller);
  } else if (const auto* gate = std::get_if<api::GateRequest>(&request)) {
    OnGate(*gate, caller);
  } else if (const auto* run = std::get_if<api::RunRequest>(&request)) {
    OnRun(*run, caller);
  } else if (const auto* set = std::get_if<api::SetRequest>(&request)) {
    OnSet(*set, caller);
  } else {
    caller->Answer(StatusJson());
  }
}

void Agent::OnCreate(const api::CreateRequest& request, const CallerPtr& caller) {
  if (auto checked = CheckContainerId(request.container_id); !checked) {
    return Answer(caller, checked.error(), "create");
  }
  if (parts_.pods == nullptr) {
    return Answer(caller,
                  Error{ErrorCode::kFailedPrecondition,
                        "this agent serves `krux run` alone (--local) and knows no pods"},
                  "create");
  }
  WaitFor(caller, options_.create_patience,
          [this, request, caller](bool last) { return TryCreate(request, caller, last); });
}

bool Agent::TryCreate(const api::CreateRequest& request, const CallerPtr& caller, bool last) {
  const Ledger::Place place{request.pod_uid, request.container_name};
  const Verdict verdict = AdmitContainer(View(), ledger_, FindPod(request.pod_uid), place);
  switch (verdict.kind) {
    case Verdict::Kind::kWait:
      if (last) Answer(caller, verdict.error, "create " + NameOf(request));
      return last;
    case Verdict::Kind::kRefused:
      Answer(caller, verdict.error, "create " + NameOf(request));
      return true;
    case Verdict::Kind::kNoGpu: {
      api::CreateAnswer answer;
      answer.reason = verdict.error.message;
      caller->Answer(api::AnswerToJson(answer));
      return true;
    }
    case Verdict::Kind::kAdmitted:
      break;
  }
  auto started = StartContainer(verdict.plan, place, request.container_id, request.cgroups_path);
  if (!started) {
    Answer(caller, started.error(), "create " + NameOf(request));
    return true;
  }
  auto answer = MakeCreateAnswer(*living_[request.container_id].container);
  if (!answer) {
    ReleaseContainer(request.container_id, "its answer could not be made");
    Answer(caller, answer.error(), "create " + NameOf(request));
    return true;
  }
  KRUX_LOG_INFO("container granted pod={} pod_uid={} container={} id={}",
                request.pod_namespace + "/" + request.pod_name, request.pod_uid,
                request.container_name, request.container_id);
  caller->Answer(api::AnswerToJson(*answer));
  return true;
}

Result<api::CreateAnswer> Agent::MakeCreateAnswer(const Container& container) const {
  const gpu::Driver& driver = cards_->driver();
  api::CreateAnswer answer;
  answer.granted = true;
  answer.driver_files = driver.files;
  answer.mounts.push_back({container.folder(), names::kContainerMount, true});
  answer.limiter_path = options_.limiter_path;
  std::set<std::string> nodes;
  for (const GpuGrant& grant : container.spec().gpus) {
    const gpu::Device* device = cards_->Find(grant.uuid);
    if (device == nullptr) {
      return Error{ErrorCode::kUnavailable, "GPU " + grant.uuid + " went away: try again"};
    }
    for (std::string& node : driver.NodesOf(*device)) nodes.insert(std::move(node));
    for (api::Mount& mount : driver.MountsOf(*device)) {
      const auto same = std::find(answer.mounts.begin(), answer.mounts.end(), mount);
      if (same == answer.mounts.end()) answer.mounts.push_back(std::move(mount));
    }
  }
  answer.device_nodes.assign(nodes.begin(), nodes.end());
  return answer;
}

void Agent::OnDelete(const api::DeleteRequest& request, const CallerPtr& caller) {
  // Unknown ids are containers without GPUs: the runtime says delete for all of its handler.
  ReleaseContainer(request.container_id, "deleted");
  caller->Answer(api::EmptyAnswerJson());
}

void Agent::OnGate(const api::GateRequest& request, const CallerPtr& caller) {
  if (parts_.owners == nullptr) {
    return Answer(caller,
                  Error{ErrorCode::kFailedPrecondition,
                        "this agent serves `krux run` alone (--local) and knows no pods"},
                  "gate");
  }
  worker_->Do([this, alive = std::weak_ptr<bool>(alive_), owners = parts_.owners.get(),
               ids = request.device_ids, caller] {
    auto owner = owners->Find(ids);
    loop_.Post([this, alive, owner = std::move(owner), caller] {
      if (!alive.expired()) OnOwner(owner, caller);
    });
  });
}

void Agent::OnOwner(const Result<DeviceOwner>& owner, const CallerPtr& caller) {
  if (!owner) {
    // Nobody can say whose slots these are: the runtime's own question decides later.
    KRUX_LOG_WARN("gate passed without a check reason=\"{}\"", owner.error().message);
    return caller->Answer(api::EmptyAnswerJson());
  }
  WaitFor(caller, options_.gate_patience,
          [this, owner = *owner, caller](bool last) { return TryGate(owner, caller, last); });
}

bool Agent::TryGate(const DeviceOwner& owner, const CallerPtr& caller, bool last) {
  const Pod* pod = FindOwner(owner);
  const std::string what = "gate " + owner.name_space + "/" + owner.pod_name +
                           " uid=" + owner.pod_uid + " container=" + owner.container;
  const Verdict verdict =
      pod != nullptr ? AdmitAtGate(View(), ledger_, *pod, owner.container)
                     : AdmitContainer(View(), ledger_, nullptr, {owner.pod_uid, owner.container});
  if (verdict.kind == Verdict::Kind::kWait && !last) return false;
  if (verdict.kind != Verdict::Kind::kAdmitted) {
    Answer(caller, verdict.error, what);
    return true;
  }
  // The room is held from here on, so that the container's create can't find it taken.
  Ledger next = ledger_;
  next.PutPod(verdict.plan);
  if (auto committed = Commit(std::move(next)); !committed) {
    Answer(caller, committed.error(), what);
    return true;
  }
  KRUX_LOG_INFO("gate passed pod={} pod_uid={} container={}", verdict.plan.FullName(),
                verdict.plan.uid, owner.container);
  caller->Answer(api::EmptyAnswerJson());
  return true;
}

void Agent::OnRun(const api::RunRequest& request, const CallerPtr& caller) {
  std::string id;
  do {
    id = "run-" + std::to_string(caller->peer().pid) + "-" + std::to_string(++private_count_);
  } while (ledger_.FindPod(id) != nullptr);
  auto plan = PlanPrivate(View(), ledger_, id, request.gpus);
  if (!plan) return Answer(caller, plan.error(), "run");
  plan->containers[0].owner = caller->peer().uid;
  if (auto started = StartContainer(*plan, {id, plan->containers[0].name}, id, ""); !started) {
    return Answer(caller, started.error(), "run");
  }
  const Container& container = *living_[id].container;
  api::RunAnswer answer{container.folder(), container.spec().gpus, options_.limiter_path,
                        cards_->driver().library_folders};
  KRUX_LOG_INFO("private container granted id={} pid={} uid={}", id, caller->peer().pid,
                caller->peer().uid);
  caller->AnswerAndHold(api::AnswerToJson(answer), [this, id] {
    const auto living = living_.find(id);
    if (living == living_.end()) return;
    living->second.caller_gone = true;
    OnPrivateEnd(id);
  });
}

void Agent::OnSet(const api::SetRequest& request, const CallerPtr& caller) {
  if (auto set = Set(request); !set) return Answer(caller, set.error(), "set " + request.target);
  caller->Answer(api::EmptyAnswerJson());
}

void Agent::WaitFor(const CallerPtr& caller, Nanos patience, Attempt attempt) {
  if (attempt(/*last=*/patience <= 0)) return;
  waiting_.push_back({caller, std::move(attempt), {}});
  const auto place = std::prev(waiting_.end());
  place->deadline = loop_.After(patience, [this, place] {
    const Waiting waiting = std::move(*place);
    waiting_.erase(place);
    if (!waiting.caller->is_gone()) waiting.attempt(/*last=*/true);
  });
}

void Agent::TryWaitingSoon() {
  if (try_scheduled_) return;
  try_scheduled_ = true;
  loop_.Post([this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    try_scheduled_ = false;
    TryWaiting();
  });
}

void Agent::TryWaiting() {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const bool is_done = it->caller->is_gone() || it->attempt(/*last=*/false);
    if (is_done) loop_.Cancel(it->deadline);
    it = is_done ? waiting_.erase(it) : std::next(it);
  }
}

}  // namespace krux::agent
