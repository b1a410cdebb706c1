#include "runtime/create.h"

#include <cerrno>
#include <cstdlib>

#include "runtime/edits.h"
#include "runtime/identity.h"

namespace krux::runtime {
namespace {

Result<std::string> AbsolutePath(const std::string& path) {
  char* real = realpath(path.c_str(), nullptr);
  if (real == nullptr) return ErrnoError(errno, "bundle " + path);
  std::string result = real;
  free(real);
  return result;
}

std::string CgroupsPathOf(const Json& spec) {
  const Json::json_pointer path("/linux/cgroupsPath");
  return spec.contains(path) && spec[path].is_string() ? spec[path].get<std::string>() : "";
}

// "container main of pod default/demo", for messages.
std::string NameOf(const Identity& identity) {
  return "container " + identity.container_name + " of pod " + identity.pod_namespace + "/" +
         identity.pod_name;
}

Status ApplyGrant(SpecFile& file, const api::CreateAnswer& answer, const Config& config) {
  KRUX_ASSIGN_OR_RETURN(const std::string root_path, file.RootPath());
  KRUX_RETURN_IF_ERROR(
      EditWithGrant(file.spec(), answer, {file.bundle(), root_path, config.allow_privileged}));
  return file.Save();
}

Status ApplyNoGrant(SpecFile& file) {
  KRUX_RETURN_IF_ERROR(EditWithoutGrant(file.spec()));
  return file.Save();
}

Result<Prepared> PreparePodContainer(SpecFile file, const Identity& identity, const Args& args,
                                     const Config& config, const AgentClient& agent,
                                     const RuntimeLog& log) {
  const api::CreateRequest request{args.container_id,       identity.pod_uid,
                                   identity.pod_namespace,  identity.pod_name,
                                   identity.container_name, CgroupsPathOf(file.spec())};
  KRUX_ASSIGN_OR_RETURN(const api::CreateAnswer answer,
                        agent.AskCreate(request).With(NameOf(identity)));
  if (!answer.granted) {
    log.WriteInfo(NameOf(identity) + " gets no GPU: " + answer.reason);
    KRUX_RETURN_IF_ERROR(ApplyNoGrant(file).With(NameOf(identity)));
    return Prepared{std::move(file), false};
  }
  if (const Status applied = ApplyGrant(file, answer, config); !applied) {
    if (const Status told = agent.TellDeleted(args.container_id); !told) {
      log.WriteInfo("telling the agent of the refusal: " + told.error().message);
    }
    return applied.error().With(NameOf(identity));
  }
  return Prepared{std::move(file), true};
}

}  // namespace

Result<Prepared> PrepareCreate(const Args& args, const Config& config, const AgentClient& agent,
                               const RuntimeLog& log) {
  KRUX_ASSIGN_OR_RETURN(const std::string bundle, AbsolutePath(args.bundle));
  KRUX_ASSIGN_OR_RETURN(SpecFile file, SpecFile::Load(bundle));
  KRUX_ASSIGN_OR_RETURN(const Identity identity, ReadIdentity(file.spec()));
  switch (identity.kind) {
    case ContainerKind::kSandbox:
      return Prepared{};
    case ContainerKind::kNoPod:
      KRUX_RETURN_IF_ERROR(ApplyNoGrant(file));
      return Prepared{std::move(file), false};
    case ContainerKind::kContainer:
      break;
  }
  return PreparePodContainer(std::move(file), identity, args, config, agent, log);
}

void Undo(Prepared& prepared, const Args& args, const AgentClient& agent) {
  // The error that led here is what the caller is told; a second one would hide it.
  if (prepared.edited) {
    if (const Status restored = prepared.edited->Restore(); !restored) return;
  }
  if (prepared.granted) {
    if (const Status told = agent.TellDeleted(args.container_id); !told) return;
  }
}

}  // namespace krux::runtime
