// One ListAndWatch stream: sends the slots at once, then again whenever they differ from what was
// sent last. Changes that come while a message is under way are sent as one.
//
// A gRPC reactor: gRPC calls On…, the board calls Wake, on any thread. It keeps itself alive from
// Start until gRPC is done with it. No gRPC operation is begun under the lock, since gRPC may call
// back from inside it; Finish is begun only when no write is under way.
#ifndef KRUX_DEVICE_PLUGIN_SLOT_STREAM_H_
#define KRUX_DEVICE_PLUGIN_SLOT_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "device_plugin/slot_board.h"
#include "proto/device_plugin.pb.h"

namespace krux::device_plugin {

class SlotStream final : public grpc::ServerWriteReactor<v1beta1::ListAndWatchResponse>,
                         public SlotBoard::Listener,
                         public std::enable_shared_from_this<SlotStream> {
 public:
  // `on_end` is called once, when the stream is over.
  static SlotStream* Start(SlotBoard& board, std::function<void()> on_end);

  SlotStream(SlotBoard& board, std::function<void()> on_end)
      : board_(board), on_end_(std::move(on_end)) {}

  void Wake() override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  enum class Next { kNothing, kWrite, kFinish };
  Next Decide();  // REQUIRES: mutex_ held
  void Do(Next next);

  SlotBoard& board_;
  const std::function<void()> on_end_;
  std::shared_ptr<SlotStream> self_;

  std::mutex mutex_;  // guards all below; response_ belongs to gRPC while writing_
  bool writing_ = false;
  bool ending_ = false;
  bool finished_ = false;
  std::optional<Slots> sent_;
  v1beta1::ListAndWatchResponse response_;
};

// The kubelet's message for these slots.
v1beta1::ListAndWatchResponse SlotsToResponse(const Slots& slots);

}  // namespace krux::device_plugin

#endif  // KRUX_DEVICE_PLUGIN_SLOT_STREAM_H_
