"""Hidden temporary files, which replace the file that the user named."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
from pathlib import Path

_RANDOM_BYTES = 8
_RANDOM_DIGITS = "[0-9a-f]" * (2 * _RANDOM_BYTES)
_MAX_NAME_BYTES = 200  # file systems allow 255; the rest is for the prefix
_TAIL_LENGTH = 40  # characters at the end of a long name that stay, for its extension


def hidden_path(path: Path, prefix: str) -> Path:
    """Return the path of a hidden file beside ``path``, ``.PREFIX.NAME``.

    The extension stays the same, because libraries derive the format from it.
    """
    return path.with_name(f".{prefix}.{_short_name(path)}")


def _short_name(path: Path) -> str:
    encoded = os.fsencode(path.name)
    if len(encoded) <= _MAX_NAME_BYTES:
        return path.name
    return hashlib.sha256(encoded).hexdigest()[:16] + path.name[-_TAIL_LENGTH:]


def create_partial(path: Path) -> Path:
    """Create an empty hidden file, which `replace` will rename to ``path``.

    Its name is random, so that no other file is overwritten. It lies beside ``path``. If only the
    file is writable, such as one mounted into a container, it lies in the folder for temporary
    files. No user can read it who cannot read the file at ``path``.

    Raises:
        OSError: ``path`` is not writable.
    """
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    partial = hidden_path(path, f"partial.{secrets.token_hex(_RANDOM_BYTES)}")
    try:
        _create(partial, path)
    except OSError:
        if not path.exists():
            raise
        partial = Path(tempfile.gettempdir()) / partial.name
        _create(partial, path)
    return partial


def _create(partial: Path, path: Path) -> None:
    mode = 0o600 if path.exists() else 0o666  # less the umask
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    if path.exists():
        _copy_owner_and_mode(path, partial)


def remove_leftovers(path: Path) -> None:
    """Remove the files of ``create_partial(path)`` that killed processes left.

    Call it while no other process writes ``path``.
    """
    pattern = f".partial.{_RANDOM_DIGITS}.{glob.escape(_short_name(path))}"
    for leftover in path.parent.glob(pattern):
        with contextlib.suppress(OSError):  # of another user
            leftover.unlink()


def replace(partial: Path, path: Path) -> None:
    """Rename ``partial`` to ``path``; a file at ``path`` keeps its owner and mode.

    If renaming is impossible or would change the owner, the contents are copied.

    Raises:
        OSError: Copying fails too. The contents are in a visible file, which the error names.
    """
    if not path.exists() or _copy_owner_and_mode(path, partial):
        with contextlib.suppress(OSError):  # such as a single file mounted into a container
            os.replace(partial, path)
            return
    try:
        shutil.copyfile(partial, path)
    except OSError as error:
        if not partial.exists():
            raise
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"{reason}; the contents are in {_keep(partial)}") from error
    partial.unlink()


def _copy_owner_and_mode(path: Path, partial: Path) -> bool:
    """Give ``partial`` the owner and mode of ``path``; return False if its owner differs."""
    wanted, found = path.stat(), partial.stat()
    try:
        if (found.st_uid, found.st_gid) != (wanted.st_uid, wanted.st_gid):
            os.chown(partial, wanted.st_uid, wanted.st_gid)
    except OSError:
        return False
    with contextlib.suppress(OSError):  # a file system without modes
        os.chmod(partial, stat.S_IMODE(wanted.st_mode))
    return True


def _keep(partial: Path) -> Path:
    """Give the file a visible name, which `remove_leftovers` does not match."""
    kept = partial.with_name(partial.name.removeprefix("."))
    try:
        os.replace(partial, kept)
    except OSError:
        return partial
    return kept
