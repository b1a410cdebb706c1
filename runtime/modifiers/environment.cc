#include "runtime/modifiers/environment.h"

#include <algorithm>
#include <string>

namespace krux::runtime {
namespace {

// process.env, checked; null when the spec has no process or no environment.
Result<Json*> EnvironmentOf(Json& spec) {
  const auto process = spec.find("process");
  if (process == spec.end() || process->is_null()) return nullptr;
  if (!process->is_object()) {
    return Error{ErrorCode::kInvalidArgument, "the OCI spec has a 'process' that is not an object"};
  }
  KRUX_ASSIGN_OR_RETURN(Json * env, ArrayIn(*process, "env"));
  if (!std::all_of(env->begin(), env->end(), [](const Json& e) { return e.is_string(); })) {
    return Error{ErrorCode::kInvalidArgument,
                 "'process.env' of the OCI spec is not a list of texts"};
  }
  return env;
}

}  // namespace

bool IsGpuVariable(std::string_view name) {
  if (name == "NVIDIA_TF32_OVERRIDE") return false;
  return name.starts_with("NVIDIA_") || name.starts_with("KRUX_") ||
         (name.starts_with("CUDA_") && name.find("LIMIT") != std::string_view::npos);
}

Status CleanEnvironment(Json& spec) {
  KRUX_ASSIGN_OR_RETURN(Json * env, EnvironmentOf(spec));
  if (env == nullptr) return Ok();
  auto& entries = env->get_ref<Json::array_t&>();
  entries.erase(std::remove_if(entries.begin(), entries.end(),
                               [](const Json& entry) {
                                 const std::string_view text = entry.get_ref<const std::string&>();
                                 return IsGpuVariable(text.substr(0, text.find('=')));
                               }),
                entries.end());
  return Ok();
}

Status MarkEnvironment(Json& spec) {
  KRUX_ASSIGN_OR_RETURN(Json * env, EnvironmentOf(spec));
  if (env != nullptr) env->push_back("NVIDIA_VISIBLE_DEVICES=void");
  return Ok();
}

}  // namespace krux::runtime
