#include "controller/codec/exec_credential.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "controller/codec/json/text.h"

namespace egpu::codec {

using base::Code;
using base::Status;

std::string encodeExecInfo(std::string_view apiVersion, const std::optional<ExecCluster>& cluster) {
  JsonText j;
  const auto put = [&j](std::string_view key, const std::string& value) {
    if (!value.empty()) j.key(key).value(value);
  };
  j.beginObject();
  j.key("kind").value("ExecCredential");
  j.key("apiVersion").value(apiVersion);
  j.key("spec").beginObject();
  if (cluster) {
    j.key("cluster").beginObject();
    put("server", cluster->server);
    put("tls-server-name", cluster->tlsServerName);
    if (cluster->insecureSkipTlsVerify) j.key("insecure-skip-tls-verify").value(true);
    put("certificate-authority-data", cluster->certificateAuthorityData);
    put("proxy-url", cluster->proxyUrl);
    if (!cluster->config.empty()) j.key("config").raw(cluster->config);
    j.endObject();
  }
  j.key("interactive").value(false);
  j.endObject().endObject();
  return j.take();
}

base::Result<ExecCredential> decodeExecCredential(std::string_view json, std::string_view apiVersion) {
  const auto wrong = [](std::string why) { return Status(Code::malformed, std::move(why)); };
  const auto answer = nlohmann::json::parse(json, nullptr, false);
  if (!answer.is_object()) return wrong("its output is not a JSON object");
  const auto text = [](const nlohmann::json& from, const char* key) -> std::optional<std::string> {
    const auto it = from.find(key);
    if (it == from.end() || it->is_null()) return std::string();
    if (!it->is_string()) return std::nullopt;
    return it->get<std::string>();
  };
  const auto kind = text(answer, "kind"), version = text(answer, "apiVersion");
  if (!kind || *kind != "ExecCredential")
    return wrong("its output is of kind \"" + kind.value_or("") + "\", not ExecCredential");
  if (!version || *version != apiVersion)
    return wrong("it answered apiVersion \"" + version.value_or("") + "\", not \"" + std::string(apiVersion) + "\"");
  const auto status = answer.find("status");
  if (status == answer.end() || !status->is_object()) return wrong("its output has no status");
  ExecCredential out;
  for (const auto& [key, field] : {std::pair{"token", &out.token},
                                   {"clientCertificateData", &out.clientCertificateData},
                                   {"clientKeyData", &out.clientKeyData},
                                   {"expirationTimestamp", &out.expirationTimestamp}}) {
    auto value = text(*status, key);
    if (!value) return wrong(std::string("status.") + key + " is not a string");
    *field = std::move(*value);
  }
  if (out.clientCertificateData.empty() != out.clientKeyData.empty())
    return wrong("status has only one of clientCertificateData and clientKeyData");
  if (out.token.empty() && out.clientCertificateData.empty())
    return wrong("status has neither a token nor a certificate");
  return out;
}

}  // namespace egpu::codec
