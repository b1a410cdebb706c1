// The kernels of the cases, as PTX that every card from sm_75 on takes.
#ifndef KRUX_SIM_CONFORMANCE_KERNELS_H_
#define KRUX_SIM_CONFORMANCE_KERNELS_H_

namespace krux::sim::conformance {

// `empty` without parameters, `three` with three of different sizes, `shared_4k` with static shared
// memory, `local_8k` with 8 KiB of local memory that the compiler can't drop, `illegal_address`
// writes to address 16, `launch_failure` ends with a trap. Two globals: `numbers` (64 bytes),
// `constants` (32 bytes).
inline constexpr char kPtx[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .global .align 4 .b8 numbers[64];\n"
    ".visible .const .align 4 .b8 constants[32];\n"
    ".visible .entry empty()\n{\n ret;\n}\n"
    ".visible .entry three(.param .u64 out, .param .u32 a, .param .u16 b)\n{\n ret;\n}\n"
    ".visible .entry shared_4k(.param .u64 out)\n{\n"
    " .shared .align 4 .b8 s[4096];\n .reg .b32 %r<6>; .reg .b64 %d<4>;\n"
    " ld.param.u64 %d1,[out]; mov.u32 %r1,%tid.x; shl.b32 %r2,%r1,2; mov.u32 %r3,s;\n"
    " add.u32 %r3,%r3,%r2; st.shared.u32 [%r3],%r1; bar.sync 0; ld.shared.u32 %r4,[s];\n"
    " cvta.to.global.u64 %d2,%d1; st.global.u32 [%d2],%r4; ret;\n}\n"
    ".visible .entry local_8k(.param .u64 out, .param .u32 idx)\n{\n"
    " .local .align 4 .b8 a[8192];\n .reg .b32 %r<8>; .reg .b64 %d<10>;\n"
    " ld.param.u64 %d1,[out]; ld.param.u32 %r1,[idx];\n"
    " mov.u64 %d2,a; mul.wide.u32 %d3,%r1,4; add.s64 %d4,%d2,%d3;\n"
    " mov.u32 %r3,%tid.x; mul.wide.u32 %d6,%r3,4; add.s64 %d7,%d2,%d6;\n"
    " st.local.u32 [%d7],%r3; st.local.u32 [%d4],%r1; ld.local.u32 %r2,[%d7];\n"
    " cvta.to.global.u64 %d5,%d1; st.global.u32 [%d5],%r2; ret;\n}\n"
    ".visible .entry illegal_address()\n{\n .reg .b64 %d<2>;\n"
    " mov.u64 %d1,16; st.global.u32 [%d1],1; ret;\n}\n"
    ".visible .entry launch_failure()\n{\n trap;\n}\n";

inline constexpr char kPtxSyntaxError[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry broken()\n{\n nonsense;\n}\n";
inline constexpr char kPtxTooNew[] =
    ".version 99.0\n.target sm_75\n.address_size 64\n.visible .entry empty()\n{\n ret;\n}\n";
inline constexpr char kPtxUnresolved[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n.extern .func elsewhere();\n"
    ".visible .entry calls()\n{\n call.uni elsewhere;\n ret;\n}\n";

}  // namespace krux::sim::conformance

#endif  // KRUX_SIM_CONFORMANCE_KERNELS_H_
