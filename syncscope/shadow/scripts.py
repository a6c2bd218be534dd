"""TorchScript: its interpreter asks and moves tensors in C++, where shadow devices are unknown.

The nodes of a compiled graph that do so are replaced by operators of our own, which have the
same arguments. While a program saves a graph, they are what they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from syncscope.shadow.patching import FunctionPatches

_SPACE = "syncscope_shadow"
_MOVES = {
    "aten::to.prim_Device": "Tensor self, Device? to, ScalarType? dtype, bool wait, bool copy",
    "aten::to.device": "Tensor self, Device to, ScalarType dtype, bool wait, bool copy, "
    "MemoryFormat? memory_format",
    "aten::to.other": "Tensor self, Tensor to, bool wait, bool copy, MemoryFormat? memory_format",
    "aten::cpu": "Tensor self",
    "aten::cuda": "Tensor self",
}
_QUESTIONS = {"prim::device": "Device", "prim::is_cuda": "bool", "prim::is_cpu": "bool"}


def install(patches: FunctionPatches) -> None:
    """Define the operators, and let compiled and loaded code call them."""
    library = torch.library.Library(_SPACE, "DEF")
    patches.at_undo(library._destroy)
    for name, arguments in _MOVES.items():
        _define(library, name, f"({arguments}) -> Tensor", _move(name.partition(".")[0][6:]))
    for name, answer in _QUESTIONS.items():
        _define(library, name, f"(Tensor self) -> {answer}", _question(name[6:]))
    for name in ("script", "load", "freeze"):
        patches.wrap(torch.jit, name, _compiling)
    jit: Any = torch.jit
    for owner in (jit.ScriptFunction, jit.RecursiveScriptModule):
        patches.wrap(owner, "save", _saving)
        patches.wrap(owner, "save_to_buffer", _saving)


def _define(library: Any, name: str, signature: str, function: Callable[..., Any]) -> None:
    """An operator that the optimizer of TorchScript does not run ahead of time."""
    own = name.partition("::")[2]
    library.define(own + signature, alias_analysis="CONSERVATIVE")
    library.impl(own, function, "CompositeImplicitAutograd")


def _move(name: str) -> Callable[..., torch.Tensor]:
    def move(tensor: torch.Tensor, *args: Any) -> torch.Tensor:
        if len(args) == 5:
            return tensor.to(*args[:4], memory_format=args[4])
        moved: torch.Tensor = getattr(tensor, name)(*args)
        return moved

    return move


def _question(name: str) -> Callable[[torch.Tensor], Any]:
    return lambda tensor: getattr(tensor, name)


def _compiling(original: Callable[..., Any]) -> Callable[..., Any]:
    def compile_(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        for graph in _graphs(made):
            _rename(graph, graph, _to_own)
        return made

    compile_.__doc__ = original.__doc__
    return compile_


def _saving(original: Callable[..., Any]) -> Callable[..., Any]:
    def save(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _as_they_were(self):
            return original(self, *args, **kwargs)

    return save


@contextmanager
def _as_they_were(compiled: Any) -> Iterator[None]:
    graphs = list(_graphs(compiled))
    for graph in graphs:
        _rename(graph, graph, _to_torch)
    try:
        yield
    finally:
        for graph in graphs:
            _rename(graph, graph, _to_own)


def _graphs(compiled: Any) -> Iterator[Any]:
    """Graphs of a compiled function, or of all methods of a compiled module."""
    if isinstance(compiled, torch.jit.ScriptFunction):
        yield compiled.graph
    elif isinstance(compiled, torch.jit.ScriptModule):
        for module in compiled.modules():
            cpp: Any = module._c
            for name in cpp._method_names():
                yield cpp._get_method(name).graph


def _to_own(node: Any) -> str | None:
    """Our kind for a node, None for one that stays."""
    kind: str = node.kind()
    if kind in _QUESTIONS or kind in ("aten::cpu", "aten::cuda"):
        return f"{_SPACE}::{kind[6:]}"
    if kind == "aten::to" and node.schema().partition("(")[0] in _MOVES:
        return f"{_SPACE}::to"
    return None


def _to_torch(node: Any) -> str | None:
    space, _, name = node.kind().partition("::")
    if space != _SPACE:
        return None
    return f"prim::{name}" if f"prim::{name}" in _QUESTIONS else f"aten::{name}"


def _rename(graph: Any, block: Any, kind_of: Callable[[Any], str | None]) -> None:
    for node in list(block.nodes()):
        for inner in node.blocks():
            _rename(graph, inner, kind_of)
        kind = kind_of(node)
        if kind is None:
            continue
        made = graph.create(kind, list(node.inputs()), 1)
        made.insertBefore(node)
        made.output().setType(node.output().type())
        node.replaceAllUsesWith(made)
        node.destroy()
