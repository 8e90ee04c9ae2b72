// problem: relu
// class: schedule
// race: barrier
// must: anything but passed
// why: warps turn tiles round in shared memory, and between the stores and the other warp's loads all threads sleep for a microsecond, "so that the others are done"; a sleep orders nothing
// proof: CUDA guide, __nanosleep: suspends for about the time given, at most twice of it; it is no synchronisation
// assay: launch relu grid=(ceil_div(n, 128)) block=(128) args=(x, y, n)
__global__ void relu(const float* x, float* y, int n)
{
    __shared__ volatile float tile[128];
    const int i = blockIdx.x * 128 + threadIdx.x, base = blockIdx.x * 128, other = 127 - threadIdx.x;
    tile[other] = base + other < n ? x[base + other] : 0.0f;
    __nanosleep(1000);
    if (i < n) y[i] = fmaxf(tile[threadIdx.x], 0.0f);
}
