"""The JSON Schema of all messages, from which the page's TypeScript types are generated.

``python -m xla_notebook.protocol.schema`` prints it; ``make protocol`` writes it and the types.
"""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec

from xla_notebook.protocol import messages

UNIONS = {"Push": messages.Push, "Answer": messages.Answer, "Request": messages.Request}


def schema() -> dict[str, Any]:
    """One schema with a definition for each message and part, and one for each of the three unions."""
    kinds = [kind for union in UNIONS.values() for kind in get_args(union)]
    _, definitions = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    for name, union in UNIONS.items():
        definitions[name] = {"anyOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in get_args(union)]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Message",
        "description": f"Messages between kernel and page, version {messages.VERSION}.",
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in UNIONS],
        "$defs": dict(sorted(definitions.items())),
    }


def main() -> None:
    """Print the schema."""
    print(json.dumps(schema(), indent=2))


if __name__ == "__main__":
    main()
