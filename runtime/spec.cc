#include "runtime/spec.h"

#include <sys/stat.h>

#include "common/file.h"

namespace krux::runtime {
namespace {

Error Wrong(const std::string& message) {
  return Error{ErrorCode::kInvalidArgument, "the OCI spec " + message};
}

// Looked at before the parser runs: a megabyte of '[' would cost gigabytes as a tree, and writing a
// tree is recursive.
bool IsTooDeep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxSpecDepth) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

Result<Json*> MemberOf(Json& parent, const char* name, Json::value_t type, const char* wanted) {
  Json& member = parent[name];
  if (member.is_null()) member = Json(type);
  if (member.type() != type)
    return Wrong(std::string("has a '") + name + "' that is not " + wanted);
  return &member;
}

}  // namespace

Result<Json> ParseSpec(std::string_view text) {
  if (text.size() > kMaxSpecBytes) {
    return Wrong("is larger than " + std::to_string(kMaxSpecBytes) + " bytes");
  }
  if (IsTooDeep(text)) {
    return Wrong("is nested deeper than " + std::to_string(kMaxSpecDepth) + " levels");
  }
  Json spec = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!spec.is_object()) return Wrong("is not a JSON object");
  return spec;
}

std::string SpecToText(const Json& spec) {
  return spec.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Json*> ObjectIn(Json& parent, const char* name) {
  return MemberOf(parent, name, Json::value_t::object, "an object");
}

Result<Json*> ArrayIn(Json& parent, const char* name) {
  return MemberOf(parent, name, Json::value_t::array, "a list");
}

Result<SpecFile> SpecFile::Load(const std::string& bundle) {
  SpecFile file;
  file.bundle_ = bundle;
  file.path_ = bundle + "/config.json";
  KRUX_ASSIGN_OR_RETURN(file.original_, ReadFile(file.path_, kMaxSpecBytes).With("the OCI spec"));
  struct stat about{};
  if (stat(file.path_.c_str(), &about) == 0) file.mode_ = about.st_mode & 0777;
  KRUX_ASSIGN_OR_RETURN(file.spec_, ParseSpec(file.original_).With(file.path_));
  return file;
}

Result<std::string> SpecFile::RootPath() const {
  const auto root = spec_.find("root");
  if (root == spec_.end() || !root->is_object()) return Wrong("has no 'root'");
  const auto path = root->find("path");
  if (path == root->end() || !path->is_string() || path->get_ref<const std::string&>().empty()) {
    return Wrong("has no 'root.path'");
  }
  const std::string text = path->get<std::string>();
  return text[0] == '/' ? text : bundle_ + "/" + text;
}

Status SpecFile::Save() { return WriteFileAtomically(path_, SpecToText(spec_), mode_); }

Status SpecFile::Restore() { return WriteFileAtomically(path_, original_, mode_); }

}  // namespace krux::runtime
