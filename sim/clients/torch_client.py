"""PyTorch on the simulated card: what needs no kernel's result, and the few kernels that compute
(sim/cuda/compute.cc): fills and sums of floats. Large to install: scripts/test-pytorch runs it."""
import torch

assert torch.cuda.is_available()
assert torch.cuda.get_device_name(0).startswith("NVIDIA")

# Allocate, fill, copy, add.
x = torch.empty(1000, device="cuda")
assert torch.cuda.memory_allocated() == 4096
x.fill_(3.0)
y = torch.ones(1000, device="cuda")
assert (x + y).cpu().eq(4.0).all()
h = torch.arange(10.0)
assert h.cuda().cpu().eq(h).all()

# Streams, events, memory statistics.
stream = torch.cuda.Stream()
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
with torch.cuda.stream(stream):
    start.record()
    torch.zeros(1 << 20, device="cuda")
    end.record()
stream.synchronize()
assert start.elapsed_time(end) > 0
free, total = torch.cuda.mem_get_info()
assert free < total
assert torch.cuda.memory_stats()["num_alloc_retries"] == 0

# Out of memory is an exception after which all goes on.
try:
    torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    raise AssertionError("1 TiB was given")
except torch.cuda.OutOfMemoryError:
    pass
torch.cuda.empty_cache()

# Graph capture and replay.
graph = torch.cuda.CUDAGraph()
a = torch.zeros(256, device="cuda")
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    a.fill_(5.0)
    b = a + a
graph.replay()
torch.cuda.synchronize()
assert a.cpu().eq(5.0).all()
assert b.cpu().eq(10.0).all()
print("ok")
