"""Unmodified Python clients in a limited container. Each uses a card without asking for its memory, sees its share, fills it, and is refused with OUT_OF_MEMORY.

  python_clients.py cuda_core | numba | tinygrad | nvitop | gpustat SHARE_IN_BYTES"""
import sys

MIB = 1 << 20
PIECE = 64 * MIB


def fill(allocate, share, refusal):
    """Allocates pieces until the client raises an error with that text. Returns the pieces."""
    held = []
    try:
        while len(held) <= share // PIECE:
            held.append(allocate())
    except Exception as error:  # pylint: disable=broad-except  # each client has its own
        assert refusal in str(error), error
        return held
    sys.exit("more than the share could be allocated")


def check_filled(held, free, share):
    """Small pieces that the client keeps may leave no space for the last large one."""
    assert len(held) in (share // PIECE, share // PIECE - 1) and free < PIECE, (len(held), free)
    return len(held)


def cuda_core(share):
    from cuda.bindings import driver
    from cuda.core import Device

    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    device.allocate(MIB, stream=stream).close(stream)
    stream.sync()
    assert int(driver.cuMemGetInfo()[2]) == share, driver.cuMemGetInfo()
    held = fill(lambda: device.allocate(PIECE, stream=stream), share, "CUDA_ERROR_OUT_OF_MEMORY")
    return check_filled(held, int(driver.cuMemGetInfo()[1]), share)


def numba(share):
    import numpy
    from numba import cuda

    @cuda.jit
    def kernel(values):
        values[cuda.grid(1)] *= 2

    numbers = numpy.arange(MIB, dtype=numpy.float32)
    there = cuda.to_device(numbers)
    kernel[MIB // 256, 256](there)  # compiled by NVVM; the fake driver does not compute it
    assert (there.copy_to_host() == numbers).all()
    assert cuda.current_context().get_memory_info().total == share
    held = fill(lambda: cuda.device_array(PIECE, dtype=numpy.uint8), share, "CUDA_ERROR_OUT_OF_MEMORY")
    return check_filled(held, cuda.current_context().get_memory_info().free, share)


def tinygrad(share):
    """Its kernels are compiled by NVRTC; the fake driver does not compute them."""
    from tinygrad import Device, Tensor, dtypes

    product = Tensor.rand(256, 256, device="CUDA")
    (product @ product).relu().sum().numpy()
    compiler = type(Device["CUDA"].compiler).__name__
    assert compiler == "NVRTCCompiler", compiler

    def allocate():
        out = Tensor.empty(PIECE, dtype=dtypes.uint8, device="CUDA")
        out.uop.buffer.ensure_allocated()
        return out

    return check_filled(fill(allocate, share, "Allocation of 64.00 MB failed"), 0, share)


def nvitop(share):
    from nvitop import Device

    assert [each.memory_total() for each in Device.all()] == [share, share], [each.memory_total() for each in Device.all()]
    return 0


def gpustat(share):
    from gpustat import new_query

    assert [each.memory_total for each in new_query()] == [share // MIB, share // MIB], new_query()
    return 0


CLIENTS = {each.__name__: each for each in (cuda_core, numba, tinygrad, nvitop, gpustat)}
pieces = CLIENTS[sys.argv[1]](int(sys.argv[2]))
print(f"{sys.argv[1]}: share {int(sys.argv[2]) // MIB} MiB" + (f", {pieces} times 64 MiB, then refused" if pieces else ""))
