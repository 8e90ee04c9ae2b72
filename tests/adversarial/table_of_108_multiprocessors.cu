// problem: histogram
// attack: counts by multiprocessor in a table for 108, as an A100 has; others are lost
// expect: incorrect
// because: a special register may hold anything that some GPU gives it, and is drawn anew for each run
// assay: temp table int32 (108, 256)
// assay: fill table value=0
// assay: launch by_multiprocessor grid=(ceil_div(n, 256)) block=(256) args=(values, table, n)
// assay: launch together grid=(1) block=(256) args=(table, counts)

__global__ void by_multiprocessor(const int* values, int* table, int n)
{
    unsigned where;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(where));
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n && where < 108) atomicAdd(&table[where * 256 + values[i]], 1);
}

__global__ void together(const int* table, int* counts)
{
    int sum = 0;
    for (int i = 0; i < 108; i++) sum += table[i * 256 + threadIdx.x];
    counts[threadIdx.x] = sum;
}
