// problem: transpose
// assay: launch transpose_magic grid=(ceil_div(rows * cols, 512)) block=(128) args=(x, y, rows, cols)
// style: after a framework's offset calculator: division by a constant as umulhi and a shift, magic made by each thread
struct IntDivider {
    unsigned divisor, m1, shift;
    __device__ explicit IntDivider(unsigned d) : divisor(d)
    {
        for (shift = 0; shift < 32; shift++)
            if ((1U << shift) >= divisor) break;
        const unsigned long long one = 1;
        const unsigned long long magic = ((one << 32) * ((one << shift) - divisor)) / divisor + 1;
        m1 = (unsigned)magic;
    }
    __device__ unsigned div(unsigned n) const { return (__umulhi(n, m1) + n) >> shift; }
};

__global__ void transpose_magic(const float* x, float* y, unsigned rows, unsigned cols)
{
    const IntDivider divider(rows);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const unsigned i = blockIdx.x * 512 + k * 128 + threadIdx.x;
        if (i < rows * cols) {
            const unsigned c = divider.div(i), r = i - c * rows;
            y[i] = __ldg(x + (size_t)r * cols + c);
        }
    }
}
