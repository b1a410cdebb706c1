// For tests of this module: one node in a temporary folder, seen from outside, as containerd sees
// it: the krux-runtime binary with its configuration, a bundle, and a program run by name.
#ifndef KRUX_RUNTIME_TESTING_NODE_H_
#define KRUX_RUNTIME_TESTING_NODE_H_

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/spec.h"
#include "runtime/testing/temp_folder.h"

namespace krux::runtime::testing {

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

// Runs a program to its end; `folder` is its working folder and takes its output.
inline Outcome RunProgram(const std::vector<std::string>& words, const std::string& folder) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  const std::string out = folder + "/stdout";
  const std::string err = folder + "/stderr";
  const pid_t child = fork();
  if (child == 0) {
    const int out_fd = open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int err_fd = open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (dup2(out_fd, 1) < 0 || dup2(err_fd, 2) < 0 || chdir(folder.c_str()) != 0) _exit(126);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), Slurp(out), Slurp(err)};
}

class Node {
 public:
  // `real_runtime` is what the configuration names.
  Node(const std::string& binary, const std::string& real_runtime) {
    std::filesystem::copy_file(binary, folder_ / "krux-runtime");
    Configure(
        Json{{"agentSocket", agent_socket()}, {"runtime", real_runtime}, {"timeoutSeconds", 1}});
    folder_.Folder("bundle/rootfs");
    folder_.Folder("run/containers");
    folder_.Folder("tmp");
  }

  void Configure(const Json& config) const {
    folder_.File("krux-runtime.json", SpecToText(config));
  }
  const TempFolder& folder() const { return folder_; }
  std::string agent_socket() const { return folder_ / "run/agent.sock"; }
  std::string bundle() const { return folder_ / "bundle"; }
  void WriteSpec(const std::string& text) const { folder_.File("bundle/config.json", text); }
  std::string ReadSpec() const { return Slurp(folder_ / "bundle/config.json"); }
  std::string ReadLog() const { return Slurp(folder_ / "log.json"); }

  // krux-runtime with the global flags that containerd gives.
  Outcome Call(const std::vector<std::string>& words) const {
    std::vector<std::string> all = {
        folder_ / "krux-runtime", "--root", folder_ / "state", "--log", folder_ / "log.json",
        "--log-format",           "json"};
    all.insert(all.end(), words.begin(), words.end());
    return RunProgram(all, folder_ / "tmp");
  }
  Outcome Create(const std::string& id) const {
    return Call({"create", "--bundle", bundle(), "--pid-file", folder_ / "pid", id});
  }

 private:
  TempFolder folder_;
};

}  // namespace krux::runtime::testing

#endif  // KRUX_RUNTIME_TESTING_NODE_H_
