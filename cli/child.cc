#include "cli/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "gpu/driver.h"
#include "protocol/names.h"

namespace krux::cli {
namespace {

constexpr int kForwarded[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                              SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH};

class Environment {
 public:
  explicit Environment(std::vector<std::string> entries) : entries_(std::move(entries)) {}

  void Set(const std::string& name, const std::string& value) {
    std::erase_if(entries_, [&](const std::string& entry) { return IsNamed(entry, name); });
    entries_.push_back(name + "=" + value);
  }
  // "first:what was there"
  void Prepend(const std::string& name, const std::string& first) {
    std::string rest;
    for (const auto& entry : entries_) {
      if (IsNamed(entry, name)) rest = entry.substr(name.size() + 1);
    }
    Set(name, rest.empty() ? first : first + ":" + rest);
  }
  std::vector<std::string> Take() { return std::move(entries_); }

 private:
  static bool IsNamed(std::string_view entry, std::string_view name) {
    return entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=';
  }
  std::vector<std::string> entries_;
};

std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const auto& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

sigset_t ForwardedAndChild() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : kForwarded) sigaddset(&signals, signal);
  sigaddset(&signals, SIGCHLD);
  return signals;
}

// In the child, between fork and exec.
[[noreturn]] void BecomeCommand(const std::vector<char*>& command,
                                const std::vector<char*>& environment, const sigset_t& mask,
                                pid_t parent, int failure) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExitTrouble);  // krux died before the line above
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execvpe(command[0], command.data(), environment.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t sent = write(failure, &error, sizeof error);
  _exit(kExitTrouble);
}

int ExitCode(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void WarnAgentGone() {
  std::fprintf(
      stderr,
      "krux: the agent is gone: memory limits stay, GPU time falls back to fixed windows\n");
}

// Hands a signal on, unless the terminal has sent it to the whole foreground group already.
void Forward(const signalfd_siginfo& signal, pid_t pid) {
  if (signal.ssi_code == SI_KERNEL) return;
  kill(pid, static_cast<int>(signal.ssi_signo));
}

int WaitFor(pid_t pid, int signals, int connection) {
  while (true) {
    pollfd waiters[2] = {{signals, POLLIN, 0}, {connection, POLLIN, 0}};
    if (poll(waiters, 2, -1) < 0 && errno != EINTR) return kExitTrouble;
    if (waiters[1].revents != 0) {
      // The agent says nothing more on this connection; only its end makes it readable.
      WarnAgentGone();
      connection = -1;
    }
    if ((waiters[0].revents & POLLIN) == 0) continue;
    signalfd_siginfo signal{};
    if (read(signals, &signal, sizeof signal) != sizeof signal) continue;
    if (signal.ssi_signo != SIGCHLD) {
      Forward(signal, pid);
      continue;
    }
    int status = 0;
    while (const pid_t ended = waitpid(-1, &status, WNOHANG)) {
      if (ended < 0) break;
      if (ended == pid) return ExitCode(status);  // others are agents that this krux has started
    }
  }
}

int ReportExecFailure(const std::string& command, int error) {
  std::fprintf(stderr, "krux: can't run '%s': %s\n", command.c_str(), std::strerror(error));
  return error == ENOENT ? kExitNotFound : kExitNotRunnable;
}

}  // namespace

std::vector<std::string> ChildEnvironment(const std::vector<std::string>& environment,
                                          const Session& session) {
  Environment result(environment);
  result.Prepend("LD_PRELOAD", session.answer.limiter_path);
  result.Set(names::kFolderVariable, session.answer.folder);
  std::string cards;
  for (const auto& gpu : session.answer.gpus) cards += (cards.empty() ? "" : ",") + gpu.uuid;
  result.Set("CUDA_VISIBLE_DEVICES", cards);
  const auto& folders = session.answer.driver_folders;
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    result.Prepend("LD_LIBRARY_PATH", *folder);
  }
  if (!folders.empty() && !session.sim_folder.empty()) {
    result.Set(gpu::kSimFolderVariable, session.sim_folder);
  }
  return result.Take();
}

int RunChild(const std::vector<std::string>& command, const std::vector<std::string>& environment,
             const Session& session) {
  signal(SIGCHLD, SIG_DFL);
  const sigset_t blocked = ForwardedAndChild();
  sigset_t before;
  sigprocmask(SIG_BLOCK, &blocked, &before);
  const UniqueFd signals(signalfd(-1, &blocked, SFD_CLOEXEC));
  int failure[2] = {-1, -1};
  if (!signals.valid() || pipe2(failure, O_CLOEXEC) != 0) {
    std::fprintf(stderr, "krux: can't watch the command: %s\n", std::strerror(errno));
    return kExitTrouble;
  }
  const UniqueFd failed(failure[0]);
  UniqueFd failing(failure[1]);
  const std::vector<char*> words = Pointers(command);
  const std::vector<char*> variables = Pointers(environment);
  const pid_t krux = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    std::fprintf(stderr, "krux: can't start a process: %s\n", std::strerror(errno));
    return kExitTrouble;
  }
  if (pid == 0) BecomeCommand(words, variables, before, krux, failing.get());
  failing.Reset();
  int error = 0;
  // Empty when exec went well: the pipe is closed by it.
  if (read(failed.get(), &error, sizeof error) == sizeof error) {
    waitpid(pid, nullptr, 0);
    return ReportExecFailure(command.front(), error);
  }
  return WaitFor(pid, signals.get(), session.connection.get());
}

}  // namespace krux::cli
