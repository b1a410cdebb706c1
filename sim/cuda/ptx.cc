// The little that is needed of PTX: entries with their parameters, local and shared variables, and
// module-level globals.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>

#include "sim/cuda/image.h"

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

void ParseBody(Scanner* scanner, ImageFunction* function) {
  int depth = 1;
  while (depth > 0) {
    const std::string_view token = scanner->Next();
    if (token.empty()) return;
    if (token == "{") ++depth;
    if (token == "}") --depth;
    if (token != ".local" && token != ".shared") continue;
    Variable variable;
    ParseVariable(scanner, &variable);
    (token == ".local" ? function->local_bytes : function->shared_bytes) += variable.bytes;
  }
}

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

void ParseEntry(Scanner* scanner, Image* image) {
  ImageFunction function;
  function.name = scanner->Next();
  std::string_view token = scanner->Next();
  if (token == "(") {
    ParseParameters(scanner, &function);
    token = scanner->Next();
  }
  if (ParseBounds(scanner, token, &function) == "{") ParseBody(scanner, &function);
  image->functions.push_back(std::move(function));
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

CUresult ReadPtx(std::string_view text, int capability, Image* out) {
  if (text.find(".version") == std::string_view::npos) return CUDA_ERROR_INVALID_IMAGE;
  Scanner scanner(text);
  int depth = 0;
  for (std::string_view token = scanner.Next(); !token.empty(); token = scanner.Next()) {
    if (token == "{") ++depth;
    if (token == "}") --depth;
    if (token == ".entry") {
      ParseEntry(&scanner, out);
    } else if (token == ".target") {
      out->ptx_version = ParseTarget(scanner.Next());
      if (out->ptx_version > capability) return CUDA_ERROR_INVALID_PTX;
    } else if (depth == 0 && (token == ".global" || token == ".const")) {
      ParseGlobal(&scanner, out);
    }
  }
  out->binary_version = capability;
  return CUDA_SUCCESS;
}

}  // namespace krux::sim
