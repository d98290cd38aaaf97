#include "controller/http/plain.h"

#include <utility>

#include "controller/base/printable.h"

namespace egpu::http {

Response plain(int status, std::string body) {
  Response r;
  r.status = status;
  r.contentType = "text/plain; charset=utf-8";
  r.body = status == 200 ? std::move(body) : base::printable(body, '\n');
  return r;
}

}  // namespace egpu::http
