#include "cli/local_agent.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <utility>
#include <vector>

#include "cli/installation.h"
#include "common/clock.h"
#include "common/fd.h"
#include "common/file.h"
#include "common/unix_socket.h"
#include "protocol/names.h"

namespace krux::cli {
namespace {

constexpr Nanos kPatience = 30 * kSecond;
constexpr Nanos kPause = 10 * kMillisecond;

void Pause() {
  const timespec pause{0, static_cast<long>(kPause)};
  nanosleep(&pause, nullptr);
}

std::string SocketOf(const std::string& folder) { return folder + "/" + names::kAgentSocket; }

bool Answers(const std::string& folder) { return ConnectUnix(SocketOf(folder)).has_value(); }

Result<UniqueFd> Lock(const std::string& folder) {
  const std::string path = folder + "/start.lock";
  UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid()) return ErrnoError(errno, "opening " + path);
  for (const Nanos end = MonotonicNow() + kPatience; flock(lock.get(), LOCK_EX | LOCK_NB) != 0;) {
    if (errno != EWOULDBLOCK && errno != EINTR) return ErrnoError(errno, "locking " + path);
    if (MonotonicNow() > end) {
      return Error{
          ErrorCode::kDeadlineExceeded,
          "another krux has been starting the local agent for 30 s; see " + folder + "/agent.log"};
    }
    Pause();
  }
  return lock;
}

// In the child, between fork and exec: only what is allowed there.
[[noreturn]] void BecomeAgent(const std::vector<char*>& arguments, int log, int null) {
  setsid();
  if (chdir("/") != 0) _exit(127);
  dup2(null, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execv(arguments[0], arguments.data());
  _exit(127);
}

Result<pid_t> StartAgent(const std::string& folder, const std::string& driver,
                         const std::string& sim_folder) {
  KRUX_ASSIGN_OR_RETURN(const Installation installation, FindInstallation());
  std::vector<std::string> words{
      installation.agent,   "--local", "--run-folder", folder,         "--limiter",
      installation.limiter, "--gpu",   driver,         "--sim-folder", sim_folder};
  if (!installation.sim_libraries.empty()) {
    words.insert(words.end(), {"--sim-libraries", installation.sim_libraries});
  }
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const std::string path = folder + "/agent.log";
  const UniqueFd log(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!log.valid() || !null.valid()) return ErrnoError(errno, "opening " + path);
  const pid_t pid = fork();
  if (pid < 0) return ErrnoError(errno, "starting krux-agent");
  if (pid == 0) BecomeAgent(arguments, log.get(), null.get());
  return pid;
}

// The last line that the agent wrote: it says why it ended.
std::string LastLine(const std::string& folder) {
  auto text = ReadFile(folder + "/agent.log", 1 << 20);
  if (!text) return "";
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return text->substr(text->rfind('\n') + 1);
}

Status WaitForAgent(const std::string& folder, pid_t pid) {
  for (const Nanos end = MonotonicNow() + kPatience; MonotonicNow() < end; Pause()) {
    if (Answers(folder)) return Ok();
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) != pid) continue;
    if (Answers(folder)) return Ok();
    return Error{ErrorCode::kFailedPrecondition,
                 "the local agent did not start: " + LastLine(folder)};
  }
  return Error{ErrorCode::kDeadlineExceeded,
               "the local agent did not answer within 30 s; see " + folder + "/agent.log"};
}

}  // namespace

Status EnsureLocalAgent(const std::string& folder, const std::string& driver,
                        const std::string& sim_folder) {
  if (Answers(folder)) return Ok();
  KRUX_ASSIGN_OR_RETURN(const UniqueFd lock, Lock(folder));
  if (Answers(folder)) return Ok();
  KRUX_ASSIGN_OR_RETURN(const pid_t pid, StartAgent(folder, driver, sim_folder));
  return WaitForAgent(folder, pid);
}

}  // namespace krux::cli
