// problem: relu
// attack: launches its blocks in y, where 65,535 are the most
// expect: invalid_submission
// because: the launch of the timed size is planned before anything runs
// message: 131072 (at n = 16777216)
// assay: launch k grid=(1,ceil_div(n,128)) block=(128) args=(x,y,n)
__global__ void k(const float*x,float*y,int n){ int i=blockIdx.y*128+threadIdx.x; if(i<n) y[i]=fmaxf(x[i],0.f); }
