#include "sim/cuda/module.h"

#include <algorithm>
#include <cstring>

#include "sim/cuda/launch.h"
#include "sim/cuda/memory.h"

namespace krux::sim {
namespace {

constexpr size_t kLargestImage = size_t{2} << 30;

void FindCost(Function* function) {
  const State& state = TheState().data();
  for (uint32_t i = 0; i < state.kernel_cost_count; ++i) {
    const KernelCost& cost = state.kernel_costs[i];
    if (!MatchesName(function->name, cost.name)) continue;
    function->has_named_cost = true;
    function->base_cost = static_cast<Nanos>(cost.base_ns);
    function->picoseconds_per_unit = cost.picoseconds_per_unit;
    function->cost_parameter = cost.parameter;
  }
}

std::vector<Function*> MakeFunctions(const Image& image, Module* module, Library* library) {
  std::vector<Function*> functions;
  for (const ImageFunction& described : image.functions) {
    auto* function = Make<Function>();
    static_cast<ImageFunction&>(*function) = described;
    const int shared = static_cast<int>(std::min<uint64_t>(described.shared_bytes, 48 * 1024));
    function->max_dynamic_shared_bytes -= shared;
    function->module = module;
    function->library = library;
    function->index = functions.size();
    function->uses_heap = image.calls_malloc;
    function->ptx_version = image.ptx_version;
    function->binary_version = image.binary_version;
    function->computes = FindNamedKernel(function->name, function->parameters.size());
    FindCost(function);
    functions.push_back(function);
  }
  return functions;
}

// An H200 gave 62 MiB more for a module that calls printf and 138 MiB for one that calls malloc,
// when it was loaded: what local memory takes that is as large as these per thread.
CUresult MakeRoomForCalls(const Image& image, Context* context) {
  constexpr size_t kPrintfStack = 1264;
  constexpr size_t kMallocStack = 1552;
  const size_t needed = image.calls_malloc ? kMallocStack : image.calls_printf ? kPrintfStack : 0;
  return GrowLocalMemory(context, needed);
}

CUresult PlaceGlobals(const Image& image, Module* module) {
  DeviceMemory& memory = module->context->device->memory();
  for (const ImageGlobal& described : image.globals) {
    Global global{described.name, described.bytes, 0};
    const CUresult result = memory.Allocate(module->context, global.bytes, MemoryKind::kLinear,
                                            &global.address, SlabsOf::kModules);
    if (result != CUDA_SUCCESS) return result;
    memory.Change(global.address, [](Allocation& allocation) { allocation.is_global = true; });
    if (!described.initial.empty()) {
      std::memcpy(memory.Backing(global.address, global.bytes), described.initial.data(),
                  described.initial.size());
    }
    module->globals.push_back(global);
  }
  return CUDA_SUCCESS;
}

CUresult MakeModule(const Image& image, Context* context, Library* library, Module** out) {
  auto* module = Make<Module>();
  module->context = context;
  module->context_id = context->id;
  module->library = library;
  module->functions = MakeFunctions(image, module, library);
  CUresult result = MakeRoomForCalls(image, context);
  if (result == CUDA_SUCCESS) result = PlaceGlobals(image, module);
  if (result != CUDA_SUCCESS) {
    Unload(module);
    return result;
  }
  *out = module;
  return CUDA_SUCCESS;
}

int CapabilityOf(const Card& card) {
  return static_cast<int>(card.compute_major * 10 + card.compute_minor);
}

}  // namespace

CUresult LoadModule(Context* context, const void* image, Module** out) {
  Image read;
  const CUresult result =
      ReadImage(image, kLargestImage, CapabilityOf(context->device->card()), &read);
  return result == CUDA_SUCCESS ? MakeModule(read, context, nullptr, out) : result;
}

// A library is for all devices; here all are of one model, so the first one's code is chosen.
CUresult LoadLibrary(const void* image, Library** out) {
  auto* library = Make<Library>();
  const CUresult result =
      ReadImage(image, kLargestImage, CapabilityOf(Devices()[0]->card()), &library->image);
  if (result == CUDA_ERROR_INVALID_PTX) library->error = result;
  if (result != CUDA_SUCCESS && result != library->error) {
    Bury(library);
    return result;
  }
  library->kernels = MakeFunctions(library->image, nullptr, library);
  *out = library;
  return CUDA_SUCCESS;
}

CUresult ModuleOf(Library* library, Context* context, Module** out) {
  if (library->error != CUDA_SUCCESS) return library->error;
  const std::lock_guard<std::mutex> lock(library->mutex);
  Module*& module = library->modules[context->id];
  if (module == nullptr) {
    const CUresult result = MakeModule(library->image, context, library, &module);
    if (result != CUDA_SUCCESS) return result;
  }
  *out = module;
  return CUDA_SUCCESS;
}

void Unload(Module* module) {
  // A context that is gone took its memory with it.
  if (Checked<Context>(module->context) != nullptr && module->context->id == module->context_id) {
    for (const Global& global : module->globals) {
      module->context->device->memory().Free(global.address);
    }
  }
  for (Function* function : module->functions) Bury(function);
  Bury(module);
}

void Unload(Library* library) {
  for (const auto& [context, module] : library->modules) {
    if (module != nullptr) Unload(module);
  }
  for (Function* kernel : library->kernels) Bury(kernel);
  Bury(library);
}

Function* FindFunction(const std::vector<Function*>& functions, const char* name) {
  for (Function* function : functions) {
    if (function->name == name) return function;
  }
  return nullptr;
}

}  // namespace krux::sim
