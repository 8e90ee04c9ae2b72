// problem: gelu
// class: schedule
// race: fence
// must: anything but passed
// why: the producer raises the flag first and fences afterwards: the fence is there, but behind the store that it should keep back
// proof: PTX: the release pattern is a fence before the strong store, not after it
// assay: temp ticket int32 (1)
// assay: temp half float32 (n)
// assay: temp flags int32 (ceil_div(n, 512))
// assay: fill ticket value=0
// assay: fill flags value=0
// assay: launch stages grid=(2 * ceil_div(n, 512)) block=(512) args=(x, half, y, flags, ticket, n)

__global__ void stages(const float* x, float* half, float* y, volatile int* flags, int* ticket, int n)
{
    __shared__ int number;
    if (threadIdx.x == 0) number = atomicAdd(ticket, 1);
    __syncthreads();
    const int chunk = number / 2, i = chunk * 512 + threadIdx.x;
    if (number % 2 == 0) {
        if (i < n) half[i] = 0.5f * (1.0f + erff(x[i] * 0.70710678f));
        __syncthreads();
        if (threadIdx.x == 0) flags[chunk] = 1;
        __threadfence();
    } else {
        if (threadIdx.x == 0) {
            while (flags[chunk] == 0) { }
            __threadfence();
        }
        __syncthreads();
        if (i < n) y[i] = x[i] * half[i];
    }
}
