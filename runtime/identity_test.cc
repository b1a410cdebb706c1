#include "runtime/identity.h"

#include <gtest/gtest.h>

namespace krux::runtime {
namespace {

constexpr char kContainerd[] = R"({"annotations":{
  "io.kubernetes.cri.container-type":"container","io.kubernetes.cri.container-name":"main",
  "io.kubernetes.cri.sandbox-uid":"uid-1","io.kubernetes.cri.sandbox-namespace":"ns",
  "io.kubernetes.cri.sandbox-name":"pod"}})";

TEST(Identity, ReadsContainerd) {
  const auto identity = ReadIdentity(ParseSpec(kContainerd).value());
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->kind, ContainerKind::kContainer);
  EXPECT_EQ(identity->pod_uid, "uid-1");
  EXPECT_EQ(identity->pod_namespace, "ns");
  EXPECT_EQ(identity->pod_name, "pod");
  EXPECT_EQ(identity->container_name, "main");
}

TEST(Identity, ReadsCrio) {
  const auto identity = ReadIdentity(ParseSpec(R"({"annotations":{
    "io.kubernetes.cri-o.ContainerType":"container","io.kubernetes.pod.uid":"uid-2",
    "io.kubernetes.container.name":"side","io.kubernetes.pod.namespace":"ns2",
    "io.kubernetes.pod.name":"pod2"}})")
                                         .value());
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->kind, ContainerKind::kContainer);
  EXPECT_EQ(identity->pod_uid, "uid-2");
  EXPECT_EQ(identity->container_name, "side");
}

TEST(Identity, TellsSandboxesAndStrangers) {
  const auto kind_of = [](const char* text) {
    return ReadIdentity(ParseSpec(text).value()).value().kind;
  };
  EXPECT_EQ(kind_of(R"({"annotations":{"io.kubernetes.cri.container-type":"sandbox"}})"),
            ContainerKind::kSandbox);
  EXPECT_EQ(kind_of(R"({"annotations":{"io.kubernetes.cri-o.ContainerType":"sandbox"}})"),
            ContainerKind::kSandbox);
  EXPECT_EQ(kind_of("{}"), ContainerKind::kNoPod);
  EXPECT_EQ(kind_of(R"({"annotations":null})"), ContainerKind::kNoPod);
  // Labels and annotations that a tenant can set make no identity by themselves.
  EXPECT_EQ(
      kind_of(R"({"annotations":{"io.kubernetes.cri.sandbox-uid":"x","krux.io/grant":"{}"}})"),
      ContainerKind::kNoPod);
}

TEST(Identity, RefusesWhatIsIncompleteWrongOrTwofold) {
  struct Row {
    const char* text;
    const char* said;
  };
  const Row rows[] = {
      {R"({"annotations":[]})", "annotations"},
      {R"({"annotations":{"io.kubernetes.cri.container-type":7}})", "container-type"},
      {R"({"annotations":{"io.kubernetes.cri.container-type":"vm"}})", "'vm'"},
      {R"({"annotations":{"io.kubernetes.cri.container-type":"container",
           "io.kubernetes.cri.container-name":"main"}})",
       "sandbox-uid"},
      {R"({"annotations":{"io.kubernetes.cri.container-type":"container",
           "io.kubernetes.cri.sandbox-uid":"u"}})",
       "container-name"},
      {R"({"annotations":{"io.kubernetes.cri-o.ContainerType":"container"}})", "pod.uid"},
      // A pod on CRI-O that poses as another pod on containerd, and as a sandbox.
      {R"({"annotations":{"io.kubernetes.cri-o.ContainerType":"container",
           "io.kubernetes.pod.uid":"mine","io.kubernetes.container.name":"main",
           "io.kubernetes.cri.container-type":"container",
           "io.kubernetes.cri.sandbox-uid":"yours"}})",
       "both"},
      {R"({"annotations":{"io.kubernetes.cri-o.ContainerType":"sandbox",
           "io.kubernetes.cri.container-type":"container"}})",
       "both"},
  };
  for (const Row& row : rows) {
    const auto identity = ReadIdentity(ParseSpec(row.text).value());
    ASSERT_FALSE(identity) << row.text;
    EXPECT_NE(identity.error().message.find(row.said), std::string::npos)
        << identity.error().message;
  }
}

}  // namespace
}  // namespace krux::runtime
