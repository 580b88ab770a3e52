"""What a process may take from now on: it and all that it will start."""

import contextlib
import errno
import os
import resource

from kiln_triton_worker.libc import LIBC, checked

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_MOVE, MS_REC, MS_SLAVE = 2, 4, 8, 1 << 12, 1 << 13, 1 << 14, 1 << 19
MNT_DETACH = 2
ROOT_OPTIONS = "size=64k,nr_inodes=4096,mode=0700"

# By the names of the fork message.
RESOURCES = {
    "file_bytes": resource.RLIMIT_FSIZE,
    "address_space_bytes": resource.RLIMIT_AS,
    "processes": resource.RLIMIT_NPROC,
    "descriptors": resource.RLIMIT_NOFILE,
    "cpu_seconds": resource.RLIMIT_CPU,
}


def mount_work_directory(directory, limits, view):
    """Like MountWorkDirectory (daemon/sandbox/work_mount.cc). What failed, in words."""
    if not limits["disk_bytes"]:
        return []
    try:
        _unshare_mounts()
        checked(LIBC.mount(None, b"/", None, MS_REC | MS_SLAVE, None))
        if view:
            _enter_view(directory, view)
        _mount_tmpfs(directory, f"size={limits['disk_bytes']},nr_inodes={limits['disk_entries']},mode=0700")
    except OSError as error:
        return [f"mount a tmpfs on {directory}: {error.strerror}"]
    return []


def _enter_view(root, view):
    """Makes a root of these entries alone, mounted on `root`, for the time that this takes."""
    _mount_tmpfs(root, ROOT_OPTIONS)
    try:
        _enter_mounted(root, view)
    except OSError:
        LIBC.umount2(root.encode(), MNT_DETACH)
        raise


def _enter_mounted(root, view):
    for kind, path, target in view:
        place = root + path
        if kind == "link":
            os.symlink(target, place)
        elif kind == "shown file":
            os.close(os.open(place, os.O_WRONLY | os.O_CREAT, 0o600))
        else:
            with contextlib.suppress(FileExistsError):
                os.mkdir(place)
        if kind.startswith("shown"):
            with contextlib.suppress(FileNotFoundError):  # gone since the daemon looked
                checked(LIBC.mount(path.encode(), place.encode(), None, MS_BIND | MS_REC, None))
    os.chdir(root)
    _change_root()
    os.chdir("/")


def _change_root():
    """Like ChangeRoot."""
    try:
        checked(LIBC.pivot_root(b".", b"."))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        checked(LIBC.mount(b".", b"/", None, MS_MOVE, None))
        os.chroot(".")
    else:
        checked(LIBC.umount2(b".", MNT_DETACH))


def _unshare_mounts():
    ids = {"uid_map": os.geteuid(), "gid_map": os.getegid()}
    if LIBC.unshare(CLONE_NEWNS) == 0:
        return
    checked(LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS))
    for name, text in {"setgroups": "deny", **{name: f"{own} {own} 1" for name, own in ids.items()}}.items():
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _mount_tmpfs(directory, options):
    checked(LIBC.mount(b"kiln", directory.encode(), b"tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options.encode()))


def set_limits(limits):
    """Like Confinement.enter."""
    problems = []
    wanted = {resource.RLIMIT_CORE: 0}
    wanted.update({limit: limits[name] for name, limit in RESOURCES.items() if limits[name]})
    for limit, value in wanted.items():
        _, most = resource.getrlimit(limit)
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        try:
            resource.setrlimit(limit, (value, value))
        except OSError as error:
            problems.append(f"limit {limit}: {error.strerror}")
    return problems
