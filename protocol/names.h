// Names that more than one module or the user sees: resources, annotations, paths. The one list;
// the Go adapter's copy (scheduler/plugin/names.go) is compared with it by a test.
#ifndef KRUX_PROTOCOL_NAMES_H_
#define KRUX_PROTOCOL_NAMES_H_

namespace krux::names {

// Extended resources (integers; requests = limits).
inline constexpr char kResourceGpu[] = "krux.io/gpu";        // virtual GPUs, each on another card
inline constexpr char kResourceMemory[] = "krux.io/gpumem";  // MiB of each
inline constexpr char kResourceMemoryPercent[] = "krux.io/gpumem-percentage";
inline constexpr char kResourceCores[] = "krux.io/gpucores";  // percent of each card's time

// Pod annotations.
inline constexpr char kAnnotationGrant[] = "krux.io/grant";  // written by the scheduler alone
inline constexpr char kAnnotationPolicy[] = "krux.io/compute-policy";
inline constexpr char kAnnotationPriority[] = "krux.io/priority";

// The RuntimeClass handler of Krux containers.
inline constexpr char kRuntimeHandler[] = "krux";

// Device plugin slots: krux-0, krux-1, ... (anonymous: a slot is not a card).
inline constexpr char kSlotPrefix[] = "krux-";

// On the node. Every daemon takes another root as a flag; these are the defaults.
inline constexpr char kRunFolder[] = "/run/krux";          // agent.sock, plugin.sock, containers/
inline constexpr char kStateFolder[] = "/var/lib/krux";    // ledger
inline constexpr char kAgentSocket[] = "agent.sock";       // in the run folder: root only
inline constexpr char kPluginSocket[] = "plugin.sock";     // in the run folder: descriptor store
inline constexpr char kContainersFolder[] = "containers";  // in the run folder: one folder each

// A container's folder holds these two files; it is mounted read-only over kContainerMount.
inline constexpr char kLimitsFile[] = "limits";
inline constexpr char kLimiterSocket[] = "agent.sock";
inline constexpr char kContainerMount[] = "/run/krux";
inline constexpr char kLimiterInContainer[] = "/usr/lib/krux/libkrux.so";

// `krux run` has no mount to offer: the folder is named by this variable. It counts only where
// nothing is mounted at kContainerMount, so that no container can choose its own limits.
inline constexpr char kFolderVariable[] = "KRUX_CONTAINER_FOLDER";

}  // namespace krux::names

#endif  // KRUX_PROTOCOL_NAMES_H_
