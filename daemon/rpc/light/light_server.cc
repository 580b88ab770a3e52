#include "daemon/rpc/light/light_server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "storage/base/limits.h"

namespace kiln {
namespace {

constexpr uint64_t kStop = 0;  // connections have numbers from 1

}  // namespace

LightServer::LightServer(const RpcDependencies& parts) : parts_(parts) {}

LightServer::~LightServer() { Shutdown(SteadyTime::min()); }

absl::Status LightServer::Start() {
  epoll_.Reset(::epoll_create1(EPOLL_CLOEXEC));
  stop_.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kStop;
  if (!epoll_ || !stop_ || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stop_.get(), &event) != 0) {
    return ErrnoStatus(errno, "cannot start the light server");
  }
  for (int i = 0; i < limits::kLightThreads; ++i) threads_.emplace_back([this] { Loop(); });
  return absl::OkStatus();
}

absl::Status LightServer::Serve(UniqueFd connection, const Principal& principal) {
  MutexLock lock(mutex_);
  if (is_shut_down_) return Unavailable("the daemon is shutting down");
  const uint64_t number = ++last_number_;
  auto served = std::make_shared<LightConnection>(std::move(connection), principal, parts_, calls_,
                                                  BudgetOf(principal.uid), epoll_.get(), number);
  // An event may come at once, but Find waits for the lock.
  KILN_RETURN_IF_ERROR(served->Start());
  open_.emplace(number, std::move(served));
  return absl::OkStatus();
}

std::shared_ptr<RequestBudget> LightServer::BudgetOf(uid_t uid) {
  std::erase_if(budgets_, [](const auto& budget) { return budget.second.expired(); });
  std::shared_ptr<RequestBudget> budget = budgets_[uid].lock();
  if (budget == nullptr) budgets_[uid] = budget = std::make_shared<RequestBudget>();
  return budget;
}

LightServer::ConnectionPtr LightServer::Find(uint64_t number) {
  MutexLock lock(mutex_);
  const auto found = open_.find(number);
  return found == open_.end() ? nullptr : found->second;
}

void LightServer::Loop() {
  while (true) {
    epoll_event event{};
    // One at a time, so that all threads have a share.
    if (::epoll_wait(epoll_.get(), &event, 1, -1) != 1) continue;
    const uint64_t number = event.data.u64;  // nothing may refer into the struct, which is packed
    if (number == kStop) return;
    const ConnectionPtr connection = Find(number);
    if (connection == nullptr || connection->OnEvents(event.events)) continue;
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
