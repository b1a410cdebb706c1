#include "sim/conformance/families.h"

namespace krux::sim::conformance {

std::vector<Case> AllCases() {
  std::vector<Case> all;
  for (const std::span<const Case> family :
       {InitCases(),    LookupCases(),  TableCases(),   DeviceCases(),    ContextCases(),
        MemoryCases(),  HostCases(),    ManagedCases(), PoolCases(),      VirtualCases(),
        CopyCases(),    ArrayCases(),   PointerCases(), IpcCases(),       StreamCases(),
        EventCases(),   CaptureCases(), GraphCases(),   GraphNodeCases(), ModuleCases(),
        LibraryCases(), LaunchCases(),  FaultCases(),   FactCases(),      NvmlCases(),
        NvmlUseCases()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

}  // namespace krux::sim::conformance
