"""Writes the blocks of Java in the documentation as classes into this folder, which scripts/test compiles. The argument is the folder of the repository."""

import pathlib
import re
import sys

AROUND = """package block%d;

import io.github.taskengine.client.*;
import io.github.taskengine.handler.Task;
import io.github.taskengine.testing.TestEngine;
import java.time.Duration;
import java.util.Map;

class Block {
  record Mail(String to) {}

  record Sent(String id) {}

  Object send(Task task) {
    return null;
  }

  void register(TaskengineClient client, String address) {}

  void assertEquals(Object want, Object got) {}

  void run() throws Exception {
%s
  }
}
"""

root = pathlib.Path(sys.argv[1])
written = 0
for page in sorted(root.glob("docs/**/*.md")) + [root / "README.md"]:
    if page.parent.name == "adr":
        continue
    for text in re.findall(r"^```java\n(.*?)^```$", page.read_text(), re.S | re.M):
        written += 1
        public = re.search(r"^public class (\w+)", text, re.M)
        name = public.group(1) if public else "Block"
        folder = pathlib.Path("src/main/java/block%d" % written)
        folder.mkdir()
        (folder / (name + ".java")).write_text("package block%d;\n\n%s" % (written, text) if public else AROUND % (written, text))
if written < 3:
    sys.exit("the documentation has only %d blocks" % written)
