"""`headrace NOUN VERB APP …`: the word order of all commands that have verbs.

headrace dead ls app.py             the form in help and errors
headrace dead app.py ls             the older form, still accepted
"""

from collections.abc import Sequence
from typing import Any

import click


class VerbCommand(click.Command):
    """A command whose first two arguments are `action` and `app`, in either order.

    If neither is a verb and `implied` is given, the verb was left out, as commands once had none.
    """

    verbs: tuple[str, ...] = ()
    implied: str | None = None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            argument_names = [param.name for param in self.params if isinstance(param, click.Argument) and param.name]
            values = [ctx.params[name] for name in argument_names]
            ctx.params.update(zip(argument_names, self._order_arguments(values, ctx), strict=True))
        return rest

    def _order_arguments(self, arguments: Sequence[Any], ctx: click.Context) -> list[Any]:
        action, app, *rest = arguments
        if action in self.verbs and app is not None:
            return [*arguments]
        if app in self.verbs:
            return [app, action, *rest]
        if self.implied is not None and action not in self.verbs and rest and rest[-1] is None:
            return [self.implied, action, app, *rest[:-1]]
        problem = (
            f"{action!r} is not one of {', '.join(self.verbs)}." if action not in self.verbs else "APP is missing."
        )
        raise click.UsageError(f"{problem} Write headrace {self.name} {'|'.join(self.verbs)} APP.", ctx)


def verb_command(*verb_names: str, implied: str | None = None) -> type[VerbCommand]:
    """The class of a command with these verbs."""
    return type("VerbCommand", (VerbCommand,), {"verbs": verb_names, "implied": implied})


class VerbGroup(click.Group):
    """A group whose commands are verbs, and that also accepts APP before the verb."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if len(args) > 1 and args[0] not in self.commands and not args[0].startswith("-") and args[1] in self.commands:
            args = [args[1], args[0], *args[2:]]
        return super().parse_args(ctx, args)
