#include "agent/container.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "agent/processes.h"
#include "common/file.h"
#include "common/log.h"
#include "common/units.h"
#include "protocol/names.h"

namespace krux::agent {
namespace {

constexpr size_t kMaxIdBytes = 128;

std::string ProcessFile(const Container::Env& env, const std::string& id) {
  return env.processes_folder + "/" + id;
}

}  // namespace

Status CheckContainerId(const std::string& id) {
  const bool known_form = !id.empty() && id.size() <= kMaxIdBytes && id[0] != '.' &&
                          std::all_of(id.begin(), id.end(), [](unsigned char c) {
                            return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
                          });
  if (known_form) return Ok();
  return Error{ErrorCode::kInvalidArgument,
               "a container id has 1 to 128 letters, digits, '_', '-' or '.' and no '.' first"};
}

Status CheckPeer(const ucred& peer, const ContainerSpec& spec) {
  if (!spec.is_private) return CheckInContainer(peer.pid, spec.id, spec.cgroups_path);
  if (peer.uid == spec.owner || peer.uid == 0) return Ok();
  return Error{ErrorCode::kPermissionDenied, "this private container belongs to user " +
                                                 std::to_string(spec.owner) + ", not to user " +
                                                 std::to_string(peer.uid)};
}

Container::Container(const Env& env, ContainerSpec spec)
    : env_(env), spec_(std::move(spec)), folder_(env.containers_folder + "/" + spec_.id) {}

Container::~Container() {
  if (in_leases_) env_.leases.RemoveTenant(spec_.id);
  sessions_.reset();
}

void Container::RemoveFiles(const Env& env, const std::string& id) {
  std::error_code ignored;
  std::filesystem::remove_all(env.containers_folder + "/" + id, ignored);
  unlink(ProcessFile(env, id).c_str());
}

Result<std::unique_ptr<Container>> Container::Open(const Env& env, ContainerSpec spec,
                                                   UniqueFd kept_account, bool is_adopted,
                                                   Hooks hooks) {
  KRUX_RETURN_IF_ERROR(CheckContainerId(spec.id));
  // A new instance must not find what an earlier one of the same id left; an adopted one must.
  if (!is_adopted) RemoveFiles(env, spec.id);
  std::unique_ptr<Container> container(new Container(env, std::move(spec)));
  KRUX_RETURN_IF_ERROR(MakeDirectories(container->folder_, 0755));
  bool account_is_new = false;
  KRUX_RETURN_IF_ERROR(container->OpenPages(std::move(kept_account), &account_is_new));
  KRUX_RETURN_IF_ERROR(container->JoinLeases());
  KRUX_RETURN_IF_ERROR(container->OpenSessions(is_adopted && account_is_new, std::move(hooks)));
  return container;
}

Status Container::OpenPages(UniqueFd kept_account, bool* account_is_new) {
  std::vector<PageGpu> gpus;
  for (const GpuGrant& grant : spec_.gpus) {
    PageGpu gpu;
    KRUX_ASSIGN_OR_RETURN(gpu.uuid, ParseGpuUuid(grant.uuid));
    const gpu::Device* device = env_.cards.Find(grant.uuid);
    gpu.physical_bytes = device == nullptr ? grant.memory_mib * kMiB : device->memory_bytes;
    gpu.context_mib = env_.cards.ContextMib(grant.uuid);
    gpu.grant = grant;
    gpus.push_back(std::move(gpu));
  }
  KRUX_ASSIGN_OR_RETURN(LimitsFile limits,
                        LimitsFile::Open(folder_ + "/" + names::kLimitsFile, gpus));
  limits_ = std::make_unique<LimitsFile>(std::move(limits));
  const auto count = static_cast<uint32_t>(gpus.size());
  if (kept_account.valid()) {
    auto kept = Account::Adopt(std::move(kept_account), count);
    if (kept) {
      account_ = std::make_unique<Account>(std::move(*kept));
      return Ok();
    }
    KRUX_LOG_WARN("account not taken over container={} reason=\"{}\"", spec_.id,
                  kept.error().message);
  }
  *account_is_new = true;
  KRUX_ASSIGN_OR_RETURN(Account account, Account::Make(count));
  account_ = std::make_unique<Account>(std::move(account));
  return Ok();
}

Status Container::JoinLeases() {
  for (uint32_t g = 0; g < spec_.gpus.size(); ++g) {
    const GpuGrant& grant = spec_.gpus[g];
    LeaseService::TenantGpu gpu;
    gpu.gpu_uuid = grant.uuid;
    gpu.page_gpu = g;
    gpu.limits = limits_->page();
    gpu.account = account_->page();
    gpu.shares = Shares{grant.cores, grant.policy, grant.priority, grant.memory_mib * kMiB};
    KRUX_RETURN_IF_ERROR(env_.leases.AddTenant(spec_.id, gpu));
  }
  return Ok();
}

Status Container::OpenSessions(bool account_is_new, Hooks hooks) {
  std::vector<std::string> uuids;
  for (const GpuGrant& grant : spec_.gpus) uuids.push_back(grant.uuid);
  LimiterSessions::Options options;
  options.tenant = spec_.id;
  options.socket_path = folder_ + "/" + names::kLimiterSocket;
  options.process_file = ProcessFile(env_, spec_.id);
  options.gpu_count = static_cast<uint32_t>(uuids.size());
  options.account_is_new = account_is_new;
  for (const GpuGrant& grant : spec_.gpus) options.limits_bytes.push_back(grant.memory_mib * kMiB);
  options.over_limit = env_.over_limit;
  options.look_period = env_.look_period;
  LimiterSessions::Hooks session_hooks;
  session_hooks.check_peer = [this](const ucred& peer) { return env_.check_peer(peer, spec_); };
  session_hooks.ask_driver = [this, uuids](Nanos max_age, LimiterSessions::MemoryAnswer answer) {
    env_.cards.AskMemory(uuids, max_age, std::move(answer));
  };
  session_hooks.is_mine = [this](pid_t pid) {
    // A private container has no cgroup of its own: only its own limiters are known.
    return !spec_.is_private && CheckInContainer(pid, spec_.id, spec_.cgroups_path).has_value();
  };
  session_hooks.context_learned = [uuids, learned = hooks.context_learned](
                                      uint32_t gpu, uint64_t bytes) { learned(uuids[gpu], bytes); };
  session_hooks.looked = [this] { PublishUsage(); };
  session_hooks.all_gone = [this, all_gone = hooks.all_gone] {
    const std::string id = spec_.id;  // the hook may end this object
    all_gone(id);
  };
  KRUX_ASSIGN_OR_RETURN(sessions_,
                        LimiterSessions::Open(env_.loop, env_.leases, *account_, std::move(options),
                                              std::move(session_hooks)));
  return Ok();
}

// What programs in the container are shown as the use of their card.
void Container::PublishUsage() {
  for (const LeaseService::TenantView& view : env_.leases.Snapshot()) {
    if (view.tenant != spec_.id || view.page_gpu >= spec_.gpus.size()) continue;
    const double share = std::clamp(view.lease.share_1s, 0.0, 1.0);
    limits_->page()->gpus[view.page_gpu].used_percent.store(
        static_cast<uint32_t>(share * 100 + 0.5));
  }
}

Status Container::SetShares(const std::vector<GpuGrant>& gpus) {
  for (uint32_t g = 0; g < spec_.gpus.size(); ++g) {
    GpuGrant& grant = spec_.gpus[g];
    grant.cores = gpus[g].cores;
    grant.policy = gpus[g].policy;
    limits_->SetShares(g, grant);
    const Shares shares{grant.cores, grant.policy, grant.priority, grant.memory_mib * kMiB};
    KRUX_RETURN_IF_ERROR(env_.leases.SetShares(spec_.id, g, shares));
  }
  return Ok();
}

void Container::SetContextMib(const std::string& uuid, uint32_t mib) {
  for (uint32_t g = 0; g < spec_.gpus.size(); ++g) {
    if (spec_.gpus[g].uuid == uuid) limits_->SetContextMib(g, mib);
  }
}

}  // namespace krux::agent
