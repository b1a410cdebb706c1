#include "cli/status.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/clock.h"
#include "common/units.h"
#include "protocol/agent_api.h"

namespace krux::cli {
namespace {

using nlohmann::json;
using Row = std::vector<std::string>;

const json& Field(const json& object, const char* name) {
  static const json kNothing;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() ? *found : kNothing;
}

std::string Text(const json& object, const char* name) {
  const json& field = Field(object, name);
  if (field.is_number_unsigned()) return std::to_string(field.get<uint64_t>());
  if (!field.is_string() || field.get<std::string>().empty()) return "-";
  std::string text = field.get<std::string>();
  // What others named must not steer the terminal.
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; }, '?');
  return text;
}

std::string Percent(const json& object, const char* name) {
  const json& field = Field(object, name);
  if (!field.is_number()) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * field.get<double>());
  return text;
}

std::string Memory(const json& object, const char* name, uint64_t unit) {
  const json& field = Field(object, name);
  return field.is_number_unsigned() ? FormatMemory(field.get<uint64_t>() * unit) : "-";
}

std::string State(const json& gpu) {
  const auto is = [&](const char* name) {
    const json& field = Field(gpu, name);
    return field.is_boolean() && field.get<bool>();
  };
  if (is("straggling")) return "straggling";
  if (is("holding")) return is("together") ? "together" : "running";
  return is("waiting") ? "waiting" : "idle";
}

std::string Table(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string NameOf(const json& pod, const json& container) {
  const json& is_private = Field(pod, "private");
  if (is_private.is_boolean() && is_private.get<bool>()) return Text(container, "id");
  return Text(pod, "namespace") + "/" + Text(pod, "name") + "/" + Text(container, "name");
}

void AddContainer(const json& pod, const json& container, std::vector<Row>* rows) {
  const std::string name = NameOf(pod, container);
  for (const json& gpu : Field(container, "gpus")) {
    const std::string cores = Text(gpu, "cores");
    rows->push_back({name, Text(gpu, "uuid"), Memory(gpu, "usedBytes", 1),
                     Memory(gpu, "memMiB", kMiB), cores == "0" || cores == "-" ? "-" : cores + " %",
                     Percent(gpu, "share1s"), Percent(gpu, "share60s"), Text(gpu, "policy"),
                     Text(gpu, "priority"), State(gpu)});
  }
}

// "3.4 s" of a field of nanoseconds.
std::string Seconds(const json& object, const char* name) {
  const json& field = Field(object, name);
  if (!field.is_number()) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", field.get<double>() / kSecond);
  return text;
}

Result<json> Parse(std::string_view text) {
  KRUX_RETURN_IF_ERROR(api::ParseEmptyAnswer(text));
  json root = json::parse(text, nullptr, false);
  if (!root.is_object()) return Error{ErrorCode::kDataLoss, "the agent's status is no JSON object"};
  return root;
}

}  // namespace

Result<std::string> StatusTable(std::string_view text) {
  KRUX_ASSIGN_OR_RETURN(const json root, Parse(text));
  std::vector<Row> cards{{"GPU", "MODEL", "MEMORY", "GRANTED", "CORES", "TROUBLE"}};
  for (const json& card : Field(root, "gpus")) {
    cards.push_back({Text(card, "uuid"), Text(card, "model"), Memory(card, "memoryMiB", kMiB),
                     Memory(card, "grantedMiB", kMiB), Text(card, "grantedCores") + " %",
                     Text(card, "trouble")});
  }
  std::vector<Row> rows{{"CONTAINER", "GPU", "USED", "LIMIT", "ASKED", "GOT 1s", "GOT 60s",
                         "POLICY", "PRIORITY", "STATE"}};
  for (const json& pod : Field(root, "pods")) {
    for (const json& container : Field(pod, "containers")) AddContainer(pod, container, &rows);
  }
  std::string out = "agent " + Text(root, "version") + ", node " + Text(root, "node") +
                    ", driver " + Text(root, "driver") + "\n\n" + Table(cards) + "\n";
  if (Field(root, "cutOff").is_string()) out += "(too long for one answer: not all is shown)\n";
  return out + (rows.size() == 1 ? "no containers\n" : Table(rows));
}

Result<std::string> TopTable(std::string_view text) {
  KRUX_ASSIGN_OR_RETURN(const json root, Parse(text));
  std::vector<Row> rows{{"CONTAINER", "GPU", "MEMORY", "ASKED", "GOT 1s", "GOT 60s", "WAITED",
                         "LEASES", "POLICY", "PRIORITY", "STATE"}};
  for (const json& pod : Field(root, "pods")) {
    for (const json& container : Field(pod, "containers")) {
      for (const json& gpu : Field(container, "gpus")) {
        const std::string cores = Text(gpu, "cores");
        rows.push_back({NameOf(pod, container), Text(gpu, "uuid").substr(0, 12),
                        Memory(gpu, "usedBytes", 1) + " of " + Memory(gpu, "memMiB", kMiB),
                        cores == "0" || cores == "-" ? "-" : cores + " %", Percent(gpu, "share1s"),
                        Percent(gpu, "share60s"), Seconds(gpu, "waitedNanos"), Text(gpu, "leases"),
                        Text(gpu, "policy"), Text(gpu, "priority"), State(gpu)});
      }
    }
  }
  return "node " + Text(root, "node") + ", driver " + Text(root, "driver") + "\n\n" +
         (rows.size() == 1 ? "no containers\n" : Table(rows));
}

Result<std::string> TopJson(std::string_view text) {
  KRUX_ASSIGN_OR_RETURN(const json root, Parse(text));
  json list = json::array();
  for (const json& pod : Field(root, "pods")) {
    for (const json& container : Field(pod, "containers")) {
      for (const json& gpu : Field(container, "gpus")) {
        if (!gpu.is_object()) continue;
        json row = gpu;
        row["container"] = NameOf(pod, container);
        row["id"] = Text(container, "id");
        row["state"] = State(gpu);
        list.push_back(std::move(row));
      }
    }
  }
  return list.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<std::string> StatusJson(std::string_view text) {
  KRUX_ASSIGN_OR_RETURN(const json root, Parse(text));
  return root.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace krux::cli
