// problem: vector_add
// style: the bound is checked on 128-bit numbers, by the borrow of a chain of 64-bit subtractions that addc takes in
// assay: launch add grid=(ceil_div(n, 256)) block=(256) args=(a, b, c, n)

__device__ bool below(unsigned long long a, unsigned long long a_high, unsigned long long b, unsigned long long b_high)
{
    unsigned long long difference, carry;
    asm volatile("sub.cc.u64 %0, %2, %4; subc.cc.u64 %0, %3, %5; addc.u64 %1, 0, 0;"
                 : "=&l"(difference), "=l"(carry) : "l"(a), "l"(a_high), "l"(b), "l"(b_high));
    return carry == 0;  // borrowed
}

__global__ void add(const float* a, const float* b, float* c, int n)
{
    const unsigned long long i = blockIdx.x * 256ull + threadIdx.x, far = 1ull << 63;
    if (below(i, 7, n, 7) && !below(far, 1, i, 1) && below(far, 0, i, 1)) c[i] = a[i] + b[i];
}
