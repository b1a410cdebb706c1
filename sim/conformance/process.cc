// What the cases of one process share: libraries, context, module, figures.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "sim/conformance/case.h"
#include "sim/conformance/kernels.h"

namespace krux::sim::conformance {

void* DriverSymbol(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  return library == nullptr ? nullptr : dlsym(library, name);
}

void* NvmlSymbol(const char* name) {
  static void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  return library == nullptr ? nullptr : dlsym(library, name);
}

CUcontext PrimaryContext() {
  static CUcontext context = [] {
    CUcontext made = nullptr;
    CU(cuDevicePrimaryCtxRetain, &made, 0);
    return made;
  }();
  return context;
}

CUmodule TestModule() {
  static CUmodule module = [] {
    CUmodule made = nullptr;
    CU(cuModuleLoadData, &made, kPtx);
    return made;
  }();
  return module;
}

CUfunction Kernel(const char* name) {
  CUfunction kernel = nullptr;
  CU(cuModuleGetFunction, &kernel, TestModule(), name);
  return kernel;
}

size_t FreeBytes() {
  size_t free = 0;
  size_t total = 0;
  CU(cuMemGetInfo, &free, &total);
  return free;
}

std::string Mib(long long bytes) {
  char text[48];
  std::snprintf(text, sizeof text, "%.3f", static_cast<double>(bytes) / 1048576.0);
  std::string trimmed = text;
  trimmed.erase(trimmed.find_last_not_of('0') + 1);
  if (trimmed.back() == '.') trimmed.pop_back();
  return trimmed == "-0" ? "0" : trimmed;
}

CUresult Launch(CUfunction kernel, CUstream stream, void** parameters) {
  return CU(cuLaunchKernel, kernel, 1U, 1U, 1U, 32U, 1U, 1U, 0U, stream, parameters, nullptr);
}

int RunHelper(const char* name) {
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid < 0) return -1;
  if (pid == 0) {
    execl("/proc/self/exe", "krux-conformance", "--helper", name, static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace krux::sim::conformance
