#include "runtime/args.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace krux::runtime {
namespace {

constexpr size_t kMaxIdLength = 1024;

// Flags of runc 1.1 to 1.4 and of crun that take a value; and those before the verb that take none.
constexpr std::array<std::string_view, 7> kGlobalWithValue = {
    "log", "log-format", "root", "criu", "rootless", "cgroup-manager", "log-level"};
constexpr std::array<std::string_view, 7> kGlobalSwitches = {
    "debug", "systemd-cgroup", "help", "h", "version", "v", "V"};
constexpr std::array<std::string_view, 6> kCreateWithValue = {
    "bundle", "b", "console-socket", "pidfd-socket", "pid-file", "preserve-fds"};

template <size_t n>
bool Has(const std::array<std::string_view, n>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct Flag {
  std::string name;
  std::optional<std::string> value;  // what stood after '='
};

// "--name", "-name" or "--name=value"; nothing for a word or a single dash.
std::optional<Flag> AsFlag(const std::string& argument) {
  if (argument.size() < 2 || argument[0] != '-') return std::nullopt;
  const std::string text = argument.substr(argument[1] == '-' ? 2 : 1);
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return Flag{text, std::nullopt};
  return Flag{text.substr(0, equals), text.substr(equals + 1)};
}

// Reads the arguments one after the other; a flag's value is taken from '=' or from what follows.
class Reader {
 public:
  explicit Reader(const std::vector<std::string>& arguments) : arguments_(arguments) {}
  bool AtEnd() const { return next_ >= arguments_.size(); }
  const std::string& Next() { return arguments_[next_++]; }
  std::string ValueOf(const Flag& flag) {
    if (flag.value) return *flag.value;
    return AtEnd() ? std::string() : Next();
  }
  bool MayCreateLater() const {
    return std::any_of(arguments_.begin() + static_cast<std::ptrdiff_t>(next_), arguments_.end(),
                       [](const std::string& a) { return a == "create" || a == "run"; });
  }

 private:
  const std::vector<std::string>& arguments_;
  size_t next_ = 0;
};

Error UnknownFlag(const std::string& flag) {
  std::string message = "global flag '" + flag;
  message += "' is unknown to krux-runtime; write it as " + flag;
  message += "=VALUE or leave it out";
  return Error{ErrorCode::kUnimplemented, std::move(message)};
}

// The verb, or empty when there is none; flags before it go into `args`.
std::string ReadGlobals(Reader& reader, Args& args) {
  while (!reader.AtEnd()) {
    std::string argument = reader.Next();
    const auto flag = AsFlag(argument);
    if (!flag) return argument;
    if (flag->name.empty()) return reader.AtEnd() ? std::string() : reader.Next();  // "--"
    if (Has(kGlobalWithValue, flag->name)) {
      const std::string value = reader.ValueOf(*flag);
      if (flag->name == "log") args.log_path = value;
      if (flag->name == "log-format") args.log_is_json = value == "json";
    } else if (!Has(kGlobalSwitches, flag->name) && !flag->value && reader.MayCreateLater()) {
      // Whether the next word is this flag's value or the verb can't be known.
      args.refusal = UnknownFlag(argument);
      return {};
    }
  }
  return {};
}

void ReadCreate(Reader& reader, Args& args) {
  bool words_only = false;
  bool help = false;
  while (!reader.AtEnd()) {
    const std::string argument = reader.Next();
    const auto flag = words_only ? std::nullopt : AsFlag(argument);
    if (!flag) {
      args.container_id = argument;  // the id comes last
    } else if (flag->name.empty()) {
      words_only = true;
    } else if (flag->name == "config" || flag->name == "f") {
      args.refusal =
          Error{ErrorCode::kUnimplemented, "flag '" + argument +
                                               "' is not supported; the specification must be "
                                               "config.json in the bundle"};
    } else if (Has(kCreateWithValue, flag->name)) {
      const std::string value = reader.ValueOf(*flag);
      if (flag->name == "bundle" || flag->name == "b") args.bundle = value;
    } else if (flag->name == "help" || flag->name == "h") {
      help = true;
    }
  }
  if (args.bundle.empty()) args.bundle = ".";
  if (help || args.container_id.empty()) args.verb = Verb::kPassThrough;
}

void ReadDelete(Reader& reader, Args& args) {
  while (!reader.AtEnd()) {
    const std::string argument = reader.Next();
    if (!AsFlag(argument)) args.container_id = argument;
  }
  if (args.container_id.empty()) args.verb = Verb::kPassThrough;
}

}  // namespace

bool IsContainerId(const std::string& id) {
  if (id.empty() || id.size() > kMaxIdLength || id == "." || id == "..") return false;
  return std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '+' || c == '-' || c == '.';
  });
}

Args ParseArgs(const std::vector<std::string>& arguments) {
  Args args;
  Reader reader(arguments);
  const std::string verb = ReadGlobals(reader, args);
  if (args.refusal) return args;
  if (verb == "create" || verb == "run") {
    args.verb = Verb::kCreate;
    ReadCreate(reader, args);
  } else if (verb == "delete") {
    args.verb = Verb::kDelete;
    ReadDelete(reader, args);
  }
  const bool ours = args.verb != Verb::kPassThrough;
  if (ours && !args.refusal && !IsContainerId(args.container_id)) {
    args.refusal = Error{ErrorCode::kInvalidArgument,
                         "container id '" + args.container_id.substr(0, 64) +
                             "' must be made of letters, digits, '_', '+', '-' and '.'"};
  }
  return args;
}

}  // namespace krux::runtime
