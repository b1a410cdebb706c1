// Specs of others: any text is either refused or edited into a spec that can be read again.
// Half of the inputs are ELF bytes for the reader of images' libraries.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "runtime/elf.h"
#include "runtime/identity.h"
#include "runtime/image_root.h"
#include "runtime/modifiers/devices.h"
#include "runtime/modifiers/environment.h"
#include "runtime/modifiers/mounts.h"
#include "runtime/spec.h"

namespace {

using krux::runtime::Json;

void Check(bool holds) {
  if (!holds) abort();
}

void FuzzElf(std::string_view bytes) {
  const auto file = krux::runtime::ElfFromBytes(bytes);
  const auto usable = krux::runtime::CheckLibrary(file);
  const auto version = krux::runtime::NewestGlibc(file);
  Check(usable || !usable.error().message.empty());
  Check(version || !version.error().message.empty());
}

void FuzzSpec(std::string_view text) {
  auto parsed = krux::runtime::ParseSpec(text);
  if (!parsed) return;
  Json& spec = *parsed;
  const auto identity = krux::runtime::ReadIdentity(spec);
  if (identity && identity->kind == krux::runtime::ContainerKind::kContainer) {
    Check(!identity->pod_uid.empty() && !identity->container_name.empty());
  }
  static const auto root = krux::runtime::ImageRoot::Open("/proc/self/fdinfo");
  krux::runtime::MountPlan plan(spec, *root);
  if (!krux::runtime::CleanEnvironment(spec) || !krux::runtime::RemoveGpuDevices(spec) ||
      !krux::runtime::MarkEnvironment(spec) || !krux::runtime::AddDevices(spec, {"/dev/null"}) ||
      !plan.Bind("/dev", "/run/krux", {}) || !plan.Finish()) {
    return;
  }
  Check(spec["mounts"].back()["destination"] == "/run/krux");
  Check(krux::runtime::ParseSpec(krux::runtime::SpecToText(spec)).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.starts_with("\x7f"
                        "ELF")) {
    FuzzElf(bytes);
  } else {
    FuzzSpec(bytes);
  }
  return 0;
}
