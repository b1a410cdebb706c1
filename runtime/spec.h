// The OCI runtime specification (config.json of a bundle) as a JSON tree in which everything that
// Krux does not know keeps its place and value.
//
// containerd writes the file, but much of its text is the tenant's (environment, mounts, labels):
// size and depth are bounded, and every part is checked for its type before it is used.
//
// Thread rule: one process, one thread, one spec.
#ifndef KRUX_RUNTIME_SPEC_H_
#define KRUX_RUNTIME_SPEC_H_

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "common/result.h"

namespace krux::runtime {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxSpecBytes = 16 * 1024 * 1024;
constexpr int kMaxSpecDepth = 64;

// The tree of an object; anything else, deeper or damaged is refused.
Result<Json> ParseSpec(std::string_view text);
std::string SpecToText(const Json& spec);

// A member that is made when missing or null, and refused when it is of another type. The pointer
// holds until the next member is added to an object above it.
Result<Json*> ObjectIn(Json& parent, const char* name);
Result<Json*> ArrayIn(Json& parent, const char* name);

// A bundle's config.json: read once, replaced in one step, put back if the real runtime can't be
// started.
class SpecFile {
 public:
  static Result<SpecFile> Load(const std::string& bundle);

  Json& spec() { return spec_; }
  const std::string& bundle() const { return bundle_; }

  // Host path of the root file system: root.path, relative to the bundle.
  Result<std::string> RootPath() const;
  // A reader sees the old text or the new one. Mode is kept.
  Status Save();
  // Puts back the text that Load read, byte for byte.
  Status Restore();

 private:
  SpecFile() = default;

  std::string bundle_;
  std::string path_;
  std::string original_;
  mode_t mode_ = 0600;
  Json spec_;
};

}  // namespace krux::runtime

#endif  // KRUX_RUNTIME_SPEC_H_
