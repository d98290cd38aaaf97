// One exchange over libcurl: what the caller and the I/O thread share, and libcurl's callbacks.
#pragma once

#include <curl/curl.h>

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "controller/base/status.h"
#include "controller/kube/config/credentials.h"
#include "controller/kube/transport/transport.h"

namespace egpu::kube {

struct EasyDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct ListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, ListDeleter>;

/// Adds a line; out of memory leaves the list as it was.
void append(HeaderList& list, const std::string& line);

/// Shared by the caller and the I/O thread, so that a stopped caller can leave at once, whatever libcurl is doing.
struct Transfer {
  // Constant once handed to the I/O thread; the easy handle and what curl reads belong to that thread from then on.
  std::unique_ptr<CURL, EasyDeleter> easy;
  HeaderList headers, connectTo;
  std::string url, body;
  CredentialsPtr credentials;  ///< curl reads the PEM texts where they lie
  std::size_t bodySent = 0;
  bool streaming = false;
  bool repeatable = false;  ///< GET: libcurl may send it again on a fresh connection
  std::size_t maxBody = 0, streamBuffer = 0;
  char error[CURL_ERROR_SIZE] = {};

  std::mutex mutex;
  std::condition_variable_any changed;
  // Protected by mutex:
  int sends = 0;          ///< how often the request began to go out
  HttpResponse response;  ///< head, and body unless streamed
  bool headDone = false;  ///< of the final answer, not a 1xx
  std::string chunks;     ///< streamed, not yet taken
  bool paused = false;
  bool tooBig = false;
  bool abandoned = false;  ///< the caller has left: nobody reads any more
  bool finished = false;
  CURLcode result = CURLE_OK;

  /// The callbacks, and this as their argument.
  void listen();
  /// Method and body, which must be in place.
  void setMethod(Method method);
  /// What became of it, once finished. Needs mutex.
  base::Result<HttpResponse> conclude(const std::string& server);
};
using TransferPtr = std::shared_ptr<Transfer>;

}  // namespace egpu::kube
