// The little that is needed of PTX: entries with their parameters, local and shared variables, and
// module-level globals.
#include <cctype>
#include <cstring>
#include <string_view>

#include "sim/cuda/module.h"

namespace krux::sim {
namespace {

constexpr size_t kMaxPtxBytes = 64 << 20;

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
  uint64_t alignment = 1;
};

// After ".param", ".local", ".global" and the like, up to the token that ends the declaration:
// [.align N] .type name [\[N\]]...
std::string_view ParseVariable(Scanner* scanner, Variable* variable) {
  uint64_t unit = 0;
  uint64_t count = 1;
  for (std::string_view token = scanner->Next(); !token.empty(); token = scanner->Next()) {
    if (token == "," || token == ")" || token == ";" || token == "=" || token == "{") {
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

void ParseParameters(Scanner* scanner, Function* function) {
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

void ParseBody(Scanner* scanner, Function* function) {
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

void ParseEntry(Scanner* scanner, Module* module) {
  auto* function = Make<Function>();
  function->module = module;
  function->name = scanner->Next();
  module->functions.push_back(function);
  std::string_view token = scanner->Next();
  if (token == "(") {
    ParseParameters(scanner, function);
    token = scanner->Next();
  }
  while (!token.empty() && token != "{" && token != ";") token = scanner->Next();
  if (token == "{") ParseBody(scanner, function);
}

}  // namespace

CUresult LoadPtx(const char* text, std::unique_ptr<Module>* out) {
  const size_t length = strnlen(text, kMaxPtxBytes);
  const std::string_view image(text, length);
  if (image.find(".version") == std::string_view::npos) return CUDA_ERROR_INVALID_IMAGE;
  std::unique_ptr<Module> module(Make<Module>());
  Scanner scanner(image);
  int depth = 0;
  for (std::string_view token = scanner.Next(); !token.empty(); token = scanner.Next()) {
    if (token == "{") ++depth;
    if (token == "}") --depth;
    if (token == ".entry") {
      ParseEntry(&scanner, module.get());
    } else if (depth == 0 && (token == ".global" || token == ".const")) {
      Variable variable;
      ParseVariable(&scanner, &variable);
      if (variable.bytes > 0) module->globals.push_back({variable.name, variable.bytes, 0});
    }
  }
  *out = std::move(module);
  return CUDA_SUCCESS;
}

}  // namespace krux::sim
