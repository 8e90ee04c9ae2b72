// problem: gelu
// class: schedule
// race: lock
// must: anything but passed
// why: a table is made by the first block that comes, under a lock, with a flag that others look at first (double-checked locking); they read the flag without acquire and the maker raises it without release
// proof: the classic fault of double-checked locking: the flag may be seen before the table
// assay: temp table float32 (1024)
// assay: temp made int32 (2)
// assay: fill made value=0
// assay: launch gelu grid=(min(ceil_div(n, 256), 264)) block=(256) args=(x, y, n, table, made)

__global__ void gelu(const float* x, float* y, int n, float* table, int* made)
{
    if (threadIdx.x == 0 && *(volatile int*)&made[0] == 0) {
        while (atomicCAS(&made[1], 0, 1)) { }
        if (*(volatile int*)&made[0] == 0) {
            for (int i = 0; i < 1024; ++i) table[i] = 0.5f * erfcf((512 - i) * (1.0f / 128) * 0.70710678f);
            *(volatile int*)&made[0] = 1;
        }
        atomicExch(&made[1], 0);
    }
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        const float v = x[i], at = v * 128.0f;
        const int near = (int)rintf(at) + 512;
        // exact where the argument is in the table, else from the series around the nearest entry
        if (near >= 0 && near < 1024) {
            const float d = v - (near - 512) * (1.0f / 128), c = (near - 512) * (1.0f / 128);
            const float density = 0.39894228f * expf(-0.5f * c * c);
            y[i] = v * (table[near] + density * d * (1.0f - 0.5f * c * d + (c * c - 1.0f) * d * d * (1.0f / 6)));
        } else {
            y[i] = 0.5f * v * erfcf(-0.70710678f * v);
        }
    }
}
