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

// What the program said of a node, given back to it on request. Which member counts follows from
// the node's type.
struct NodeParameters {
  CUDA_MEMCPY3D copy{};
  CUDA_MEMSET_NODE_PARAMS memset{};
  CUDA_HOST_NODE_PARAMS host{};
  CUDA_MEM_ALLOC_NODE_PARAMS allocation{};
  CUdeviceptr freed = 0;
  CUevent event = nullptr;
  std::vector<CUstreamBatchMemOpParams> operations;
};

// One piece of work; can be done any number of times.
struct Work {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::shared_ptr<const NodeParameters> parameters;  // null: a kernel, or nothing to tell
  std::vector<Work> parts;                           // of a batch: done one after the other
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
struct GraphNode;

struct Capture {
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  Stream* origin = nullptr;
  Graph* graph = nullptr;
  bool owns_graph = true;  // false: it was there before, and stays when the capture fails
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
// What a query of an event answers that was recorded in a capture; it breaks the capture.
CUresult AskCapturedEvent(Event* event);
// A capture whose origin is destroyed comes to nothing.
void AbandonCapture(Stream* stream);
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
// The legacy stream can't be used while a blocking stream of the context captures; trying breaks
// the capture.
CUresult CheckLegacyUse(Stream* stream);
// The same, for a question that breaks nothing.
bool IsLegacyInUse(Stream* stream);

// Begins a capture into a graph that the program made, after the given nodes of it.
CUresult BeginCaptureInto(Stream* stream, Graph* graph, std::vector<GraphNode*> after,
                          CUstreamCaptureMode mode);
// Changes what the stream's next captured node comes after; false: it does not capture.
bool SetCaptureEnds(Stream* stream, const std::vector<GraphNode*>& after, bool adds);
// The operation that a stream is given for a piece of work.
Operation OperationOf(const Work& work);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_CAPTURE_H_
