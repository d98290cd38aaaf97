#include "controller/kube/config/kubeconfig.h"

#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "controller/base/files.h"
#include "controller/base/text.h"
#include "controller/codec/codec.h"
#include "controller/kube/config/base64.h"
#include "controller/kube/config/proxy.h"

namespace egpu::kube {

using base::Code;
using base::Result;
using base::Status;

namespace {

constexpr std::size_t kMaxFile = std::size_t{4} << 20;

/// Carries a Status out of the parser; never leaves this file.
struct Refused {
  Status status;
};
[[noreturn]] void refuse(const std::string& file, const std::string& field, const std::string& why) {
  throw Refused{Status(Code::invalid, file + ": " + field + ": " + why)};
}

/// A named entry of clusters, users or contexts, with its file.
struct NamedEntry {
  std::string file;
  std::string field;  ///< "users[0].user"
  YAML::Node body;
};
using Entries = std::map<std::string, NamedEntry>;

struct Merged {
  Entries clusters, users, contexts;
  std::string currentContext;
};

std::string scalar(const NamedEntry& entry, const char* key) {
  const YAML::Node node = entry.body[key];
  if (!node || node.IsNull()) return {};
  if (!node.IsScalar()) refuse(entry.file, entry.field + "." + key, "must be a string");
  return node.Scalar();
}

bool flag(const NamedEntry& entry, const char* key) {
  const std::string text = scalar(entry, key);
  if (text.empty() || text == "false") return false;
  if (text != "true") refuse(entry.file, entry.field + "." + key, "must be true or false");
  return true;
}

std::string base64(const NamedEntry& entry, const char* key) {
  std::string why;
  auto out = decodeBase64(scalar(entry, key), why);
  if (!out) refuse(entry.file, entry.field + "." + key, why);
  return std::move(*out);
}

/// Decodes PEM in base64.
std::string pem(const NamedEntry& entry, const char* key) {
  std::string out = base64(entry, key);
  if (!out.empty() && out.find("-----BEGIN ") == std::string::npos)
    refuse(entry.file, entry.field + "." + key, "holds no PEM block");
  return out;
}

std::string path(const NamedEntry& entry, const char* key) {
  std::string text = scalar(entry, key);
  if (text.empty() || text.front() == '/') return text;
  return (std::filesystem::path(entry.file).parent_path() / text).lexically_normal().string();
}

void takeNamed(const YAML::Node& root, const std::string& file, const char* list, const char* inner, Entries& into) {
  const YAML::Node all = root[list];
  if (!all || all.IsNull()) return;
  if (!all.IsSequence()) refuse(file, list, "must be a list");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string field = std::string(list) + "[" + std::to_string(i) + "]";
    const YAML::Node item = all[i];
    if (!item.IsMap()) refuse(file, field, "must be an object");
    const YAML::Node name = item["name"];
    if (!name || !name.IsScalar() || name.Scalar().empty()) refuse(file, field + ".name", "must be a non-empty string");
    YAML::Node body = item[inner];
    if (body && !body.IsNull() && !body.IsMap()) refuse(file, field + "." + inner, "must be an object");
    if (!body || body.IsNull()) body = YAML::Node(YAML::NodeType::Map);
    into.emplace(name.Scalar(), NamedEntry{file, field + "." + inner, body});  // the first entry of a name wins
  }
}

void takeFile(const KubeconfigFile& file, Merged& merged) {
  if (file.text.size() > kMaxFile) refuse(file.path, "file", "larger than 4 MiB");
  YAML::Node root;
  try {
    root = YAML::Load(file.text);
  } catch (const YAML::ParserException& e) {
    refuse(file.path, "line " + std::to_string(e.mark.line + 1) + " column " + std::to_string(e.mark.column + 1),
           e.msg);
  }
  if (!root || root.IsNull()) return;
  if (!root.IsMap()) refuse(file.path, "document", "must be an object of kind Config");
  const YAML::Node kind = root["kind"];
  if (kind && !kind.IsNull() && (!kind.IsScalar() || kind.Scalar() != "Config"))
    refuse(file.path, "kind", "must be Config");
  takeNamed(root, file.path, "clusters", "cluster", merged.clusters);
  takeNamed(root, file.path, "users", "user", merged.users);
  takeNamed(root, file.path, "contexts", "context", merged.contexts);
  const YAML::Node current = root["current-context"];
  if (current && !current.IsNull()) {
    if (!current.IsScalar()) refuse(file.path, "current-context", "must be a string");
    if (merged.currentContext.empty()) merged.currentContext = current.Scalar();
  }
}

void requireUrl(const NamedEntry& entry, const std::string& server) {
  const bool https = server.rfind("https://", 0) == 0, http = server.rfind("http://", 0) == 0;
  if (server.empty()) refuse(entry.file, entry.field + ".server", "is required");
  if ((!https && !http) || server.size() == (https ? 8U : 7U))
    refuse(entry.file, entry.field + ".server", "must be an http:// or https:// URL");
  for (const char c : server)
    if (static_cast<unsigned char>(c) <= ' ' || c == '\x7f')
      refuse(entry.file, entry.field + ".server", "holds a space or control character");
}

void takeCluster(const NamedEntry& entry, Endpoint& out) {
  out.configuredProxyUrl = scalar(entry, "proxy-url");
  if (!out.configuredProxyUrl.empty()) {
    auto proxy = checkProxyUrl(out.configuredProxyUrl);
    if (!proxy) refuse(entry.file, entry.field + ".proxy-url", proxy.status().message());
    out.proxyUrl = std::move(*proxy);
  }
  out.server = scalar(entry, "server");
  requireUrl(entry, out.server);
  while (out.server.back() == '/') out.server.pop_back();
  out.caData = pem(entry, "certificate-authority-data");
  if (out.caData.empty()) out.caFile = path(entry, "certificate-authority");
  out.insecureSkipTlsVerify = flag(entry, "insecure-skip-tls-verify");
  if (out.insecureSkipTlsVerify && (!out.caData.empty() || !out.caFile.empty()))
    refuse(entry.file, entry.field + ".insecure-skip-tls-verify", "can't be set together with a certificate authority");
  out.tlsServerName = scalar(entry, "tls-server-name");
}

/// Returns a field that must be an object; an absent field becomes an empty object.
NamedEntry inner(const NamedEntry& entry, const char* key) {
  YAML::Node node = entry.body[key];
  NamedEntry out{entry.file, entry.field + "." + key, node};
  if (!node || node.IsNull())
    out.body = YAML::Node(YAML::NodeType::Map);
  else if (!node.IsMap())
    refuse(out.file, out.field, "must be an object");
  return out;
}

ExecPlugin takeExec(const NamedEntry& entry, const NamedEntry& cluster) {
  ExecPlugin out;
  out.apiVersion = scalar(entry, "apiVersion");
  const bool v1 = out.apiVersion == "client.authentication.k8s.io/v1";
  if (!v1 && out.apiVersion != "client.authentication.k8s.io/v1beta1")
    refuse(entry.file, entry.field + ".apiVersion",
           "must be client.authentication.k8s.io/v1 or client.authentication.k8s.io/v1beta1");
  out.command = scalar(entry, "command");
  if (out.command.empty()) refuse(entry.file, entry.field + ".command", "is required");
  if (out.command.find('/') != std::string::npos) out.command = path(entry, "command");
  const YAML::Node args = entry.body["args"];
  if (args && !args.IsNull()) {
    if (!args.IsSequence()) refuse(entry.file, entry.field + ".args", "must be a list");
    for (const auto& arg : args) {
      if (!arg.IsScalar()) refuse(entry.file, entry.field + ".args", "must be a list of strings");
      out.args.push_back(arg.Scalar());
    }
  }
  const YAML::Node env = entry.body["env"];
  if (env && !env.IsNull()) {
    if (!env.IsSequence()) refuse(entry.file, entry.field + ".env", "must be a list");
    for (std::size_t i = 0; i < env.size(); ++i) {
      const NamedEntry item{entry.file, entry.field + ".env[" + std::to_string(i) + "]", env[i]};
      if (!item.body.IsMap() || scalar(item, "name").empty())
        refuse(item.file, item.field, "must be an object with a name and a value");
      out.env.emplace_back(scalar(item, "name"), scalar(item, "value"));
    }
  }
  out.provideClusterInfo = flag(entry, "provideClusterInfo");
  out.installHint = scalar(entry, "installHint");
  const std::string mode = scalar(entry, "interactiveMode");
  if (mode.empty() && v1) refuse(entry.file, entry.field + ".interactiveMode", "is required with apiVersion v1");
  if (mode == "Always")
    refuse(entry.file, entry.field + ".interactiveMode", "is Always, but interactive input is not possible");
  if (!mode.empty() && mode != "Never" && mode != "IfAvailable")
    refuse(entry.file, entry.field + ".interactiveMode", "must be Never, IfAvailable or Always");
  const YAML::Node extensions = cluster.body["extensions"];
  if (extensions && extensions.IsSequence())
    for (const auto& each : extensions)
      if (each.IsMap() && each["name"] && each["name"].IsScalar() &&
          each["name"].Scalar() == "client.authentication.k8s.io/exec" && each["extension"]) {
        auto json = codec::yamlToJson(YAML::Dump(each["extension"]));
        if (!json) refuse(cluster.file, cluster.field + ".extensions", json.status().message());
        out.clusterConfig = std::move(*json);
      }
  return out;
}

void takeUser(const NamedEntry& entry, const NamedEntry& cluster, Endpoint& out) {
  if (const YAML::Node node = entry.body["auth-provider"]; node && !node.IsNull())
    refuse(entry.file, entry.field + ".auth-provider", "is not supported; use exec");
  out.clientCertificateData = pem(entry, "client-certificate-data");
  if (out.clientCertificateData.empty()) out.clientCertificateFile = path(entry, "client-certificate");
  out.clientKeyData = pem(entry, "client-key-data");
  if (out.clientKeyData.empty()) out.clientKeyFile = path(entry, "client-key");
  const bool certificate = !out.clientCertificateData.empty() || !out.clientCertificateFile.empty();
  const bool key = !out.clientKeyData.empty() || !out.clientKeyFile.empty();
  if (certificate && !key) refuse(entry.file, entry.field + ".client-key", "is required with a client certificate");
  if (key && !certificate) refuse(entry.file, entry.field + ".client-certificate", "is required with a client key");
  out.token = scalar(entry, "token");
  out.tokenFile = path(entry, "tokenFile");
  for (const char c : out.token)
    if (static_cast<unsigned char>(c) < ' ') refuse(entry.file, entry.field + ".token", "holds a control character");
  out.username = scalar(entry, "username");
  out.password = scalar(entry, "password");
  if (const YAML::Node node = entry.body["exec"]; node && !node.IsNull()) {
    ExecPlugin plugin = takeExec(inner(entry, "exec"), cluster);
    // Static credentials take precedence, as in kubectl.
    if (out.token.empty() && out.tokenFile.empty() && out.username.empty()) out.exec = std::move(plugin);
  }
  out.impersonateUser = scalar(entry, "as");
  out.impersonateUid = scalar(entry, "as-uid");
  const YAML::Node groups = entry.body["as-groups"];
  if (groups && !groups.IsNull()) {
    if (!groups.IsSequence()) refuse(entry.file, entry.field + ".as-groups", "must be a list");
    for (const auto& group : groups) {
      if (!group.IsScalar()) refuse(entry.file, entry.field + ".as-groups", "must be a list of strings");
      out.impersonateGroups.push_back(group.Scalar());
    }
  }
  const YAML::Node extra = entry.body["as-user-extra"];
  if (extra && !extra.IsNull()) {
    if (!extra.IsMap()) refuse(entry.file, entry.field + ".as-user-extra", "must be an object");
    for (const auto& item : extra) {
      if (!item.first.IsScalar() || !item.second.IsSequence())
        refuse(entry.file, entry.field + ".as-user-extra", "must map names to lists");
      for (const auto& value : item.second) {
        if (!value.IsScalar()) refuse(entry.file, entry.field + ".as-user-extra", "must map names to lists of strings");
        out.impersonateExtra.emplace_back(item.first.Scalar(), value.Scalar());
      }
    }
  }
  const bool impersonates =
      !out.impersonateUid.empty() || !out.impersonateGroups.empty() || !out.impersonateExtra.empty();
  if (impersonates && out.impersonateUser.empty())
    refuse(entry.file, entry.field + ".as", "is required to impersonate");
}

Endpoint resolve(const std::vector<KubeconfigFile>& files, std::string_view context) {
  Merged merged;
  std::string names;
  for (const auto& file : files) {
    takeFile(file, merged);
    names += (names.empty() ? "" : ", ") + file.path;
  }
  const std::string wanted = context.empty() ? merged.currentContext : std::string(context);
  if (wanted.empty()) refuse(names, "current-context", "is not set, and no context was asked for");
  const auto found = merged.contexts.find(wanted);
  if (found == merged.contexts.end()) {
    std::string known;
    for (const auto& [name, entry] : merged.contexts) known += (known.empty() ? "" : ", ") + name;
    refuse(names, "contexts", "no context \"" + wanted + "\"" + (known.empty() ? "" : "; there are: " + known));
  }
  const NamedEntry& entry = found->second;
  const std::string cluster = scalar(entry, "cluster"), user = scalar(entry, "user"), ns = scalar(entry, "namespace");
  const auto c = merged.clusters.find(cluster);
  if (c == merged.clusters.end()) refuse(entry.file, entry.field + ".cluster", "no cluster \"" + cluster + "\"");
  Endpoint out;
  takeCluster(c->second, out);
  if (!user.empty()) {
    const auto u = merged.users.find(user);
    if (u == merged.users.end()) refuse(entry.file, entry.field + ".user", "no user \"" + user + "\"");
    takeUser(u->second, c->second, out);
  }
  if (!ns.empty()) out.namespace_ = ns;
  out.origin = "context " + wanted + " of " + names;
  return out;
}

}  // namespace

Result<Endpoint> resolveKubeconfig(const std::vector<KubeconfigFile>& files, std::string_view context) {
  try {
    return resolve(files, context);
  } catch (const Refused& refused) {
    return refused.status;
  } catch (const std::exception& e) {  // yaml-cpp's errors on access
    return Status(Code::invalid, (files.empty() ? std::string("kubeconfig") : files.front().path) + ": " + e.what());
  }
}

Result<Endpoint> inClusterEndpoint(const Environment& environment) {
  const auto host = environment.variable("KUBERNETES_SERVICE_HOST");
  const auto port = environment.variable("KUBERNETES_SERVICE_PORT");
  if (!host || host->empty() || !port || port->empty())
    return Status(Code::notFound, "not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
  if (port->size() > 5 || port->find_first_not_of("0123456789") != std::string::npos)
    return Status(Code::invalid, "KUBERNETES_SERVICE_PORT: not a port: " + *port);
  const std::string& dir = environment.serviceAccountDir;
  auto token = base::readFile(dir + "/token");
  if (!token) return Status(Code::invalid, "in-cluster: " + token.status().message());
  Endpoint out;
  const bool v6 = host->find(':') != std::string::npos && host->front() != '[';
  out.server = "https://" + (v6 ? "[" + *host + "]" : *host) + ":" + *port;
  out.tokenFile = dir + "/token";
  out.token = base::trimmed(*token);
  auto ca = base::readFile(dir + "/ca.crt");
  if (!ca) return Status(Code::invalid, "in-cluster: " + ca.status().message());
  out.caFile = dir + "/ca.crt";
  if (auto ns = base::readFile(dir + "/namespace")) {
    if (const auto name = base::trimmed(*ns); !name.empty()) out.namespace_ = name;
  }
  out.origin = "in-cluster";
  out.inCluster = true;
  return out;
}

namespace {

Result<Endpoint> findEndpoint(const LoadOptions& options, const Environment& environment) {
  if (!options.kubeconfig.empty()) {
    auto text = base::readFile(options.kubeconfig);
    if (!text) return Status(Code::invalid, "--kubeconfig " + text.status().message());
    return resolveKubeconfig({{options.kubeconfig, std::move(*text)}}, options.context);
  }
  if (const auto list = environment.variable("KUBECONFIG"); list && !list->empty()) {
    std::vector<KubeconfigFile> files;
    std::set<std::string> seen;
    std::stringstream parts(*list);
    for (std::string name; std::getline(parts, name, ':');) {
      if (name.empty() || !seen.insert(name).second) continue;
      auto text = base::readFile(name);
      if (text)
        files.push_back({name, std::move(*text)});
      else if (text.status().code() != Code::notFound)
        return Status(Code::invalid, "KUBECONFIG " + text.status().message());
    }
    if (files.empty()) return Status(Code::invalid, "KUBECONFIG: none of these files can be opened: " + *list);
    return resolveKubeconfig(files, options.context);
  }
  std::string tried = "HOME is not set";
  if (const auto home = environment.variable("HOME"); home && !home->empty()) {
    const std::string name = *home + "/.kube/config";
    auto text = base::readFile(name);
    if (text) return resolveKubeconfig({{name, std::move(*text)}}, options.context);
    if (text.status().code() != Code::notFound) return Status(Code::invalid, text.status().message());
    tried = text.status().message();
  }
  auto inside = inClusterEndpoint(environment);
  if (inside || inside.status().code() != Code::notFound) return inside;
  return Status(Code::invalid, "no API server configured: no --kubeconfig, KUBECONFIG is not set, " + tried + ", " +
                                   inside.status().message());
}

}  // namespace

Result<Endpoint> loadEndpoint(const LoadOptions& options, const Environment& environment) {
  auto found = findEndpoint(options, environment);
  if (!found || !found->proxyUrl.empty()) return found;
  auto proxy = proxyFromEnvironment(found->server, environment);
  if (!proxy) return proxy.status();
  found->proxyUrl = std::move(*proxy);
  return found;
}

}  // namespace egpu::kube
