package io.github.taskengine.handler;

import io.github.taskengine.handler.internal.Wire;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** Has Java archive the classes of the conformance program. It does that as the program ends. */
final class ClassArchives {
  private ClassArchives() {}

  /** Writes handler.jsa and worker.jsa to the directory that is the argument. */
  public static void main(String[] args) throws Exception {
    Path directory = Path.of(args[0]);
    ofHandler(directory, directory.resolve("handler.jsa"));
    ofWorker(directory, directory.resolve("worker.jsa"));
  }

  private static String flag(Path archive) {
    return "-XX:ArchiveClassesAtExit=" + part(archive);
  }

  private static Path part(Path archive) {
    return archive.resolveSibling("part.jsa");
  }

  /** Waits until the archive is whole. */
  private static void end(HandlerProcess process, Path archive) throws Exception {
    process.exitStatus();
    Files.move(part(archive), archive);
  }

  private static void ofHandler(Path directory, Path archive) throws Exception {
    try (HandlerProcess process = HandlerProcess.started(directory, flag(archive))) {
      process.connect(Wire.Welcome.newBuilder().setSlots(2));
      process.run(1, "json", "{\"a\":1,\"b\":2}");
      process.finish();
      process.run(2, "echo", "x");
      process.finish();
      process.endStream();
      end(process, archive);
    }
  }

  private static void ofWorker(Path directory, Path archive) throws Exception {
    try (FakeNode node = new FakeNode();
        HandlerProcess process =
            new HandlerProcess(
                directory, Map.of("TASKENGINE_ADDRESS", node.address()), flag(archive))) {
      FakeNode.Line line = node.line(0);
      line.welcome(welcome -> {});
      line.run(1);
      FakeNode.until(() -> line.finishes().contains(1L));
      process.terminate();
      line.end();
      end(process, archive);
    }
  }
}
