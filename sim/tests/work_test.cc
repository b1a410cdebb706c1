// Work: things happen when they are due, without the program calling in; order; captures.
#include <atomic>
#include <thread>

#include "common/clock.h"
#include "sim/tests/sim_test.h"

namespace krux::sim {
namespace {

using WorkTest = SimTest;

// Looks at memory only: no CUDA call helps.
bool BecomesTrue(const std::function<bool()>& condition) {
  const Nanos end = MonotonicNow() + 20 * kSecond;
  while (!condition()) {
    if (MonotonicNow() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST_F(WorkTest, KernelTakesItsCost) {
  InChild([] {
    Program program;
    program.Open();
    const Nanos start = MonotonicNow();
    for (int i = 0; i < 10; ++i) KRUX_CUDA_OK(program.Launch(1000));
    EXPECT_EQ(cuStreamQuery(program.stream), CUDA_ERROR_NOT_READY);
    KRUX_CUDA_OK(cuStreamSynchronize(program.stream));
    EXPECT_GE(MonotonicNow() - start, 10 * kMillisecond);
    KRUX_CUDA_OK(cuStreamQuery(program.stream));
  });
}

TEST_F(WorkTest, EventsTellTheTimeOfTheCard) {
  InChild([] {
    Program program;
    program.Open();
    CUevent start = nullptr;
    CUevent end = nullptr;
    KRUX_CUDA_OK(cuEventCreate(&start, 0));
    KRUX_CUDA_OK(cuEventCreate(&end, 0));
    void* memory = nullptr;
    CUdeviceptr gate = 0;
    KRUX_CUDA_OK(cuMemHostAlloc(&memory, 4096, 0));
    KRUX_CUDA_OK(cuMemHostGetDevicePointer(&gate, memory, 0));
    // All is queued before the first starts: a slow machine leaves no gap between the kernels.
    KRUX_CUDA_OK(cuStreamWaitValue32(program.stream, gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
    KRUX_CUDA_OK(cuEventRecord(start, program.stream));
    for (int i = 0; i < 20; ++i) KRUX_CUDA_OK(program.Launch(500));
    KRUX_CUDA_OK(cuEventRecord(end, program.stream));
    static_cast<std::atomic<uint32_t>*>(memory)->store(1);
    KRUX_CUDA_OK(cuEventSynchronize(end));
    float milliseconds = 0;
    KRUX_CUDA_OK(cuEventElapsedTime(&milliseconds, start, end));
    // Due times, not wake-ups: exact on any machine.
    EXPECT_NEAR(milliseconds, 10.0F, 0.3F);
  });
}

TEST_F(WorkTest, MarkersArriveInOrderWithoutCalls) {
  InChild([] {
    Program program;
    program.Open();
    void* memory = nullptr;
    CUdeviceptr markers = 0;
    KRUX_CUDA_OK(cuMemHostAlloc(&memory, 4096, 0));
    KRUX_CUDA_OK(cuMemHostGetDevicePointer(&markers, memory, 0));
    auto* words = static_cast<std::atomic<uint64_t>*>(memory);
    const Nanos start = MonotonicNow();
    for (uint64_t i = 0; i < 8; ++i) {
      KRUX_CUDA_OK(program.Launch(1000));
      KRUX_CUDA_OK(cuStreamWriteValue64(program.stream, markers + 8 * i, i + 1, 0));
    }
    for (uint64_t i = 0; i < 8; ++i) {
      ASSERT_TRUE(BecomesTrue([&] { return words[i].load() == i + 1; })) << i;
      EXPECT_GE(MonotonicNow() - start, static_cast<Nanos>(i + 1) * kMillisecond);
    }
  });
}

TEST_F(WorkTest, HostFunctionsRunAfterTheirStream) {
  InChild([] {
    Program program;
    program.Open();
    static std::atomic<int> calls{0};
    const Nanos start = MonotonicNow();
    KRUX_CUDA_OK(program.Launch(3000));
    KRUX_CUDA_OK(cuLaunchHostFunc(program.stream, [](void*) { calls.fetch_add(1); }, nullptr));
    ASSERT_TRUE(BecomesTrue([] { return calls.load() == 1; }));
    EXPECT_GE(MonotonicNow() - start, 3 * kMillisecond);
  });
}

TEST_F(WorkTest, StreamsWaitForEventsAndValues) {
  InChild([] {
    Program program;
    program.Open();
    CUstream second = nullptr;
    CUevent event = nullptr;
    void* memory = nullptr;
    KRUX_CUDA_OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    KRUX_CUDA_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    KRUX_CUDA_OK(cuMemHostAlloc(&memory, 4096, 0));
    auto* word = static_cast<std::atomic<uint64_t>*>(memory);
    const auto address = reinterpret_cast<CUdeviceptr>(memory);
    KRUX_CUDA_OK(cuStreamWaitValue64(program.stream, address, 5, CU_STREAM_WAIT_VALUE_GEQ));
    KRUX_CUDA_OK(cuEventRecord(event, program.stream));
    KRUX_CUDA_OK(cuStreamWaitEvent(second, event, 0));
    KRUX_CUDA_OK(cuStreamWriteValue64(second, address + 8, 1, 0));
    EXPECT_EQ(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(word[1].load(), 0U);
    word[0].store(6);
    KRUX_CUDA_OK(cuStreamSynchronize(second));
    EXPECT_EQ(word[1].load(), 1U);
  });
}

TEST_F(WorkTest, LegacyStreamWaitsForBlockingStreamsAndTheyForIt) {
  InChild([] {
    Program program;
    program.Open();
    CUstream blocking = nullptr;
    KRUX_CUDA_OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    CUdeviceptr memory = 0;
    KRUX_CUDA_OK(cuMemAlloc(&memory, 4096));
    unsigned value = 0;
    program.stream = blocking;
    KRUX_CUDA_OK(program.Launch(2000));
    KRUX_CUDA_OK(cuMemsetD32Async(memory, 1, 1, blocking));
    KRUX_CUDA_OK(cuMemcpyDtoH(&value, memory, 4));
    EXPECT_EQ(value, 1U);
    program.stream = nullptr;
    KRUX_CUDA_OK(program.Launch(2000));
    KRUX_CUDA_OK(cuMemsetD32Async(memory, 2, 1, nullptr));
    KRUX_CUDA_OK(cuMemcpyDtoHAsync(&value, memory, 4, blocking));
    KRUX_CUDA_OK(cuStreamSynchronize(blocking));
    EXPECT_EQ(value, 2U);
  });
}

TEST_F(WorkTest, CaptureRunsNothingAndItsGraphDoes) {
  InChild([] {
    Program program;
    program.Open();
    static std::atomic<int> calls{0};
    KRUX_CUDA_OK(cuStreamBeginCapture(program.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < 3; ++i) {
      KRUX_CUDA_OK(program.Launch(1000));
      KRUX_CUDA_OK(cuLaunchHostFunc(program.stream, [](void*) { calls.fetch_add(1); }, nullptr));
    }
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    KRUX_CUDA_OK(cuStreamIsCapturing(program.stream, &status));
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CUgraph graph = nullptr;
    KRUX_CUDA_OK(cuStreamEndCapture(program.stream, &graph));
    KRUX_CUDA_OK(cuStreamSynchronize(program.stream));
    EXPECT_EQ(calls.load(), 0);
    size_t nodes = 0;
    KRUX_CUDA_OK(cuGraphGetNodes(graph, nullptr, &nodes));
    EXPECT_EQ(nodes, 6U);
    CUgraphExec exec = nullptr;
    KRUX_CUDA_OK(cuGraphInstantiate(&exec, graph, 0));
    const Nanos start = MonotonicNow();
    KRUX_CUDA_OK(cuGraphLaunch(exec, program.stream));
    KRUX_CUDA_OK(cuGraphLaunch(exec, program.stream));
    KRUX_CUDA_OK(cuStreamSynchronize(program.stream));
    EXPECT_EQ(calls.load(), 6);
    EXPECT_GE(MonotonicNow() - start, 6 * kMillisecond);
    KRUX_CUDA_OK(cuGraphExecDestroy(exec));
    KRUX_CUDA_OK(cuGraphDestroy(graph));
  });
}

TEST_F(WorkTest, CaptureRefusesWhatItForbids) {
  InChild([] {
    Program program;
    program.Open();
    CUgraph graph = nullptr;
    CUdeviceptr memory = 0;
    KRUX_CUDA_OK(cuStreamBeginCapture(program.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    KRUX_CUDA_OK(cuThreadExchangeStreamCaptureMode(&mode));
    KRUX_CUDA_OK(cuMemAlloc(&memory, 4096));
    KRUX_CUDA_OK(cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    KRUX_CUDA_OK(cuStreamEndCapture(program.stream, &graph));
    KRUX_CUDA_OK(cuStreamBeginCapture(program.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_EQ(cuMemAlloc(&memory, 4096), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_EQ(program.Launch(10), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(cuStreamEndCapture(program.stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CUstream blocking = nullptr;
    KRUX_CUDA_OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    KRUX_CUDA_OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUstream captured = std::exchange(program.stream, nullptr);
    EXPECT_EQ(program.Launch(10), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    EXPECT_NE(captured, nullptr);
    EXPECT_EQ(cuStreamEndCapture(blocking, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  });
}

TEST_F(WorkTest, CaptureFollowsEventsIntoOtherStreams) {
  InChild([] {
    Program program;
    program.Open();
    CUstream side = nullptr;
    CUevent fork_event = nullptr;
    CUevent join_event = nullptr;
    KRUX_CUDA_OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    KRUX_CUDA_OK(cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
    KRUX_CUDA_OK(cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));
    CUstream origin = program.stream;
    KRUX_CUDA_OK(cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_GLOBAL));
    KRUX_CUDA_OK(program.Launch(10));
    KRUX_CUDA_OK(cuEventRecord(fork_event, origin));
    KRUX_CUDA_OK(cuStreamWaitEvent(side, fork_event, 0));
    program.stream = side;
    KRUX_CUDA_OK(program.Launch(10));
    CUgraph graph = nullptr;
    KRUX_CUDA_OK(cuEventRecord(join_event, side));
    KRUX_CUDA_OK(cuStreamWaitEvent(origin, join_event, 0));
    KRUX_CUDA_OK(cuStreamEndCapture(origin, &graph));
    size_t nodes = 0;
    KRUX_CUDA_OK(cuGraphGetNodes(graph, nullptr, &nodes));
    EXPECT_EQ(nodes, 2U);
    KRUX_CUDA_OK(cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_GLOBAL));
    KRUX_CUDA_OK(cuEventRecord(fork_event, origin));
    KRUX_CUDA_OK(cuStreamWaitEvent(side, fork_event, 0));
    KRUX_CUDA_OK(program.Launch(10));
    EXPECT_EQ(cuStreamEndCapture(origin, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  });
}

}  // namespace
}  // namespace krux::sim
