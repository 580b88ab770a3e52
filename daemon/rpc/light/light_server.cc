#include "daemon/rpc/light/light_server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace kiln {
namespace {

// What events of the server's epoll say.
constexpr uint64_t kStop = 0;
constexpr uint64_t kFirstUser = 1;

}  // namespace

LightServer::~LightServer() { Shutdown(SteadyTime::min()); }

absl::Status LightServer::Start() {
  epoll_.Reset(::epoll_create1(EPOLL_CLOEXEC));
  stop_.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_ || !stop_ || !Watch(epoll_, EPOLL_CTL_ADD, stop_, EPOLLIN, kStop)) {
    return ErrnoStatus(errno, "cannot start the light server");
  }
  for (int i = 0; i < limits::kLightThreads; ++i) threads_.emplace_back([this] { Loop(); });
  return absl::OkStatus();
}

absl::Status LightServer::Serve(UniqueFd connection, const Principal& principal) {
  MutexLock lock(mutex_);
  if (is_shut_down_) return Unavailable("the daemon is shutting down");
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<LightUser> user, UserOf(principal.uid));
  const uint64_t number = ++last_number_;
  auto served = std::make_shared<LightConnection>(std::move(connection), principal, parts_, calls_,
                                                  std::move(user), number);
  // An event may come at once, but TakeTurn waits for the lock.
  KILN_RETURN_IF_ERROR(served->Start());
  open_.emplace(number, std::move(served));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<LightUser>> LightServer::UserOf(uid_t uid) {
  std::erase_if(users_, [](const auto& user) { return user.second.expired(); });
  if (std::shared_ptr<LightUser> known = users_[uid].lock()) return known;
  auto user = std::make_shared<LightUser>();
  user->requests = std::make_shared<ByteBudget>(requests_);
  user->answers = std::make_shared<ByteBudget>(parts_.unread);
  user->epoll.Reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!user->epoll ||
      !Watch(epoll_, EPOLL_CTL_ADD, user->epoll, EPOLLIN | EPOLLONESHOT, kFirstUser + uid)) {
    return ErrnoStatus(errno, "cannot watch the user's connections");
  }
  users_[uid] = user;
  return user;
}

void LightServer::Loop() {
  while (true) {
    epoll_event event{};
    // One at a time, so that all threads have a share.
    if (::epoll_wait(epoll_.get(), &event, 1, -1) != 1) continue;
    const uint64_t number = event.data.u64;  // nothing may refer into the struct, which is packed
    if (number == kStop) return;
    TakeTurn(static_cast<uid_t>(number - kFirstUser));
  }
}

void LightServer::TakeTurn(uid_t uid) {
  std::shared_ptr<LightUser> user;
  {
    MutexLock lock(mutex_);
    if (const auto found = users_.find(uid); found != users_.end()) user = found->second.lock();
  }
  if (user == nullptr) return;
  epoll_event event{};
  const int count = ::epoll_wait(user->epoll.get(), &event, 1, 0);
  // Behind the other users. Another thread may serve this one's other connections meanwhile.
  Watch(epoll_, EPOLL_CTL_MOD, user->epoll, EPOLLIN | EPOLLONESHOT, kFirstUser + uid);
  if (count != 1) return;
  const uint64_t number = event.data.u64;
  ConnectionPtr connection;  // may end here, without the lock
  MutexLock lock(mutex_);
  const auto found = open_.find(number);
  if (found == open_.end()) return;
  connection = found->second;
  lock.Unlock();
  if (connection->OnEvents(event.events)) return;
  lock.Lock();
  open_.erase(number);
}

void LightServer::CloseSilent() {
  std::unordered_map<uint64_t, ConnectionPtr> open;
  {
    MutexLock lock(mutex_);
    open = open_;
  }
  for (const auto& [number, connection] : open) {
    if (!connection->CloseIfSilent()) continue;
    MutexLock lock(mutex_);
    open_.erase(number);
  }
}

void LightServer::Shutdown(SteadyTime deadline) {
  {
    MutexLock lock(mutex_);
    if (std::exchange(is_shut_down_, true)) return;
  }
  calls_.Close();
  calls_.AwaitEmpty(deadline);
  std::unordered_map<uint64_t, ConnectionPtr> open;
  {
    MutexLock lock(mutex_);
    open.swap(open_);
  }
  for (const auto& [number, connection] : open) connection->Close();
  calls_.AwaitEmpty(SteadyTime::max());
  if (threads_.empty()) return;
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace kiln
