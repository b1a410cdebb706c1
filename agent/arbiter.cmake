# GPU time: the policy, and the service that binds it to pages and messages.
krux_library(NAME arbiter
  SRCS arbiter.cc arbiter_turns.cc lease_card.cc lease_service.cc overlap_probe.cc
       time_windows.cc
  DEPS krux_common krux_protocol
  TESTS arbiter_test.cc arbiter_random_test.cc lease_service_test.cc
        overlap_probe_test.cc)
