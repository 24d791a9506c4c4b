"""Compares what the tasks found with what sha256sum says, through the node's JSON API."""

import base64
import http.client
import json
import subprocess
import sys


def call(connection, method, request):
    connection.request(
        "POST", "/taskengine.v1.TaskService/" + method, json.dumps(request), {"Content-Type": "application/json"}
    )
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        sys.exit("%s: %s" % (method, body.decode()))
    return json.loads(body)


def results(connection):
    """Yields the path and the checksum of every task that is done."""
    token = ""
    while True:
        page = call(connection, "List", {"types": ["checksum"], "states": ["done"], "pageToken": token})
        for task in page.get("tasks", []):
            done = call(connection, "Get", {"id": task["id"]})["task"]
            result = json.loads(base64.b64decode(done["result"]))
            yield result["path"], result["sha256"]
        token = page.get("nextPageToken", "")
        if not token:
            return


def main(address, lines):
    with open(lines) as file:
        paths = [json.loads(line)["data"]["path"] for line in file]
    found = dict(results(http.client.HTTPConnection(address)))
    wrong = 0
    for start in range(0, len(paths), 500):
        part = paths[start : start + 500]
        said = subprocess.run(["sha256sum", "-z", "--"] + part, check=True, stdout=subprocess.PIPE).stdout
        for entry in filter(None, said.decode().split("\0")):
            digest, path = entry[:64], entry[66:]
            if found.get(path) != digest:
                wrong += 1
                print("differs: %s: the task says %s, sha256sum says %s" % (path, found.get(path), digest))
    if wrong or len(found) != len(paths):
        sys.exit("%d files, %d results, %d differ" % (len(paths), len(found), wrong))
    print("verified: %d files, every checksum is what sha256sum says" % len(paths))


main(*sys.argv[1:])
