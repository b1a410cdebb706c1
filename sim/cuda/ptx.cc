// The little that is needed of PTX: entries with their parameters, local and shared variables, and
// module-level globals.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <set>
#include <string>

#include "sim/cuda/image.h"
#include "sim/cuda/ptx_words.h"

namespace krux::sim {
namespace {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  // The next token: a word ([.%$_A-Za-z0-9]+) or one other character; empty at the end.
  std::string_view Next() {
    SkipBlanks();
    if (position_ >= text_.size()) return {};
    const size_t start = position_;
    if (!IsWord(text_[position_])) return text_.substr(position_++, 1);
    while (position_ < text_.size() && IsWord(text_[position_])) ++position_;
    return text_.substr(start, position_ - start);
  }

 private:
  static bool IsWord(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '$' ||
           c == '%';
  }
  void SkipBlanks() {
    while (position_ < text_.size()) {
      if (std::isspace(static_cast<unsigned char>(text_[position_])) != 0) {
        ++position_;
      } else if (text_.substr(position_, 2) == "//") {
        position_ = std::min(text_.find('\n', position_), text_.size());
      } else if (text_.substr(position_, 2) == "/*") {
        const size_t end = text_.find("*/", position_ + 2);
        position_ = end == std::string_view::npos ? text_.size() : end + 2;
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  size_t position_ = 0;
};

uint64_t BytesOfType(std::string_view type) {
  if (type.size() < 2 || type[0] != '.') return 0;
  if (type == ".pred") return 1;
  uint64_t bits = 0;
  for (const char c : type.substr(2)) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) break;
    bits = bits * 10 + static_cast<uint64_t>(c - '0');
  }
  return bits <= 128 ? bits / 8 : 0;
}

uint64_t ParseNumber(std::string_view token) {
  uint64_t value = 0;
  for (const char c : token) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0 || value > (uint64_t{1} << 40)) break;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  return value;
}

struct Variable {
  std::string name;
  uint64_t bytes = 0;
  uint64_t unit = 0;  // bytes of one element
  uint64_t alignment = 1;
};

// After ".param", ".local", ".global" and the like, up to the token that ends the declaration:
// [.align N] .type name [\[N\]]...
std::string_view ParseVariable(Scanner* scanner, Variable* variable) {
  uint64_t unit = 0;
  uint64_t count = 1;
  for (std::string_view token = scanner->Next(); !token.empty(); token = scanner->Next()) {
    if (token == "," || token == ")" || token == ";" || token == "=" || token == "{") {
      variable->unit = unit;
      variable->bytes = unit * count;
      return token;
    }
    if (token == ".align") {
      variable->alignment = ParseNumber(scanner->Next());
    } else if (token == "[") {
      const uint64_t elements = ParseNumber(scanner->Next());
      if (elements > 0 && elements <= (uint64_t{1} << 40) / count) count *= elements;
    } else if (BytesOfType(token) > 0) {
      unit = BytesOfType(token);
    } else if (token[0] != '.' && token != "]") {
      variable->name = token;
    }
  }
  return {};
}

void ParseParameters(Scanner* scanner, ImageFunction* function) {
  std::string_view end;
  while (end != ")") {
    const std::string_view token = scanner->Next();
    if (token.empty() || token == ")") return;
    if (token != ".param") continue;
    Variable variable;
    end = ParseVariable(scanner, &variable);
    const uint64_t alignment =
        std::max<uint64_t>({variable.alignment, std::min<uint64_t>(variable.bytes, 8), 1});
    const size_t offset = (function->parameter_bytes + alignment - 1) / alignment * alignment;
    function->parameters.push_back({offset, variable.bytes});
    function->parameter_bytes = offset + variable.bytes;
  }
}

// Reads one function body: its variables, the functions that it calls, and whether each statement
// begins as one.
class BodyParser {
 public:
  BodyParser(Scanner* scanner, ImageFunction* function, std::set<std::string>* called)
      : scanner_(scanner), function_(function), called_(called) {}

  // False: not PTX.
  bool Parse() {
    bool at_start = true;
    bool is_valid = true;
    std::string_view token = scanner_->Next();
    for (int depth = 1; depth > 0 && !token.empty(); token = scanner_->Next()) {
      if (token == "{" && at_start) ++depth;
      if (token == "{" && !at_start) SkipVector();
      if (token == "}") --depth;
      const bool begins = at_start;
      at_start = token == "{" || token == "}" || token == ";" || token == ":";
      if (token == ".local" || token == ".shared") {
        ParseVariableOf(token);
        at_start = true;
      } else if (begins && token == "@") {
        if (scanner_->Next() == "!") scanner_->Next();
        at_start = true;
      } else if (begins && std::islower(static_cast<unsigned char>(token[0])) != 0) {
        const std::string_view word = token;
        const std::string_view next = word.substr(0, 4) == "call" ? ReadCall() : scanner_->Next();
        is_valid &= next == ":" || IsPtxInstruction(word);
        at_start = next == ":" || next == ";";
        if (next == "{") SkipVector();
      }
    }
    return is_valid;
  }

 private:
  void SkipVector() {
    for (std::string_view token = scanner_->Next(); !token.empty() && token != "}";
         token = scanner_->Next()) {
    }
  }
  void ParseVariableOf(std::string_view space) {
    Variable variable;
    ParseVariable(scanner_, &variable);
    (space == ".local" ? function_->local_bytes : function_->shared_bytes) += variable.bytes;
  }
  std::string_view ReadCall() {
    std::string_view token = scanner_->Next();
    for (; !token.empty() && token != ";"; token = scanner_->Next()) {
      called_->insert(std::string(token));
    }
    return token;
  }

  Scanner* scanner_;
  ImageFunction* function_;
  std::set<std::string>* called_;
};

// Launch bounds stand between the parameters and the body: ".maxntid x, y, z".
std::string_view ParseBounds(Scanner* scanner, std::string_view token, ImageFunction* function) {
  while (!token.empty() && token != "{" && token != ";") {
    const bool is_bound = token == ".maxntid" || token == ".reqntid";
    token = scanner->Next();
    if (!is_bound) continue;
    uint64_t threads = 1;
    for (; !token.empty(); token = scanner->Next()) {
      if (token == ",") continue;
      if (std::isdigit(static_cast<unsigned char>(token[0])) == 0) break;
      threads *= std::clamp<uint64_t>(ParseNumber(token), 1, 1024);
    }
    function->max_threads = static_cast<int>(std::min<uint64_t>(threads, 1024));
  }
  return token;
}

bool ParseEntry(Scanner* scanner, Image* image, std::set<std::string>* called) {
  ImageFunction function;
  function.name = scanner->Next();
  std::string_view token = scanner->Next();
  if (token == "(") {
    ParseParameters(scanner, &function);
    token = scanner->Next();
  }
  bool is_valid = true;
  if (ParseBounds(scanner, token, &function) == "{") {
    is_valid = BodyParser(scanner, &function, called).Parse();
  }
  image->functions.push_back(std::move(function));
  return is_valid;
}

// "sm_90a" is 90.
int ParseTarget(std::string_view token) {
  return token.substr(0, 3) == "sm_" ? static_cast<int>(ParseNumber(token.substr(3))) : 0;
}

// One initial value: an integer (decimal, hexadecimal or octal), or a float as 0f or 0d and its
// bits. Anything else, a name for instance, is zero.
uint64_t ParseValue(std::string_view token) {
  const bool has_bits = token.size() > 2 && token[0] == '0' &&
                        (token[1] == 'f' || token[1] == 'F' || token[1] == 'd' || token[1] == 'D');
  const std::string text(token.substr(has_bits ? 2 : 0));
  return std::strtoull(text.c_str(), nullptr, has_bits ? 16 : 0);
}

// After the "=" of a variable: values between braces or one alone, up to ";".
std::string ParseInitial(Scanner* scanner, const Variable& variable) {
  std::string bytes;
  bool is_negative = false;
  for (std::string_view token = scanner->Next(); !token.empty() && token != ";";
       token = scanner->Next()) {
    const bool is_value = std::isdigit(static_cast<unsigned char>(token[0])) != 0;
    if (is_value && bytes.size() + variable.unit <= variable.bytes) {
      const uint64_t value = is_negative ? 0 - ParseValue(token) : ParseValue(token);
      bytes.append(reinterpret_cast<const char*>(&value), std::min<size_t>(variable.unit, 8));
      bytes.append(variable.unit - std::min<size_t>(variable.unit, 8), '\0');
    }
    is_negative = token == "-";
  }
  return bytes;
}

void ParseGlobal(Scanner* scanner, Image* image) {
  Variable variable;
  const std::string_view end = ParseVariable(scanner, &variable);
  if (variable.bytes == 0) return;
  ImageGlobal global{variable.name, variable.bytes, {}};
  if (end == "=") global.initial = ParseInitial(scanner, variable);
  image->globals.push_back(std::move(global));
}

}  // namespace

namespace {

// What the driver links to every module.
bool IsBuiltIn(const std::string& name) {
  static constexpr std::string_view kNames[] = {"vprintf", "malloc", "free", "__assertfail"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         name.rfind("cuda", 0) == 0 || name.rfind("__nv", 0) == 0;
}

// "9.0" is 90.
int ParseVersion(std::string_view token) {
  const size_t dot = token.find('.');
  if (dot == std::string_view::npos) return 0;
  return static_cast<int>(ParseNumber(token.substr(0, dot)) * 10 +
                          ParseNumber(token.substr(dot + 1)));
}

// The name behind ".extern .func [(.param ...)] name".
std::string ParseExternal(Scanner* scanner) {
  std::string_view token = scanner->Next();
  if (token != ".func") return {};
  token = scanner->Next();
  if (token == "(") {
    while (!token.empty() && token != ")") token = scanner->Next();
    token = scanner->Next();
  }
  return std::string(token);
}

}  // namespace

CUresult ReadPtx(std::string_view text, int capability, Image* out) {
  constexpr int kNewestPtx = 90;  // what CUDA 13.0 compiles
  if (text.find(".version") == std::string_view::npos) return CUDA_ERROR_INVALID_IMAGE;
  Scanner scanner(text);
  std::set<std::string> called;
  std::set<std::string> external;
  int depth = 0;
  bool is_valid = true;
  uint64_t constant_bytes = 0;
  const size_t first_function = out->functions.size();
  for (std::string_view token = scanner.Next(); !token.empty(); token = scanner.Next()) {
    if (token == "{") ++depth;
    if (token == "}") --depth;
    if (token == ".entry") {
      is_valid &= ParseEntry(&scanner, out, &called);
    } else if (token == ".version") {
      if (ParseVersion(scanner.Next()) > kNewestPtx) return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    } else if (token == ".target") {
      out->ptx_version = ParseTarget(scanner.Next());
      if (out->ptx_version > capability) return CUDA_ERROR_INVALID_PTX;
    } else if (token == ".extern") {
      external.insert(ParseExternal(&scanner));
    } else if (depth == 0 && (token == ".global" || token == ".const")) {
      const size_t before = out->globals.size();
      ParseGlobal(&scanner, out);
      if (token == ".const" && out->globals.size() > before) {
        constant_bytes += out->globals.back().bytes;
      }
    }
  }
  for (const std::string& name : external) {
    is_valid &= IsBuiltIn(name) || called.count(name) == 0;
  }
  out->calls_malloc |= external.count("malloc") > 0 && called.count("malloc") > 0;
  out->calls_printf |= external.count("vprintf") > 0 && called.count("vprintf") > 0;
  for (size_t i = first_function; i < out->functions.size(); ++i) {
    out->functions[i].constant_bytes = constant_bytes;
  }
  out->binary_version = capability;
  return is_valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
}

}  // namespace krux::sim
