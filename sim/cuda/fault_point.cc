#include "sim/cuda/fault_point.h"

#include <atomic>

#include "sim/state/fault.h"

namespace krux::sim {
namespace {

std::atomic<SharedState*> g_node{nullptr};
constexpr int kGoOn = -1;

}  // namespace
}  // namespace krux::sim

extern "C" {

[[gnu::visibility("hidden")]] std::atomic<uint32_t> KruxSimNoFaults{0};
// What every entry looks at.
[[gnu::visibility("hidden")]] const std::atomic<uint32_t>* KruxSimFaultsArmed = &KruxSimNoFaults;

[[gnu::visibility("hidden")]] int KruxSimMeet(const char* name);
int KruxSimMeet(const char* name) {
  return krux::sim::MeetFault(krux::sim::g_node.load(), name).value_or(krux::sim::kGoOn);
}

// Entered from an entry by a jump: r11 is its name, r10 where it goes on. All registers that can
// hold arguments are kept.
__asm__(R"(
.pushsection .text
.globl KruxSimMeetAndCall
.hidden KruxSimMeetAndCall
.type KruxSimMeetAndCall, @function
KruxSimMeetAndCall:
  pushq %rbp
  movq %rsp, %rbp
  pushq %rdi
  pushq %rsi
  pushq %rdx
  pushq %rcx
  pushq %r8
  pushq %r9
  pushq %r10
  pushq %r11
  subq $64, %rsp
  movups %xmm0, 0(%rsp)
  movups %xmm1, 16(%rsp)
  movups %xmm2, 32(%rsp)
  movups %xmm3, 48(%rsp)
  movq %r11, %rdi
  call KruxSimMeet
  movups 0(%rsp), %xmm0
  movups 16(%rsp), %xmm1
  movups 32(%rsp), %xmm2
  movups 48(%rsp), %xmm3
  addq $64, %rsp
  popq %r11
  popq %r10
  popq %r9
  popq %r8
  popq %rcx
  popq %rdx
  popq %rsi
  popq %rdi
  popq %rbp
  cmpl $-1, %eax
  jne 1f
  jmp *%r10
1:
  ret
.size KruxSimMeetAndCall, . - KruxSimMeetAndCall
.popsection
)");

}  // extern "C"

namespace krux::sim {

void MeetFaultsOf(SharedState* state) {
  g_node.store(state);
  __atomic_store_n(&KruxSimFaultsArmed, &state->data().faults_armed, __ATOMIC_RELEASE);
}

}  // namespace krux::sim
