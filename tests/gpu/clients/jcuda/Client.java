import static jcuda.driver.JCudaDriver.*;

import java.util.ArrayList;
import java.util.List;
import jcuda.Pointer;
import jcuda.driver.CUcontext;
import jcuda.driver.CUdevice;
import jcuda.driver.CUdeviceptr;
import jcuda.driver.CUresult;

/**
 * A Java client in a limited container: it uses the card without asking for its memory, sees its share, fills it, and
 * is refused with OUT_OF_MEMORY.
 *
 * <p>java -cp LIBRARIES Client.java SHARE_IN_BYTES
 */
public class Client {
    private static final long PIECE = 64L << 20;

    private static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    public static void main(String[] arguments) {
        final long share = Long.parseLong(arguments[0]);
        setExceptionsEnabled(true);
        cuInit(0);
        CUdevice device = new CUdevice();
        cuDeviceGet(device, 0);
        cuCtxCreate(new CUcontext(), 0, device);
        float[] numbers = {1, 2, 3}, copy = new float[numbers.length];
        CUdeviceptr small = new CUdeviceptr();
        cuMemAlloc(small, 4L * numbers.length);
        cuMemcpyHtoD(small, Pointer.to(numbers), 4L * numbers.length);
        cuMemcpyDtoH(Pointer.to(copy), small, 4L * numbers.length);
        cuMemFree(small);
        check(java.util.Arrays.equals(numbers, copy), "the memory of the card does not keep its content");
        long[] free = {0}, total = {0};
        cuMemGetInfo(free, total);
        check(free[0] == share && total[0] == share, free[0] + " bytes of " + total[0] + " are free");
        setExceptionsEnabled(false);
        List<CUdeviceptr> held = new ArrayList<>();
        int code;
        while (true) {
            CUdeviceptr piece = new CUdeviceptr();
            if ((code = cuMemAlloc(piece, PIECE)) != CUresult.CUDA_SUCCESS) break;
            held.add(piece);
            check(held.size() <= share / PIECE, "more than the share could be allocated");
        }
        check(code == CUresult.CUDA_ERROR_OUT_OF_MEMORY, CUresult.stringFor(code));
        check(held.size() == share / PIECE, held.size() + " pieces");
        System.out.println("JCuda: share " + (share >> 20) + " MiB, " + held.size() + " times 64 MiB, then refused");
    }
}
