// problem: row_sum
// class: schedule
// race: scope
// must: anything but passed
// why: parts of a row are published behind __threadfence_block() and counted by atomicAdd: the fence orders for the own block, and the block that adds is another one
// proof: PTX: fence.cta does not synchronise with an observer outside of the CTA; __threadfence() is needed
// assay: temp part float32 (rows * 2)
// assay: temp count int32 (rows)
// assay: fill count value=0
// assay: launch parts grid=(rows, 2) block=(32) args=(x, y, part, count, cols)

__global__ void parts(const float* x, float* y, float* part, int* count, int cols)
{
    const int row = blockIdx.x, lane = threadIdx.x;
    float s = 0.0f;
    for (int c = blockIdx.y + 2 * lane; c < cols; c += 64) s += x[(size_t)row * cols + c];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (lane == 0) {
        part[2 * row + blockIdx.y] = s;
        __threadfence_block();
        if (atomicAdd(&count[row], 1) == 1) {
            __threadfence_block();
            y[row] = part[2 * row] + part[2 * row + 1];
        }
    }
}
