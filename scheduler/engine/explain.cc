// Why a pod does not fit: the planner's half that counts, and the sentences.
#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <utility>

#include "scheduler/engine/explain.h"
#include "scheduler/engine/planner.h"
#include "scheduler/engine/selection.h"

namespace krux::engine {

void Planner::CountGpus(krux_verdict* verdict) const {
  verdict->gpus_all = static_cast<uint32_t>(gpu_count_);
  for (size_t gpu = 0; gpu < gpu_count_; ++gpu) {
    const krux_gpu& g = gpus_[gpu];
    if ((g.flags & KRUX_GPU_MIG) != 0) {
      ++verdict->gpus_mig;
    } else if ((g.flags & KRUX_GPU_CORDONED) != 0) {
      ++verdict->gpus_cordoned;
    }
    if (!TakesNewcomers(g)) continue;
    ++verdict->gpus_healthy;
    verdict->largest_mib = std::max(verdict->largest_mib, g.memory_mib);
    if (IsAllowed(gpu)) ++verdict->gpus_allowed;
  }
}

// What no other pod's leaving could change: no GPU, none healthy, too few, others than asked for,
// too small.
bool Planner::CheckNode(krux_verdict* verdict) const {
  CountGpus(verdict);
  verdict->code = gpu_count_ == 0 ? KRUX_NO_GPU : KRUX_NO_HEALTHY;
  if (verdict->gpus_healthy == 0) return false;
  for (size_t turn = 0; turn < turns_; ++turn) {
    verdict->container = order_[turn];
    if (!CheckContainer(containers_[order_[turn]], verdict)) return false;
  }
  verdict->code = KRUX_FITS;
  return true;
}

bool Planner::CheckContainer(const krux_container& c, krux_verdict* verdict) const {
  verdict->gpus_asked = c.gpus;
  verdict->memory_asked_mib = c.memory_mib;
  verdict->gpus_fit = 0;
  uint32_t of_model = 0;
  for (size_t gpu = 0; gpu < gpu_count_; ++gpu) {
    if (!TakesNewcomers(gpus_[gpu])) continue;
    if (AllowsModel(*view_.pod, gpus_[gpu])) ++of_model;
    if (IsAllowed(gpu) && Need(c, gpu) <= gpus_[gpu].memory_mib) ++verdict->gpus_fit;
  }
  verdict->code = KRUX_TOO_LARGE;
  if (verdict->gpus_allowed < c.gpus) verdict->code = KRUX_OTHER_UUID;
  if (of_model < c.gpus) verdict->code = KRUX_OTHER_MODEL;
  if (c.gpus > verdict->gpus_healthy) verdict->code = KRUX_TOO_FEW;
  return verdict->gpus_fit >= c.gpus;
}

void Planner::Explain(size_t container, krux_verdict* verdict) const {
  const krux_container& c = containers_[container];
  Shortfall best;
  bool found = false;
  verdict->gpus_fit = 0;
  for (size_t gpu = 0; gpu < gpu_count_; ++gpu) {
    if (!IsOpen(gpu)) continue;
    const Shortfall missing = Missing(container, gpu);
    if (!missing.Any()) {
      ++verdict->gpus_fit;
    } else if (!found || missing.CloserThan(best)) {
      best = missing;
      found = true;
    }
  }
  verdict->code = KRUX_SHORT;
  verdict->container = static_cast<uint32_t>(container);
  verdict->gpus_asked = c.gpus;
  verdict->memory_asked_mib = c.memory_mib;
  verdict->memory_short_mib = best.memory_mib;
  verdict->cores_short = best.cores;
  verdict->slots_full = best.slots_full ? 1 : 0;
  verdict->not_empty = best.not_empty ? 1 : 0;
}

namespace {

// Appends to a sentence of bounded size.
class Sentence {
 public:
  Sentence(char* text, size_t size) : text_(text), size_(size) {
    if (size_ > 0) text_[0] = '\0';
  }
  __attribute__((format(printf, 2, 3))) void Add(const char* format, ...) {
    if (used_ >= size_) return;
    va_list args;
    va_start(args, format);
    const int n = std::vsnprintf(text_ + used_, size_ - used_, format, args);
    va_end(args);
    if (n > 0) used_ += static_cast<size_t>(n);
  }

 private:
  char* text_;
  size_t size_;
  size_t used_ = 0;
};

void AddShortfalls(const krux_verdict& v, Sentence* s) {
  const char* join = "";
  if (v.memory_short_mib > 0) {
    s->Add("%" PRIu64 " MiB", v.memory_short_mib);
    join = " and ";
  }
  if (v.cores_short > 0) {
    // No percent sign: kube-scheduler uses the message of an event as a format.
    s->Add("%s%u percent of GPU time", join, v.cores_short);
    join = " and ";
  }
  if (v.memory_short_mib > 0 || v.cores_short > 0) s->Add(" short");
  if (v.slots_full != 0) {
    s->Add("%swithout a free slot", join);
    join = " and ";
  }
  if (v.not_empty != 0) s->Add("%swithout a GPU that can be had alone", join);
}

void AddShort(const krux_verdict& v, Sentence* s) {
  const bool says_something =
      v.memory_short_mib > 0 || v.cores_short > 0 || v.slots_full != 0 || v.not_empty != 0;
  if (!says_something) {
    s->Add("node(s) whose GPUs are over-committed and take no newcomers");
    return;
  }
  s->Add("node(s) ");
  AddShortfalls(v, s);
  if (v.gpus_asked <= 1) {
    s->Add(" on the best GPU");
  } else {
    s->Add(" on the next best GPU (%u of %u GPUs fit)", v.gpus_fit, v.gpus_asked);
  }
}

void AddNoneOpen(const krux_verdict& v, Sentence* s) {
  if (v.gpus_mig == v.gpus_all) {
    s->Add("node(s) whose GPUs are in MIG mode, which Krux does not share");
    return;
  }
  if (v.gpus_cordoned == v.gpus_all) {
    s->Add("node(s) whose GPUs are cordoned");
    return;
  }
  const uint32_t unhealthy = v.gpus_all - v.gpus_mig - v.gpus_cordoned;
  s->Add("node(s) without a healthy GPU (");
  const char* join = "";
  for (const auto& [count, what] :
       {std::pair{unhealthy, "unhealthy"}, std::pair{v.gpus_cordoned, "cordoned"},
        std::pair{v.gpus_mig, "in MIG mode"}}) {
    if (count == 0) continue;
    s->Add("%s%u %s", join, count, what);
    join = ", ";
  }
  s->Add(")");
}

}  // namespace

void Reason(const krux_verdict& v, char* text, size_t size) {
  Sentence s(text, size);
  switch (v.code) {
    case KRUX_FITS:
      s.Add("node(s) that fit");
      return;
    case KRUX_NO_GPU:
      s.Add("node(s) without Krux GPUs");
      return;
    case KRUX_NO_HEALTHY:
      AddNoneOpen(v, &s);
      return;
    case KRUX_TOO_FEW:
      s.Add("node(s) with %u healthy GPU(s), a container asks for %u", v.gpus_healthy,
            v.gpus_asked);
      return;
    case KRUX_TOO_LARGE:
      s.Add("node(s) whose largest GPU has %" PRIu64 " MiB, %" PRIu64 " MiB on %u GPU(s) asked",
            v.largest_mib, v.memory_asked_mib, v.gpus_asked);
      return;
    case KRUX_SHORT:
      AddShort(v, &s);
      return;
    case KRUX_OTHER_MODEL:
      s.Add("node(s) with GPUs of other models than the pod's lists allow");
      return;
    case KRUX_OTHER_UUID:
      s.Add("node(s) where the pod's lists of GPU UUIDs allow %u GPU(s), a container asks for %u",
            v.gpus_allowed, v.gpus_asked);
      return;
    case KRUX_HOST_SHORT:
      s.Add("node(s) without enough CPU or memory");
      return;
    default:
      s.Add("node(s) refused by the engine: an argument is out of range");
  }
}

}  // namespace krux::engine
