package io.github.taskengine.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Documents, with a real node. */
@EnabledIfEnvironmentVariable(named = TestNode.PROGRAM, matches = ".+")
class DocumentsTest {
  private static TestNode node;
  private static TaskengineClient client;
  private static Documents documents;

  @BeforeAll
  static void start() throws Exception {
    node = new TestNode();
    client = TaskengineClient.to(node.address()).open();
    documents = client.documents();
  }

  @AfterAll
  static void stop() throws Exception {
    client.close();
    node.close();
  }

  @Test
  void aDocumentIsWrittenReadListedAndDeleted() {
    String prefix = "cart-" + UUID.randomUUID() + "-";
    List<String> keys = List.of(prefix + "a", prefix + "b%", prefix + "ä");
    Instant expires = Instant.parse("2100-01-01T00:00:00Z");
    DocumentWrite write = DocumentWrite.of(Map.of("items", List.of(1, "ü")));
    Document first = documents.set(keys.get(0), write.expiresAt(expires).by("anna"));
    assertEquals(keys.get(0), first.key());
    assertEquals(0, first.data().length);
    assertEquals(expires, first.expiresAt());
    Document found = documents.get(keys.get(0));
    assertEquals("{\"items\":[1,\"ü\"]}", new String(found.data()));
    assertEquals(first.version(), found.version());
    assertEquals(found.data().length, found.size());
    Duration age = Duration.between(found.createdAt(), Instant.now());
    assertTrue(age.abs().compareTo(Duration.ofHours(1)) < 0, found.toString());
    documents.set(keys.get(1), DocumentWrite.of(new byte[] {-1, 0}));
    assertArrayEquals(new byte[] {-1, 0}, documents.get(keys.get(1)).data());
    assertNull(documents.set(keys.get(2), DocumentWrite.of(null)).expiresAt());
    assertEquals(0, documents.get(keys.get(2)).data().length);
    List<Document> all = documents.list(prefix).toList();
    assertEquals(keys, all.stream().map(Document::key).toList());
    assertEquals(found.size(), all.get(0).size());
    assertEquals(0, all.get(0).data().length);
    documents.delete(keys.get(0), null, "anna");
    assertThrows(NotFoundException.class, () -> documents.get(keys.get(0)));
    assertThrows(NotFoundException.class, () -> documents.delete(keys.get(0)));
    assertThrows(InvalidException.class, () -> documents.set("", DocumentWrite.of("x")));
    DocumentWrite large = DocumentWrite.of("x".repeat(256 * 1024 + 1));
    assertThrows(InvalidException.class, () -> documents.set(prefix, large));
    assertThrows(InvalidException.class, () -> documents.set("\ud800", write));
  }

  @Test
  void aDocumentOfAnotherVersionIsNotChanged() {
    String key = "cart-" + UUID.randomUUID();
    DocumentWrite other = DocumentWrite.of("x");
    assertThrows(ConflictException.class, () -> documents.set(key, other.ifVersion(7)));
    Document first = documents.set(key, DocumentWrite.of("1").ifVersion(0));
    assertThrows(ConflictException.class, () -> documents.set(key, other.ifVersion(0)));
    Document second = documents.set(key, DocumentWrite.of("2").ifVersion(first.version()));
    assertTrue(second.version() > first.version(), second.toString());
    assertEquals(first.createdAt(), second.createdAt());
    DocumentWrite stale = other.ifVersion(first.version());
    assertThrows(ConflictException.class, () -> documents.set(key, stale));
    assertThrows(ConflictException.class, () -> documents.delete(key, first.version(), ""));
    assertEquals("2", new String(documents.get(key).data()));
    documents.delete(key, second.version(), "");
    long again = documents.set(key, DocumentWrite.of("3").ifVersion(0)).version();
    assertNotEquals(first.version(), again);
    assertNotEquals(second.version(), again);
  }

  @Test
  void allPagesOfDocumentsAreListed() {
    String prefix = "page-" + UUID.randomUUID() + "-";
    List<String> keys =
        IntStream.range(0, 130).mapToObj(i -> prefix + "%03d".formatted(i)).toList();
    for (String key : keys) {
      documents.set(key, DocumentWrite.of(key));
    }
    assertEquals(keys, documents.list(prefix).map(Document::key).toList());
  }

  @Test
  void aDocumentThatHasExpiredDoesNotExist() {
    String key = "brief-" + UUID.randomUUID();
    documents.set(key, DocumentWrite.of("x").expiresAt(Instant.now().plusMillis(200)));
    assertThrows(
        NotFoundException.class,
        () -> {
          while (true) {
            documents.get(key);
          }
        });
  }
}
