#include "sim/conformance/runner.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>

namespace krux::sim::conformance {
namespace {

constexpr size_t kLanes = 4;  // processes beside each other

struct Child {
  pid_t pid = -1;
  int descriptor = -1;
};

// Between fork and exec nothing may allocate: other threads hold locks that the child lacks.
Child Start(const std::vector<Case>& cases) {
  std::string ids;
  for (const Case& one : cases) ids += (ids.empty() ? "" : ",") + std::string(one.id);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  constexpr int kOut = 100;
  const std::string out = std::to_string(kOut);
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(ends[1], kOut);  // without O_CLOEXEC
    execl("/proc/self/exe", "krux-conformance", "--child", ids.c_str(), "--descriptor", out.c_str(),
          static_cast<char*>(nullptr));
    _exit(127);
  }
  close(ends[1]);
  return {pid, ends[0]};
}

enum class End { kClosed, kTimeout };

// Reads a line; `rest` keeps what came after it.
bool TakeLine(std::string& rest, std::string& line) {
  const size_t end = rest.find('\n');
  if (end == std::string::npos) return false;
  line = rest.substr(0, end);
  rest.erase(0, end + 1);
  return true;
}

End ReadAnswers(int descriptor, int seconds_per_case, std::string& running, Answers& answers) {
  std::string rest;
  std::string line;
  char buffer[65536];
  for (;;) {
    pollfd waited = {descriptor, POLLIN, 0};
    const int ready = poll(&waited, 1, seconds_per_case * 1000);
    if (ready == 0) return End::kTimeout;
    const ssize_t got = read(descriptor, buffer, sizeof buffer);
    if (got <= 0) return End::kClosed;
    rest.append(buffer, static_cast<size_t>(got));
    while (TakeLine(rest, line)) {
      const size_t tab = line.find('\t', 2);
      if (line[0] == 'B') running = line.substr(2);
      if (line[0] == 'E' && tab != std::string::npos) {
        answers[line.substr(2, tab - 2)] = line.substr(tab + 1);
        running.clear();
      }
    }
  }
}

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status)) {
    const char* name = sigabbrev_np(WTERMSIG(status));
    return std::string("crashed: SIG") + (name != nullptr ? name : "?");
  }
  return "exited: " + std::to_string(WEXITSTATUS(status));
}

// Runs the cases until the child ends; those that have no answer then are left for the next one.
void RunOneChild(const std::vector<Case>& cases, int seconds_per_case, Answers& answers) {
  const Child child = Start(cases);
  std::string running;
  const End end = ReadAnswers(child.descriptor, seconds_per_case, running, answers);
  if (end == End::kTimeout) kill(child.pid, SIGKILL);
  close(child.descriptor);
  int status = 0;
  waitpid(child.pid, &status, 0);
  if (!running.empty()) {
    answers[running] = end == End::kTimeout ? "hung" : HowItEnded(status);
  } else if (answers.count(cases.front().id) == 0) {
    answers[cases.front().id] = "did not start: " + HowItEnded(status);
  }
}

void RunGroup(std::vector<Case> cases, int seconds_per_case, Answers& answers) {
  while (!cases.empty()) {
    RunOneChild(cases, seconds_per_case, answers);
    std::erase_if(cases, [&answers](const Case& one) { return answers.count(one.id) != 0; });
  }
}

// Takes groups in order, `lanes` at a time.
void RunGroups(const std::vector<std::vector<Case>>& groups, size_t lanes, int seconds_per_case,
               size_t total, Answers& answers) {
  std::mutex mutex;  // guards next, answers
  size_t next = 0;
  auto run = [&] {
    for (;;) {
      size_t mine = 0;
      {
        const std::lock_guard<std::mutex> lock(mutex);
        if (next == groups.size()) return;
        mine = next++;
      }
      Answers found;
      RunGroup(groups[mine], seconds_per_case, found);
      const std::lock_guard<std::mutex> lock(mutex);
      answers.merge(found);
      if (next % 20 == 0) std::fprintf(stderr, "%zu of %zu cases\n", answers.size(), total);
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < lanes; ++i) threads.emplace_back(run);
  for (std::thread& thread : threads) thread.join();
}

std::string Prepare(Needs needs) {
  if (needs == Needs::kNvml || needs == Needs::kBoth) {
    if (const int r = CallNvml("nvmlInit_v2"); r != 0) return "nvmlInit " + std::to_string(r);
  }
  if (needs == Needs::kNothing || needs == Needs::kNvml) return {};
  if (const CUresult r = CU(cuInit, 0U); r != CUDA_SUCCESS) {
    return "cuInit " + Answer::ResultName(r);
  }
  if (needs == Needs::kInit) return {};
  if (const CUresult r = CU(cuCtxSetCurrent, PrimaryContext()); r != CUDA_SUCCESS) {
    return "context " + Answer::ResultName(r);
  }
  return {};
}

// Whether the next case finds what it needs.
bool IsIntact(Needs needs) {
  if (needs != Needs::kContext && needs != Needs::kBoth) return true;
  CUcontext current = nullptr;
  return CU(cuCtxGetCurrent, &current) == CUDA_SUCCESS && current == PrimaryContext() &&
         CU(cuCtxSynchronize) == CUDA_SUCCESS;
}

void WriteLine(int descriptor, const std::string& line) {
  const std::string whole = line + "\n";
  if (write(descriptor, whole.data(), whole.size()) < 0) _exit(1);
}

}  // namespace

Answers RunCases(const std::vector<Case>& cases, int seconds_per_case) {
  std::vector<std::vector<Case>> alone;
  std::vector<std::vector<Case>> together;
  std::map<Needs, size_t> shared;
  for (const Case& one : cases) {
    if (one.where == Where::kOwnProcess) {
      together.push_back({one});
    } else if (one.where == Where::kAlone) {
      alone.push_back({one});
    } else {
      const auto [place, is_new] = shared.try_emplace(one.needs, alone.size());
      if (is_new) alone.emplace_back();
      alone[place->second].push_back(one);
    }
  }
  Answers answers;
  RunGroups(alone, 1, seconds_per_case, cases.size(), answers);
  RunGroups(together, kLanes, seconds_per_case, cases.size(), answers);
  return answers;
}

void RunInChild(const std::string& ids, int descriptor) {
  std::string failure;
  bool is_prepared = false;
  size_t start = 0;
  std::map<std::string, Case> by_id;
  for (const Case& one : AllCases()) by_id.emplace(one.id, one);
  while (start < ids.size()) {
    const size_t comma = std::min(ids.find(',', start), ids.size());
    const auto found = by_id.find(ids.substr(start, comma - start));
    start = comma + 1;
    if (found == by_id.end()) continue;
    const Case& one = found->second;
    WriteLine(descriptor, std::string("B\t") + one.id);
    if (!is_prepared) failure = Prepare(one.needs);
    is_prepared = true;
    Answer answer;
    if (failure.empty()) one.run(answer);
    WriteLine(descriptor, std::string("E\t") + one.id + "\t" +
                              (failure.empty() ? answer.line() : "not prepared: " + failure));
    if (!failure.empty() || !IsIntact(one.needs)) break;
  }
  // Neither the driver's nor the program's ends are part of a case.
  _exit(0);
}

}  // namespace krux::sim::conformance
