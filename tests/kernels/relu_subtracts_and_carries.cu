// problem: relu
// style: sub.cc then addc, as nvcc's own 128-bit division has it: the carry is set where nothing was borrowed, else it traps
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const unsigned zero = n >> 31;  // not known to the compiler
    unsigned difference, carry, borrowed;
    asm volatile("sub.cc.u32 %0, %2, %3; addc.u32 %1, %4, %4;"
                 : "=r"(difference), "=r"(carry) : "r"(5u ^ zero), "r"(3u), "r"(zero));
    asm volatile("sub.cc.u32 %0, %2, %3; addc.u32 %1, %4, %4;"
                 : "=r"(difference), "=r"(borrowed) : "r"(3u ^ zero), "r"(5u), "r"(zero));
    if (carry != 1 || borrowed != 0 || difference != -2u) __trap();
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}
