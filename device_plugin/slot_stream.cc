#include "device_plugin/slot_stream.h"

#include <utility>

namespace krux::device_plugin {

v1beta1::ListAndWatchResponse SlotsToResponse(const Slots& slots) {
  v1beta1::ListAndWatchResponse response;
  for (int i = 0; i < slots.count; ++i) {
    v1beta1::Device* device = response.add_devices();
    device->set_id(SlotId(i));
    device->set_health(slots.healthy ? kHealthy : kUnhealthy);
  }
  return response;
}

SlotStream* SlotStream::Start(SlotBoard& board, std::function<void()> on_end) {
  auto stream = std::make_shared<SlotStream>(board, std::move(on_end));
  stream->self_ = stream;
  board.Add(stream);
  stream->Wake();
  return stream.get();
}

SlotStream::Next SlotStream::Decide() {
  if (writing_ || finished_) return Next::kNothing;
  if (ending_) {
    finished_ = true;
    return Next::kFinish;
  }
  const Slots slots = board_.Get();
  if (sent_ == slots) return Next::kNothing;
  sent_ = slots;
  response_ = SlotsToResponse(slots);
  writing_ = true;
  return Next::kWrite;
}

void SlotStream::Do(Next next) {
  if (next == Next::kWrite) StartWrite(&response_);
  if (next == Next::kFinish) Finish(grpc::Status::OK);
}

void SlotStream::Wake() {
  Next next = Next::kNothing;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    next = Decide();
  }
  Do(next);
}

void SlotStream::OnWriteDone(bool ok) {
  Next next = Next::kNothing;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    writing_ = false;
    if (!ok) ending_ = true;
    next = Decide();
  }
  Do(next);
}

void SlotStream::OnCancel() {
  Next next = Next::kNothing;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    next = Decide();
  }
  Do(next);
}

void SlotStream::OnDone() {
  // The board may hold a copy for the length of a Wake, so the object goes with its last owner.
  const std::shared_ptr<SlotStream> self = std::move(self_);
  board_.Remove(self);
  on_end_();
}

}  // namespace krux::device_plugin
