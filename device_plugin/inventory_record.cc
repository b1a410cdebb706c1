#include "device_plugin/inventory_record.h"

#include <nlohmann/json.hpp>

#include "common/file.h"
#include "protocol/grant.h"

namespace krux::device_plugin {
namespace {

using nlohmann::json;

constexpr size_t kMaxRecordBytes = 256 * 1024;
constexpr size_t kMaxCards = 128;
constexpr char kBootIdPath[] = "/proc/sys/kernel/random/boot_id";

Error Damaged(const std::string& what) {
  return Error{ErrorCode::kDataLoss, "record of the cards: " + what};
}

std::string TextOf(const json& object, const char* name) {
  const auto field = object.find(name);
  return field != object.end() && field->is_string() ? field->get<std::string>() : "";
}

Result<Gpu> ParseCard(const json& object) {
  if (!object.is_object()) return Damaged("a card is not an object");
  Gpu gpu;
  gpu.uuid = TextOf(object, "uuid");
  gpu.model = TextOf(object, "model");
  KRUX_RETURN_IF_ERROR(ParseGpuUuid(gpu.uuid).With("record of the cards"));
  const auto memory = object.find("memoryMiB");
  if (memory == object.end() || !memory->is_number_unsigned() ||
      memory->get<uint64_t>() > kMaxGpuMemoryMib) {
    return Damaged("memoryMiB of " + gpu.uuid + " is no number of MiB");
  }
  gpu.memory_mib = memory->get<uint64_t>();
  return gpu;
}

}  // namespace

Result<std::string> BootId() {
  KRUX_ASSIGN_OR_RETURN(std::string id, ReadFile(kBootIdPath, 128));
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

std::string RecordToJson(const Inventory& inventory, std::string_view boot_id) {
  json gpus = json::array();
  for (const Gpu& gpu : inventory.gpus) {
    gpus.push_back({{"uuid", gpu.uuid}, {"model", gpu.model}, {"memoryMiB", gpu.memory_mib}});
  }
  return json{{"v", 1}, {"boot", boot_id}, {"gpus", std::move(gpus)}}.dump(
      -1, ' ', false, json::error_handler_t::replace);
}

Result<KnownCards> ParseRecord(std::string_view text, std::string_view boot_id) {
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return Damaged("it is not a JSON object");
  const auto version = root.find("v");
  const auto gpus = root.find("gpus");
  if (version == root.end() || *version != 1) return Damaged("its version is not 1");
  if (gpus == root.end() || !gpus->is_array() || gpus->size() > kMaxCards) {
    return Damaged("gpus is no list of cards");
  }
  KnownCards known;
  known.same_boot = !boot_id.empty() && TextOf(root, "boot") == boot_id;
  for (const json& object : *gpus) {
    KRUX_ASSIGN_OR_RETURN(Gpu gpu, ParseCard(object));
    known.gpus.push_back(std::move(gpu));
  }
  return known;
}

Result<KnownCards> LoadRecord(const std::string& path) {
  const Result<std::string> text = ReadFile(path, kMaxRecordBytes);
  if (!text && text.error().code == ErrorCode::kNotFound) return KnownCards{};
  if (!text) return text.error();
  return ParseRecord(*text, BootId().value_or(""));
}

Status SaveRecord(const std::string& path, const Inventory& inventory) {
  return WriteFileDurably(path, RecordToJson(inventory, BootId().value_or("")), 0644);
}

}  // namespace krux::device_plugin
