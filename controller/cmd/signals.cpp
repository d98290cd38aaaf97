#include "controller/cmd/signals.h"

#include <pthread.h>
#include <unistd.h>

#include <initializer_list>

namespace egpu::cmd {

Signals::Signals() {
  sigemptyset(&set_);
  for (int s : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&set_, s);
  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int Signals::wait() const {
  int got = 0;
  while (sigwait(&set_, &got) != 0) {
  }
  return got;
}

void Signals::wake() const { ::kill(::getpid(), SIGUSR1); }

}  // namespace egpu::cmd
