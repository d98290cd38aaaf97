// Redaction of `kubectl egpu bundle`.
#include "controller/kubectl/bundle/redact.h"

#include <gmock/gmock.h>

namespace egpu::kubectl {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(RedactedText, HasNoCredentials) {
  for (const std::string text :
       {"Authorization: Bearer abcdefghSECRETijk", "url https://ann:SECRETpw@host/path", "password=SECRET",
        "token: SECRET,", "{\"apiKey\": \"SECRET value\"}",
        "-----BEGIN RSA PRIVATE KEY-----\nSECRET\n-----END RSA PRIVATE KEY-----", "key AKIAABCDSECRETABCDEF is used",
        "ghp_SECRETSECRETSECRET12", "--password 'x' --secret=SECRET", "eyJhbGciSECRET.eyJzdWIiSECRET.sigSECRET"})
    EXPECT_THAT(redactedText(text), Not(HasSubstr("SECRET"))) << text;
}

TEST(RedactedText, RetainsOtherText) {
  for (const std::string text :
       {"no node fits: 3 cards are in use", "https://host:6443/path", "elasticgpu.io/gpu-core: 30"})
    EXPECT_EQ(redactedText(text), text);
}

TEST(RedactedObject, RetainsNamesAndOurAnnotations) {
  const Json pod = {
      {"metadata",
       {{"name", "p"},
        {"managedFields", {{{"manager", "SECRET"}}}},
        {"annotations",
         {{"egpuc.elasticgpu.io/g", "claim"},
          {"elasticgpu.io/gang", "g"},
          {"example.com/x", "SECRET"},
          {"kubectl.kubernetes.io/last-applied-configuration", "SECRET"},
          {"notelasticgpu.io/x", "SECRET"}}}}},
      {"spec",
       {{"initContainers", {{{"name", "i"}, {"command", {"SECRET"}}}}},
        {"containers",
         {{{"name", "m"},
           {"args", {"SECRET"}},
           {"livenessProbe", {{"httpGet", {{"httpHeaders", {{{"value", "SECRET"}}}}}}}},
           {"env",
            {{{"name", "A"}, {"value", "SECRET"}}, {{"name", "NVIDIA_VISIBLE_DEVICES"}, {"value", "all"}}}}}}}}}};
  const auto text = redacted(pod).dump();
  EXPECT_THAT(text, Not(HasSubstr("SECRET")));
  EXPECT_THAT(text, HasSubstr("\"egpuc.elasticgpu.io/g\":\"claim\""));
  EXPECT_THAT(text, HasSubstr("\"elasticgpu.io/gang\":\"g\""));
  EXPECT_THAT(text, HasSubstr("\"value\":\"all\""));
  EXPECT_THAT(text, HasSubstr("\"example.com/x\":\"<removed>\""));
}

TEST(RedactedObject, AnAddressOfARemoteDeviceHasItsHostOnly) {
  const Json device = {{"spec", {{"remote", {{"endpoint", "https://10.0.0.1:7000/SECRET?x=SECRET"}}}}}};
  const auto text = redacted(device).dump();
  EXPECT_THAT(text, Not(HasSubstr("SECRET")));
  EXPECT_THAT(text, HasSubstr("https://10.0.0.1:7000"));
}

}  // namespace
}  // namespace egpu::kubectl
