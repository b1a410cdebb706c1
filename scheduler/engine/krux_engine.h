/* The engine's C interface: does a pod fit on a node, on which GPUs, and if not, why exactly.
 *
 * Callers: the scheduler plugin (Go, through cgo), tests, simulators. Everything here is a pure
 * function of its arguments: no I/O, no clock, no threads, no memory kept or allocated, no
 * exceptions. Any thread may call, also at the same time. Buffers belong to the caller; counts
 * above the limits below are refused (KRUX_BAD_ARGUMENT), and every field of an input struct may
 * hold any value: nonsense leads to a refusal, never to undefined behaviour.
 *
 * Units: memory in MiB, GPU time ("cores") in percent of one GPU.
 *
 * Life of a call: krux_validate() turns what a container asks for into a krux_container, or into a
 * sentence. krux_plan() places all containers of a pod on one node's GPUs, krux_reason() says why
 * not. krux_peak() gives what a placed pod occupies, to be added to the node's krux_gpu.used_*.
 *
 * Containers of a pod are given in pod order: init containers and sidecars as in the spec, then
 * the apps. They do not all run together: an init container runs beside the sidecars before it,
 * the apps beside all sidecars. A pod occupies the peak of these phases on each GPU.
 */
/* C names and headers, for C and Go.
 * NOLINTBEGIN(readability-identifier-naming,modernize-deprecated-headers) */
#ifndef KRUX_SCHEDULER_ENGINE_KRUX_ENGINE_H_
#define KRUX_SCHEDULER_ENGINE_KRUX_ENGINE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define KRUX_NOEXCEPT noexcept
extern "C" {
#else
#define KRUX_NOEXCEPT
#endif

enum {
  KRUX_MAX_GPUS = 64,       /* of one node */
  KRUX_MAX_CONTAINERS = 64, /* of one pod, counting only those that ask for GPUs */
  KRUX_MAX_GPUS_PER_CONTAINER = 16,
  KRUX_MAX_SENTENCE = 256, /* a buffer of this size holds every text of this interface */
};

#define KRUX_MAX_MEMORY_MIB (16ull * 1024 * 1024) /* 16 TiB: beyond any card */

/* ---- What a container asks for ---- */

/* The four resources as the user wrote them; has_* says which are there. */
typedef struct krux_asked {
  int64_t gpu;
  int64_t memory_mib;
  int64_t memory_percent;
  int64_t cores;
  uint8_t has_gpu;
  uint8_t has_memory;
  uint8_t has_percent;
  uint8_t has_cores;
} krux_asked;

enum { KRUX_APP = 0, KRUX_SIDECAR = 1, KRUX_INIT = 2 };

/* A valid request. memory_mib = 0 and memory_percent = 0: the whole GPU, for this container alone.
 * cores = 100 also needs an empty GPU. gpus = 0: asks for no GPU. */
typedef struct krux_container {
  uint64_t memory_mib;     /* of each GPU */
  uint32_t memory_percent; /* of each GPU's memory, when memory_mib is 0 */
  uint32_t cores;          /* of each GPU, 0 = no guarantee */
  uint32_t gpus;           /* each another card */
  uint32_t kind;           /* KRUX_APP, KRUX_SIDECAR, KRUX_INIT */
} krux_container;

/* KRUX_VALID, or KRUX_INVALID and one sentence that says what to write instead. An absent
 * krux.io/gpu means 1 when another resource is there. A whole GPU has all its time (cores 100)
 * unless cores are given. out->kind is KRUX_APP: the caller sets it. */
enum { KRUX_VALID = 0, KRUX_INVALID = 1 };
int krux_validate(const krux_asked* asked, krux_container* out, char* sentence,
                  size_t sentence_size) KRUX_NOEXCEPT;

/* ---- What a node has ---- */

enum {
  KRUX_GPU_HEALTHY = 1,   /* may take newcomers */
  KRUX_GPU_EXCLUSIVE = 2, /* somebody holds it alone (krux_share.exclusive) */
};

typedef struct krux_gpu {
  uint64_t memory_mib; /* physical */
  uint64_t used_memory_mib;
  uint32_t used_cores;
  uint32_t used_slots; /* containers on it */
  uint32_t slots;      /* most containers at once */
  uint32_t flags;
} krux_gpu;

/* ---- Planning ---- */

/* Where one container goes: the first `count` entries are indices into the node's GPUs, each
 * another one, with the memory in MiB that it gets there (percent already worked out). */
typedef struct krux_placement {
  uint32_t count;
  uint32_t gpu[KRUX_MAX_GPUS_PER_CONTAINER];
  uint64_t memory_mib[KRUX_MAX_GPUS_PER_CONTAINER];
} krux_placement;

enum {
  KRUX_FITS = 0,
  KRUX_BAD_ARGUMENT = 1,
  KRUX_NO_GPU = 2,     /* the node has none */
  KRUX_NO_HEALTHY = 3, /* it has, but none may take newcomers */
  KRUX_TOO_FEW = 4,    /* fewer GPUs than the container asks for, used or not */
  KRUX_TOO_LARGE = 5,  /* not enough GPUs of that size, used or not */
  KRUX_SHORT = 6,      /* would fit on an emptier node: the numbers say what is missing */
};

/* The answer for one node. For KRUX_SHORT the numbers are those of the GPU that comes closest. */
typedef struct krux_verdict {
  uint64_t memory_short_mib;
  uint64_t memory_asked_mib;
  uint64_t largest_mib; /* memory of the largest healthy GPU */
  uint32_t code;
  uint32_t score;     /* 0..10000, higher = tighter fit; for KRUX_FITS */
  uint32_t container; /* index of the container that does not fit */
  uint32_t gpus_asked;
  uint32_t gpus_fit; /* GPUs that would take this container */
  uint32_t gpus_all;
  uint32_t gpus_healthy;
  uint32_t cores_short;
  uint32_t slots_full; /* 1: all slots of that GPU are in use */
  uint32_t not_empty;  /* 1: an empty GPU is needed, and that one is in use */
} krux_verdict;

/* Places the pod by best fit, with a bounded search for another arrangement when the first try
 * does not work out. Returns verdict->code; placements[i] is written for every container only for
 * KRUX_FITS. Sound: never over-commits memory, cores or slots of any GPU at any phase of the pod.
 * A GPU that is over-committed already takes nobody. When the search is cut off (pods of many
 * containers on nearly full nodes) the answer is KRUX_SHORT. */
int krux_plan(const krux_gpu* gpus, size_t gpu_count, const krux_container* containers,
              size_t container_count, krux_placement* placements,
              krux_verdict* verdict) KRUX_NOEXCEPT;

/* The verdict as the user reads it after "0/3 nodes are available: 1 ". */
void krux_reason(const krux_verdict* verdict, char* sentence, size_t sentence_size) KRUX_NOEXCEPT;

/* ---- What a placed pod occupies ---- */

typedef struct krux_share {
  uint64_t memory_mib;
  uint32_t cores;
  uint32_t slots;
  uint32_t exclusive; /* 1: somebody with cores 100 is on it */
} krux_share;

/* Peak use of the pod on each GPU. placements[i] belongs to containers[i]; of the containers only
 * kind and cores are looked at. KRUX_FITS or KRUX_BAD_ARGUMENT. */
int krux_peak(const krux_container* containers, const krux_placement* placements,
              size_t container_count, krux_share* shares, size_t gpu_count) KRUX_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* KRUX_SCHEDULER_ENGINE_KRUX_ENGINE_H_ */
/* NOLINTEND(readability-identifier-naming,modernize-deprecated-headers) */
