// A conformance case: a few calls of the driver API or of NVML, and one line of answers.
//
// The families (cases_*.cc) are tables of cases; each case writes what it learnt into an Answer:
// results by name, sizes and counts, never addresses, times or identities, so that the line is the
// same whenever the same driver is asked on the same kind of card. The runner (runner.h) runs
// cases in child processes. A case that leaves the context broken has a process of its own; one
// that breaks a shared context ends its process, and the next case gets a fresh one.
//
// Nothing is linked: the libraries are opened at run time, and a name that they lack answers
// MISSING.
#ifndef KRUX_SIM_CONFORMANCE_CASE_H_
#define KRUX_SIM_CONFORMANCE_CASE_H_

#include <cuda.h>

#include <bit>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace krux::sim::conformance {

// The line that a case makes: values in the order in which they were added, `key=value` or `value`.
class Answer {
 public:
  void operator()(std::string_view key, CUresult result) { Add(key, ResultName(result)); }
  void operator()(CUresult result) { Add({}, ResultName(result)); }
  void operator()(std::string_view key, std::string_view text) { Add(key, text); }
  void operator()(std::string_view key, const char* text) { Add(key, text); }
  template <typename T>
    requires std::is_integral_v<T>
  void operator()(std::string_view key, T value) {
    Add(key, std::to_string(value));
  }
  const std::string& line() const { return line_; }

  // "OK", "INVALID_VALUE", ...; "error 1234" for numbers without a name in cuda.h.
  static std::string ResultName(CUresult result);

 private:
  void Add(std::string_view key, std::string_view value);
  std::string line_;
};

enum class Needs {
  kNothing,  // the libraries are loaded, nothing was called
  kInit,     // cuInit was called
  kContext,  // the primary context of device 0 is current
  kNvml,     // nvmlInit was called
  kBoth,     // kContext and kNvml
};

enum class Where {
  kShared,      // in one process with the other cases of the same needs
  kOwnProcess,  // in a process that nothing uses afterwards, beside others
  kAlone,       // likewise, while no other case runs: it reads figures of the whole card
};

struct Case {
  const char* id;  // family.subject.detail; stable for ever, since recordings name it
  Needs needs;
  void (*run)(Answer& out);
  Where where = Where::kShared;
};

// Every family, in order.
std::vector<Case> AllCases();

// What a call answers when the library lacks the name.
constexpr CUresult kMissing = static_cast<CUresult>(1001);
constexpr int kNvmlMissing = 100001;

// A value that the enumeration does not have.
template <typename Enumeration>
Enumeration Odd(int value) {
  return std::bit_cast<Enumeration>(value);
}

// Null when the library or the name is not there.
void* DriverSymbol(const char* name);
void* NvmlSymbol(const char* name);

template <typename Function, typename... Args>
CUresult CallDriver(const char* name, Args... args) {
  void* address = DriverSymbol(name);
  return address == nullptr ? kMissing : reinterpret_cast<Function>(address)(args...);
}
template <typename... Args>
int CallNvml(const char* name, Args... args) {
  void* address = NvmlSymbol(name);
  return address == nullptr ? kNvmlMissing : reinterpret_cast<int (*)(Args...)>(address)(args...);
}

// CU(cuMemAlloc, &pointer, 4): the call of that prototype in cuda.h, under its exported name.
#define KRUX_CONFORMANCE_TEXT(name) #name
#define KRUX_CONFORMANCE_CALL(name, ...) \
  ::krux::sim::conformance::CallDriver<decltype(&name)>(KRUX_CONFORMANCE_TEXT(name), ##__VA_ARGS__)
#define CU(name, ...) KRUX_CONFORMANCE_CALL(name, ##__VA_ARGS__)

// What cases share; context.cc. All of them answer for the calling process.
CUcontext PrimaryContext();
CUmodule TestModule();                // of kernels.h; null when it does not load
CUfunction Kernel(const char* name);  // of TestModule
size_t FreeBytes();                   // cuMemGetInfo's
std::string Mib(long long bytes);     // "12" or "12.25"; what the figures are written in
CUresult Launch(CUfunction kernel, CUstream stream = nullptr, void** parameters = nullptr);
// Runs this program again as `--helper name`; its exit code, or -signal.
int RunHelper(const char* name);
// What `--helper name` does; the exit code.
int Helper(std::string_view name);

}  // namespace krux::sim::conformance

#endif  // KRUX_SIM_CONFORMANCE_CASE_H_
