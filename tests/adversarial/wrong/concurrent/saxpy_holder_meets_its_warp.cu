// problem: saxpy
// class: schedule
// race: divergence
// must: anything but passed
// why: lanes of a warp take a spin lock one by one, and whoever holds it calls __syncwarp() inside, before it frees it: the lanes it waits for spin on the lock it holds
// proof: circular wait between the full member mask and the lock; independent thread scheduling lets all lanes go on, but none can
// assay: temp lock int32 (1)
// assay: temp sum float32 (1)
// assay: fill lock value=0
// assay: launch saxpy grid=(ceil_div(n, 128)) block=(128) args=(x, y, out, alpha, n, lock, sum)
__global__ void saxpy(const float* x, const float* y, float* out, float alpha, int n, int* lock, volatile float* sum)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n) out[i] = alpha * x[i] + y[i];
    while (atomicCAS(lock, 0, 1)) { }
    __threadfence();
    *sum = i;
    __syncwarp();
    __threadfence();
    atomicExch(lock, 0);
}
