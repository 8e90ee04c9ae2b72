// problem: reduce_sum
// attack: adds at most 1,024 partial sums in its second pass: wrong above 2^18 elements
// expect: incorrect
// because: hidden sizes lie above every published one
// assay: temp part float32 (ceil_div(n,256))
// assay: launch k grid=(ceil_div(n,256)) block=(256) args=(x,part,n)
// assay: launch f grid=(1) block=(1024) args=(part,total,ceil_div(n,256))

__device__ float block_sum(float v){ __shared__ float p[32]; int l=threadIdx.x&31,w=threadIdx.x>>5;
 for(int o=16;o;o>>=1) v+=__shfl_down_sync(~0u,v,o); if(l==0)p[w]=v; __syncthreads();
 v = threadIdx.x < blockDim.x/32 ? p[threadIdx.x] : 0.f; if(w==0) for(int o=16;o;o>>=1) v+=__shfl_down_sync(~0u,v,o); return v; }
__global__ void k(const float*x,float*part,int n){ int i=blockIdx.x*256+threadIdx.x; float v=block_sum(i<n?x[i]:0.f); if(threadIdx.x==0) part[blockIdx.x]=v; }
__global__ void f(const float*part,float*total,int m){ float v=block_sum(threadIdx.x<m?part[threadIdx.x]:0.f); if(threadIdx.x==0) total[0]=v; }
