#include "sim/conformance/recording.h"

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>

namespace krux::sim::conformance {
namespace {

constexpr char kMagic[] = "# krux conformance 1";

std::string Today() {
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  gmtime_r(&now, &day);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &day);
  return text;
}

}  // namespace

bool ReadRecording(const std::string& path, Recording& recording, std::string& error) {
  std::ifstream file(path);
  std::string line;
  if (!file) {
    error = path + ": cannot be read";
    return false;
  }
  if (!std::getline(file, line) || line != kMagic) {
    error = path + ": is no recording (the first line is not '" + kMagic + "')";
    return false;
  }
  for (int number = 2; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    const bool is_head = line[0] == '#';
    const size_t start = is_head ? 2 : 0;
    const size_t end = line.find(is_head ? ' ' : '\t', start);
    if (end == std::string::npos) {
      error = path + ":" + std::to_string(number) + ": has no second column";
      return false;
    }
    const std::string key = line.substr(start, end - start);
    if (is_head) {
      recording.head.emplace_back(key, line.substr(end + 1));
    } else {
      recording.answers[key] = line.substr(end + 1);
    }
  }
  return true;
}

bool WriteRecording(const std::string& path, const Recording& recording,
                    const std::vector<Case>& cases) {
  std::ofstream file(path);
  file << kMagic << "\n";
  for (const auto& [key, value] : recording.head) file << "# " << key << " " << value << "\n";
  for (const Case& one : cases) {
    const auto found = recording.answers.find(one.id);
    if (found != recording.answers.end()) file << one.id << "\t" << found->second << "\n";
  }
  return static_cast<bool>(file.flush());
}

void PrintMachine() {
  char text[96] = "unknown";
  void* device = nullptr;
  int cuda = 0;
  CallNvml("nvmlInit_v2");
  CallNvml("nvmlSystemGetDriverVersion", text, static_cast<unsigned>(sizeof text));
  std::printf("driver %s\n", text);
  CU(cuDriverGetVersion, &cuda);
  std::printf("cuda %d\n", cuda);
  CallNvml("nvmlDeviceGetHandleByIndex_v2", 0U, &device);
  CallNvml("nvmlDeviceGetName", device, text, static_cast<unsigned>(sizeof text));
  std::printf("card %s\n", text);
  std::printf("date %s\n", Today().c_str());
}

std::vector<std::pair<std::string, std::string>> DescribeMachine() {
  std::vector<std::pair<std::string, std::string>> head;
  std::error_code ignored;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  FILE* pipe = popen(("'" + self + "' --describe").c_str(), "r");
  if (pipe == nullptr) return head;
  char line[256];
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    const std::string text = line;
    const size_t space = text.find(' ');
    if (space == std::string::npos) continue;
    head.emplace_back(text.substr(0, space), text.substr(space + 1, text.size() - space - 2));
  }
  pclose(pipe);
  return head;
}

Comparison Compare(const Answers& recorded, const Answers& here, const Answers& known) {
  Comparison comparison;
  for (const auto& [id, answer] : here) {
    const auto found = recorded.find(id);
    if (found == recorded.end()) {
      comparison.unrecorded.push_back(id);
      continue;
    }
    if (found->second.rfind("crashed", 0) == 0) {
      ++comparison.crashed;
      continue;
    }
    ++comparison.compared;
    const bool is_known = known.count(id) != 0;
    if (found->second == answer) {
      ++comparison.equal;
      if (is_known) comparison.stale.push_back(id);
    } else if (is_known) {
      ++comparison.explained;
    } else {
      comparison.unexplained.push_back(id);
    }
  }
  return comparison;
}

}  // namespace krux::sim::conformance
