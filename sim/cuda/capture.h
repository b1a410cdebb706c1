// Work that a stream is given, and stream capture, which turns it into graph nodes instead.
//
// Every asynchronous call ends in Enqueue: into the stream, or, while the stream captures, into the
// capture's graph. The rules on what a capture forbids are the Check functions.
// Thread rule: Enqueue and the checks are thread-safe; a Graph is guarded by the capture lock while
// it is captured, later by the program, as the API demands.
#ifndef KRUX_SIM_CUDA_CAPTURE_H_
#define KRUX_SIM_CUDA_CAPTURE_H_

#include <cuda.h>

#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "sim/cuda/driver.h"

namespace krux::sim {

struct Function;

// One piece of work; can be done any number of times.
struct Work {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  Nanos cost = 0;
  float width = 1;
  bool on_card = false;
  std::function<std::unique_ptr<Action>()> make_action;  // null: nothing happens at the end
  CUDA_KERNEL_NODE_PARAMS kernel = {};                   // of kernel nodes
  std::vector<char> packed_parameters;                   // what kernel.kernelParams pointed at
};

// An action from a function object.
template <typename F>
std::unique_ptr<Action> MakeAction(F run) {
  struct Plain : Action {
    explicit Plain(F function) : body(std::move(function)) {}
    void Run() override { body(); }
    F body;
  };
  return std::make_unique<Plain>(std::move(run));
}

struct Graph;

struct GraphNode : Tagged {
  static constexpr uint32_t kTag = 0x474e4f44;
  Graph* graph = nullptr;
  Work work;
  std::vector<GraphNode*> after;
  const GraphNode* original = nullptr;  // in an executable graph: the node that this was made from
  std::vector<void*> parameter_pointers;  // handed out by cuGraphKernelNodeGetParams
};

struct Graph : Tagged {
  static constexpr uint32_t kTag = 0x47524150;
  std::vector<GraphNode*> nodes;
};

struct GraphExec : Tagged {
  static constexpr uint32_t kTag = 0x47455845;
  Graph* graph = nullptr;  // a sorted copy
};

struct Capture {
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  Stream* origin = nullptr;
  Graph* graph = nullptr;
  bool is_invalid = false;
  std::map<Stream*, std::vector<GraphNode*>> ends;  // per stream: what its next node comes after
  std::vector<GraphNode*> joined;                   // ends that came back into the origin
};

// Appends work to a stream or to the graph that it captures.
CUresult Enqueue(Stream* stream, Work work);

CUresult BeginCapture(Stream* stream, CUstreamCaptureMode mode);
CUresult EndCapture(Stream* stream, Graph** graph);
// Events in captures: what a record stands for, and a wait that pulls a stream into the capture.
CUresult RecordInCapture(Stream* stream, Event* event);
CUresult WaitForEvent(Stream* stream, Event* event);
struct CaptureState {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  uint64_t id = 0;
  Graph* graph = nullptr;
  std::vector<GraphNode*> after;
};
CaptureState StateOfCapture(Stream* stream);

// Refuses what synchronises with a capturing stream, and breaks that capture.
CUresult CheckNotCapturing(Stream* stream);
// The same for calls that wait for a whole context.
CUresult CheckNoCapture(Context* context);
// Refuses calls that are unsafe while a capture runs (allocations, event queries): those of any
// thread for a global capture, of its own thread for a thread-local one; not of relaxed threads.
CUresult CheckAllowedInCapture();
// The legacy stream can't be used while a blocking stream of the context captures.
CUresult CheckLegacyUse(Stream* stream);

CUresult LaunchGraph(const std::vector<GraphNode*>& nodes, Stream* stream);
void DestroyGraph(Graph* graph);
Graph* CopyGraph(const Graph& graph);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_CAPTURE_H_
