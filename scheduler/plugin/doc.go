// Package plugin is the Krux plugin for kube-scheduler: it turns Kubernetes
// objects into the engine's arguments and the engine's answers into statuses,
// grants and bindings. Decisions are the engine's (scheduler/engine, C++).
//
// One scheduling cycle: PreFilter reads the pod's request once; Filter asks
// the engine whether the pod fits on the node that it is given; Score ranks
// nodes, tightest fit first; Reserve fixes GPUs by name in the ledger; Bind
// writes node name and grant in one Binding.
//
// What a node's GPUs hold is never stored: it is counted each time from the
// pods of the NodeInfo at hand, so that preemption, restarts and the
// scheduler's own cache need no bookkeeping here. A pod's share comes from its
// grant annotation, or, before the annotation has come back from the API
// server, from the ledger of pods placed by this process.
//
// There is no PreEnqueue: a pod refused there gets neither event nor condition
// (queue.runPreEnqueuePlugin only logs), so that nobody would learn why it
// waits. PreFilter refuses with a reason that the user sees.
package plugin
