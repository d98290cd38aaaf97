#include "controller/cmd/signals.h"

#include <pthread.h>

#include <initializer_list>

namespace egpu::cmd {

Signals::Signals() {
  sigemptyset(&set_);
  for (int s : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set_, s);
  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int Signals::wait() const {
  int got = 0;
  while (sigwait(&set_, &got) != 0) {
  }
  return got;
}

}  // namespace egpu::cmd
