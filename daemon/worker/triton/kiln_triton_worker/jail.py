"""What a process may do from now on: it and all that it will start. daemon/sandbox/enter_jail.cc does the same."""

import contextlib
import ctypes
import os
import stat
import struct

from kiln_triton_worker.libc import LIBC, checked, prctl
from kiln_triton_worker.seccomp import PR_SET_NO_NEW_PRIVS, filter_system_calls

PR_SET_SECUREBITS = 28
# System calls without a function in the C library; these numbers are the same on every architecture.
SYS_LANDLOCK_CREATE_RULESET, SYS_LANDLOCK_ADD_RULE, SYS_LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_RULE_PATH_BENEATH = 1
LANDLOCK_FILE_RIGHTS = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # of a directory's rights, those that a file can have
CAPABILITY_VERSION_3 = 0x20080522
SECBIT_NOROOT = 1


class Confinement:
    """What a process may do, and may take, from now on: it and all that it will start. daemon/sandbox/enter_jail.cc does the same."""

    def __init__(self, jail):
        self._jail = jail
        # Whether files that the jail does not name are out of reach.
        self.hides_files = False

    def enter(self):
        """Goes as far as it gets. What could not be done, in words for the operator."""
        problems = []
        steps = {"no_new_privs": self._forbid_new_privileges, "capabilities": self._drop_capabilities}
        if self._jail["files"]:
            steps["Landlock"] = self._restrict_files
        if self._jail["filter"]:
            steps["the system call filter"] = self._filter_system_calls
        for what, step in steps.items():
            try:
                problems += step() or ()
            except OSError as error:
                problems.append(f"{what}: {error.strerror}")
        return problems

    def _forbid_new_privileges(self):
        prctl(PR_SET_NO_NEW_PRIVS, 1)

    def _drop_capabilities(self):
        # Otherwise root's programs have them again, and for such a gain the kernel forgets that addresses are not random. Who may not
        # say so has none to gain.
        with contextlib.suppress(OSError):
            prctl(PR_SET_SECUREBITS, SECBIT_NOROOT)
        checked(LIBC.capset(struct.pack("<Ii", CAPABILITY_VERSION_3, 0), bytes(24)))

    def _restrict_files(self):
        attributes = struct.pack("<QQQ", self._jail["files"], self._jail["network"], self._jail["scopes"])
        ruleset = checked(LIBC.syscall(SYS_LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0))
        problems = []
        try:
            for path, access in self._jail["paths"]:
                try:
                    self._allow(ruleset, path, access)
                except OSError as error:  # costs this path, and not the jail
                    problems.append(f"Landlock, {path}: {error.strerror}")
            checked(LIBC.syscall(SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0))
            self.hides_files = True
        finally:
            os.close(ruleset)
        return problems

    def _allow(self, ruleset, path, access):
        try:
            opened = os.open(path, os.O_PATH)
        except (FileNotFoundError, NotADirectoryError):
            return  # what is not there need not be allowed
        try:
            if not stat.S_ISDIR(os.fstat(opened).st_mode):
                access &= LANDLOCK_FILE_RIGHTS
            rule = struct.pack("<Qi", access, opened)
            checked(LIBC.syscall(SYS_LANDLOCK_ADD_RULE, ruleset, LANDLOCK_RULE_PATH_BENEATH, rule, 0))
        finally:
            os.close(opened)

    def _filter_system_calls(self):
        filter_system_calls(self._jail["filter"])
