package io.github.taskengine.handler;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.github.taskengine.handler.internal.Wire;
import io.github.taskengine.json.Json;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Documents that tasks read, and write with their answers. */
@Timeout(60)
class DocumentTest {
  private static final Set<String> ALL = Set.of("documents", "wait");
  private static final Instant AT = Instant.EPOCH.plusSeconds(1_900_000_000).plusNanos(1000);
  private static final long MICROS = 1_900_000_000_000_001L;

  private final Codec codec = new Codec(Json.standard());

  private Run task(Set<String> features) {
    return new Run(FakeHost.run(1, "t", "").build(), codec, new Host(features, 10, 0), null);
  }

  private Wire.Finish answer(Run task, Set<String> features, Object outcome) {
    return new Answers(codec, new Host(features, 10, 0)).of(task, outcome);
  }

  private static FakeHost host(Handler handler, String... features) {
    return new FakeHost(
        new Handlers().on("t", handler),
        Wire.Welcome.newBuilder().setSlots(1).addAllFeatures(List.of(features)));
  }

  private static Object reserve(Task task) {
    Document stock = task.readDocument("stöck/a");
    task.writeDocument(stock.write(stock.text() + "x"));
    return List.of(
        stock.version(),
        String.valueOf(stock.createdAt()),
        String.valueOf(stock.updatedAt()),
        String.valueOf(stock.expiresAt()));
  }

  private static Wire.DocumentRead.Builder read() {
    return Wire.DocumentRead.newBuilder().setRunId(1).setNumber(1);
  }

  @Test
  void aDocumentIsReadAndItsVersionReplaced() throws Exception {
    try (FakeHost host = host(DocumentTest::reserve, "documents")) {
      host.run("t", "");
      Wire.FromHandler asked = host.until(seen -> seen.getReadsCount() > 0);
      assertEquals(
          Wire.ReadDocument.newBuilder().setRunId(1).setNumber(1).setKey("stöck/a").build(),
          asked.getReads(0));
      ByteString data = ByteString.copyFromUtf8("sö");
      host.say(
          frame ->
              frame
                  .addDocuments(read().setRunId(9)) // answers to nothing
                  .addDocuments(read().setNumber(9))
                  .addDocuments(
                      read()
                          .setVersion(Long.MAX_VALUE)
                          .setData(data)
                          .setExpiresAt(MICROS)
                          .setCreatedAt(1_000_000)
                          .setUpdatedAt(2_000_000)));
      Wire.Finish finish = host.finish();
      assertEquals(
          "[9223372036854775807,\"1970-01-01T00:00:01Z\",\"1970-01-01T00:00:02Z\",\"%s\"]"
              .formatted(AT),
          finish.getResult().toStringUtf8());
      Wire.WriteDocument write =
          Wire.WriteDocument.newBuilder()
              .setKey("stöck/a")
              .setData(ByteString.copyFromUtf8("söx"))
              .setReplaces(Long.MAX_VALUE)
              .setExpiresAt(MICROS)
              .build();
      assertEquals(List.of(write), finish.getDocumentsList());
    }
  }

  @Test
  void aDocumentThatDoesNotExistIsCreated() throws Exception {
    try (FakeHost host = host(DocumentTest::reserve, "documents")) {
      host.run("t", "");
      host.until(seen -> seen.getReadsCount() > 0);
      host.say(frame -> frame.addDocuments(read()));
      Wire.Finish finish = host.finish();
      assertEquals("[0,\"null\",\"null\",\"null\"]", finish.getResult().toStringUtf8());
      Wire.WriteDocument write = finish.getDocuments(0);
      assertTrue(write.hasReplaces() && write.getReplaces() == 0 && write.getExpiresAt() == 0);
    }
  }

  @Test
  void aReadIsNotAwaitedForEver() throws Exception {
    try (FakeHost host = host(DocumentTest::reserve, "documents")) {
      host.run("t", "");
      host.until(seen -> seen.getReadsCount() > 0);
      host.say(frame -> frame.addDocuments(read().setError("the store does not answer")));
      Wire.Error error = host.finish().getError();
      assertEquals("NotReadException", error.getClass_());
      assertTrue(error.getMessage().contains("\"stöck/a\" was not read: the store does"));
    }
    Run task = task(ALL);
    task.giveUp("the host is gone");
    assertThrows(NotReadException.class, () -> task.readDocument("a"));
    answer(task, ALL, "done");
    assertThrows(NotReadException.class, () -> task.readDocument("a"));
    assertThrows(IllegalStateException.class, () -> task.writeDocument(DocumentWrite.of("a", "x")));
  }

  @Test
  void documentsGoWithASuccessAndWithNothingElse() {
    for (Object outcome : List.of("done", WaitFor.signal("paid"), new Again(Instant.EPOCH))) {
      Wire.Finish finish = answer(busy(), ALL, outcome);
      List<Wire.WriteDocument> wanted =
          List.of(
              write("a", "{\"n\":1}").setReplaces(7).setExpiresAt(MICROS).build(),
              write("b", "").setDelete(true).setReplaces(8).build(),
              Wire.WriteDocument.newBuilder()
                  .setKey("c")
                  .setData(ByteString.copyFrom(new byte[256 << 10]))
                  .setReplaces(0)
                  .build(),
              write("d", "").setExpiresAt(MICROS).build(),
              write("e", "").setDelete(true).build());
      assertEquals(wanted, finish.getDocumentsList());
    }
    for (Object outcome :
        List.of(
            new Snooze(Duration.ZERO), new Ended(), new IllegalStateException(), "x".repeat(11))) {
      assertEquals(0, answer(busy(), ALL, outcome).getDocumentsCount());
    }
  }

  private Run busy() {
    Run task = task(ALL);
    task.writeDocument(new Document("a", new byte[0], 7, AT, AT, AT).write(Map.of("n", 1)));
    task.writeDocument(new Document("b", new byte[0], 8, AT, AT, AT).delete());
    task.writeDocument(DocumentWrite.of("c", new byte[256 << 10]).ifVersion(0));
    task.writeDocument(DocumentWrite.of("d", null).expiresAt(AT));
    task.writeDocument(DocumentWrite.delete("e"));
    return task;
  }

  private static Wire.WriteDocument.Builder write(String key, String data) {
    return Wire.WriteDocument.newBuilder().setKey(key).setData(ByteString.copyFromUtf8(data));
  }

  @Test
  void whatCannotBeWrittenIsAnErrorAtOnce() {
    Run task = task(ALL);
    for (Runnable use :
        List.<Runnable>of(
            () -> DocumentWrite.of("", "x"),
            () -> DocumentWrite.delete("a").expiresAt(AT),
            () -> task.writeDocument(DocumentWrite.of("\ud800", "x")),
            () -> task.writeDocument(DocumentWrite.of("a", new byte[(256 << 10) + 1])))) {
      assertThrows(IllegalArgumentException.class, use::run);
    }
    for (int n = 0; n < 16; n++) {
      task.writeDocument(DocumentWrite.of("k" + n, n));
    }
    assertThrows(
        IllegalStateException.class, () -> task.writeDocument(DocumentWrite.delete("k16")));
  }

  @Test
  void aHostWithoutDocumentsIsNotAsked() {
    Set<String> features = Set.of("wait");
    Run task = task(features);
    assertThrows(PermanentException.class, () -> task.readDocument("a"));
    assertFalse(answer(task, features, "done").hasError()); // the handler has gone on without
    Run other = task(features);
    assertThrows(PermanentException.class, () -> other.writeDocument(DocumentWrite.of("a", "x")));
    Wire.Error error = answer(other, features, "done").getError(); // it would be lost
    assertTrue(error.getPermanent() && error.getClass_().equals("unsupported"));
  }
}
