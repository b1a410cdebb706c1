// Modules and functions from PTX; the linker.
#include <cstring>
#include <string>
#include <vector>

#include "sim/conformance/families.h"
#include "sim/conformance/kernels.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

void Load(Answer& out, const void* image) {
  CUmodule module = nullptr;
  out("load", CU(cuModuleLoadData, &module, image));
  if (module != nullptr) out("unload", CU(cuModuleUnload, module));
}

void Attributes(Answer& out, const char* name) {
  CUfunction kernel = Kernel(name);
  // Registers and code versions are the compiler's choice.
  for (const int attribute : {0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}) {
    int value = 0;
    const CUresult result =
        CU(cuFuncGetAttribute, &value, static_cast<CUfunction_attribute>(attribute), kernel);
    out(std::to_string(attribute),
        result == CUDA_SUCCESS ? std::to_string(value) : Answer::ResultName(result));
  }
}

void Global(Answer& out, const char* name) {
  CUdeviceptr pointer = 0;
  size_t bytes = 77;
  out("result", CU(cuModuleGetGlobal, &pointer, &bytes, TestModule(), name));
  out("bytes", bytes);
  out("pointer", pointer != 0);
}

const Case kCases[] = {
    {"module.load.ptx", kContext, [](Answer& out) { Load(out, kPtx); }},
    {"module.load.syntax-error", kContext, [](Answer& out) { Load(out, kPtxSyntaxError); }},
    {"module.load.too-new", kContext, [](Answer& out) { Load(out, kPtxTooNew); }},
    {"module.load.unresolved", kContext, [](Answer& out) { Load(out, kPtxUnresolved); }},
    {"module.load.empty-text", kContext, [](Answer& out) { Load(out, ""); }},
    {"module.load.words", kContext, [](Answer& out) { Load(out, "these are no instructions"); }},
    {"module.load.null", kContext,
     [](Answer& out) {
       CUmodule module = nullptr;
       out("image", CU(cuModuleLoadData, &module, nullptr));
       out("out", CU(cuModuleLoadData, nullptr, kPtx));
     }},
    {"module.load.elf-header", kContext,
     [](Answer& out) {
       std::vector<unsigned char> image(4096);
       std::memcpy(image.data(),
                   "\x7f"
                   "ELF\x02\x01\x01",
                   7);
       Load(out, image.data());
     }},
    {"module.load.fatbin-header", kContext,
     [](Answer& out) {
       std::vector<unsigned char> image(4096);
       const unsigned magic = 0xba55ed50;
       std::memcpy(image.data(), &magic, 4);
       Load(out, image.data());
     },
     kOwnProcess},
    {"module.load.file", kContext,
     [](Answer& out) {
       CUmodule module = nullptr;
       out("missing", CU(cuModuleLoad, &module, "/nonexistent/file.ptx"));
       out("null", CU(cuModuleLoad, &module, nullptr));
     }},
    {"module.load.no-entry", kContext,
     [](Answer& out) { Load(out, ".version 7.0\n.target sm_75\n.address_size 64\n"); }},
    {"module.load.newer-target", kContext,
     [](Answer& out) {
       Load(out,
            ".version 8.6\n.target sm_120\n.address_size 64\n.visible .entry e()\n{\n ret;\n}\n");
     }},
    {"module.load.twice", kContext,
     [](Answer& out) {
       CUmodule first = nullptr;
       CUmodule second = nullptr;
       out("first", CU(cuModuleLoadData, &first, kPtx));
       out("second", CU(cuModuleLoadData, &second, kPtx));
       out("differ", first != second);
       CU(cuModuleUnload, first);
       CU(cuModuleUnload, second);
     }},
    {"module.load.options", kContext,
     [](Answer& out) {
       char log[4096] = {};
       std::vector<CUjit_option> options = {CU_JIT_ERROR_LOG_BUFFER,
                                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
       std::vector<void*> values = {log, reinterpret_cast<void*>(sizeof log)};
       CUmodule module = nullptr;
       out("good", CU(cuModuleLoadDataEx, &module, kPtx, 2U, options.data(), values.data()));
       out("log", std::strlen(log) != 0);
       values = {log, reinterpret_cast<void*>(sizeof log)};
       out("broken",
           CU(cuModuleLoadDataEx, &module, kPtxSyntaxError, 2U, options.data(), values.data()));
       out("log", std::strlen(log) != 0);
       out("written", reinterpret_cast<size_t>(values[1]) == sizeof log ? "kept" : "set");
       options = {Odd<CUjit_option>(500)};
       values = {nullptr};
       out("unknown", CU(cuModuleLoadDataEx, &module, kPtx, 1U, options.data(), values.data()));
       out("null", CU(cuModuleLoadDataEx, &module, kPtx, 1U, nullptr, nullptr));
     },
     kOwnProcess},
    {"module.unload.bad", kContext, [](Answer& out) { out(CU(cuModuleUnload, nullptr)); }},
    {"module.loading-mode", kContext,
     [](Answer& out) {
       CUmoduleLoadingMode mode{};
       out("result", CU(cuModuleGetLoadingMode, &mode));
       out("mode", static_cast<int>(mode));
     }},
    {"module.function.missing", kContext,
     [](Answer& out) {
       CUfunction kernel = nullptr;
       out("missing", CU(cuModuleGetFunction, &kernel, TestModule(), "none"));
       out("empty", CU(cuModuleGetFunction, &kernel, TestModule(), ""));
       out("null-name", CU(cuModuleGetFunction, &kernel, TestModule(), nullptr));
       out("null-out", CU(cuModuleGetFunction, nullptr, TestModule(), "empty"));
       out("null-module", CU(cuModuleGetFunction, &kernel, nullptr, "empty"));
     }},
    {"module.function.same", kContext,
     [](Answer& out) {
       out("same", Kernel("empty") == Kernel("empty"));
       out("differ", Kernel("empty") != Kernel("three"));
     }},
    {"module.function.count", kContext,
     [](Answer& out) {
       unsigned count = 77;
       out("result", CU(cuModuleGetFunctionCount, &count, TestModule()));
       out("count", count);
       std::vector<CUfunction> functions(count);
       out("enumerate", CU(cuModuleEnumerateFunctions, functions.data(), count, TestModule()));
       out("set", !functions.empty() && functions[0] != nullptr);
     }},
    {"module.function.attributes.empty", kContext, [](Answer& out) { Attributes(out, "empty"); }},
    {"module.function.attributes.shared", kContext,
     [](Answer& out) { Attributes(out, "shared_4k"); }},
    {"module.function.attributes.local", kContext,
     [](Answer& out) { Attributes(out, "local_8k"); }},
    {"module.function.attributes.bad", kContext,
     [](Answer& out) {
       int value = 0;
       out("large",
           CU(cuFuncGetAttribute, &value, Odd<CUfunction_attribute>(500), Kernel("empty")));
       out("null", CU(cuFuncGetAttribute, nullptr, CU_FUNC_ATTRIBUTE_NUM_REGS, Kernel("empty")));
       out("null-function", CU(cuFuncGetAttribute, &value, CU_FUNC_ATTRIBUTE_NUM_REGS, nullptr));
     }},
    {"module.function.set-shared", kContext,
     [](Answer& out) {
       CUfunction kernel = Kernel("shared_4k");
       const CUfunction_attribute attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
       for (const int bytes : {0, 49152, 65536, 100000, 223232, 227328, 232448, 1 << 20, -1}) {
         out(std::to_string(bytes), CU(cuFuncSetAttribute, kernel, attribute, bytes));
       }
       int value = 0;
       CU(cuFuncGetAttribute, &value, attribute, kernel);
       out("value", value);
     },
     kOwnProcess},
    {"module.function.set-others", kContext,
     [](Answer& out) {
       CUfunction kernel = Kernel("empty");
       out("carveout",
           CU(cuFuncSetAttribute, kernel, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));
       out("carveout-101",
           CU(cuFuncSetAttribute, kernel, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101));
       out("registers", CU(cuFuncSetAttribute, kernel, CU_FUNC_ATTRIBUTE_NUM_REGS, 10));
       out("cache", CU(cuFuncSetCacheConfig, kernel, CU_FUNC_CACHE_PREFER_L1));
       out("cache-bad", CU(cuFuncSetCacheConfig, kernel, Odd<CUfunc_cache>(77)));
     },
     kOwnProcess},
    {"module.function.module", kContext,
     [](Answer& out) {
       CUmodule module = nullptr;
       out("result", CU(cuFuncGetModule, &module, Kernel("empty")));
       out("same", module == TestModule());
     }},
    {"module.function.name", kContext,
     [](Answer& out) {
       const char* name = nullptr;
       out("result", CU(cuFuncGetName, &name, Kernel("three")));
       out("name", name == nullptr ? "null" : name);
     }},
    {"module.function.parameters", kContext,
     [](Answer& out) {
       for (size_t i = 0; i < 4; ++i) {
         size_t offset = 77;
         size_t size = 77;
         out("result", CU(cuFuncGetParamInfo, Kernel("three"), i, &offset, &size));
         out("at", offset);
         out("size", size);
       }
     }},
    {"module.function.loaded", kContext,
     [](Answer& out) {
       CUfunctionLoadingState state{};
       CUfunction kernel = Kernel("launch_failure");
       out("before", CU(cuFuncIsLoaded, &state, kernel));
       out("state", static_cast<int>(state));
       out("load", CU(cuFuncLoad, kernel));
       CU(cuFuncIsLoaded, &state, kernel);
       out("state", static_cast<int>(state));
     },
     kOwnProcess},
    {"module.global", kContext, [](Answer& out) { Global(out, "numbers"); }},
    {"module.global.constant", kContext, [](Answer& out) { Global(out, "constants"); }},
    {"module.global.missing", kContext, [](Answer& out) { Global(out, "none"); }},
    {"module.global.function-name", kContext, [](Answer& out) { Global(out, "empty"); }},
    {"module.global.nulls", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       size_t bytes = 0;
       out("size", CU(cuModuleGetGlobal, &pointer, nullptr, TestModule(), "numbers"));
       out("pointer", CU(cuModuleGetGlobal, nullptr, &bytes, TestModule(), "numbers"));
       out("both", CU(cuModuleGetGlobal, nullptr, nullptr, TestModule(), "numbers"));
       out("name", CU(cuModuleGetGlobal, &pointer, &bytes, TestModule(), nullptr));
     }},
    {"module.global.contents", kContext,
     [](Answer& out) {
       CUmodule module = nullptr;
       CU(cuModuleLoadData, &module,
          ".version 7.0\n.target sm_75\n.address_size 64\n"
          ".visible .global .align 4 .u32 seven[2] = {7, 8};\n"
          ".visible .entry e()\n{\n ret;\n}\n");
       CUdeviceptr pointer = 0;
       size_t bytes = 0;
       out("get", CU(cuModuleGetGlobal, &pointer, &bytes, module, "seven"));
       unsigned words[2] = {};
       out("copy", CU(cuMemcpyDtoH, words, pointer, 8));
       out("first", words[0]);
       out("second", words[1]);
       out("free", CU(cuMemFree, pointer));
       CU(cuModuleUnload, module);
     }},
    {"module.texture-reference", kContext,
     [](Answer& out) {
       CUtexref reference = nullptr;
       out(CU(cuModuleGetTexRef, &reference, TestModule(), "none"));
     }},
    {"linker.ptx-to-cubin", kContext,
     [](Answer& out) {
       CUlinkState state = nullptr;
       out("create", CU(cuLinkCreate, 0U, nullptr, nullptr, &state));
       out("add", CU(cuLinkAddData, state, CU_JIT_INPUT_PTX, const_cast<char*>(kPtx), sizeof kPtx,
                     "kernels", 0U, nullptr, nullptr));
       void* cubin = nullptr;
       size_t bytes = 0;
       out("complete", CU(cuLinkComplete, state, &cubin, &bytes));
       out("elf", cubin != nullptr && std::memcmp(cubin,
                                                  "\x7f"
                                                  "ELF",
                                                  4) == 0);
       Load(out, cubin);
       out("destroy", CU(cuLinkDestroy, state));
     },
     kOwnProcess},
    {"linker.bad", kContext,
     [](Answer& out) {
       CUlinkState state = nullptr;
       out("null", CU(cuLinkCreate, 0U, nullptr, nullptr, nullptr));
       CU(cuLinkCreate, 0U, nullptr, nullptr, &state);
       out("broken", CU(cuLinkAddData, state, CU_JIT_INPUT_PTX, const_cast<char*>(kPtxSyntaxError),
                        sizeof kPtxSyntaxError, "broken", 0U, nullptr, nullptr));
       out("file",
           CU(cuLinkAddFile, state, CU_JIT_INPUT_PTX, "/nonexistent", 0U, nullptr, nullptr));
       CU(cuLinkDestroy, state);
     },
     kOwnProcess},
};

}  // namespace

std::span<const Case> ModuleCases() { return kCases; }

}  // namespace krux::sim::conformance
