#include "limiter/testing/client_run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "common/clock.h"

namespace krux::limiter {
namespace {

std::vector<std::string> EnvironmentOf(const ClientOptions& options) {
  std::vector<std::string> environment = {
      "PATH=/usr/bin:/bin",
      std::string("LD_LIBRARY_PATH=") + KRUX_SIM_LIBRARIES,
      "KRUX_SIM_FOLDER=" + options.sim_folder,
  };
  if (options.preload) environment.push_back(std::string("LD_PRELOAD=") + KRUX_LIMITER_LIBRARY);
  if (!options.container_folder.empty()) {
    environment.push_back("KRUX_CONTAINER_FOLDER=" + options.container_folder);
  }
  environment.insert(environment.end(), options.more_environment.begin(),
                     options.more_environment.end());
  return environment;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Client::Client(const ClientOptions& options, const std::vector<std::string>& commands) {
  std::vector<std::string> arguments = {KRUX_TEST_CLIENT};
  arguments.insert(arguments.end(), commands.begin(), commands.end());
  std::vector<std::string> environment = EnvironmentOf(options);
  std::vector<char*> argv = Pointers(arguments), envp = Pointers(environment);
  int output[2], input[2];
  if (pipe2(output, O_CLOEXEC) != 0 || pipe2(input, O_CLOEXEC) != 0) abort();
  pid_ = fork();
  if (pid_ == 0) {
    dup2(input[0], STDIN_FILENO);
    dup2(output[1], STDOUT_FILENO);
    dup2(output[1], STDERR_FILENO);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  close(output[1]);
  close(input[0]);
  output_ = UniqueFd(output[0]);
  input_ = UniqueFd(input[1]);
}

Client::~Client() { Kill(); }

void Client::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void Client::Continue() {
  if (write(input_.get(), "\n", 1) != 1) perror("continue");
}

bool Client::ReadSome(int timeout_ms) {
  pollfd source{output_.get(), POLLIN, 0};
  if (poll(&source, 1, timeout_ms) <= 0) return false;
  char bytes[4096];
  const ssize_t size = read(output_.get(), bytes, sizeof bytes);
  if (size <= 0) return false;
  text_.append(bytes, static_cast<size_t>(size));
  return true;
}

std::string Client::ReadAll(int seconds) {
  const Nanos deadline = MonotonicNow() + seconds * kSecond;
  while (true) {
    const Nanos left = deadline - MonotonicNow();
    if (left <= 0) {
      text_ += "(killed: it took too long)\n";
      break;
    }
    if (!ReadSome(static_cast<int>(left / kMillisecond) + 1)) break;
  }
  Kill();
  return text_;
}

bool Client::ReadUntil(const std::string& text, int seconds) {
  const Nanos deadline = MonotonicNow() + seconds * kSecond;
  while (text_.find(text) == std::string::npos) {
    const Nanos left = deadline - MonotonicNow();
    if (left <= 0 || !ReadSome(static_cast<int>(left / kMillisecond) + 1)) return false;
  }
  return true;
}

std::array<uint8_t, 16> SimulatedUuid(const std::string& sim_folder, unsigned card) {
  ClientOptions options;
  options.sim_folder = sim_folder;
  options.preload = false;
  options.more_environment = {"CUDA_VISIBLE_DEVICES=" + std::to_string(card)};
  Client client(options, {"init", "uuid"});
  const std::string text = client.ReadAll();
  std::array<uint8_t, 16> uuid{};
  const size_t start = text.find("uuid ");
  if (start == std::string::npos) return uuid;
  for (size_t i = 0; i < uuid.size(); ++i) {
    uuid[i] = static_cast<uint8_t>(std::stoul(text.substr(start + 5 + 2 * i, 2), nullptr, 16));
  }
  return uuid;
}

}  // namespace krux::limiter
