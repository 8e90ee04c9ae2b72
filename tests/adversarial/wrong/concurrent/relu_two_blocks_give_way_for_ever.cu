// problem: relu
// class: schedule
// race: lock
// must: anything but passed
// why: a livelock: of each pair of blocks both announce themselves, see the other and step back, announce again, without a turn that decides; each goes on only if it sees the other away
// proof: the round in which both announce, look and step back may repeat without end; CUDA promises no fairness in which one of two resident blocks is faster, and a partner that has gone leaves its word at 1
// assay: temp here int32 (ceil_div(n, 128) + 1)
// assay: fill here value=0
// assay: launch relu grid=(ceil_div(n, 128)) block=(128) args=(x, y, here, n)
__global__ void relu(const float* x, float* y, int* here, int n)
{
    const int i = blockIdx.x * 128 + threadIdx.x, partner = blockIdx.x ^ 1;
    if (threadIdx.x == 0 && partner < gridDim.x) {
        while (true) {
            atomicExch(here + blockIdx.x, 1);
            __threadfence();
            if (atomicAdd(here + partner, 0) == 0) break;
            atomicExch(here + blockIdx.x, 0);
        }
    }
    __syncthreads();
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}
