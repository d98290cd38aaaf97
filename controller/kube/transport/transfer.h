// One request over libcurl: the state shared by the caller and the I/O thread, and libcurl's callbacks.
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

/// Appends a line; if memory is exhausted, the list is unchanged.
void append(HeaderList& list, const std::string& line);

/// Shared by the caller and the I/O thread, so that a stopped caller can return immediately, whatever libcurl is doing.
struct Transfer {
  // Constant once passed to the I/O thread; from then on that thread owns the easy handle and curl's inputs.
  std::unique_ptr<CURL, EasyDeleter> easy;
  HeaderList headers, connectTo;
  std::string url, body;
  CredentialsPtr credentials;  ///< curl reads the PEM texts in place
  std::size_t bodySent = 0;
  bool streaming = false;
  bool repeatable = false;  ///< GET: libcurl may resend it on a new connection
  std::size_t maxBody = 0, streamBuffer = 0;
  char error[CURL_ERROR_SIZE] = {};

  std::mutex mutex;
  std::condition_variable_any changed;
  // Guarded by mutex:
  int sends = 0;          ///< number of times that sending the request began
  HttpResponse response;  ///< head, and the body unless streamed
  bool headDone = false;  ///< head of the final answer, not of a 1xx
  std::string chunks;     ///< streamed data, not consumed yet
  bool paused = false;
  bool tooBig = false;
  bool abandoned = false;  ///< the caller has returned: the data is not read any more
  bool finished = false;
  CURLcode result = CURLE_OK;

  /// Registers the callbacks, with this as their argument.
  void listen();
  /// Sets method and body; `body` must be set.
  void setMethod(Method method);
  /// Returns the result of a finished transfer. Requires mutex.
  base::Result<HttpResponse> conclude(const std::string& server);
};
using TransferPtr = std::shared_ptr<Transfer>;

}  // namespace egpu::kube
