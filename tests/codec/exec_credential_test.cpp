#include "controller/codec/exec_credential.h"

#include <gtest/gtest.h>

namespace egpu::codec {
namespace {

constexpr const char* kV1 = "client.authentication.k8s.io/v1";

std::string answer(const std::string& status) {
  return R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1")" +
         (status.empty() ? "" : R"(,"status":)" + status) + "}";
}

TEST(ExecInfo, statesThatItIsNotInteractiveAndTheClusterIfWanted) {
  EXPECT_EQ(encodeExecInfo(kV1, std::nullopt),
            R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false}})");
  ExecCluster cluster;
  cluster.server = "https://h:6443";
  cluster.tlsServerName = "api";
  cluster.insecureSkipTlsVerify = true;
  cluster.certificateAuthorityData = "Q0E=";
  cluster.proxyUrl = "http://p:3128";
  cluster.config = R"({"audience":"x"})";
  EXPECT_EQ(encodeExecInfo(kV1, cluster),
            R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"cluster":{)"
            R"("server":"https://h:6443","tls-server-name":"api","insecure-skip-tls-verify":true,)"
            R"("certificate-authority-data":"Q0E=","proxy-url":"http://p:3128","config":{"audience":"x"}},)"
            R"("interactive":false}})");
}

TEST(ExecCredential, tokenOrPairWithItsEnd) {
  const auto token = decodeExecCredential(answer(R"({"token":"t","expirationTimestamp":"2026-01-02T03:04:05Z"})"), kV1);
  ASSERT_TRUE(token.ok()) << token.status().str();
  EXPECT_EQ(token->token, "t");
  EXPECT_EQ(token->expirationTimestamp, "2026-01-02T03:04:05Z");
  const auto pair = decodeExecCredential(
      answer(R"({"clientCertificateData":"C","clientKeyData":"K","expirationTimestamp":null,"new":1})"), kV1);
  ASSERT_TRUE(pair.ok()) << pair.status().str();
  EXPECT_EQ(pair->clientCertificateData + pair->clientKeyData + pair->expirationTimestamp, "CK");
}

TEST(ExecCredential, whatIsWrongIsReportedWithoutTheSecret) {
  const std::pair<std::string, std::string> cases[] = {
      {"secret", "its output is not a JSON object"},
      {"[1]", "its output is not a JSON object"},
      {R"({"kind":"Secret"})", "its output is of kind \"Secret\", not ExecCredential"},
      {R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"secret"}})",
       "it answered apiVersion \"client.authentication.k8s.io/v1beta1\", not \"client.authentication.k8s.io/v1\""},
      {answer(""), "its output has no status"},
      {answer("{}"), "status has neither a token nor a certificate"},
      {answer(R"({"token":["secret"]})"), "status.token is not a string"},
      {answer(R"({"token":"secret","clientKeyData":"secret"})"),
       "status has only one of clientCertificateData and clientKeyData"},
  };
  for (const auto& [text, why] : cases) {
    const auto got = decodeExecCredential(text, kV1);
    ASSERT_FALSE(got.ok()) << text;
    EXPECT_EQ(got.status().code(), base::Code::malformed);
    EXPECT_EQ(got.status().message(), why);
  }
}

}  // namespace
}  // namespace egpu::codec
