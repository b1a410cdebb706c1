"""A PyTorch program under a limit: fills the card until the framework says that it is out of memory,
frees, goes on, computes right, replays a CUDA graph. Prints what held as one line of JSON."""

import json
import os
import sys

ALLOCATORS = {"native": "backend:native", "expandable": "expandable_segments:True", "async": "backend:cudaMallocAsync"}
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = ALLOCATORS[sys.argv[1]]

import torch  # noqa: E402


def fill():
    held, refused = [], False
    try:
        while True:
            held.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        refused = True
    return len(held) * 64, refused


def product_is_right():
    left = torch.arange(1024 * 1024, dtype=torch.float32, device="cuda").reshape(1024, 1024) % 7
    right = torch.eye(1024, device="cuda") * 2
    return bool(torch.equal(left @ right, left * 2))


def graph_is_right():
    static = torch.zeros(1 << 20, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            out = (static * 2 + 1).sum()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = (static * 2 + 1).sum()
    static.fill_(3)
    graph.replay()
    torch.cuda.synchronize()
    return float(out) == 7.0 * (1 << 20)


def main():
    found = {"total MiB": torch.cuda.mem_get_info()[1] >> 20, "product is right": int(product_is_right())}
    filled, refused = fill()
    found["filled MiB"] = filled
    found["out of memory is the framework's own exception"] = int(refused)
    torch.cuda.empty_cache()
    again, _ = fill()
    torch.cuda.empty_cache()
    found["as much again after it was freed"] = int(again >= filled - 64)
    found["product is right afterwards"] = int(product_is_right())
    found["CUDA graph is right"] = int(graph_is_right())
    print(json.dumps(found))


main()
