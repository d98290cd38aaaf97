#include "controller/server/page/page.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "controller/http/plain.h"

namespace egpu::server {

namespace {

constexpr std::string_view kFolder = "/page/";
constexpr std::string_view kIndex = "index.html";

/// No inline scripts or styles. With trusted types, assigning text to innerHTML and the like throws, so that names and
/// messages that tenants chose can't become HTML even by a mistake in a script of the page.
constexpr const char* kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

constexpr auto kTypes = std::to_array<std::pair<std::string_view, const char*>>({
    {".html", "text/html; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".svg", "image/svg+xml"},
});

const char* typeOf(std::string_view name) {
  for (const auto& [suffix, type] : kTypes)
    if (name.ends_with(suffix)) return type;
  return "text/plain; charset=utf-8";
}

const std::vector<PageFile>& files() {
  static const auto kFiles = pageFiles();
  return kFiles;
}

}  // namespace

bool isPagePath(std::string_view path) { return path == "/" || path.starts_with(kFolder); }

http::Response pageFile(const http::Request& request) {
  if (request.method != "GET" && request.method != "HEAD") {
    auto r = http::plain(405, "only GET is served here\n");
    r.headers.emplace_back("Allow", "GET, HEAD");
    return r;
  }
  const std::string_view path = request.path;
  const auto name = path == "/" ? kIndex : path.substr(kFolder.size());
  const auto file =
      std::find_if(files().begin(), files().end(), [name](const PageFile& each) { return each.name == name; });
  auto r = file == files().end() ? http::plain(404, "the page has no such file\n")
                                 : http::plain(200, std::string(file->text));
  if (file != files().end()) r.contentType = typeOf(file->name);
  for (const auto& [header, value] : {std::pair{"Content-Security-Policy", kContentSecurityPolicy},
                                      {"X-Content-Type-Options", "nosniff"},
                                      {"X-Frame-Options", "DENY"},
                                      {"Referrer-Policy", "no-referrer"},
                                      {"Cross-Origin-Opener-Policy", "same-origin"},
                                      {"Cross-Origin-Resource-Policy", "same-origin"},
                                      {"Cache-Control", "no-cache"}})
    r.headers.emplace_back(header, value);
  return r;
}

}  // namespace egpu::server
