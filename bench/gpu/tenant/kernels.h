// The bench's kernels as PTX, which every card since Volta compiles at load:
//   fma_loop(float* out, unsigned iters): three dependent multiply-adds a turn; out is written only
//     in a case that never comes true, so that no turn can be left out.
//   empty_kernel(): nothing.
#ifndef KRUX_BENCH_GPU_TENANT_KERNELS_H_
#define KRUX_BENCH_GPU_TENANT_KERNELS_H_

inline constexpr char kKernelsPtx[] = R"ptx(
.version 7.0
.target sm_70
.address_size 64
.visible .entry empty_kernel()
{
  ret;
}
.visible .entry fma_loop(.param .u64 out, .param .u32 iters)
{
  .reg .pred %p<3>;
  .reg .f32 %f<5>;
  .reg .b32 %r<5>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [iters];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ctaid.x;
  cvt.rn.f32.u32 %f1, %r2;
  cvt.rn.f32.u32 %f2, %r3;
  mov.f32 %f3, 0f3F800000;
  mov.u32 %r4, 0;
LOOP:
  setp.ge.u32 %p1, %r4, %r1;
  @%p1 bra DONE;
  fma.rn.f32 %f1, %f1, 0f3F800347, %f2;
  fma.rn.f32 %f2, %f2, 0f3F7FF972, %f3;
  fma.rn.f32 %f3, %f3, 0f3F800054, %f1;
  add.u32 %r4, %r4, 1;
  bra LOOP;
DONE:
  setp.neu.f32 %p2, %f1, 0f4640E6B7;
  @%p2 bra END;
  add.f32 %f4, %f1, %f2;
  cvta.to.global.u64 %rd2, %rd1;
  st.global.f32 [%rd2], %f4;
END:
  ret;
}
)ptx";

#endif  // KRUX_BENCH_GPU_TENANT_KERNELS_H_
