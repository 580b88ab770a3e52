"""Kernels of different folders that are one kernel for the daemon."""

from job import Job
from places import TOOLCHAIN

PYTHON = TOOLCHAIN / "bin" / "python"


def served(report):
    return report["compiled"] + report["joined"] + sum(report["hits"].values())


def test_the_knob_disables_line_info_as_the_variable_does(daemon, tmp_path):
    """A value that Triton's Python takes for "on", and its front end does not: there are locations, and no line tables."""
    made = []
    for root in None, daemon.root, daemon.root:
        with Job(tmp_path, PYTHON, root, cache=f"cache-{len(made)}") as job:
            job.compile("vector_add", num_stages=2)
            job.run("variable", name="TRITON_DISABLE_LINE_INFO", value="yes")
            job.compile("vector_add", num_stages=2)
            job.run("variable", name="TRITON_DISABLE_LINE_INFO", value=None)
            job.run("knob", group="compilation", name="disable_line_info", value=True)
            job.compile("vector_add", num_stages=3)
            made.append(job.files())
            assert root is None or job.report()["local"] == {} and served(job.report()) == 3, job.log
    assert made[1] == made[0] and made[2] == made[0]
    with_locations = [content for name, content in made[0].items() if name.endswith(".ttir") and bytes(tmp_path) in content]
    assert len(with_locations) == 2 and sum(b".debug_line" in content for name, content in made[0].items() if name.endswith(".cubin")) == 1
