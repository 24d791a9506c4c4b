package io.github.taskengine.handler;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class HandlersTest {
  @Test
  void mistakesAreReportedWhereTheyAreMade() {
    Handlers handlers = new Handlers().on("a", task -> null);
    wrong("two handlers of \"a\"", () -> handlers.on("a", task -> null));
    wrong("type", () -> handlers.on("", task -> null));
    wrong("at most 0", () -> handlers.onBatch("b", 0, Duration.ZERO, tasks -> tasks));
    wrong("slots is 0", () -> handlers.slots(0));
    wrong("slots is 65537", () -> handlers.slots(65537));
    wrong("needs a type", () -> Child.of(""));
    wrong("priority is 10", () -> Child.of("a").priority(10));
  }

  @Test
  void theLargestBatchFitsUnlessTheProgramSaysOtherwise() {
    Handlers handlers = new Handlers().on("a", task -> null);
    assertEquals(64, handlers.program().slots());
    handlers.onBatch("b", 100, Duration.ZERO, tasks -> tasks);
    assertEquals(100, handlers.program().slots());
    assertEquals(3, handlers.slots(3).program().slots());
  }

  private static void wrong(String text, Executable mistake) {
    String message = assertThrows(IllegalArgumentException.class, mistake).getMessage();
    assertEquals(text, message.contains(text) ? text : message);
  }

  @Test
  void childrenAreCopied() {
    Child child = Child.of("mail").key("k");
    assertEquals("", child.payload("p").orderingKey());
    assertEquals(Child.of("mail").key("k"), child);
    assertEquals(
        new Child("mail", "k", "o", null, Map.of("h", "v"), null, 3, List.of(), false),
        child.orderingKey("o").headers(Map.of("h", "v")).priority(3));
  }

  @Test
  void theVersionIsThePackages() {
    assertEquals(System.getProperty("taskengine.version"), Session.SDK_VERSION);
  }
}
