// problem: saxpy
// class: schedule
// race: shuffle
// must: passed with a warning | anything but passed
// why: alpha is fetched from lane 0 by a shuffle with the full mask, in a loop that lanes leave at different times; those that left wait at a __syncwarp() behind the loop, so at the ragged end two operations wait for each other's lanes
// proof: CUDA guide, warp shuffle functions: all non-exited threads named in the mask must execute the same intrinsic with the same mask
// assay: launch sx grid=(min(ceil_div(n, 96), 512)) block=(32) args=(x, y, out, alpha, n)

__global__ void sx(const float* x, const float* y, float* out, float alpha, int n)
{
    const int lane = threadIdx.x;
    const float held = lane == 0 ? alpha : 0.0f;
    for (int i = blockIdx.x * 32 + lane; i < n; i += gridDim.x * 32) {
        const float factor = __shfl_sync(0xffffffffu, held, 0);
        out[i] = factor * x[i] + y[i];
    }
    __syncwarp();
}
