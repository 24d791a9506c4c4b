"""Prints one task for each regular file below a folder, as lines of JSON."""

import json
import os
import sys

for folder, folders, files in os.walk(sys.argv[1]):
    folders[:] = sorted(f for f in folders if f != ".git")  # git changes its own at any time
    for name in sorted(files):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and not os.path.islink(path):
            print(json.dumps({"type": "checksum", "key": path, "data": {"path": path}}))
