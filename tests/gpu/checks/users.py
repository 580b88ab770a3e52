"""Two users with checkouts of their own under torch.compile, and a daemon that is neither of them."""

import os
import shutil

from kilnd import Kilnd
from results import compare_losses
from setting import TESTS

KILN, ADA, BOB = 64000, 64001, 64002  # no accounts: nobody has these numbers


def users(setting, row):
    if os.geteuid() != 0:
        row("two users", "not tried: only root can act for them", None)
        return
    setting.folder.chmod(0o711)
    service = _folder(setting.folder / "service", KILN)
    service.chmod(0o755)
    kilnd = Kilnd(setting.bundle, service, KILN, "sockets.mode=0666", f"tunings.shared_by={ADA}:{BOB}")
    try:
        kilnd.start()
        _compare(setting, kilnd, row)
    finally:
        kilnd.stop()
        shutil.copy(service / "kilnd.log", setting.folder / "users-kilnd.log")


def _compare(setting, kilnd, row):
    trained, tuned, compiled = {}, {}, {}
    for name, uid in (("ada", ADA), ("bob", BOB)):
        environment = _environment(setting, kilnd, name, uid)
        before = kilnd.stats()
        checkout = _checkout(setting.folder / name / "checkout", uid)
        trained[name] = setting.run(checkout / "gpu" / "training_job.py", environment, f"users-{name}-training", 4, user=uid)
        tuned[name] = setting.run(checkout / "gpu" / "tuning_job.py", environment, f"users-{name}-tuning", "triton", user=uid)
        compiled[name] = kilnd.since(before)["compiled"]
        cubins = len(list((setting.folder / name).rglob("*.cubin")))
        row(f"{name}: kernels by the daemon", f"{compiled[name]} compiled, {cubins} cubins; {trained[name]['report']}",
            cubins > 0 and not trained[name]["report"]["local"] and not tuned[name]["report"]["local"])
        said = kilnd.kiln("stats", "--server-uid", str(KILN), user=uid)
        row(f"{name}: sees the own jobs", said.stdout.strip() or said.stderr, said.returncode == 0 and "saved" in said.stdout)
    row("ada: all compiled", compiled["ada"], compiled["ada"] > 0)
    row("bob: none compiled", f"{compiled['bob']} {_last_miss(kilnd) if compiled['bob'] else ''}", compiled["bob"] == 0)
    row("bob: nothing measured", f"{tuned['bob']['runs']} runs; ada {tuned['ada']['runs']}", tuned["bob"]["runs"] == 0 < tuned["ada"]["runs"])
    row("bob: same configuration", tuned["bob"]["best"], tuned["bob"]["best"] == tuned["ada"]["best"])
    row("bob: same losses", *compare_losses(trained["bob"], trained["ada"]))


def _last_miss(kilnd):
    return kilnd.kiln("why", "--last-miss").stdout


def _folder(path, uid):
    path.mkdir(parents=True)
    path.chmod(0o700)
    os.chown(path, uid, uid)
    return path


def _checkout(checkout, uid):
    """The jobs, copied for this user, in a folder that nobody else may look into."""
    for part in ("gpu", "kernels"):
        shutil.copytree(TESTS.parent / part, checkout / part, ignore=shutil.ignore_patterns("checks", "__pycache__"))
    for path in (checkout, *checkout.rglob("*")):
        os.chown(path, uid, uid)
    return checkout


def _environment(setting, kilnd, name, uid):
    """As a login shell's: caches and Inductor's folder lie where they lie by default."""
    home = _folder(setting.folder / name, uid)
    environment = setting.environment(name, KILN_ROOT=str(kilnd.root), KILN_SERVER_UID=str(KILN), KILN_BASEDIRS="~/checkout",
                                      HOME=str(home), USER=name, LOGNAME=name, TMPDIR=str(_folder(home / "tmp", uid)))
    for folder in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "XDG_CACHE_HOME"):
        del environment[folder]
    return environment
