"""Knows where each programming language names its symbols: one grammar and one table of node types a language.

The grammars are compiled into their wheels: nothing is fetched when text is read.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from tree_sitter import Language, Node

Namer = Callable[[Node], Node | None]
_FUNCTIONS = frozenset({"arrow_function", "function_expression", "generator_function", "class"})


def _field(name: str) -> Namer:
    return lambda node: node.child_by_field_name(name)


def _with_body(node: Node) -> Node | None:
    """The name of a type that is spelled out here, not only mentioned."""
    return node.child_by_field_name("name") if node.child_by_field_name("body") else None


def _declarator(node: Node) -> Node | None:
    """The name of a C function, which stands inside stars, ampersands and brackets."""
    inner = node.child_by_field_name("declarator")
    while inner is not None and inner.type != "function_declarator":
        inner = inner.child_by_field_name("declarator")
    return inner.child_by_field_name("declarator") if inner is not None else None


def _variable(node: Node) -> Node | None:
    """`const name = () => …`: the first variable, where it holds a function."""
    first = node.named_child(0)
    return _function_in(first, "name") if first is not None and first.type == "variable_declarator" else None


def _assigned(node: Node) -> Node | None:
    """`exports.name = function …`."""
    first = node.named_child(0)
    return _function_in(first, "left", "right") if first is not None and first.type == "assignment_expression" else None


def _function_in(node: Node, name: str = "name", value: str = "value") -> Node | None:
    held = node.child_by_field_name(value)
    return node.child_by_field_name(name) if held is not None and held.type in _FUNCTIONS else None


def _named(types: str) -> dict[str, Namer]:
    return dict.fromkeys(types.split(), _field("name"))


_ECMA: dict[str, Namer] = {
    **_named("function_declaration generator_function_declaration class_declaration method_definition"),
    "lexical_declaration": _variable,
    "variable_declaration": _variable,
    "expression_statement": _assigned,
    "field_definition": lambda node: _function_in(node, "property"),
}
_TYPED: dict[str, Namer] = {
    **_ECMA,
    **_named("interface_declaration enum_declaration type_alias_declaration abstract_class_declaration"),
    "public_field_definition": _function_in,
}
_C: dict[str, Namer] = {
    "function_definition": _declarator,
    **dict.fromkeys(("struct_specifier", "union_specifier", "enum_specifier", "class_specifier"), _with_body),
}
_JVM = "class_declaration interface_declaration enum_declaration record_declaration method_declaration"
_SYMBOLS: Final[Mapping[str, Mapping[str, Namer]]] = {
    "python": _named("class_definition function_definition"),
    "javascript": _ECMA,
    "typescript": _TYPED,
    "tsx": _TYPED,
    "csharp": _named(
        f"{_JVM} struct_declaration delegate_declaration constructor_declaration property_declaration"
        " local_function_statement"
    ),
    "java": _named(f"{_JVM} annotation_type_declaration constructor_declaration compact_constructor_declaration"),
    "go": _named("function_declaration method_declaration type_spec type_alias"),
    "rust": {
        **_named("function_item struct_item enum_item union_item trait_item macro_definition"),
        "mod_item": _with_body,
        "impl_item": _field("type"),
    },
    "c": _C,
    "cpp": _C,
    "bash": _named("function_definition"),
}
# What stands before a symbol and belongs to it, where the symbol's own node does not hold it already.
_LEADS: Final = frozenset(
    {"comment", "line_comment", "block_comment", "decorator", "attribute_item", "template_parameter_list"}
)
_FACTORIES: Final[Mapping[str, tuple[str, str]]] = {
    "csharp": ("tree_sitter_c_sharp", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
}
# Files of these languages may hold another dialect: the one that understands more of the text is taken.
_DIALECTS: Final[Mapping[str, tuple[str, ...]]] = {"typescript": ("typescript", "tsx"), "c": ("c", "cpp")}


@dataclass(frozen=True, slots=True)
class Grammar:
    """A compiled grammar, and where the nodes of its trees that are symbols have their names."""

    language: Language
    symbols: Mapping[str, Namer]

    def name_of(self, node: Node) -> Node | None:
        """The name of a symbol; None where the node is none."""
        namer = self.symbols.get(node.type)
        return namer(node) if namer is not None else None

    def owner_of(self, node: Node) -> Node | None:
        """The type that a method is hung on from outside, as in Go."""
        receiver = node.child_by_field_name("receiver") if node.type == "method_declaration" else None
        parameter = receiver.named_child(0) if receiver is not None else None
        held = parameter.child_by_field_name("type") if parameter is not None else None
        while held is not None and held.type in ("pointer_type", "generic_type"):
            held = held.named_child(0)
        return held

    @staticmethod
    def is_lead(node: Node) -> bool:
        """Whether a node may be a comment or the like that belongs to the symbol below it."""
        return node.type in _LEADS


def grammars(language: str | None) -> tuple[Grammar, ...]:
    """The grammars to try for a language, likeliest first; none for a language without one."""
    if language is None or language not in _SYMBOLS:
        return ()
    return tuple(_grammar(name) for name in _DIALECTS.get(language, (language,)))


@cache
def _grammar(name: str) -> Grammar:
    module, factory = _FACTORIES.get(name, (f"tree_sitter_{name}", "language"))
    return Grammar(Language(getattr(importlib.import_module(module), factory)()), _SYMBOLS[name])
