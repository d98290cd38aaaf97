#include "controller/codec/kubeconfig_text.h"

#include <gtest/gtest.h>

namespace egpu::codec {
namespace {

std::string merged(std::string_view yaml) {
  const auto out = mergeKubeconfig(yaml, "ours", "http://127.0.0.1:7443");
  EXPECT_TRUE(out) << out.status().message();
  return out ? out->yaml : std::string();
}

constexpr const char* kNew = R"(apiVersion: v1
kind: Config
clusters:
- name: ours
  cluster:
    server: http://127.0.0.1:7443
contexts:
- name: ours
  context:
    cluster: ours
    user: ours
users:
- name: ours
  user: {}
current-context: ours
)";

TEST(KubeconfigText, ANewFileIsOursAlone) {
  EXPECT_EQ(merged(""), kNew);
  EXPECT_EQ(merged("# nothing yet\n"), kNew);
  EXPECT_EQ(merged(kNew), kNew);
}

TEST(KubeconfigText, WhatOthersHaveStaysAndSoDoesTheirContext) {
  const auto out = mergeKubeconfig(R"(
apiVersion: v1
kind: Config
preferences: {colors: true}
clusters:
- name: prod
  cluster: {server: "https://prod:6443", certificate-authority-data: QUJD}
contexts:
- {name: prod, context: {cluster: prod, user: admin, namespace: team}}
current-context: prod
users:
- name: admin
  user:
    token: "0123456"
    exec: {apiVersion: client.authentication.k8s.io/v1, command: login, args: ["--yes", "no"], interactiveMode: Never}
extensions:
- {name: tool, extension: {since: "2026-11-22"}}
)",
                                   "ours", "http://127.0.0.1:7443");
  ASSERT_TRUE(out);
  EXPECT_EQ(out->currentContext, "prod");
  EXPECT_EQ(out->yaml, R"(apiVersion: v1
kind: Config
preferences:
  colors: true
clusters:
- name: prod
  cluster:
    server: https://prod:6443
    certificate-authority-data: QUJD
- name: ours
  cluster:
    server: http://127.0.0.1:7443
contexts:
- name: prod
  context:
    cluster: prod
    user: admin
    namespace: team
- name: ours
  context:
    cluster: ours
    user: ours
current-context: prod
users:
- name: admin
  user:
    token: "0123456"
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: login
      args:
      - "--yes"
      - "no"
      interactiveMode: Never
- name: ours
  user: {}
extensions:
- name: tool
  extension:
    since: "2026-11-22"
)");
}

TEST(KubeconfigText, OursIsBroughtUpToDateAndRetainsWhatWasAddedToIt) {
  const auto out = merged(
      "clusters: [{name: ours, cluster: {server: 'http://127.0.0.1:1', proxy-url: x}}]\n"
      "contexts: [{name: ours, context: {cluster: old, namespace: mine}}]\nusers:\n");
  EXPECT_NE(out.find("    server: http://127.0.0.1:7443\n    proxy-url: x\n"), std::string::npos) << out;
  EXPECT_NE(out.find("    cluster: ours\n    namespace: mine\n    user: ours\n"), std::string::npos) << out;
  EXPECT_NE(out.find("current-context: ours\n"), std::string::npos) << out;
}

TEST(KubeconfigText, WhatIsNoKubeconfigIsRefused) {
  for (const std::string_view text :
       {"a: [", "- a\n", "text", "kind: Pod\napiVersion: v1\n", "clusters: {a: b}\n", "users: none\n",
        "nodes: [{name: a}]\n", "kind: Config\n---\nkind: Config\n", "\xff"}) {
    const auto out = mergeKubeconfig(text, "ours", "http://x");
    EXPECT_EQ(out.status().code(), base::Code::invalid) << text;
    EXPECT_NE(out.status().message().find("is not changed"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace egpu::codec
