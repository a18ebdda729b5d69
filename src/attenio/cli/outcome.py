"""What a command line ends with: an exit status, and on any mistake one line that says what to do."""

import contextlib
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from attenio.cli.stopped import Stopped
from attenio.errors import AttenioError

DONE, MISTAKE, BROKEN_PIPE, STOPPED = 0, 2, 1, 130


def outcome_of(arguments: Sequence[str] | None) -> int:
    """Run the application; nothing it raises on purpose, and no mistake in the arguments, ends in a traceback."""
    if sys.stdout is None:  # closed before Python began
        return _say("standard output is closed; send the answer to a file", MISTAKE)
    for stream in (sys.stdout, sys.stderr):
        # A terminal without Unicode gets a question mark in place of µ, not an error.
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        from attenio.cli.app import command_line

        status = command_line()(args=arguments, prog_name="attenio", standalone_mode=False)
        sys.stdout.flush()
    except AttenioError as problem:
        return _say(_with_options(str(problem), sys.argv[1:] if arguments is None else arguments), MISTAKE)
    except Stopped as stop:
        return _say(str(stop), STOPPED)
    except KeyboardInterrupt:
        return _stopped()
    except BrokenPipeError:
        _abandon_stdout()
        return BROKEN_PIPE
    except OSError as problem:
        _abandon_stdout()
        return _say(f"cannot write the answer: {problem.strerror or problem}; send it somewhere else", MISTAKE)
    except MemoryError:
        return _say("this computer ran out of memory; ask about something smaller", MISTAKE)
    except Exception as problem:
        # Typer raises its own copies of Click's exceptions in some versions and Click's in others; they agree on names.
        if type(problem).__name__ == "Abort":
            return _stopped()
        if type(problem).__name__ == "NoArgsIsHelpError":
            return DONE  # the help has been printed by then, as it is for attenio alone
        if hasattr(problem, "format_message"):
            return _say(_usage_message(problem, sys.argv[1:] if arguments is None else arguments), MISTAKE)
        if _interrupted(problem):
            return _stopped()
        raise
    return _stopped() if status == STOPPED else status if isinstance(status, int) else DONE


def _interrupted(problem: BaseException | None) -> bool:
    """Whether Ctrl-C is at the bottom of it: a compiler that is interrupted fails in its own way."""
    while problem is not None:
        if isinstance(problem, KeyboardInterrupt):
            return True
        problem = problem.__cause__ or problem.__context__
    return False


def _say(message: str, status: int) -> int:
    line = "".join(character if character.isprintable() else " " for character in " ".join(message.split()))
    print(f"attenio: {line}", file=sys.stderr)
    return status


_IN_A_FILE = re.compile(r"\bline \d+:")
_FIELD = re.compile(r"(?<![^\s(])[a-z]+(?:_[a-z0-9]+)+(?![^\s),;:])")


def _with_options(message: str, arguments: Sequence[str]) -> str:
    """What was typed as --kv-bits is called kv-bits, not kv_bits as in Python; fields of files keep their names."""
    typed = {argument.partition("=")[0] for argument in arguments}

    def named(found: re.Match[str]) -> str:
        option = found[0].replace("_", "-")
        return option if f"--{option}" in typed else found[0]

    return message if _IN_A_FILE.search(message) else _FIELD.sub(named, message)


def _stopped() -> int:
    return _say("stopped; no file was left half-written", STOPPED)


def _abandon_stdout() -> None:
    # Python flushes stdout once more when it exits; pointing it nowhere keeps that quiet.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# What other tools call our options, so that someone new is not sent to one that only looks alike.
_CALLED_ELSEWHERE = {
    **dict.fromkeys(("seq", "seqlen", "seq-len", "sequence", "sequence-length", "length", "context", "tokens"), "n"),
    **dict.fromkeys(("dim", "head-dim", "headdim", "hidden", "head-size"), "d"),
    **dict.fromkeys(("num-heads", "nheads", "n-heads", "query-heads"), "heads"),
    **dict.fromkeys(("num-kv-heads", "n-kv-heads", "key-heads", "groups"), "kv-heads"),
    **dict.fromkeys(("gpu", "device", "hardware", "target", "hw", "chip"), "machine"),
    **dict.fromkeys(("sram", "memory", "fast-memory", "cache", "fast", "m"), "fast-bytes"),
    **dict.fromkeys(("batch-size", "bs"), "batch"),
    **dict.fromkeys(("type", "precision", "data-type"), "dtype"),
    "requests": "lengths",
    **dict.fromkeys(("output", "file", "save"), "out"),
    **dict.fromkeys(("seconds", "timeout", "time", "max-seconds"), "time-limit"),
    **dict.fromkeys(("causal", "is-causal", "window", "sliding-window"), "mask"),
}


_FEW = 5


def _commands_with(option: str) -> list[str]:
    """The commands that have this option."""
    from attenio.cli.app import command_line

    commands = command_line().commands
    return [name for name, each in commands.items() if any(option in parameter.opts for parameter in each.params)]


def _command_path(arguments: Sequence[str]) -> str:
    """The command that arguments begin with, where an exception does not say it."""
    from attenio.cli.app import command_line

    path, command = "attenio", command_line()
    for word in arguments:
        if word not in getattr(command, "commands", {}):
            break
        path, command = f"{path} {word}", command.commands[word]
    return path


def _usage_message(problem: Any, arguments: Sequence[str]) -> str:
    from attenio.names import did_you_mean

    context = getattr(problem, "ctx", None)
    help_line = f"'{_command_path(arguments) if context is None else context.command_path} --help' explains"
    if hasattr(problem, "option_name") and context is not None and type(problem).__name__ == "NoSuchOption":
        # without their dashes, which all have in common
        known = [name[2:] for parameter in context.command.params for name in parameter.opts if name.startswith("--")]
        given = problem.option_name.lstrip("-").replace("_", "-")
        elsewhere = _CALLED_ELSEWHERE.get(given, given)
        hint = did_you_mean(elsewhere if elsewhere in known else given, known).replace("mean ", "mean --")
        others = [] if elsewhere in known else _commands_with(f"--{given}")
        # what most commands have is known to be there, and a list of them explains nothing
        hint = f"it is an option of {', '.join(others)}; " if 0 < len(others) <= _FEW else hint
        return f"unknown option {problem.option_name}; {hint}{help_line}"
    message = str(problem.format_message()).strip().rstrip(".")
    if message.startswith("No such command") and context is not None:
        name = message.split("'")[1]
        commands = list(context.command.commands)
        hint = f"'{context.command_path} --help' explains; " if name == "help" else did_you_mean(name, commands)
        return f"unknown command {name!r}; {hint}commands are {', '.join(commands)}"
    wanted = str(getattr(getattr(problem, "param", None), "help", None) or "").rstrip(".")
    if type(problem).__name__ == "MissingParameter" and wanted:
        message = f"{message}: {wanted}"
    return f"{message[:1].lower()}{message[1:]}; {help_line}"
