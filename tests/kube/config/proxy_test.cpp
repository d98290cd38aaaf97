#include "controller/kube/config/proxy.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "controller/kube/config/base64.h"
#include "controller/kube/config/url.h"

namespace egpu::kube {
namespace {

using base::Code;

Environment with(std::map<std::string, std::string> variables) {
  Environment environment;
  environment.variable = [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    return it == variables.end() ? std::nullopt : std::optional(it->second);
  };
  return environment;
}

std::string proxyFor(const std::string& server, std::map<std::string, std::string> variables) {
  const auto proxy = proxyFromEnvironment(server, with(std::move(variables)));
  return proxy ? *proxy : "error: " + proxy.status().message();
}

TEST(Proxy, EachSchemeHasItsVariable) {
  const std::map<std::string, std::string> both = {{"HTTPS_PROXY", "http://s:1"}, {"HTTP_PROXY", "http://p:2"}};
  EXPECT_EQ(proxyFor("https://api.example:6443", both), "http://s:1");
  EXPECT_EQ(proxyFor("http://api.example", both), "http://p:2");
  EXPECT_EQ(proxyFor("https://api.example", {{"HTTP_PROXY", "http://p:2"}}), "");
  EXPECT_EQ(proxyFor("http://api.example", {{"HTTPS_PROXY", "http://s:1"}}), "");
  EXPECT_EQ(proxyFor("https://api.example", {{"ALL_PROXY", "http://p:2"}}), "");  // as in Go
  EXPECT_EQ(proxyFor("https://api.example", {}), "");
}

TEST(Proxy, LowerCaseCountsWhereUpperCaseIsMissing) {
  EXPECT_EQ(proxyFor("https://a.example", {{"https_proxy", "http://l:1"}}), "http://l:1");
  EXPECT_EQ(proxyFor("https://a.example", {{"https_proxy", "http://l:1"}, {"HTTPS_PROXY", "http://u:1"}}),
            "http://u:1");
  EXPECT_EQ(proxyFor("https://a.example", {{"https_proxy", "http://l:1"}, {"no_proxy", "a.example"}}), "");
}

TEST(Proxy, ACgiProcessDoesNotTrustHttpProxy) {
  EXPECT_EQ(proxyFor("http://a.example", {{"HTTP_PROXY", "http://evil:1"}, {"REQUEST_METHOD", "GET"}}), "");
  EXPECT_EQ(proxyFor("https://a.example", {{"HTTPS_PROXY", "http://s:1"}, {"REQUEST_METHOD", "GET"}}), "http://s:1");
}

TEST(Proxy, SchemesOfProxies) {
  EXPECT_EQ(proxyFor("https://a.example", {{"HTTPS_PROXY", "proxy.corp:3128"}}), "http://proxy.corp:3128");
  EXPECT_EQ(proxyFor("https://a.example", {{"HTTPS_PROXY", "https://u:p@proxy.corp"}}), "https://u:p@proxy.corp");
  EXPECT_EQ(proxyFor("https://a.example", {{"HTTPS_PROXY", "socks5://s:1080"}}), "socks5h://s:1080");
  EXPECT_EQ(*checkProxyUrl("socks5h://s:1080"), "socks5h://s:1080");
  EXPECT_EQ(proxyFor("https://a.example", {{"HTTPS_PROXY", "ftp://u:secret@x"}}),
            "error: HTTPS_PROXY: scheme \"ftp\" of a proxy is not http, https or socks5");
  EXPECT_EQ(checkProxyUrl("http://").status().code(), Code::invalid);
  EXPECT_EQ(checkProxyUrl("http://a b").status().code(), Code::invalid);
  EXPECT_EQ(checkProxyUrl("http://a:port").status().code(), Code::invalid);
}

TEST(Proxy, ThisMachineIsNeverBehindOne) {
  for (const char* server : {"https://localhost:6443", "https://LOCALHOST", "https://127.0.0.1:6443",
                             "https://127.8.9.1", "https://[::1]:6443"})
    EXPECT_EQ(proxyFor(server, {{"HTTPS_PROXY", "http://p:1"}}), "") << server;
  EXPECT_EQ(proxyFor("https://localhost.example", {{"HTTPS_PROXY", "http://p:1"}}), "http://p:1");
}

struct ProxyRow {
  const char* noProxy;
  const char* server;
  bool bypassed;
};

TEST(Proxy, NoProxyAsGoReadsIt) {
  const ProxyRow rows[] = {
      {"*", "https://anything.example", true},
      {"a.example,*", "https://b.example", true},
      {"", "https://a.example", false},
      {" , ,", "https://a.example", false},
      // A domain matches itself and its subdomains.
      {"example.com", "https://example.com", true},
      {"example.com", "https://api.example.com", true},
      {"example.com", "https://a.b.example.com:6443", true},
      {"example.com", "https://notexample.com", false},
      {"example.com", "https://example.com.evil", false},
      {" Example.COM ", "https://API.example.com", true},
      // With a dot or a star only the subdomains match.
      {".example.com", "https://example.com", false},
      {".example.com", "https://api.example.com", true},
      {"*.example.com", "https://api.example.com", true},
      {"*.example.com", "https://example.com", false},
      {"*example.com", "https://api.example.com", false},
      // Entries with a port match that port.
      {"example.com:6443", "https://example.com:6443", true},
      {"example.com:6443", "https://example.com", false},
      {"example.com:443", "https://example.com", true},
      {"example.com:80", "http://example.com", true},
      {":443", "https://example.com", false},
      // Addresses are compared as addresses, never as text.
      {"10.0.0.1", "https://10.0.0.1:6443", true},
      {"10.0.0.1", "https://10.0.0.10", false},
      {"0.0.1", "https://10.0.0.1", false},
      {"10.0.0.1:6443", "https://10.0.0.1:6443", true},
      {"10.0.0.1:6443", "https://10.0.0.1", false},
      {"fd00::1", "https://[fd00::1]:6443", true},
      {"[fd00::1]", "https://[fd00::1]", true},
      {"[fd00::1]:6443", "https://[fd00::1]:6443", true},
      {"[fd00::1]:6443", "https://[fd00::1]", false},
      {"FD00:0:0::1", "https://[fd00::1]", true},
      // Entries may be CIDR blocks.
      {"10.0.0.0/8", "https://10.255.3.4", true},
      {"10.0.0.0/8", "https://11.0.0.1", false},
      {"10.96.0.0/12", "https://10.111.255.255", true},
      {"10.96.0.0/12", "https://10.112.0.0", false},
      {"0.0.0.0/0", "https://8.8.8.8", true},
      {"0.0.0.0/0", "https://[fd00::1]", false},
      {"fd00::/8", "https://[fdff::2]", true},
      {"fd00::/8", "https://[fe00::2]", false},
      {"10.0.0.0/33", "https://10.0.0.1", false},
      {"10.0.0.0/8", "https://ten.example", false},  // names are not resolved
      {"a.example,10.0.0.0/8,b.example", "https://b.example", true},
  };
  for (const auto& row : rows)
    EXPECT_EQ(
        proxyFor(row.server, {{"HTTPS_PROXY", "http://p:1"}, {"HTTP_PROXY", "http://p:1"}, {"NO_PROXY", row.noProxy}}),
        row.bypassed ? "" : "http://p:1")
        << row.noProxy << " for " << row.server;
}

TEST(Url, PartsWithTheirDefaults) {
  const auto plain = parseUrl("HTTPS://Host");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->scheme + "|" + plain->authority + "|" + plain->host + "|" + plain->port + "|" + plain->path,
            "https|Host|Host|443|");
  const auto full = parseUrl("http://u:p@[fd00::1]:8080/prefix/");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->authority + "|" + full->host + "|" + full->port + "|" + full->path,
            "[fd00::1]:8080|fd00::1|8080|/prefix/");
  for (const char* text : {"", "host", "://host", "http://", "http://:80", "http://h:8x", "http://h h", "http://h\n"})
    EXPECT_FALSE(parseUrl(text)) << text;
}

TEST(Base64, BothWays) {
  std::string why;
  for (const std::string text : {"", "f", "fo", "foo", "foob", "\xff\x00\x80"})
    EXPECT_EQ(decodeBase64(encodeBase64(text), why), text);
  EXPECT_EQ(encodeBase64("fo"), "Zm8=");
  EXPECT_EQ(decodeBase64(" Zm\n9v\r", why), "foo");
  for (const char* bad : {"Zg", "Zg=", "Z===", "Zg==Zg==", "Z!=="}) EXPECT_FALSE(decodeBase64(bad, why)) << bad;
}

}  // namespace
}  // namespace egpu::kube
