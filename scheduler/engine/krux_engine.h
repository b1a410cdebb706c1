/* The engine's C interface: does a pod fit on a node, on which GPUs, and if not, why exactly; and
 * which of all nodes is the best.
 *
 * Callers: the scheduler plugin (Go, through cgo), the simulator, tests. No I/O, no clock, no
 * threads, no callbacks, no exceptions. Buffers belong to the caller; counts above the limits below
 * are refused (KRUX_BAD_ARGUMENT), and every field of an input struct may hold any value: nonsense
 * leads to a refusal, never to undefined behaviour.
 *
 * Two halves:
 * 1. Functions of one node: krux_validate, krux_plan, krux_reason, krux_peak, krux_matches. They
 * are pure, keep and allocate no memory, and any thread may call them, also at the same time. For
 *    Filter, preemption, Reserve: the caller says what the node looks like.
 * 2. krux_cluster: all nodes, kept up to date by the caller, with an index that makes "the best
 * node for this pod" cheap. It allocates; one thread at a time may use one cluster.
 *
 * Units: memory in MiB, GPU time ("cores") in percent of one GPU, CPU in 1/1000 core.
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
  KRUX_MAX_MODELS = 64,    /* different GPU models that can be told apart */
  KRUX_MAX_UUIDS = 16,     /* in one list of a pod */
  KRUX_MAX_NODES = 1 << 17,
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

/* How nodes are ranked (node_policy) and which of a node's GPUs are taken (gpu_policy).
 * FRAGMENTATION keeps what is left usable for the pods that are likely to come (scheduler/README.md
 * has the formula); BINPACK the fullest that fits; SPREAD the emptiest; TOPOLOGY GPUs that are
 * linked best (for nodes: the node with the best linked set). Whatever the policy, among GPUs that
 * are equally good for it those with the better links win. */
enum {
  KRUX_FRAGMENTATION = 0,
  KRUX_BINPACK = 1,
  KRUX_SPREAD = 2,
  KRUX_TOPOLOGY = 3,
  KRUX_POLICIES = 4,
};
/* The policy of that name ("fragmentation", "binpack", "spread", "topology"), or -1. */
int krux_policy(const char* name) KRUX_NOEXCEPT;

/* What the pod asks for as a whole. All zero: any GPU, default policies, no host CPU or memory.
 * use_uuids and no_uuids hold krux_uuid_key() of the names; use_uuid_count = 0: any. */
typedef struct krux_pod {
  uint64_t cpu_milli;  /* host CPU and memory that the pod requests; see krux_node */
  uint64_t memory_mib; /* host memory */
  uint64_t use_models; /* bit i: model id i is allowed; 0 = any */
  uint64_t no_models;  /* bit i: model id i is not */
  uint64_t use_uuids[KRUX_MAX_UUIDS];
  uint64_t no_uuids[KRUX_MAX_UUIDS];
  uint32_t use_uuid_count;
  uint32_t no_uuid_count;
  uint32_t node_policy;
  uint32_t gpu_policy;
} krux_pod;

/* 1 when a comma list of model names (krux.io/use-gpu-type: "A100,H100") names this model: a word
 * matches where it occurs in the model's name, whole words only, upper and lower case alike
 * ("A10" does not match "A100", "h100" matches "NVIDIA H100 80GB HBM3"). An empty list: 0.
 * The caller makes model bit sets from it, one call for each model that it knows. */
int krux_matches(const char* list, const char* model) KRUX_NOEXCEPT;

/* A GPU's name as a number, never 0; spaces around it do not count. */
uint64_t krux_uuid_key(const char* uuid, size_t length) KRUX_NOEXCEPT;

/* ---- What a node has ---- */

enum {
  KRUX_GPU_HEALTHY = 1,   /* may take newcomers */
  KRUX_GPU_EXCLUSIVE = 2, /* somebody holds it alone (krux_share.exclusive) */
  KRUX_GPU_CORDONED = 4,  /* an operator, or an overlap found, keeps newcomers off */
  KRUX_GPU_MIG = 8,       /* in MIG mode: Krux does not share it and refuses it with that reason */
};

typedef struct krux_gpu {
  uint64_t memory_mib; /* physical */
  uint64_t used_memory_mib;
  uint64_t uuid;   /* krux_uuid_key(), 0 = unknown: matches no UUID list */
  uint64_t nvlink; /* bit i: linked directly with the node's GPU i */
  uint32_t used_cores;
  uint32_t used_slots; /* containers on it */
  uint32_t slots;      /* most containers at once */
  uint32_t flags;
  uint32_t model; /* id that the caller gives to each name, below KRUX_MAX_MODELS */
  uint32_t numa;  /* NUMA node + 1, 0 = unknown */
} krux_gpu;

/* The node's CPU and memory for policies that look at them; 0 of a capacity = unknown. krux_plan()
 * never refuses a node for them (NodeResourcesFit does), krux_cluster_choose() leaves out nodes
 * that have not enough. */
typedef struct krux_node {
  uint64_t cpu_milli; /* allocatable */
  uint64_t used_cpu_milli;
  uint64_t memory_mib;
  uint64_t used_memory_mib;
} krux_node;

/* What pods are typical here, and what each model of GPU is worth: knowledge of the FRAGMENTATION
 * policy. Immutable; any thread may read it. NULL = the mix that Krux ships with. */
typedef struct krux_mix krux_mix;

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
  KRUX_NO_GPU = 2,      /* the node has none */
  KRUX_NO_HEALTHY = 3,  /* it has, but none may take newcomers */
  KRUX_TOO_FEW = 4,     /* fewer GPUs than the container asks for, used or not */
  KRUX_TOO_LARGE = 5,   /* not enough GPUs of that size, used or not */
  KRUX_SHORT = 6,       /* would fit on an emptier node: the numbers say what is missing */
  KRUX_OTHER_MODEL = 7, /* GPUs enough, but too few of the models (or without the models refused) */
  KRUX_OTHER_UUID = 8,  /* GPUs enough, but too few of those named */
  KRUX_HOST_SHORT = 9,  /* krux_cluster only: the node's CPU or memory is short */
};

/* The answer for one node. For KRUX_SHORT the numbers are those of the GPU that comes closest. */
typedef struct krux_verdict {
  uint64_t memory_short_mib;
  uint64_t memory_asked_mib;
  uint64_t largest_mib; /* memory of the largest healthy GPU */
  int64_t score; /* for KRUX_FITS: higher is better; compare only within one policy and one mix */
  uint32_t code;
  uint32_t container; /* index of the container that does not fit */
  uint32_t gpus_asked;
  uint32_t gpus_fit; /* GPUs that would take this container */
  uint32_t gpus_all;
  uint32_t gpus_healthy; /* that may take newcomers: healthy, not cordoned, not in MIG mode */
  uint32_t gpus_cordoned;
  uint32_t gpus_mig;
  uint32_t gpus_allowed; /* of the healthy ones, by model and UUID lists */
  uint32_t cores_short;
  uint32_t slots_full; /* 1: all slots of that GPU are in use */
  uint32_t not_empty;  /* 1: an empty GPU is needed, and that one is in use */
} krux_verdict;

/* Places the pod by pod->gpu_policy, with a bounded search for another arrangement when the first
 * try does not work out, and scores the result by pod->node_policy. pod = NULL: as all zero; node =
 * NULL: CPU unknown. Returns verdict->code; placements[i] is written for every container only for
 * KRUX_FITS. Sound: never over-commits memory, cores or slots of any GPU at any phase of the pod.
 * A GPU that is over-committed already takes nobody. When the search is cut off (pods of many
 * containers on nearly full nodes) the answer is KRUX_SHORT. */
int krux_plan(const krux_mix* mix, const krux_node* node, const krux_gpu* gpus, size_t gpu_count,
              const krux_pod* pod, const krux_container* containers, size_t container_count,
              krux_placement* placements, krux_verdict* verdict) KRUX_NOEXCEPT;

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

/* ---- All nodes ---- */

/* Every node's state and one row of scores for each class of pods (pods that ask alike). A row is
 * brought up to date when it is asked for, and only for nodes that have changed since. The cluster
 * learns the mix of pods from krux_cluster_learn(); until it has seen enough it uses the shipped
 * one. All functions return KRUX_BAD_ARGUMENT for nonsense and KRUX_NO_MEMORY when memory is short;
 * the cluster is then as before the call. Not thread-safe. */
typedef struct krux_cluster krux_cluster;

enum { KRUX_NO_MEMORY = 100 };

krux_cluster* krux_cluster_new(void) KRUX_NOEXCEPT; /* NULL: no memory */
void krux_cluster_free(krux_cluster* cluster) KRUX_NOEXCEPT;

/* Node `index` (the caller numbers nodes from 0 and reuses numbers) now looks like this. Call it
 * after each placement, release and change. KRUX_FITS = done. */
int krux_cluster_set(krux_cluster* cluster, uint32_t index, const krux_node* node,
                     const krux_gpu* gpus, size_t gpu_count) KRUX_NOEXCEPT;
int krux_cluster_remove(krux_cluster* cluster, uint32_t index) KRUX_NOEXCEPT;

/* A pod that asks for this has arrived: once for each pod, not for each try. Pods that ask for no
 * GPU (container_count = 0) belong to the mix too. Returns 1 when the mix has changed by it (rows
 * are then made anew when next asked for), else 0; -1 for nonsense. */
int krux_cluster_learn(krux_cluster* cluster, const krux_pod* pod, const krux_container* containers,
                       size_t container_count) KRUX_NOEXCEPT;

/* The mix learnt so far, for krux_plan(); it belongs to the caller, who frees it. NULL: no memory.
 */
krux_mix* krux_cluster_mix(const krux_cluster* cluster) KRUX_NOEXCEPT;

/* Takes this mix from now on (a copy is kept) and ends learning; NULL = learn again. For replays,
 * and for operators who know what will come. */
int krux_cluster_use_mix(krux_cluster* cluster, const krux_mix* mix) KRUX_NOEXCEPT;

/* A mix of given classes; weights need not sum to 1. For each model, KRUX_MAX_MODELS of them: how
 * many GPUs the cluster has, and MiB of one (which turns MiB of a class into a share). Either may
 * be NULL when it is not known. NULL: nonsense or no memory. */
typedef struct krux_typical {
  krux_container container; /* gpus = 0: asks for no GPU */
  uint64_t cpu_milli;
  uint64_t models; /* allowed; 0 = any */
  double weight;
} krux_typical;

enum { KRUX_MAX_TYPICAL = 128 };

krux_mix* krux_mix_new(const krux_typical* typicals, size_t count, const uint32_t* gpus_of_model,
                       const uint64_t* memory_of_model) KRUX_NOEXCEPT;
void krux_mix_free(krux_mix* mix) KRUX_NOEXCEPT;

/* The best node for the pod, where its containers go there, and the verdict of that node. When no
 * node takes it: *index = UINT32_MAX and KRUX_SHORT; ask krux_plan() for each node's reason. Ties
 * go to the lowest index. A class not asked for lately costs one pass over all nodes. Changes
 * nothing: tell the outcome by krux_cluster_set(). */
int krux_cluster_choose(krux_cluster* cluster, const krux_pod* pod,
                        const krux_container* containers, size_t container_count, uint32_t* index,
                        krux_placement* placements, krux_verdict* verdict) KRUX_NOEXCEPT;

/* krux_plan() on node `index` as the cluster knows it. */
int krux_cluster_plan(krux_cluster* cluster, uint32_t index, const krux_pod* pod,
                      const krux_container* containers, size_t container_count,
                      krux_placement* placements, krux_verdict* verdict) KRUX_NOEXCEPT;

/* Work for idle moments: brings the rows that lag most up to date, `most_nodes` changes of nodes at
 * most; or makes one row anew. 1: there is more to do, 0: all done. Rows that lag are brought up to
 * date when they are asked for: this only makes that cheaper. Two for each class after each pod
 * keep all fresh. */
int krux_cluster_tend(krux_cluster* cluster, size_t most_nodes) KRUX_NOEXCEPT;

/* The pod's row: scores[i] of node i, KRUX_NO_SCORE where it does not fit or no node is. Returns
 * the number of entries written, at most `size`, or -1 for an error. */
#define KRUX_NO_SCORE INT64_MIN
int64_t krux_cluster_scores(krux_cluster* cluster, const krux_pod* pod,
                            const krux_container* containers, size_t container_count,
                            int64_t* scores, size_t size) KRUX_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* KRUX_SCHEDULER_ENGINE_KRUX_ENGINE_H_ */
/* NOLINTEND(readability-identifier-naming,modernize-deprecated-headers) */
