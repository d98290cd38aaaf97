"""A client from PyPI in a limited container: it sees its share, fills it, and is refused with OUT_OF_MEMORY.

  clients.py SHARE_IN_BYTES"""
import sys

import pynvml
from cuda.bindings import driver

SHARE = int(sys.argv[1])
MIB = 1 << 20


def ok(answer):
    assert answer[0] == driver.CUresult.CUDA_SUCCESS, answer[0]
    return answer[1] if len(answer) == 2 else answer[1:]


def is_refused(answer):
    return answer[0] == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY


def fill(allocate):
    """Allocates 64 MiB at a time until the limiter refuses."""
    held = []
    while len(held) <= SHARE // (64 * MIB):
        answer = allocate(64 * MIB)
        if is_refused(answer):
            return held
        held.append(ok(answer))
    sys.exit("more than the share could be allocated")


def free_bytes():
    return int(ok(driver.cuMemGetInfo())[0])


ok(driver.cuInit(0))
device = ok(driver.cuDeviceGet(0))
ok(driver.cuCtxSetCurrent(ok(driver.cuDevicePrimaryCtxRetain(device))))
assert ok(driver.cuDeviceGetCount()) == 2
assert int(ok(driver.cuDeviceTotalMem(device))) == SHARE
assert [int(n) for n in ok(driver.cuMemGetInfo())] == [SHARE, SHARE]

held = fill(driver.cuMemAlloc)
assert len(held) == SHARE // (64 * MIB), len(held)
pynvml.nvmlInit()
memory = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0))
assert (memory.total, memory.used, memory.free) == (SHARE, SHARE, 0), memory
for address in held:
    ok(driver.cuMemFree(address))
assert free_bytes() == SHARE

stream = ok(driver.cuStreamCreate(0))
for address in fill(lambda size: driver.cuMemAllocAsync(size, stream)):
    ok(driver.cuMemFreeAsync(address, stream))
ok(driver.cuStreamSynchronize(stream))
assert free_bytes() == SHARE

properties = driver.CUmemAllocationProp()
properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
handle = ok(driver.cuMemCreate(64 * MIB, properties, 0))
assert is_refused(driver.cuMemCreate(SHARE, properties, 0))
assert free_bytes() == SHARE - 64 * MIB
ok(driver.cuMemRelease(handle))
assert free_bytes() == SHARE

kernel = ok(driver.cuModuleGetFunction(ok(driver.cuModuleLoadData(b"image")), b"small"))
ok(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0))
ok(driver.cuCtxSynchronize())
print("CUDA", ok(driver.cuDriverGetVersion()), "share", SHARE // MIB, "MiB:", len(held), "times 64 MiB, then refused")
