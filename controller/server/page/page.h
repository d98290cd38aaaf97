// The files of the page that shows the cluster in a browser: "/" and "/page/NAME". They contain no data: the page
// fetches all data from the operations endpoint, with its own authorization.
#pragma once

#include <string_view>
#include <vector>

#include "controller/http/http.h"

namespace egpu::server {

/// A file of files/, embedded at build time (embed.cmake).
struct PageFile {
  std::string_view name;  ///< "page.js"
  std::string_view text;
};
std::vector<PageFile> pageFiles();

/// True for "/" and for every path below "/page/".
bool isPagePath(std::string_view path);

/// Answers GET and HEAD for a path of the page: 200, 404 or 405. Each answer has a Content-Security-Policy that allows
/// only the page's own scripts, styles and requests, no inline code, and no conversion of text to HTML.
http::Response pageFile(const http::Request& request);

}  // namespace egpu::server
