// problem: histogram
// attack: a ballot in a branch names all lanes of the warp
// expect: passed
// because: each lane only asks whether any lane that is there agrees, which is always so
// warns: absent_lanes
// assay: fill counts value=0
// assay: launch count grid=(ceil_div(n, 256)) block=(256) args=(values, counts, n)

__global__ void count(const int* values, int* counts, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const int mine = i < n ? values[i] : -1;
    int more = mine >= 0;
    if (mine % 2 == 1) more = __ballot_sync(~0u, n > 0) >> threadIdx.x % 32 & 1;  // HERE
    __syncwarp();
    if (more) atomicAdd(&counts[mine], 1);
}
