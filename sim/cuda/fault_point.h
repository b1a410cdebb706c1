/* Where every call of the driver API enters: before anything else it meets the faults that krux-sim
   planned (sim/state/fault.h), so each call can fail, be slow or end its caller, whoever wrote it
   and whether it is simulated or not. Without a planned fault that costs two loads and a jump.

   Included by the generated list of names, which is C, and by sources in C++. x86-64 only, as all
   of the simulated driver. */
#ifndef KRUX_SIM_CUDA_FAULT_POINT_H_
#define KRUX_SIM_CUDA_FAULT_POINT_H_

#ifdef __cplusplus
namespace krux::sim {
class SharedState;
/* From now on calls meet the faults of this node. Called by cuInit: a first cuInit meets none. */
void MeetFaultsOf(SharedState* state);
}  // namespace krux::sim
#else

__attribute__((visibility("hidden"))) int KruxSimRefuse(const char* name);

/* The exported entry `name`; arguments stay where they are for KruxSimCall_<name>. */
#define KRUX_SIM_ENTRY(name)                                                         \
  int name(void);                                                                    \
  int KruxSimCall_##name(void) __attribute__((weak, visibility("hidden")));          \
  int KruxSimCall_##name(void) { return KruxSimRefuse(#name); }                      \
  __asm__(".pushsection .rodata\n.Lname_" #name ": .asciz \"" #name                  \
          "\"\n.popsection\n"                                                        \
          ".pushsection .text\n.globl " #name "\n.type " #name ", @function\n" #name \
          ":\n"                                                                      \
          "  movq KruxSimFaultsArmed(%rip), %rax\n"                                  \
          "  cmpl $0, (%rax)\n"                                                      \
          "  je KruxSimCall_" #name                                                  \
          "\n"                                                                       \
          "  leaq .Lname_" #name                                                     \
          "(%rip), %r11\n"                                                           \
          "  leaq KruxSimCall_" #name                                                \
          "(%rip), %r10\n"                                                           \
          "  jmp KruxSimMeetAndCall\n"                                               \
          ".size " #name ", . - " #name                                              \
          "\n"                                                                       \
          ".hidden KruxSimFaultsArmed\n.hidden KruxSimMeetAndCall\n.popsection\n");

#endif

#endif /* KRUX_SIM_CUDA_FAULT_POINT_H_ */
