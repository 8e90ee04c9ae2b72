// problem: vector_add
// assay: temp sums float32 (ceil_div(n, 128) * 128)
// assay: temp flag uint8 (ceil_div(n, 128))
// assay: temp ticket uint32 (1)
// assay: fill flag value=0
// assay: fill ticket value=0
// assay: launch add grid=(ceil_div(n, 128) * 2) block=(128) args=(a, b, c, sums, flag, ticket, n)
// style: flags of one byte, four in a word, stored with st.release.u8 and polled with ld.acquire.u8; tickets give the producer the smaller number
__global__ void add(const float* a, const float* b, float* c, float* sums, unsigned char* flag, unsigned* ticket, int n)
{
    __shared__ unsigned drawn;
    if (threadIdx.x == 0) drawn = atomicAdd(ticket, 1u);
    __syncthreads();
    const unsigned tile = drawn / 2;
    const int i = tile * 128 + threadIdx.x;
    if (drawn % 2 == 0) {
        sums[tile * 128 + 127 - threadIdx.x] = i < n ? a[i] + b[i] : 0.0f;
        __syncthreads();
        if (threadIdx.x == 0) asm volatile("st.release.gpu.global.u8 [%0], %1;" ::"l"(flag + tile), "r"(1) : "memory");
    } else {
        if (threadIdx.x == 0) {
            unsigned up;
            do asm volatile("ld.acquire.gpu.global.u8 %0, [%1];" : "=r"(up) : "l"(flag + tile) : "memory");
            while (!up);
        }
        __syncthreads();
        if (i < n) c[i] = sums[tile * 128 + 127 - threadIdx.x];
    }
}
