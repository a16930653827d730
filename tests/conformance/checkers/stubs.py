"""Placeholder modules for packages that an engine imports but that parsing never calls.

SGLang's argument checks import `triton` and `torchvision` at module level, 700 MB that compile and
run kernels. `install("triton", ...)` makes such names importable: attributes that start with a
capital letter are empty classes (they are subclassed), all others are modules that, called as
decorators, give back what they decorate.
"""

import importlib.abc
import importlib.machinery
import sys
import types


class _StubClass(type):
    def __getattr__(cls, name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"  # an enum member, a constant: told apart by name


def _take_anything(self, *args, **kwargs):
    pass


class _Stub(types.ModuleType):
    __path__: list[str] = []

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        if name[0].isupper():
            members = {"__module__": self.__name__, "__init__": _take_anything}
            child = _StubClass(name, (), members)
        else:
            child = importlib.import_module(full)
        setattr(self, name, child)
        return child

    def __call__(self, *args, **kwargs):
        if len(args) == 1 and callable(args[0]) and not kwargs:
            return args[0]
        return lambda function: function


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names: tuple[str, ...]):
        self.names = names

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] not in self.names:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec):
        return _Stub(spec.name)

    def exec_module(self, module):
        module.__version__ = "0.0.0"


def install(*names: str) -> None:
    """Make every module of these top-level packages importable as a placeholder."""
    sys.meta_path.insert(0, _Finder(names))
