"""What pyproject.toml cannot say: the wheel is for one platform, since libkiln_launch is in it, and for every Python."""

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class PlatformDistribution(Distribution):

    def has_ext_modules(self):
        return True


class PlatformWheel(bdist_wheel):

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(distclass=PlatformDistribution, cmdclass={"bdist_wheel": PlatformWheel})
