"""What a module of Triton's IR says of itself."""

import re

from kiln_triton_worker.failure import Failure, shortened

NAME_BYTES_MAX = 64 << 10
PARAMETERS_MAX = 4096


def check_kind(module, kind):
    """Failure where a module is of another kind than the request says."""
    is_ttgir = module.get_int_attr("ttg.num-warps") is not None
    if is_ttgir and kind != "ttgir":
        raise Failure("invalid_argument", "parse", "this is TTGIR, a later stage; say that its kind is ttgir (--kind ttgir, in Python "
                      "kind='ttgir'), or send the module as it is after Triton's ttir stage")
    if not is_ttgir and kind == "ttgir":
        raise Failure("invalid_argument", "parse", "this is not TTGIR: the module has no ttg.num-warps; is its kind ttir?")


def entry_function(module):
    """(name, types of the parameters) of the kernel. Failure where there is not exactly one that can be compiled."""
    names = public_functions(module)
    if len(names) != 1:
        what = (f"{len(names)} ({', '.join(names[:8])}); make the others private" if names else
                "none; send one with the kernel's tt.func public")
        raise Failure("invalid_argument", "parse", f"a kernel has exactly one public function, this module has {what}")
    name = names[0]
    if not module.has_function(name):
        raise Failure("invalid_argument", "parse",
                      f"the public function {shortened(name)} stands in a module within the module; move it to the top")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        # Triton looks for a name of this form in its own output; others abort inside LLVM.
        raise Failure("invalid_argument", "parse",
                      f"the public function's name is not an identifier: {shortened(name)}; rename it to letters, digits "
                      "and underscores")
    if len(name) > NAME_BYTES_MAX:
        raise Failure("invalid_argument", "parse", f"the public function's name has {len(name)} letters; a kernel's name "
                      f"has at most {NAME_BYTES_MAX}")
    signature = module.get_function_signature(module.get_function(name))
    if len(signature) > PARAMETERS_MAX:
        raise Failure("invalid_argument", "parse",
                      f"the kernel has {len(signature)} parameters; at most {PARAMETERS_MAX} are possible")
    return name, signature


def options_of_ttgir(module, target, given):
    """What a TTGIR module was made for, as options. Failure where the request says something else."""
    made_for = module_attribute(module, "ttg.target")
    if made_for not in (None, f"{target.backend}:{target.arch}"):
        raise Failure("invalid_argument", "parse", f"the module was made for {made_for}, not for {target.backend}:{target.arch}")
    options = {}
    for name, attribute in (("num_warps", "ttg.num-warps"), ("num_ctas", "ttg.num-ctas")):
        value = module.get_int_attr(attribute)
        if value is not None and given.get(name, value) != value:
            raise Failure("invalid_argument", "options", f"{name} is {given[name]}, but the module was made with {value}; leave it out")
        if value is not None:
            options[name] = value
    return options


def public_functions(module):
    """Their names. A function without a visibility is public."""
    names = []

    def visit(operation):
        if operation.get_name() == "tt.func" and operation.get_str_attr("sym_visibility") in (None, "public"):
            names.append(operation.get_str_attr("sym_name"))

    try:
        module.walk(visit)
    except UnicodeDecodeError:
        raise Failure("invalid_argument", "parse", "the name of a public function is not UTF-8; rename it to letters, digits and "
                      "underscores") from None
    return names


def module_attribute(module, name):
    """A string attribute of the module itself; None where it has none."""
    found = []

    def visit(operation):
        if operation.get_name() == "builtin.module":
            found.append(operation.get_str_attr(name))

    module.walk(visit)
    return found[0] if found else None
