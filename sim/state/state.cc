#include "sim/state/state.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "sim/state/share.h"

namespace krux::sim {
namespace {

constexpr char kStateFile[] = "/state";
constexpr off_t kLifeLocks = off_t{1} << 40;  // open-file-description locks: who holds a seat
constexpr off_t kPidLocks = off_t{1} << 41;   // record locks: the kernel tells their owner's pid

off_t SeatOffset(uint32_t card, uint32_t seat) {
  return static_cast<off_t>(card) * kSeatsPerCard + seat;
}

struct flock ByteLock(off_t offset, short type) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = offset;
  lock.l_len = 1;
  return lock;
}

uint64_t PackPid(uint32_t pid_namespace, pid_t pid) {
  return (uint64_t{pid_namespace} << 32) | static_cast<uint32_t>(pid);
}

std::string CardFile(const std::string& folder, uint32_t card) {
  return folder + "/card" + std::to_string(card);
}

// Empty files beside the state that stand for device nodes: a container that is given only some of
// them sees only those cards.
Status CreateCardFiles(const std::string& folder, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const std::string path = CardFile(folder, i);
    // Exclusively: one that another first user has just made is as good, and is not ours to change.
    UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!fd.valid() && errno == EEXIST) continue;
    if (!fd.valid()) return ErrnoError(errno, "making " + path);
    if (fchmod(fd.get(), 0666) != 0) return ErrnoError(errno, "setting the mode of " + path);
  }
  return Ok();
}

template <size_t N>
bool IsText(const char (&text)[N]) {
  return std::memchr(text, 0, N) != nullptr;
}

// Others write this file: what programs rely on is checked before they see it.
bool IsSane(const Card& card) {
  constexpr uint64_t kMostMemory = uint64_t{1} << 46;
  return IsText(card.name) && IsText(card.facts.key) && IsText(card.facts.part_number) &&
         IsText(card.facts.vbios) && card.memory_bytes <= kMostMemory &&
         card.reserved_bytes <= card.memory_bytes && card.context_bytes <= kMostMemory &&
         card.context_unlisted_bytes <= kMostMemory && card.process_unlisted_bytes <= kMostMemory &&
         card.multiprocessors > 0 && card.multiprocessors <= 4096 && card.compute_major < 100 &&
         card.compute_minor < 10 && card.threads_per_multiprocessor > 0 &&
         card.threads_per_multiprocessor <= 4096 && card.pci_bus < 256 && card.numa_node < 8 &&
         card.launch_ns >= 0 && card.launch_ns <= kSecond &&
         card.facts.power_idle_w <= card.facts.power_limit_w &&
         card.facts.power_limit_w <= 100'000 && card.facts.idle_mhz <= card.facts.graphics_mhz &&
         card.facts.graphics_mhz <= 100'000 && card.facts.nvlinks <= 64;
}

bool IsSane(const State& state) {
  if (state.magic != kStateMagic || state.card_count > kMaxCards ||
      state.kernel_cost_count > kMaxKernelCosts || !IsText(state.driver_name)) {
    return false;
  }
  for (const KernelCost& cost : state.kernel_costs) {
    if (!IsText(cost.name)) return false;
  }
  return std::all_of(state.cards, state.cards + state.card_count,
                     [](const Card& card) { return IsSane(card); });
}

Result<State*> MapState(int fd, const std::string& path) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return ErrnoError(errno, "reading the size of " + path);
  if (info.st_size != static_cast<off_t>(sizeof(State))) {
    return Error{ErrorCode::kFailedPrecondition,
                 path + " was made by another version of the simulated GPU: remove the folder"};
  }
  void* memory = mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return ErrnoError(errno, "mapping " + path);
  auto* state = static_cast<State*>(memory);
  if (!IsSane(*state)) {
    munmap(memory, sizeof(State));
    return Error{ErrorCode::kDataLoss, path + " is not the state of a simulated node"};
  }
  return state;
}

}  // namespace

std::string SimFolder() {
  const char* folder = std::getenv("KRUX_SIM_FOLDER");
  return folder != nullptr && folder[0] != '\0' ? folder : "/run/krux-sim";
}

Status CreateState(const std::string& folder, const NodeOptions& options) {
  auto state = std::make_unique<State>();
  KRUX_RETURN_IF_ERROR(FillState(options, state.get()));
  if (mkdir(folder.c_str(), 0777) == 0) {
    chmod(folder.c_str(), 0777);
  } else if (errno != EEXIST) {
    return ErrnoError(errno, "making the folder " + folder);
  }
  const std::string path = folder + kStateFile;
  if (access(path.c_str(), F_OK) == 0) {
    return Error{ErrorCode::kAlreadyExists, path + " exists: remove the folder first"};
  }
  KRUX_RETURN_IF_ERROR(CreateCardFiles(folder, options.gpus));
  std::string temporary = path + ".XXXXXX";
  UniqueFd fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.valid()) return ErrnoError(errno, "making a file in " + folder);
  const bool written = write(fd.get(), state.get(), sizeof(State)) == ssize_t{sizeof(State)} &&
                       fchmod(fd.get(), 0666) == 0;
  // link() gives the complete file its name in one step, and fails if another was faster.
  const int rc = written ? link(temporary.c_str(), path.c_str()) : -1;
  const int error_number = errno;
  unlink(temporary.c_str());
  if (rc != 0) return ErrnoError(error_number, "making " + path);
  return Ok();
}

Result<SharedState*> SharedState::Open(const std::string& folder) {
  const std::string path = folder + kStateFile;
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid() && errno == ENOENT) {
    const Status created = CreateState(folder, NodeOptions{});
    if (!created && created.error().code != ErrorCode::kAlreadyExists) return created.error();
    fd.Reset(open(path.c_str(), O_RDWR | O_CLOEXEC));
  }
  if (!fd.valid()) return ErrnoError(errno, "opening " + path);
  KRUX_ASSIGN_OR_RETURN(State* const state, MapState(fd.get(), path));
  // Kept for the life of the process (the header says why), and known to be, for leak checkers.
  static std::mutex mutex;
  static auto* opened = new std::vector<std::unique_ptr<SharedState>>;
  const std::lock_guard<std::mutex> guard(mutex);
  opened->emplace_back(new SharedState(std::move(fd), state, folder));
  return opened->back().get();
}

SharedState::SharedState(UniqueFd fd, State* state, std::string folder)
    : fd_(std::move(fd)), state_(state), folder_(std::move(folder)) {
  struct stat info{};
  if (stat("/proc/self/ns/pid", &info) == 0) pid_namespace_ = static_cast<uint32_t>(info.st_ino);
  for (uint32_t i = 0; i < state_->card_count; ++i) {
    if (access(CardFile(folder_, i).c_str(), R_OK | W_OK) == 0) visible_.push_back(i);
  }
}

bool SharedState::LockSeat(uint32_t card, uint32_t seat) {
  struct flock lock = ByteLock(kLifeLocks + SeatOffset(card, seat), F_WRLCK);
  return fcntl(fd_.get(), F_OFD_SETLK, &lock) == 0;
}

bool SharedState::IsHeld(uint32_t card, uint32_t seat) const {
  // Our own description never conflicts with itself, so seats of this process are known by a note.
  if ((owned_[card].load() >> seat & 1) != 0) return true;
  struct flock lock = ByteLock(kLifeLocks + SeatOffset(card, seat), F_WRLCK);
  return fcntl(fd_.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

pid_t SharedState::LockedPid(uint32_t card, uint32_t seat) const {
  struct flock lock = ByteLock(kPidLocks + SeatOffset(card, seat), F_WRLCK);
  if (fcntl(fd_.get(), F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return 0;
  return lock.l_pid > 0 ? lock.l_pid : -1;
}

void SharedState::ClearSeat(uint32_t card, uint32_t index) {
  Seat& seat = state_->cards[card].seats[index];
  seat.pending_bytes.store(0);
  seat.used_bytes.store(0);
  seat.unlisted_bytes.store(0);
  CardShare share(&state_->cards[card]);
  if (share.Read().IsBusy(index)) share.Leave(index, Now());
  seat.percent.store(0);
  seat.busy_ns.store(0);
  seat.window_start_ns.store(0);
  seat.window_busy_ns.store(0);
  seat.seen_pid.store(0);
  seat.settled_ns.store(0);
  seat.own_pid.store(0);
}

Result<uint32_t> SharedState::ClaimSeat(uint32_t card) {
  const std::lock_guard<std::mutex> guard(mutex_);
  for (uint32_t i = 0; i < kSeatsPerCard; ++i) {
    Seat& seat = state_->cards[card].seats[i];
    if ((owned_[card].load() >> i & 1) != 0) continue;
    if (!LockSeat(card, i)) continue;
    ClearSeat(card, i);
    struct flock lock = ByteLock(kPidLocks + SeatOffset(card, i), F_WRLCK);
    fcntl(fd_.get(), F_SETLK, &lock);
    seat.own_pid.store(PackPid(pid_namespace_, getpid()));
    owned_[card].fetch_or(uint64_t{1} << i);
    return i;
  }
  return Error{ErrorCode::kResourceExhausted,
               "all " + std::to_string(kSeatsPerCard) + " seats of the simulated card are taken"};
}

int SharedState::ReleaseDead(uint32_t card) {
  const std::lock_guard<std::mutex> guard(mutex_);
  int released = 0;
  for (uint32_t i = 0; i < kSeatsPerCard; ++i) {
    if (state_->cards[card].seats[i].own_pid.load() == 0 || IsHeld(card, i)) continue;
    if (!LockSeat(card, i)) continue;
    ClearSeat(card, i);
    struct flock lock = ByteLock(kLifeLocks + SeatOffset(card, i), F_UNLCK);
    fcntl(fd_.get(), F_OFD_SETLK, &lock);
    ++released;
  }
  return released;
}

}  // namespace krux::sim
