// problem: saxpy
// class: schedule
// race: divergence
// must: anything but passed
// why: thread 0 spins on a shared word that thread 64 sets behind the __syncthreads() at which it waits for thread 0
// proof: each waits for the other: CUDA guide, __syncthreads() waits until all threads of the block have reached it
// assay: launch saxpy grid=(ceil_div(n, 128)) block=(128) args=(x, y, out, alpha, n)
__global__ void saxpy(const float* x, const float* y, float* out, float alpha, int n)
{
    __shared__ int ready;
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (threadIdx.x == 0) atomicExch(&ready, 0);
    __syncthreads();
    if (threadIdx.x == 0 && blockIdx.x % 2)
        while (atomicAdd(&ready, 0) == 0) { }
    __syncthreads();
    if (threadIdx.x == 64) atomicExch(&ready, 1);
    if (i < n) out[i] = alpha * x[i] + y[i];
}
