"""cuda-python on the simulated card: the driver API and the runtime API as its bindings reach them."""
from cuda.bindings import driver, runtime


def ok(answer):
    error, *values = answer
    assert int(error) == 0, error
    return values[0] if len(values) == 1 else values


ok(driver.cuInit(0))
assert ok(driver.cuDeviceGetCount()) >= 1
device = ok(driver.cuDeviceGet(0))
assert ok(driver.cuDeviceGetName(64, device)).startswith(b"NVIDIA")
context = ok(driver.cuDevicePrimaryCtxRetain(device))
ok(driver.cuCtxSetCurrent(context))
block = ok(driver.cuMemAlloc(1 << 20))
ok(driver.cuMemsetD8(block, 7, 1 << 20))
host = bytearray(16)
ok(driver.cuMemcpyDtoH(host, block, 16))
assert host == b"\7" * 16, host

PTX = b""".version 7.0
.target sm_80
.address_size 64
.visible .entry fill(.param .u64 out, .param .u32 value, .param .u32 n)
{
 ret;
}
\0"""
module = ok(driver.cuModuleLoadData(PTX))
fill = ok(driver.cuModuleGetFunction(module, b"fill"))
import ctypes  # noqa: E402  (only the launch needs it)

ok(driver.cuLaunchKernel(fill, 1, 1, 1, 64, 1, 1, 0, 0,
                         ((int(block), 0x01020304, 4),
                          (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)), 0))
ok(driver.cuCtxSynchronize())
ok(driver.cuMemcpyDtoH(host, block, 16))
assert host == b"\4\3\2\1" * 4, host

free, total = ok(runtime.cudaMemGetInfo())
assert free < total
pointer = ok(runtime.cudaMalloc(4096))
ok(runtime.cudaMemset(pointer, 1, 4096))
ok(runtime.cudaDeviceSynchronize())
error, _ = runtime.cudaMalloc(1 << 40)
assert error == runtime.cudaError_t.cudaErrorMemoryAllocation, error
print("ok")
