#include "controller/kube/transport/transport.h"

namespace egpu::kube {

std::string_view toString(Method method) {
  switch (method) {
    case Method::get:
      return "GET";
    case Method::post:
      return "POST";
    case Method::put:
      return "PUT";
    case Method::patch:
      return "PATCH";
    case Method::del:
      return "DELETE";
  }
  return "GET";
}

}  // namespace egpu::kube
