"""`edgedla completion SHELL`: the script that makes a shell complete commands, options and values."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from edgedla.cli.output import echo

#: Shell -> the file that a login shell reads, where the script is loaded from.
SHELLS = {"bash": "~/.bashrc", "zsh": "~/.zshrc", "fish": "~/.config/fish/completions/edgedla.fish"}


@click.command(
    epilog="""\b
Examples:
  bash: echo 'eval "$(edgedla completion bash)"' >> ~/.bashrc
  zsh:  echo 'eval "$(edgedla completion zsh)"' >> ~/.zshrc
  fish: edgedla completion fish > ~/.config/fish/completions/edgedla.fish
"""
)
@click.argument("shell", type=click.Choice(tuple(SHELLS)))
def completion(shell: str) -> int:
    """Print the script that lets SHELL complete edgedla's commands, options and their values.

    The script asks edgedla itself at each Tab, so it stays right after an upgrade.
    """
    from edgedla.cli.main import main

    found = get_completion_class(shell)
    assert found is not None
    echo(found(main, {}, "edgedla", "_EDGEDLA_COMPLETE").source())
    return 0
