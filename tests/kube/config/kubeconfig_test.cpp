#include "controller/kube/config/kubeconfig.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace egpu::kube {
namespace {

using base::Code;

// "-----BEGIN X-----" in base64
constexpr const char* kPem = "LS0tLS1CRUdJTiBYLS0tLS0=";

std::string config(const std::string& cluster, const std::string& user) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: dev\ncontexts:\n- name: dev\n  context: {cluster: c, user: u, "
         "namespace: team}\n"
         "clusters:\n- name: c\n  cluster: " +
         cluster + "\nusers:\n- name: u\n  user: " + user + "\n";
}

base::Result<Endpoint> resolve(const std::string& text, std::string_view context = {}) {
  return resolveKubeconfig({{"/etc/k/config", text}}, context);
}

TEST(Kubeconfig, ReadsWhatKubectlReads) {
  const auto e =
      resolve(config("{server: 'https://10.0.0.1:6443/', certificate-authority: ca.crt, tls-server-name: api.local}",
                     "{client-certificate: certs/a.crt, client-key: /abs/a.key, token: tok, tokenFile: ../tok}"));
  ASSERT_TRUE(e.ok()) << e.status().str();
  EXPECT_EQ(e->server, "https://10.0.0.1:6443");
  EXPECT_EQ(e->caFile, "/etc/k/ca.crt");
  EXPECT_EQ(e->tlsServerName, "api.local");
  EXPECT_EQ(e->clientCertificateFile, "/etc/k/certs/a.crt");
  EXPECT_EQ(e->clientKeyFile, "/abs/a.key");
  EXPECT_EQ(e->token, "tok");
  EXPECT_EQ(e->tokenFile, "/etc/tok");
  EXPECT_EQ(e->namespace_, "team");
  EXPECT_EQ(e->origin, "context dev of /etc/k/config");
}

TEST(Kubeconfig, DataIsDecodedAndWinsOverFiles) {
  const std::string data(kPem);
  const auto e =
      resolve(config("{server: 'https://h', certificate-authority: ca.crt, certificate-authority-data: " + data + "}",
                     "{client-certificate-data: " + data + ", client-key-data: " + data + ", client-key: x}"));
  ASSERT_TRUE(e.ok()) << e.status().str();
  EXPECT_EQ(e->caData, "-----BEGIN X-----");
  EXPECT_EQ(e->caFile, "");
  EXPECT_EQ(e->clientKeyData, "-----BEGIN X-----");
  EXPECT_EQ(e->clientKeyFile, "");
}

TEST(Kubeconfig, ImpersonationAndBasicCredentials) {
  const auto e = resolve(
      config("{server: 'http://h'}",
             "{username: a, password: b, as: jane, as-groups: [x, y], as-uid: '7', as-user-extra: {k: [v, w]}}"));
  ASSERT_TRUE(e.ok()) << e.status().str();
  EXPECT_EQ(e->username, "a");
  EXPECT_EQ(e->impersonateUser, "jane");
  EXPECT_EQ(e->impersonateGroups, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(e->impersonateExtra, (std::vector<std::pair<std::string, std::string>>{{"k", "v"}, {"k", "w"}}));
}

TEST(Kubeconfig, CredentialPlugin) {
  const auto e = resolve(config(
      "{server: 'https://h', proxy-url: 'socks5://p:1080', extensions: [{name: other, extension: 1}, {name: "
      "client.authentication.k8s.io/exec, extension: {audience: x, count: 2}}]}",
      "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./bin/login, args: [get, '7'], env: [{name: "
      "A, value: b}], provideClusterInfo: true, interactiveMode: IfAvailable, installHint: brew install it}}"));
  ASSERT_TRUE(e.ok()) << e.status().str();
  ASSERT_TRUE(e->exec.has_value());
  EXPECT_EQ(e->exec->apiVersion, "client.authentication.k8s.io/v1");
  EXPECT_EQ(e->exec->command, "/etc/k/bin/login");  // relative to the kubeconfig
  EXPECT_EQ(e->exec->args, (std::vector<std::string>{"get", "7"}));
  EXPECT_EQ(e->exec->env, (std::vector<std::pair<std::string, std::string>>{{"A", "b"}}));
  EXPECT_TRUE(e->exec->provideClusterInfo);
  EXPECT_EQ(e->exec->installHint, "brew install it");
  EXPECT_EQ(e->exec->clusterConfig, R"({"audience":"x","count":2})");
  EXPECT_EQ(e->proxyUrl, "socks5h://p:1080");
  EXPECT_EQ(e->configuredProxyUrl, "socks5://p:1080");
}

TEST(Kubeconfig, APluginIsOnlyAskedWhereNothingIsWrittenDown) {
  const std::string exec = "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: login}";
  const auto https = "{server: 'https://h'}";
  EXPECT_EQ(resolve(config(https, "{" + exec + "}"))->exec->command, "login");  // searched in PATH later
  for (const char* other : {"token: t", "tokenFile: t", "username: u"})
    EXPECT_FALSE(resolve(config(https, "{" + exec + ", " + other + "}"))->exec.has_value()) << other;
}

TEST(Kubeconfig, MergeTakesTheFirstOfEachNameAndTheFirstCurrentContext) {
  const std::string first = "clusters:\n- name: c\n  cluster: {server: 'https://first'}\n";
  const std::string second =
      "current-context: b\nclusters:\n- name: c\n  cluster: {server: 'https://second', insecure-skip-tls-verify: "
      "true}\n"
      "contexts:\n- name: b\n  context: {cluster: c}\n";
  const std::string third = "current-context: z\ncontexts:\n- name: b\n  context: {cluster: nowhere}\n";
  const auto e = resolveKubeconfig({{"/1/a", first}, {"/2/b", second}, {"/3/c", third}});
  ASSERT_TRUE(e.ok()) << e.status().str();
  EXPECT_EQ(e->server, "https://first");
  EXPECT_FALSE(e->insecureSkipTlsVerify);  // entries are replaced whole, never merged
}

TEST(Kubeconfig, ContextCanBeAskedFor) {
  const std::string text = config("{server: 'https://h'}", "{}") + "- name: v\n  user: {}\n";
  EXPECT_TRUE(resolve(text, "dev").ok());
  const auto missing = resolve(text, "prod");
  EXPECT_EQ(missing.status().message(), "/etc/k/config: contexts: no context \"prod\"; there are: dev");
}

TEST(Kubeconfig, ErrorsNameFileAndField) {
  const std::string https = "{server: 'https://h'}";
  const std::pair<std::string, std::string> cases[] = {
      {"", "/etc/k/config: current-context: is not set"},
      {"[]", "/etc/k/config: document: "},
      {"kind: Pod", "/etc/k/config: kind: "},
      {"clusters: 5", "/etc/k/config: clusters: must be a list"},
      {"users: [7]", "/etc/k/config: users[0]: must be an object"},
      {"contexts: [{context: {}}]", "/etc/k/config: contexts[0].name: "},
      {"current-context: [a]", "/etc/k/config: current-context: must be a string"},
      {config("{server: ''}", "{}"), "clusters[0].cluster.server: is required"},
      {config("{server: 'ftp://x'}", "{}"), "clusters[0].cluster.server: must be an http"},
      {config("{server: 'https://'}", "{}"), "clusters[0].cluster.server: must be an http"},
      {config("{server: \"https://a\\nb\"}", "{}"), "clusters[0].cluster.server: holds"},
      {config("{server: [a]}", "{}"), "clusters[0].cluster.server: must be a string"},
      {config("{server: 'https://h', proxy-url: 'ftp://p'}", "{}"),
       "clusters[0].cluster.proxy-url: scheme \"ftp\" of a proxy is not http, https or socks5"},
      {config("{server: 'https://h', proxy-url: 'p:3128'}", "{}"), "clusters[0].cluster.proxy-url: not a URL"},
      {config("{server: 'https://h', certificate-authority-data: '!'}", "{}"),
       "certificate-authority-data: not base64"},
      {config("{server: 'https://h', certificate-authority-data: 'QUJDRA'}", "{}"),
       "certificate-authority-data: not base64"},
      {config("{server: 'https://h', certificate-authority-data: 'QUJD'}", "{}"),
       "certificate-authority-data: holds no PEM"},
      {config("{server: 'https://h', insecure-skip-tls-verify: maybe}", "{}"),
       "insecure-skip-tls-verify: must be true or false"},
      {config("{server: 'https://h', insecure-skip-tls-verify: true, certificate-authority: x}", "{}"),
       "insecure-skip-tls-verify: can't be set together"},
      {config(https, "{exec: 5}"), "users[0].user.exec: must be an object"},
      {config(https, "{exec: {command: x}}"),
       "users[0].user.exec.apiVersion: must be client.authentication.k8s.io/v1 "},
      {config(https, "{exec: {command: x, apiVersion: client.authentication.k8s.io/v1alpha1}}"),
       "users[0].user.exec.apiVersion: must be"},
      {config(https, "{exec: {apiVersion: client.authentication.k8s.io/v1}}"),
       "users[0].user.exec.command: is required"},
      {config(https, "{exec: {command: x, apiVersion: client.authentication.k8s.io/v1}}"),
       "users[0].user.exec.interactiveMode: is required"},
      {config(https, "{exec: {command: x, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Always}}"),
       "users[0].user.exec.interactiveMode: is Always"},
      {config(https, "{exec: {command: x, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Maybe}}"),
       "users[0].user.exec.interactiveMode: must be"},
      {config(https, "{exec: {command: x, apiVersion: client.authentication.k8s.io/v1beta1, args: a}}"),
       "users[0].user.exec.args: must be a list"},
      {config(https, "{exec: {command: x, apiVersion: client.authentication.k8s.io/v1beta1, env: [{value: a}]}}"),
       "users[0].user.exec.env[0]: must be"},
      {config(https, "{auth-provider: {name: gcp}}"), "users[0].user.auth-provider: is not supported"},
      {config(https, "{client-certificate: a}"), "users[0].user.client-key: is required"},
      {config(https, "{client-key: a}"), "users[0].user.client-certificate: is required"},
      {config(https, "{as-groups: [a]}"), "users[0].user.as: is required"},
      {config(https, "{as: a, as-groups: b}"), "users[0].user.as-groups: must be a list"},
      {config(https, "5"), "users[0].user: must be an object"},
      {"current-context: a\ncontexts: [{name: a, context: {cluster: nope}}]",
       "contexts[0].context.cluster: no cluster \"nope\""},
      {"clusters:\n  - a\n b: [", "/etc/k/config: line "},
  };
  for (const auto& [text, want] : cases) {
    const auto e = resolve(text);
    ASSERT_FALSE(e.ok()) << text;
    EXPECT_EQ(e.status().code(), Code::invalid);
    EXPECT_NE(e.status().message().find(want), std::string::npos) << text << "\n→ " << e.status().message();
  }
}

TEST(Kubeconfig, JunkNeverThrows) {
  std::string nested(5000, '[');
  for (const std::string& text :
       {std::string("\0\x01\xff\xfe", 4), std::string("&a [*a]"), std::string("a: *nope"), nested, std::string("{{{{"),
        std::string("? ? ?"), std::string("%YAML 9.9\n---\n"), std::string("- - - -\n:"), std::string(5 << 20, 'x'),
        std::string("users: &u [{name: a, user: *u}]")})
    EXPECT_FALSE(resolve(text).ok());
  const std::string good =
      config("{server: 'https://h', certificate-authority-data: " + std::string(kPem) + "}", "{token: t}");
  for (std::size_t i = 0; i < good.size();
       ++i) {  // truncated anywhere, and with any byte changed: an answer, never an exception
    (void)resolve(good.substr(0, i));
    for (const char c : {'\0', '[', '{', '"', '\t', '*', '\xff'}) {
      std::string broken = good;
      broken[i] = c;
      (void)resolve(broken);
    }
  }
}

class LoadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir = std::filesystem::path(::testing::TempDir()) /
          (std::string("kubeconfig-") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(dir);
    std::filesystem::create_directories(dir / "home/.kube");
    std::filesystem::create_directories(dir / "sa");
    environment.variable = [this](const std::string& name) -> std::optional<std::string> {
      const auto it = variables.find(name);
      return it == variables.end() ? std::nullopt : std::optional(it->second);
    };
    environment.serviceAccountDir = (dir / "sa").string();
    variables["HOME"] = (dir / "home").string();
  }
  void TearDown() override { std::filesystem::remove_all(dir); }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(dir / name, std::ios::binary) << text;
    return (dir / name).string();
  }
  static std::string pointingTo(const std::string& server) {
    return config("{server: 'https://" + server + "'}", "{}");
  }
  void becomePod(const std::string& host) {
    variables["KUBERNETES_SERVICE_HOST"] = host;
    variables["KUBERNETES_SERVICE_PORT"] = "443";
    write("sa/token", "pod-token\n");
    write("sa/ca.crt", "ca");
    write("sa/namespace", "gpu-system");
  }
  std::filesystem::path dir;
  std::map<std::string, std::string> variables;
  Environment environment;
};

TEST_F(LoadTest, OrderIsFlagVariableHomeCluster) {
  becomePod("10.0.0.1");
  EXPECT_EQ(loadEndpoint({}, environment)->server, "https://10.0.0.1:443");
  write("home/.kube/config", pointingTo("home"));
  EXPECT_EQ(loadEndpoint({}, environment)->server, "https://home");
  const std::string one = write("one", "clusters: []\n"), two = write("two", pointingTo("variable"));
  variables["KUBECONFIG"] = one + ":" + (dir / "missing").string() + "::" + two + ":" + two;
  EXPECT_EQ(loadEndpoint({}, environment)->server, "https://variable");
  LoadOptions flag;
  flag.kubeconfig = write("flag", pointingTo("flag"));
  EXPECT_EQ(loadEndpoint(flag, environment)->server, "https://flag");
}

TEST_F(LoadTest, WhatIsNamedMustBeThere) {
  becomePod("10.0.0.1");
  LoadOptions flag;
  flag.kubeconfig = (dir / "missing").string();
  EXPECT_NE(loadEndpoint(flag, environment).status().message().find("--kubeconfig"), std::string::npos);
  variables["KUBECONFIG"] = (dir / "missing").string();
  EXPECT_NE(loadEndpoint({}, environment).status().message().find("KUBECONFIG: none of these"), std::string::npos);
  variables["KUBECONFIG"] = dir.string();
  EXPECT_NE(loadEndpoint({}, environment).status().message().find("is a directory"), std::string::npos);
}

TEST_F(LoadTest, NothingAnywhereShowsWhatWasTried) {
  const std::string message = loadEndpoint({}, environment).status().message();
  for (const char* part : {"--kubeconfig", "KUBECONFIG", ".kube/config", "KUBERNETES_SERVICE_HOST"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST_F(LoadTest, InClusterReadsTheServiceAccount) {
  becomePod("fd00::1");
  const auto e = inClusterEndpoint(environment);
  ASSERT_TRUE(e.ok()) << e.status().str();
  EXPECT_EQ(e->server, "https://[fd00::1]:443");
  EXPECT_EQ(e->token, "pod-token");
  EXPECT_EQ(e->caFile, (dir / "sa/ca.crt").string());
  EXPECT_EQ(e->namespace_, "gpu-system");
  std::filesystem::remove(dir / "sa/ca.crt");
  EXPECT_EQ(inClusterEndpoint(environment).status().code(), Code::invalid);
  variables["KUBERNETES_SERVICE_PORT"] = "https";
  EXPECT_EQ(inClusterEndpoint(environment).status().code(), Code::invalid);
}

TEST_F(LoadTest, ProxyIsTheKubeconfigsElseTheEnvironments) {
  variables["HTTPS_PROXY"] = "proxy.corp:3128";
  write("home/.kube/config", config("{server: 'https://h', proxy-url: 'http://own:1'}", "{}"));
  EXPECT_EQ(loadEndpoint({}, environment)->proxyUrl, "http://own:1");
  write("home/.kube/config", pointingTo("h"));
  EXPECT_EQ(loadEndpoint({}, environment)->proxyUrl, "http://proxy.corp:3128");
  EXPECT_EQ(loadEndpoint({}, environment)->configuredProxyUrl, "");
  variables["NO_PROXY"] = "h";
  EXPECT_EQ(loadEndpoint({}, environment)->proxyUrl, "");
  variables["NO_PROXY"] = "";
  variables["HTTPS_PROXY"] = "ftp://x";
  EXPECT_EQ(loadEndpoint({}, environment).status().code(), Code::invalid);
  variables["HTTPS_PROXY"] = "http://p:1";
  std::filesystem::remove(dir / "home/.kube/config");
  becomePod("10.0.0.1");
  EXPECT_EQ(loadEndpoint({}, environment)->proxyUrl, "http://p:1");
  EXPECT_TRUE(loadEndpoint({}, environment)->inCluster);
  variables["NO_PROXY"] = "10.0.0.0/8";
  EXPECT_EQ(loadEndpoint({}, environment)->proxyUrl, "");
}

}  // namespace
}  // namespace egpu::kube
