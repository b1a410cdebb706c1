#include "scheduler/engine/selection.h"

#include <algorithm>

namespace krux::engine {
namespace {

bool IsWordCharacter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool ContainsWord(std::string_view model, std::string_view word) {
  const auto same = [](char a, char b) { return Lower(a) == Lower(b); };
  for (auto at = model.begin(); !word.empty(); ++at) {
    at = std::search(at, model.end(), word.begin(), word.end(), same);
    if (at == model.end()) return false;
    const auto end = at + static_cast<std::ptrdiff_t>(word.size());
    const bool starts = at == model.begin() || !IsWordCharacter(*(at - 1));
    if (starts && (end == model.end() || !IsWordCharacter(*end))) return true;
  }
  return false;
}

bool Holds(const uint64_t* keys, uint32_t count, uint64_t key) {
  return std::find(keys, keys + count, key) != keys + count;
}

}  // namespace

uint64_t AllowedModels(const krux_pod& pod) {
  return (pod.use_models == 0 ? ~uint64_t{0} : pod.use_models) & ~pod.no_models;
}

bool AllowsModel(const krux_pod& pod, const krux_gpu& gpu) {
  return (AllowedModels(pod) >> (gpu.model % KRUX_MAX_MODELS) & 1) != 0;
}

bool AllowsUuid(const krux_pod& pod, const krux_gpu& gpu) {
  if (pod.use_uuid_count > 0 && !Holds(pod.use_uuids, pod.use_uuid_count, gpu.uuid)) return false;
  return !Holds(pod.no_uuids, pod.no_uuid_count, gpu.uuid);
}

bool ListNamesModel(std::string_view list, std::string_view model) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (ContainsWord(model, Trim(list.substr(0, comma)))) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

// FNV-1a. Two names with one key would only let a pod use a card that it might have named anyway.
uint64_t UuidKey(std::string_view uuid) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : Trim(uuid)) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash == 0 ? 1 : hash;
}

}  // namespace krux::engine
