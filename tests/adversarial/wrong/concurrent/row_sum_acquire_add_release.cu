// problem: row_sum
// class: schedule
// race: lost update
// must: anything but passed
// why: two blocks of a row add by ld.acquire and st.release: properly ordered, but the other block's store may come between the two
// proof: PTX memory model: no data race, yet the second load may read what the first did
// assay: fill y value=0
// assay: launch half grid=(rows, 2) block=(32) args=(x, y, cols)

__global__ void half(const float* x, float* y, int cols)
{
    const int lane = threadIdx.x;
    float s = 0.0f, was;
    for (int c = blockIdx.y * 32 + lane; c < cols; c += 64) s += x[(size_t)blockIdx.x * cols + c];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if (lane) return;
    asm volatile("ld.acquire.gpu.global.f32 %0, [%1];" : "=f"(was) : "l"(y + blockIdx.x) : "memory");
    asm volatile("st.release.gpu.global.f32 [%0], %1;" ::"l"(y + blockIdx.x), "f"(was + s) : "memory");
}
