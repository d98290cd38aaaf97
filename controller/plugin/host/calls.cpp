#include "controller/plugin/host/calls.h"

#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <string>

namespace egpu::plugin::host {
namespace {

constexpr uint64_t kLow = 0xffffffff;  // the kernel evaluates only these bits of an int

/// Builds a filter; remembers the first failure.
class Filter {
 public:
  Filter() : context_(seccomp_init(SCMP_ACT_ALLOW)) {
    if (!context_) error_ = ENOMEM;
    note(context_ ? seccomp_attr_set(context_, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) : 0);
  }
  ~Filter() {
    if (context_) seccomp_release(context_);
  }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;

  /// Ignores calls that this library or machine does not know: they are no danger here.
  void refuse(int error, std::initializer_list<const char*> names) {
    for (const char* name : names) refuse(error, name, {});
  }
  void refuse(int error, const char* name, std::initializer_list<scmp_arg_cmp> arguments) {
    const int call = seccomp_syscall_resolve_name(name);
    if (call == __NR_SCMP_ERROR || call < 0 || error_ != 0) return;
    note(seccomp_rule_add_array(context_, SCMP_ACT_ERRNO(static_cast<unsigned>(error)), call,
                                static_cast<unsigned>(arguments.size()), arguments.begin()));
  }
  base::Status load() {
    if (error_ == 0) note(seccomp_load(context_));
    if (error_ == 0) return base::Status::okay();
    return {base::Code::unavailable, std::string("seccomp: ") + strerrordesc_np(error_)};
  }

 private:
  void note(int result) {
    if (result < 0 && error_ == 0) error_ = -result;
  }
  scmp_filter_ctx context_;
  int error_ = 0;
};

scmp_arg_cmp is(unsigned argument, uint64_t value) { return {argument, SCMP_CMP_MASKED_EQ, kLow, value}; }
scmp_arg_cmp has(unsigned argument, uint64_t bit) { return {argument, SCMP_CMP_MASKED_EQ, bit, bit}; }
scmp_arg_cmp isNot(unsigned argument, uint64_t value) { return {argument, SCMP_CMP_NE, value, 0}; }
scmp_arg_cmp above(unsigned argument, uint64_t value) { return {argument, SCMP_CMP_GT, value, 0}; }

void refuseSockets(Filter& filter, const Calls& calls) {
  for (unsigned family = 0; family < AF_MAX; ++family) {
    const bool internet = family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
    if ((internet && calls.network) || (family == AF_UNIX && calls.unixSockets)) continue;
    filter.refuse(EACCES, "socket", {is(0, family)});
  }
  filter.refuse(EACCES, "socket", {above(0, AF_MAX - 1)});
  for (unsigned family = 0; family < AF_MAX; ++family)
    if (family != AF_UNIX) filter.refuse(EACCES, "socketpair", {is(0, family)});
  filter.refuse(EACCES, "socketpair", {above(0, AF_MAX - 1)});
  if (calls.network || calls.unixSockets) return;
  filter.refuse(EACCES, {"bind", "connect", "listen", "accept", "accept4"});
  // A datagram socket of a pair could send to any other socket.
  for (const uint64_t type : {SOCK_DGRAM, SOCK_RAW})
    filter.refuse(EACCES, "socketpair", {{1, SCMP_CMP_MASKED_EQ, 0xf, type}});
}

void refuseSystem(Filter& filter) {
  filter.refuse(EPERM, {"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease",
                        "pidfd_getfd", "kcmp", "migrate_pages", "move_pages", "perf_event_open"});
  filter.refuse(EPERM, {"mount",
                        "umount",
                        "umount2",
                        "pivot_root",
                        "chroot",
                        "fsopen",
                        "fsconfig",
                        "fsmount",
                        "fspick",
                        "move_mount",
                        "open_tree",
                        "mount_setattr",
                        "quotactl",
                        "quotactl_fd",
                        "swapon",
                        "swapoff",
                        "acct",
                        "name_to_handle_at",
                        "open_by_handle_at",
                        "fanotify_init",
                        "lookup_dcookie"});
  filter.refuse(EPERM, {"bpf", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module",
                        "create_module", "reboot", "syslog", "iopl", "ioperm", "userfaultfd", "vhangup", "uselib"});
  filter.refuse(EPERM, {"settimeofday", "stime", "clock_settime", "clock_adjtime", "clock_adjtime64", "adjtimex",
                        "sethostname", "setdomainname"});
  filter.refuse(EPERM, {"keyctl", "add_key", "request_key"});
  // They are subject to no limit of a process, and survive it.
  filter.refuse(EPERM, {"shmget", "shmat", "shmctl", "msgget", "msgsnd", "msgrcv", "msgctl", "semget", "semop",
                        "semtimedop", "semctl", "mq_open"});
  // Libraries can do without these: io_uring would open sockets past this filter, which also can't see clone3's flags.
  // Memory in a memfd is subject to no limit.
  filter.refuse(ENOSYS, {"io_uring_setup", "io_uring_enter", "io_uring_register", "clone3", "memfd_create"});
  filter.refuse(EPERM, {"unshare", "setns"});
  for (const uint64_t space :
       {CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWCGROUP})
    filter.refuse(EPERM, "clone", {has(0, space)});
  // The host's settings stay: other processes of the user can't inspect the process, and it ends with the controller.
  filter.refuse(EPERM, "prctl", {is(0, PR_SET_DUMPABLE), isNot(1, 0)});
  filter.refuse(EPERM, "prctl", {is(0, PR_SET_PDEATHSIG), isNot(1, SIGKILL)});
  // A descendant stays in the process group, which is killed with the plugin.
  filter.refuse(EPERM, {"setsid", "setpgid"});
  // Calls on other processes are refused, because the controller may run as the same user.
  for (const char* call : {"prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"})
    filter.refuse(EPERM, call, {isNot(0, 0)});
  for (const char* call : {"setpriority", "ioprio_set"}) filter.refuse(EPERM, call, {isNot(1, 0)});
  for (const uint64_t request : {TIOCSTI, TIOCLINUX}) filter.refuse(EPERM, "ioctl", {is(1, request)});
}

/// Allows signals to this process only, because the controller may run as the same user.
void refuseSignals(Filter& filter) {
  const auto self = static_cast<uint64_t>(getpid());
  for (const char* call : {"kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"})
    filter.refuse(EPERM, call, {isNot(0, self)});
  filter.refuse(EPERM, {"tkill", "pidfd_send_signal"});
  for (const uint64_t command : {F_SETOWN, F_SETOWN_EX, F_SETSIG}) filter.refuse(EPERM, "fcntl", {is(1, command)});
  for (const uint64_t request : {0x8901, 0x8902})
    filter.refuse(EPERM, "ioctl", {is(1, request)});  // FIOSETOWN, SIOCSPGRP
}

}  // namespace

base::Status filterCalls(const Calls& calls) {
  Filter filter;
  refuseSockets(filter, calls);
  refuseSystem(filter);
  if (calls.signalsInside) refuseSignals(filter);
  return filter.load();
}

}  // namespace egpu::plugin::host
