package io.github.taskengine.handler;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Locale;
import java.util.Map;

/** A worker for tests of nodes: it notes each task in the file that JOURNAL names. */
final class JournalWorker {
  private JournalWorker() {}

  /** Runs until it is asked to end. */
  public static void main(String[] args) {
    Handler note =
        task -> {
          String line = task.type() + " " + task.id() + "\n";
          Path journal = Path.of(System.getenv("JOURNAL"));
          Files.writeString(journal, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
          return null;
        };
    Handler held =
        task -> {
          note.handle(task);
          for (Path open = Path.of(task.text()); !Files.exists(open); ) {
            try {
              Thread.sleep(10);
            } catch (InterruptedException e) {
              // the worker has lost its node: the answer counts all the same
            }
          }
          addChild(task);
          return "held";
        };
    Handler plain =
        task -> {
          addChild(task);
          return note.handle(task);
        };
    Handler parent =
        task -> {
          note.handle(task);
          task.spawn(Child.of("shout").payload("child").key(task.text()));
          if (task.attempt() == 1) {
            throw new HandlerException("the first attempt fails", "");
          }
          return "spawned";
        };
    Handler late =
        task -> {
          note.handle(task);
          while (true) {
            task.throwIfCancelled();
            Thread.sleep(10);
          }
        };
    Handler count =
        task -> {
          Document document = task.readDocument("count/a");
          int before = document.version() == 0 ? 0 : Integer.parseInt(document.text());
          task.writeDocument(document.write(before + 1));
          return null;
        };
    new Handlers()
        .on("count", count)
        .on("shout", task -> task.text().toUpperCase(Locale.ROOT))
        .on("least", plain)
        .on("later", plain)
        .on("most", plain)
        .on("held", held)
        .on("late", late)
        .on("parent", parent)
        .run();
  }

  private static void addChild(Task task) {
    task.spawn(Child.of("child").headers(Map.of("of", task.id().toString())));
  }
}
