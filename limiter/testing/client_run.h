// Runs testing/client.cc as a program of a container: with the limiter preloaded, the simulated
// driver in its library path, and a folder of a FakeAgent.
// Thread rule: plain objects of one thread.
#ifndef KRUX_LIMITER_TESTING_CLIENT_RUN_H_
#define KRUX_LIMITER_TESTING_CLIENT_RUN_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/fd.h"

namespace krux::limiter {

struct ClientOptions {
  std::string container_folder;  // KRUX_CONTAINER_FOLDER; "" = not set
  std::string sim_folder;        // KRUX_SIM_FOLDER
  bool preload = true;
  std::vector<std::string> more_environment;
};

// A started client. Its standard output and error can be read; it is killed with its object.
class Client {
 public:
  Client(const ClientOptions& options, const std::vector<std::string>& commands);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  pid_t pid() const { return pid_; }
  // Everything until it ends, at most `seconds`; then it is killed.
  std::string ReadAll(int seconds = 30);
  // Until the text appears in what was read so far.
  bool ReadUntil(const std::string& text, int seconds = 30);
  // What was read so far.
  const std::string& text() const { return text_; }
  void Kill();
  // Ends a "wait" command.
  void Continue();

 private:
  bool ReadSome(int timeout_ms);

  pid_t pid_ = -1;
  UniqueFd output_, input_;
  std::string text_;
};

// The UUID of a simulated card, as the driver gives it without the limiter.
std::array<uint8_t, 16> SimulatedUuid(const std::string& sim_folder, unsigned card = 0);

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_TESTING_CLIENT_RUN_H_
