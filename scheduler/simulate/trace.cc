#include "scheduler/simulate/trace.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <string_view>

#include "common/file.h"
#include "scheduler/simulate/go_random.h"

namespace krux::simulate {
namespace {

constexpr size_t kMaxFileBytes = 16U << 20;

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

Result<int64_t> Number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Error(ErrorCode::kInvalidArgument, "not a number: '" + std::string(text) + "'");
  }
  return value;
}

// Calls `row` with the fields of each line after the first.
Status EachRow(const std::string& path, size_t fields,
               const std::function<Status(const std::vector<std::string_view>&)>& row) {
  KRUX_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxFileBytes));
  size_t line = 0;
  for (const std::string_view each : Split(text, '\n')) {
    if (line++ == 0 || each.empty()) continue;
    const auto parts = Split(each, ',');
    if (parts.size() != fields) {
      return Error(ErrorCode::kInvalidArgument,
                   path + " line " + std::to_string(line) + ": wrong number of fields");
    }
    KRUX_RETURN_IF_ERROR(row(parts).With(path + " line " + std::to_string(line)));
  }
  return Ok();
}

uint32_t ModelId(std::string_view name, Traces* traces) {
  auto& models = traces->models;
  const auto found = std::find(models.begin(), models.end(), name);
  if (found != models.end()) return static_cast<uint32_t>(found - models.begin());
  models.emplace_back(name);
  return static_cast<uint32_t>(models.size()) - 1;
}

Status AddNodes(const std::vector<std::string_view>& row, Traces* traces) {
  KRUX_ASSIGN_OR_RETURN(const int64_t count, Number(row[0]));
  NodeShape node;
  KRUX_ASSIGN_OR_RETURN(node.cpu_milli, Number(row[1]));
  KRUX_ASSIGN_OR_RETURN(node.memory_mib, Number(row[2]));
  KRUX_ASSIGN_OR_RETURN(const int64_t gpus, Number(row[3]));
  node.gpus = static_cast<int>(gpus);
  node.model = ModelId(row[4], traces);
  traces->nodes.insert(traces->nodes.end(), static_cast<size_t>(count), node);
  return Ok();
}

Status AddRequest(const std::vector<std::string_view>& row, Traces* traces) {
  Request request;
  KRUX_ASSIGN_OR_RETURN(request.cpu_milli, Number(row[2]));
  KRUX_ASSIGN_OR_RETURN(request.memory_mib, Number(row[3]));
  KRUX_ASSIGN_OR_RETURN(const int64_t gpus, Number(row[4]));
  request.gpus = static_cast<int>(gpus);
  KRUX_ASSIGN_OR_RETURN(request.gpu_milli, Number(row[5]));
  if (!row[6].empty() && gpus > 0) {
    for (const std::string_view model : Split(row[6], '|')) {
      request.models |= uint64_t{1} << ModelId(model, traces);
    }
  }
  Trace& trace = traces->traces[std::string(row[0])];
  trace.name = row[0];
  trace.requests.push_back(request);
  return Ok();
}

Status AddSequence(const std::vector<std::string_view>& row, Traces* traces) {
  Trace& trace = traces->traces[std::string(row[0])];
  for (const std::string_view word : Split(row[1], ' ')) {
    const auto parts = Split(word, '*');
    KRUX_ASSIGN_OR_RETURN(const int64_t request, Number(parts[0]));
    int64_t times = 1;
    if (parts.size() > 1) {
      KRUX_ASSIGN_OR_RETURN(times, Number(parts[1]));
    }
    if (request < 0 || static_cast<size_t>(request) >= trace.requests.size()) {
      return Error(ErrorCode::kInvalidArgument, "class out of range");
    }
    trace.pods.insert(trace.pods.end(), static_cast<size_t>(times), static_cast<uint32_t>(request));
  }
  return Ok();
}

Status AddPublished(const std::vector<std::string_view>& row, Traces* traces) {
  constexpr double kSeeds = 10;
  Published& cell = traces->published[{std::string(row[0]), std::string(row[1])}];
  cell.at_100 += (100 - std::stod(std::string(row[3]))) / kSeeds;
  cell.at_130 += (100 - std::stod(std::string(row[4]))) / kSeeds;
  return Ok();
}

}  // namespace

Result<Traces> ReadTraces(const std::string& folder) {
  Traces t;
  using Row = const std::vector<std::string_view>&;
  KRUX_RETURN_IF_ERROR(EachRow(folder + "/nodes.csv", 5, [&](Row r) { return AddNodes(r, &t); }));
  KRUX_RETURN_IF_ERROR(
      EachRow(folder + "/classes.csv", 7, [&](Row r) { return AddRequest(r, &t); }));
  KRUX_RETURN_IF_ERROR(
      EachRow(folder + "/sequence.csv", 2, [&](Row r) { return AddSequence(r, &t); }));
  KRUX_RETURN_IF_ERROR(
      EachRow(folder + "/published.csv", 5, [&](Row r) { return AddPublished(r, &t); }));
  KRUX_RETURN_IF_ERROR(EachRow(folder + "/times.csv", 3, [&](Row r) -> Status {
    Lifetime life;
    KRUX_ASSIGN_OR_RETURN(const int64_t request, Number(r[0]));
    life.request = static_cast<uint32_t>(request);
    KRUX_ASSIGN_OR_RETURN(life.created_s, Number(r[1]));
    KRUX_ASSIGN_OR_RETURN(life.lifetime_s, Number(r[2]));
    t.default_times.push_back(life);
    return Ok();
  }));
  return t;
}

int64_t CapacityMilli(const std::vector<NodeShape>& nodes) {
  int64_t capacity = 0;
  for (const NodeShape& node : nodes) capacity += node.gpus * kWholeGpu;
  return capacity;
}

std::vector<uint32_t> Arrivals(const Trace& trace, int32_t seed, double ratio,
                               int64_t capacity_milli) {
  GoRandom random(seed);
  (void)random.Int63();  // the published program draws one number first
  std::vector<uint32_t> pods = trace.pods;
  random.Shuffle(&pods);
  int64_t arrived = 0;
  for (const uint32_t pod : pods) {
    arrived += trace.requests[pod].gpu_milli * trace.requests[pod].gpus;
  }
  const double limit = ratio * static_cast<double>(capacity_milli);
  while (true) {
    const auto drawn = static_cast<size_t>(random.Intn(static_cast<int32_t>(trace.pods.size())));
    const uint32_t pod = trace.pods[drawn];
    const Request& request = trace.requests[pod];
    // One GPU's share counts here, as in the published program: a pod of several may overshoot.
    if (static_cast<double>(arrived + request.gpu_milli) > limit) return pods;
    arrived += request.gpu_milli * request.gpus;
    pods.push_back(pod);
  }
}

}  // namespace krux::simulate
