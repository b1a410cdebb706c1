// The tables of cases, one per family; AllCases (families.cc) puts them in order.
#ifndef KRUX_SIM_CONFORMANCE_FAMILIES_H_
#define KRUX_SIM_CONFORMANCE_FAMILIES_H_

#include <span>

#include "sim/conformance/case.h"

namespace krux::sim::conformance {

std::span<const Case> ArrayCases();
std::span<const Case> CaptureCases();
std::span<const Case> ContextCases();
std::span<const Case> CopyCases();
std::span<const Case> DeviceCases();
std::span<const Case> EventCases();
std::span<const Case> FactCases();
std::span<const Case> FaultCases();
std::span<const Case> GraphCases();
std::span<const Case> GraphNodeCases();
std::span<const Case> HostCases();
std::span<const Case> InitCases();
std::span<const Case> IpcCases();
std::span<const Case> LaunchCases();
std::span<const Case> LibraryCases();
std::span<const Case> LookupCases();
std::span<const Case> ManagedCases();
std::span<const Case> MemoryCases();
std::span<const Case> ModuleCases();
std::span<const Case> NvmlCases();
std::span<const Case> NvmlUseCases();
std::span<const Case> PointerCases();
std::span<const Case> PoolCases();
std::span<const Case> StreamCases();
std::span<const Case> TableCases();
std::span<const Case> VirtualCases();

}  // namespace krux::sim::conformance

#endif  // KRUX_SIM_CONFORMANCE_FAMILIES_H_
