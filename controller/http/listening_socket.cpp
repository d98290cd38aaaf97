#include "controller/http/listening_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "controller/http/http.h"

namespace egpu::http {
namespace {

using base::Code;
using base::Status;

constexpr int kBacklog = 512;  // with a shorter backlog, connections of a burst wait for a second

struct HostAndPort {
  std::string host;  ///< without brackets
  std::string port;
};

base::Result<HostAndPort> parsePlace(std::string_view address) {
  const std::string quoted = "\"" + std::string(address) + "\"";
  const auto colon = address.rfind(':');
  if (colon == std::string_view::npos) return Status(Code::invalid, quoted + " is not host:port");
  HostAndPort place{std::string(address.substr(0, colon)), std::string(address.substr(colon + 1))};
  if (place.port.empty() || place.port.size() > 5 || place.port.find_first_not_of("0123456789") != std::string::npos ||
      std::stoi(place.port) > 65535)
    return Status(Code::invalid, "\"" + place.port + "\" is not a port");
  auto& host = place.host;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string::npos)
    return Status(Code::invalid, quoted + ": an IPv6 address must be in []");
  return place;
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

/// Opens a listening socket. Returns its descriptor, or -1 with errno set.
int bindTo(const addrinfo& to) {
  const int fd = ::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, to.ai_protocol);
  if (fd < 0) return -1;
  // SO_REUSEPORT is not set: a second listener on the same port must fail, not share it.
  const int on = 1, off = 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (to.ai_family == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(fd, to.ai_addr, to.ai_addrlen) == 0 && ::listen(fd, kBacklog) == 0) return fd;
  const int why = errno;
  ::close(fd);
  errno = why;
  return -1;
}

int bindTo(const HostAndPort& place, std::string& why) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(place.host.c_str(), place.port.c_str(), &hints, &found); error != 0) {
    why = ::gai_strerror(error);
    errno = EADDRNOTAVAIL;
    return -1;
  }
  const std::unique_ptr<addrinfo, FreeAddresses> list(found);
  int fd = -1;
  for (const addrinfo* each = found; fd < 0 && each != nullptr; each = each->ai_next) fd = bindTo(*each);
  if (fd < 0) why = std::strerror(errno);
  return fd;
}

std::string realPort(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  const auto port = address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                                  : reinterpret_cast<sockaddr_in*>(&address)->sin_port;
  return std::to_string(ntohs(port));
}

}  // namespace

base::Result<ListeningSocket> openListeningSocket(const std::string& address) {
  auto place = parsePlace(address);
  if (!place) return place.status();
  const bool everywhere = place->host.empty() || place->host == "::";
  if (everywhere) place->host = "::";
  std::string shown = everywhere ? "[::]" : address.substr(0, address.rfind(':'));
  std::string why;
  int fd = bindTo(*place, why);
  if (fd < 0 && everywhere && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) {
    place->host = shown = "0.0.0.0";
    fd = bindTo(*place, why);
  }
  if (fd < 0) return Status(Code::unavailable, "can't listen on " + address + ": " + why);
  return ListeningSocket{fd, shown + ":" + realPort(fd)};
}

bool isLoopback(std::string_view address) {
  const auto host = address.ends_with(']') ? address : address.substr(0, address.rfind(':'));
  constexpr std::string_view kName = "localhost";
  if (std::equal(host.begin(), host.end(), kName.begin(), kName.end(),
                 [](unsigned char a, char b) { return std::tolower(a) == b; }) ||
      host == "[::1]")
    return true;
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace egpu::http
