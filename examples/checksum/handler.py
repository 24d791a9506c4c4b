"""Hashes files: serves the task type "checksum", whose payload is a file's path."""

import hashlib

from taskengine import Permanent, handler, run


@handler("checksum")
def checksum(task):
    path = task.json()["path"]
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                task.check()  # stop here if the task was cancelled
                digest.update(block)
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise Permanent(str(error)) from error  # no retry will mend that
    return {"path": path, "sha256": digest.hexdigest()}


run()
